"""What lives here: when the clocks begin that tests set (``zae_limiter.testing.ManualClock``).
What never does: a clock, or the system's time.
"""

START_MS = 4_000_000_000_123  # in 2096: an emulator is busy all day with what has expired by its own clock
