"""The commands of `zae-limiter switch`."""
