"""The command `zae-limiter`. Rules about limits are in core, and no Lambda is imported here."""
