"""`zae-limiter usage`: what was consumed."""
