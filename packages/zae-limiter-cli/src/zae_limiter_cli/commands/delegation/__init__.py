"""`zae-limiter delegation`: who may plan and apply one namespace."""
