"""The calendar: the whole quota comes when a window begins, as on the first of a month in Berlin.

The problem: a budget of a month must not come back bit by bit, its month is that of a zone whose clocks change, and no
job may have to reset a million buckets at midnight. The choice: what was minted up to ``t`` is the quota times the
number of windows begun, a step function. All else follows as for any rule: the ceiling bounds what is carried over, a
wait ends at a boundary, and a write stays one conditional update. ``periods`` counts windows by absolute numbers, so
no boundary counts twice, whatever the clocks do. The price: a look into the zone's data whenever another window is
asked for; so a rule keeps the window that it has seen last. Fixed windows are the oldest limiters of all, with a
counter that a job, or an expiring key, resets; here nothing is reset.
"""

from functools import lru_cache

from ..runtime.named_tuple import NamedTuple
from ..values.limits import MILLI
from .periods import Periods, periods_of
from .rule import FOREVER_MS, Rule


class _Seen(NamedTuple):
    """A window, and the millitokens minted up to any instant in it."""

    begin_ms: int
    end_ms: int
    minted: int


class Calendar(Rule):
    """``amount`` tokens at the begin of every window."""

    __slots__ = ("_amount", "_periods", "_seen")

    def __init__(self, amount: int, periods: Periods) -> None:
        self._amount = amount * MILLI
        self._periods = periods
        self._seen = _Seen(0, 0, 0)

    def minted(self, t_ms: int) -> int:
        """Return the millitokens minted up to ``t_ms``."""
        begin_ms, end_ms, minted = self._seen
        if begin_ms <= t_ms < end_ms:
            return minted
        return self._look(t_ms)

    def _look(self, t_ms: int) -> int:
        number = self._periods.begun(t_ms)
        begin_ms, end_ms = self._periods.start(number), self._periods.start(number + 1)
        self._seen = _Seen(begin_ms, end_ms, number * self._amount)  # at once, because threads share it
        return number * self._amount

    def reached(self, minted_milli: int) -> int:
        """Return the begin of the window up to which so much was minted."""
        return self._periods.start(-(-minted_milli // self._amount))

    def mark(self, t_ms: int) -> int | None:
        """Return what was minted up to ``t_ms`` if that depends on the machine's time zones."""
        return self.minted(t_ms) if self._periods.shift_ms else None

    def longest_ms(self, milli: int) -> int:
        """Return the longest time in which so much is minted, changes of the clocks included."""
        if milli <= 0:
            return 0
        return min(FOREVER_MS, self.window_ms(milli) + self._periods.shift_ms)

    def window_ms(self, milli: int) -> int:
        """Return the length of the windows in which so much is minted; a month has 31 days, a year 366."""
        return min(FOREVER_MS, -(-milli // self._amount) * self._periods.longest_ms)


@lru_cache(maxsize=4096)
def calendar_of(amount: int, window: str, timezone: str, starts_on: int) -> Calendar:
    """Return the rule, which all buckets of a limit share."""
    return Calendar(amount, periods_of(window, timezone, starts_on))
