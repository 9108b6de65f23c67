"""The time of a file: the wall clock, which all processes of a host share."""

import time


class WallClock:
    """The wall clock as it is. An offset that each process remembers would let processes drift apart."""

    def now_ms(self) -> int:
        """Return the current time in epoch milliseconds."""
        return time.time_ns() // 1_000_000
