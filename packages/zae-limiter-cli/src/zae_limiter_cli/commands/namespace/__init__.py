"""`zae-limiter namespace`: the namespaces of a table."""
