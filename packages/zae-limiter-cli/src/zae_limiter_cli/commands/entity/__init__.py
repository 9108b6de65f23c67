"""`zae-limiter entity`: entities and the limits of their own."""
