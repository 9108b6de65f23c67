"""The time left for the operation of this thread. The driver sets its deadline; a store may ask for the rest."""

import math
import threading
import time
from typing import Final

TICK_SECONDS: Final = 0.02  # a wait may end so much before its time, as some systems count


class _Operation(threading.local):
    until = math.inf


_operation = _Operation()


def set_deadline(until: float) -> float:
    """Set the deadline of this thread's next operation, an instant of ``time.monotonic``; return the former one."""
    before, _operation.until = _operation.until, until
    return before


def time_left() -> float:
    """Return the seconds left for the operation of this thread; 0 or less after its deadline."""
    return _operation.until - time.monotonic()


def check_time(error: OSError, until: float) -> None:
    """Raise again the ``TimeoutError`` of a signal handler: that of a socket comes late, or has a number."""
    if isinstance(error, TimeoutError) and error.errno is None and time.monotonic() < until - TICK_SECONDS:
        raise error


def left_until(until: float) -> float:
    """Return the seconds until an instant. Raises ``TimeoutError`` if it has passed."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left
