"""`zae-limiter limits`: limits in files."""
