"""What the answers of a store prove of its clock.

Lives here: the arithmetic of one offset. Never: a clock, a header, a log line.
"""

import math
from typing import NamedTuple

DRIFT = 100e-6  # of the time that passed: so much may two clocks part
DATE_MS = 1000  # a date tells the second, not the instant
GUESS_MS = 30  # where more than this is possible, a middle is a guess; the hosts of a store differ by less


class Offset(NamedTuple):
    """What the monotonic clock lacks to the store's, in ms: ``ms`` is believed, the bounds are proved.

    ``guessed``: what was believed at first was worth nothing, and ``ms`` is the middle of what is possible. The bounds
    are as of instant 0 of the monotonic clock and part by ``DRIFT`` of the time since; so whichever answer proved the
    most when it came proves the most for ever, and two numbers remember all of them.
    """

    ms: float
    lower: float = -math.inf
    upper: float = math.inf
    guessed: bool = False

    @property
    def is_proved(self) -> bool:
        """Whether an answer has said anything."""
        return self.upper < math.inf

    def contradicts(self, before: "Offset") -> bool:
        """Whether the answer after ``before`` could not hold together with all that was proved until then."""
        return self.lower < before.lower or self.upper > before.upper

    def after(self, date_ms: float, *, sent_ms: float, received_ms: float) -> "Offset":
        """The offset, once an answer of the second ``date_ms`` came; itself where that proves nothing new.

        What is possible stays; what is not goes as far inside as it was outside, at most to the middle.
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
        lower, upper = both[0] - apart, both[1] + apart
        middle, half = (lower + upper) / 2, (upper - lower) / 2
        outside = max(lower - self.ms, self.ms - upper)
        guessed = self.guessed or outside >= half
        if guessed:
            ms = middle
        elif outside <= 0:
            ms = self.ms
        else:  # as far inside as it was outside
            ms = lower + outside if self.ms < lower else upper - outside
        return Offset(ms, *both, guessed=guessed and upper - lower > GUESS_MS)
