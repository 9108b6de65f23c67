"""What lives here: `zae-limiter usage`: what was consumed, by the hour and by the day.
What never does: counting it (aggregator).
"""
