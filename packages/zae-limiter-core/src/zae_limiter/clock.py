"""Time, as the limiter counts it.

Lives here: epoch milliseconds from a clock that never jumps. Never: what happens at an instant.
"""

from time import monotonic_ns, time_ns
from typing import Protocol

NANOS_PER_MILLI = 1_000_000


class Clock(Protocol):
    """Where ``now`` comes from; give your own to test what happens later."""

    def now_ms(self) -> int:
        """Epoch milliseconds."""


class SystemClock:
    """The wall clock as it was at the start, moved on by the monotonic one: a step of the wall clock does nothing."""

    def __init__(self) -> None:
        self._offset_ns = time_ns() - monotonic_ns()

    def now_ms(self) -> int:
        """Epoch milliseconds."""
        return (monotonic_ns() + self._offset_ns) // NANOS_PER_MILLI
