"""What the answers of a store prove of its clock.

Lives here: the arithmetic of one offset. Never: a clock, a header, a log line.
"""

import math
from typing import NamedTuple

DRIFT = 100e-6  # of the time that passed: so much may two clocks part
DATE_MS = 1000  # a date tells the second, not the instant


class Offset(NamedTuple):
    """What the monotonic clock lacks to the store's, in ms: ``ms`` is believed, the bounds are proved.

    The bounds are as of instant 0 of the monotonic clock and part by ``DRIFT`` of the time since; so whichever answer
    proved the most when it came proves the most for ever, and two numbers remember all of them.
    """

    ms: float
    lower: float = -math.inf
    upper: float = math.inf

    def after(self, date_ms: float, *, sent_ms: float, received_ms: float) -> "Offset":
        """The offset, once an answer of the second ``date_ms`` came; itself where that proves nothing new.

        ``sent_ms`` and ``received_ms`` are of the monotonic clock, and the server's instant lies between them.
        """
        lower = date_ms - received_ms + DRIFT * received_ms
        upper = date_ms + DATE_MS - sent_ms - DRIFT * sent_ms
        if lower <= self.lower and upper >= self.upper:
            return self
        both = max(lower, self.lower), min(upper, self.upper)
        apart = DRIFT * received_ms
        if both[0] - apart > both[1] + apart:  # they cannot both hold: a clock jumped since
            both = lower, upper
        return Offset(_possible(self.ms, both[0] - apart, both[1] + apart), *both)


def _possible(ms: float, lower: float, upper: float) -> float:
    """What is possible stays; what is not goes as far inside as it was outside, at most to the middle."""
    outside = max(lower - ms, ms - upper)
    if outside <= 0:
        return ms
    inside = min(outside, (upper - lower) / 2)
    return lower + inside if ms < lower else upper - inside
