"""Which answers to believe, of those that contradict what was believed.

Lives here: who has to agree. Never: what an answer proves (offset), a clock, a log line.
"""

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from .offset import Offset

JUMP_MS: Final = 1000  # what moves the time by more contradicts it
ANSWERS: Final = 2  # that agree with each other, against what was believed
ANSWERS_AGAINST_TWO: Final = 5  # against what earlier answers proved and the wall clock says, too


class TimeEstimate(NamedTuple):
    """What a process knows of the store's time: ``offset`` is believed, ``doubt`` is what ``answers`` say instead.

    ``heard_ms`` is the last date, the latest one of a doubt. An answer that repeats it and contradicts is left aside:
    somebody repeats himself. The ``answers`` of a doubt agree with each other, and are of as many different seconds.
    """

    offset: Offset
    heard_ms: float = math.nan
    doubt: Offset | None = None
    answers: int = 0

    @property
    def doubted(self) -> bool:
        """Whether the last answers contradict what is believed, and too few of them agree."""
        return self.doubt is not None

    def after(
        self, date_ms: float, *, sent_ms: float, received_ms: float, by_wall: Callable[[], Offset]
    ) -> "TimeEstimate":
        """What is known once an answer of the second ``date_ms`` came; itself where that changes nothing."""
        before = self.offset
        after = before.after(date_ms, sent_ms=sent_ms, received_ms=received_ms)
        if after is before and date_ms == self.heard_ms and self.doubt is None:
            return self  # the commonest answer says nothing new
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
        """The same belief, and what contradicts it: one answer more, or the first one."""
        if self.doubt is not None:
            further = self.doubt.after(date_ms, sent_ms=sent_ms, received_ms=received_ms)
            if _agree(further, self.doubt):
                answers = self.answers + (date_ms > self.heard_ms)
                return TimeEstimate(self.offset, max(date_ms, self.heard_ms), further, answers)
        return TimeEstimate(self.offset, date_ms, wall.after(date_ms, sent_ms=sent_ms, received_ms=received_ms), 1)

    def _enough(self, doubt: Offset, wall: Offset) -> int:
        """How many answers it takes to believe them: one where the wall clock sides with it."""
        for_it, against = _agree(wall, doubt), _agree(wall, self.offset)
        if for_it == against:
            return ANSWERS
        if for_it:
            return 1
        return ANSWERS_AGAINST_TWO if self.offset.is_proved else ANSWERS


def _agree(one: Offset, other: Offset) -> bool:
    return abs(one.ms - other.ms) <= JUMP_MS
