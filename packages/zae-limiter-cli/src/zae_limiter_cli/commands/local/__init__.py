"""`zae-limiter local`: a stack on this machine."""
