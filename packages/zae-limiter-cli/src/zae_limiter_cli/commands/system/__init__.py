"""`zae-limiter system`: the default limits of a namespace."""
