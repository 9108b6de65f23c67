"""What lives here: `zae-limiter system`, `resource`, `entity`, `bucket` and `namespace`: one thing at a time, by hand.
What never does: limits from files (limits).
"""
