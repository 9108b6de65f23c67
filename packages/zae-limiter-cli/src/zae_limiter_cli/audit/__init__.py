"""Show audit events to people."""
