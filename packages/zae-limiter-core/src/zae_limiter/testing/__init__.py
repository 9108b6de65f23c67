"""What tests of programs that use this library need.

Lives here: a clock that a test moves. Never: pytest, which ``testing.plugin`` needs.

    pytest_plugins = ["zae_limiter.testing.plugin"]  # in conftest.py: manual_clock, limiter, sync_limiter
"""

__all__ = ["ManualClock"]


class ManualClock:
    """A clock that stands still until it is told to advance."""

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = start_ms

    def now_ms(self) -> int:
        """Epoch milliseconds."""
        return self._now_ms

    def advance(self, seconds: float = 0, *, ms: int = 0) -> None:
        """Move on by so many seconds and milliseconds. Raises ``ValueError`` for a step back."""
        step = round(seconds * 1000) + ms
        if step < 0:
            raise ValueError(f"time does not go back, not even {-step} ms")
        self._now_ms += step
