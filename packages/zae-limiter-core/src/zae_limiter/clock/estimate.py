"""The store's time as the dates of answers prove it, and which of the answers that contradict the belief replace it.

A date says the second in which an answer was made, and that was after the request was sent and before the answer was
received: it bounds the offset to a second and the time of the round trip. The bounds of many answers together are
narrow, to tens of milliseconds after a few dozen. The bounds of one answer are those of Cristian (1989).

The first rule took the middle of the bounds. But most machines have a clock that is right to milliseconds, and the
middle of the first second throws that away. So a belief that is possible stays, and one that is proved wrong moves as
far inside as it was outside. The price: a clock that is wrong by less than a second becomes right half as fast.

A single wrong ``Date``, an hour too late, made a process write a bucket as of then, and all others had to wait for an
hour. But a virtual machine that was paused is wrong itself, and has to believe the answers. So an answer that moves
the time by more than a second is only a *doubt*, until enough others agree with it, of other seconds, with none for the
belief between them. The wall clock and what earlier answers proved are the other two witnesses: the more of them share
the belief, the more answers it takes.

The price: a process that is wrong decides by the wrong time for some answers more. Wrong dates that go on, without a
right one between them, are believed: nothing distinguishes them from the truth.
docs/decisions/a-possible-clock-stays.md has the figures, and the reasons for each number.
"""

import math
from collections.abc import Callable
from typing import Final

from ..runtime.named_tuple import NamedTuple

DRIFT = 100e-6  # of the time that passed: the most that two clocks drift apart
DATE_MS = 1000  # a date has whole seconds
GUESS_MS = 30  # the middle of a wider interval is a guess; the hosts of a store differ by less
JUMP_MS: Final = 1000  # an answer that moves the time by more contradicts the belief
ANSWERS: Final = 2  # that agree with each other, against the belief
ANSWERS_AGAINST_TWO: Final = 5  # against a belief that earlier answers proved and the wall clock shares


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


class TimeEstimate(NamedTuple):
    """The store's time, as a process estimates it: ``offset`` is the belief, ``doubt`` that of ``answers`` against it.

    ``heard_ms``: the date of the last answer, the latest date of a doubt. An answer that contradicts and repeats this
    date is ignored: one host may repeat itself. The ``answers`` of a doubt agree with each other, and are of different
    seconds.
    """

    offset: Offset
    heard_ms: float = math.nan
    doubt: Offset | None = None
    answers: int = 0

    @property
    def doubted(self) -> bool:
        """Whether the last answers contradict the belief, and too few of them agree."""
        return self.doubt is not None

    def after(
        self, date_ms: float, *, sent_ms: float, received_ms: float, by_wall: Callable[[], Offset]
    ) -> "TimeEstimate":
        """Return the estimate after an answer of the second ``date_ms``; ``self`` if the answer changes nothing."""
        before = self.offset
        after = before.after(date_ms, sent_ms=sent_ms, received_ms=received_ms)
        if after is before and date_ms == self.heard_ms and self.doubt is None:
            return self  # the commonest answer proves nothing new
        fits = _agree(after, before)
        if date_ms == self.heard_ms and (not fits or after.contradicts(before)):
            return self
        if fits:
            return TimeEstimate(after, date_ms)
        wall = by_wall()
        known = self._doubting(wall, date_ms, sent_ms, received_ms)
        if known.doubt is not None and known.answers >= self._enough(known.doubt, wall):
            return TimeEstimate(known.doubt, known.heard_ms)
        return known

    def _doubting(self, wall: Offset, date_ms: float, sent_ms: float, received_ms: float) -> "TimeEstimate":
        """Return the same belief with one more answer against it, or with a new doubt."""
        if self.doubt is not None:
            further = self.doubt.after(date_ms, sent_ms=sent_ms, received_ms=received_ms)
            if _agree(further, self.doubt):
                answers = self.answers + (date_ms > self.heard_ms)
                return TimeEstimate(self.offset, max(date_ms, self.heard_ms), further, answers)
        return TimeEstimate(self.offset, date_ms, wall.after(date_ms, sent_ms=sent_ms, received_ms=received_ms), 1)

    def _enough(self, doubt: Offset, wall: Offset) -> int:
        """Return the number of answers that replace the belief; one if the wall clock agrees with them, and not with
        it.
        """
        for_it, against = _agree(wall, doubt), _agree(wall, self.offset)
        if for_it == against:
            return ANSWERS
        if for_it:
            return 1
        return ANSWERS_AGAINST_TWO if self.offset.is_proved else ANSWERS


def _agree(one: Offset, other: Offset) -> bool:
    return abs(one.ms - other.ms) <= JUMP_MS
