"""How long the operation of this thread may still take.

Lives here: that one number, which the driver sets and a store may ask. Never: what happens when it is over.
"""

import math
import threading
import time


class _Operation(threading.local):
    until = math.inf


_operation = _Operation()


def set_deadline(until: float) -> float:
    """Have the next operation of this thread end by an instant of ``time.monotonic``; answers the one before."""
    before, _operation.until = _operation.until, until
    return before


def time_left() -> float:
    """Seconds that the operation of this thread may still take; not positive where its time is over."""
    return _operation.until - time.monotonic()
