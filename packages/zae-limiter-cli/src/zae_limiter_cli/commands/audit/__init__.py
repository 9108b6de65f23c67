"""`zae-limiter audit`: who changed what."""
