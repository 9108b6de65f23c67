"""What lives here: `zae-limiter audit`: who changed what.
What never does: a change.
"""
