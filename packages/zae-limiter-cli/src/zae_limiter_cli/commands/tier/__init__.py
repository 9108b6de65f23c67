"""The commands of `zae-limiter tier`."""
