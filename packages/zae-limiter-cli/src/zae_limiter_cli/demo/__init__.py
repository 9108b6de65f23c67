"""The demo of `zae-limiter demo`: a burst of calls, seen live."""
