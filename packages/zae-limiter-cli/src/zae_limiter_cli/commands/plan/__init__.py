"""The commands of `zae-limiter plan`."""
