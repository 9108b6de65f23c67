"""The time left for the operation of this thread. The driver sets its deadline; a store may ask for the rest."""

import math
import threading
import time


class _Operation(threading.local):
    until = math.inf


_operation = _Operation()


def set_deadline(until: float) -> float:
    """Set the deadline of this thread's next operation, an instant of ``time.monotonic``; returns the former one."""
    before, _operation.until = _operation.until, until
    return before


def time_left() -> float:
    """The seconds left for the operation of this thread; 0 or less after its deadline."""
    return _operation.until - time.monotonic()
