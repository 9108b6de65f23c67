"""The offset from the monotonic clock to the store's clock, as the dates of answers prove it.

A date says the second in which an answer was made, and that was after the request was sent and before the answer was
received: it bounds the offset to a second and the time of the round trip. The bounds of many answers together are
narrow, to tens of milliseconds after a few dozen. The bounds of one answer are those of Cristian (1989).

The first rule took the middle of the bounds. But most machines have a clock that is right to milliseconds, and the
middle of the first second throws that away. So a belief that is possible stays, and one that is proved wrong moves as
far inside as it was outside. The price: a clock that is wrong by less than a second becomes right half as fast.
docs/decisions/a-possible-clock-stays.md has the figures.
"""

import math
from typing import NamedTuple

DRIFT = 100e-6  # of the time that passed: the most that two clocks drift apart
DATE_MS = 1000  # a date has whole seconds
GUESS_MS = 30  # the middle of a wider interval is a guess; the hosts of a store differ by less


class Offset(NamedTuple):
    """The difference from the monotonic clock to the store's, in ms: ``ms`` is believed, the bounds are proved.

    ``guessed``: the first belief was far outside the bounds, and ``ms`` is their middle. The bounds are as of instant 0
    of the monotonic clock, and widen by ``DRIFT`` of the time since. So the answer that proved the most when it came
    proves the most for ever, and two numbers represent all answers.
    """

    ms: float
    lower: float = -math.inf
    upper: float = math.inf
    guessed: bool = False

    @property
    def is_proved(self) -> bool:
        """Whether an answer has proved anything."""
        return self.upper < math.inf

    def contradicts(self, before: "Offset") -> bool:
        """Return whether the last answer could not hold together with all that ``before`` had proved."""
        return self.lower < before.lower or self.upper > before.upper

    def after(self, date_ms: float, *, sent_ms: float, received_ms: float) -> "Offset":
        """Return the offset after an answer of the second ``date_ms``; ``self`` if the answer proves nothing new.

        A belief inside the bounds stays. A belief outside moves as far inside as it was outside, at most to the middle.
        ``sent_ms`` and ``received_ms`` are of the monotonic clock; the instant of the server's date lies between
        them.
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
