"""What lives here: clocks that a test sets.
What never does: the system's time.
"""

START_MS = 4_000_000_000_123  # in 2096: an emulator is busy all day with what has expired by its own clock


class ManualClock:
    """A clock that stands until it is moved; several repositories may share it."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.ms = now_ms

    def now_ms(self) -> int:
        """Epoch milliseconds."""
        return self.ms

    def advance(self, seconds: float) -> None:
        """Move on."""
        self.ms += round(seconds * 1000)
