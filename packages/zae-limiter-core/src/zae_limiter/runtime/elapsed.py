"""The time that passes, whatever a process or its machine does meanwhile."""

import time
from typing import Final

_NANOS_PER_MILLI: Final = 1_000_000
_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # the first one does not stop with a laptop


def elapsed_ms() -> float:
    """Return the milliseconds since some instant, by a clock that nobody sets or stops."""
    return time.clock_gettime_ns(_CLOCK) / _NANOS_PER_MILLI
