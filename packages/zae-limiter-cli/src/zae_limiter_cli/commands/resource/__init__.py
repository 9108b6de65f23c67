"""`zae-limiter resource`: the limits of a resource."""
