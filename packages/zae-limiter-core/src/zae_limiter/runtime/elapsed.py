"""A monotonic clock that counts the time of a suspended machine, too: the clock of everything that is held in memory.

``time.monotonic`` stops while a machine is suspended, on Linux and on macOS. The state in a process goes stale all the
same: others take its slots, refill its buckets, change its limits and close its connections. So each age and each
deadline of something held, remembered or cached goes by the clock of this module, which is never set or stopped: the
time of the limiter (``clock.system``), prefetched tokens, slots, shares, the breaker, reminders, idle connections.
Time-outs of a call go by ``time.monotonic``: they bound the time for which a running program waits.
"""

import time
from functools import partial
from typing import Final

_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # the latter stops on Linux, not on macOS

elapsed_ns = partial(time.clock_gettime_ns, _CLOCK)  # a call of C: each acquire asks several times


def elapsed_ms() -> float:
    """Return the milliseconds since some instant."""
    return time.clock_gettime_ns(_CLOCK) / 1_000_000


def elapsed() -> float:
    """Return the seconds since some instant."""
    return time.clock_gettime(_CLOCK)
