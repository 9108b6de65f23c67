"""`zae-limiter system`: the limits that hold where nothing else does."""
