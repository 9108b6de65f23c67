"""`zae-limiter bucket`: live tokens."""
