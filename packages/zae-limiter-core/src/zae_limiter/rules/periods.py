"""The windows of a calendar, by number: how many have begun up to an instant, and when each begins.

A window begins at the first instant at which the clocks of its zone show its time, or a later one. So a time that a
change of the clocks leaves out begins at the change, a repeated one begins once, and a day that a zone leaves out
(Samoa, 30 December 2011) begins together with the next. The number of a window is that of its date, not of the instants
counted up to it: two databases of time zones may disagree about when a window begins, and never about which one it is.

Windows are numbered from the epoch: the one that holds the epoch is 0.
"""

from bisect import bisect_left, bisect_right
from calendar import monthrange
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Final, Protocol

from ..values.clocks import LAST, LAST_MS, Clocks, clocks_of
from ..values.windows import ELAPSED, SECONDS, UTC, Cron, cron_of
from .rule import FOREVER_MS

SHIFT_MS: Final = 26 * 3_600_000  # the most that the clocks of a zone were ever put on or back
_MINUTES: Final = 24 * 60


class Periods(Protocol):
    """The windows of one calendar. ``longest_ms``: the longest, when no clock is changed; ``shift_ms``: what a change
    may add.
    """

    longest_ms: int
    shift_ms: int

    def begun(self, t_ms: int) -> int:
        """Return the number of the window that has begun last up to ``t_ms``."""

    def start(self, number: int) -> int:
        """Return the first instant of a window, at least 0; ``FOREVER_MS`` if none is known."""


@lru_cache(maxsize=1024)
def periods_of(window: str, timezone: str, starts_on: int) -> Periods:
    """Return the windows of a calendar, which all limits of it share. Raises ``ValidationError``."""
    if window in ELAPSED:
        return Elapsed(SECONDS[window] * 1000)
    if window == "month":
        dates: Dates = Months(starts_on)
    elif window == "year":
        dates = Years()
    elif window == "week":
        dates = Days(7, starts_on)
    else:
        dates = Days(1, 1) if window == "day" else Firings(cron_of(window))
    return Zoned(dates, clocks_of(timezone), SHIFT_MS if timezone != UTC else 0)


class Elapsed(Periods):
    """Windows of equal length in elapsed time."""

    shift_ms = 0

    def __init__(self, length_ms: int) -> None:
        self.longest_ms = length_ms

    def begun(self, t_ms: int) -> int:
        """Return the number of the window that holds ``t_ms``."""
        return t_ms // self.longest_ms

    def start(self, number: int) -> int:
        """Return the first instant of a window."""
        return max(0, number * self.longest_ms)


class Dates(Protocol):
    """The times of a wall clock at which windows begin, numbered without a gap; the zone is left open."""

    longest_ms: int

    def number(self, wall: datetime) -> int:
        """Return the number of the last window that begins up to a time of the wall clock."""

    def begin(self, number: int) -> datetime:
        """Return the time at which a window begins. Raises ``ValueError`` or ``OverflowError`` for one too far away."""


class Zoned(Periods):
    """The windows that begin at times of the wall clock in a zone."""

    def __init__(self, dates: Dates, clocks: Clocks, shift_ms: int) -> None:
        self.longest_ms = dates.longest_ms
        self.shift_ms = shift_ms
        self._dates = dates
        self._clocks = clocks
        self._first = self._number(0)

    def begun(self, t_ms: int) -> int:
        """Return the number of the window that has begun last up to ``t_ms``, the last of those that begin at once."""
        return self._number(min(max(t_ms, 0), LAST_MS)) - self._first

    def _number(self, t_ms: int) -> int:
        number = self._dates.number(self._clocks.shown(t_ms // 1000))
        while self._instant(number + 1) <= t_ms:  # the clocks were put back over it
            number += 1
        while self._instant(number) > t_ms:
            number -= 1
        return number

    def start(self, number: int) -> int:
        """Return the first instant of a window, at least 0; ``FOREVER_MS`` for one that begins after ``LAST``."""
        if number <= 0:
            return 0
        instant = self._instant(self._first + number)
        return instant if instant <= LAST_MS else FOREVER_MS

    def _instant(self, number: int) -> int:
        """Return the first instant, in ms, at which the clocks show the begin of a window, or a later time."""
        try:
            return self._clocks.first(self._dates.begin(number)) * 1000
        except (ValueError, OverflowError):
            return FOREVER_MS


class Days(Dates):
    """Windows of some days; the first day of the calendar, a Monday, is 1."""

    def __init__(self, length: int, first: int) -> None:
        self.longest_ms = length * 86_400_000
        self._length = length
        self._first = first

    def number(self, wall: datetime) -> int:
        """Return the number of a day's window."""
        return (wall.toordinal() - self._first) // self._length

    def begin(self, number: int) -> datetime:
        """Return the midnight at which a window begins."""
        return datetime.fromordinal(number * self._length + self._first)


class Months(Dates):
    """Months that begin on a day, or on their last day if they do not have it."""

    longest_ms = SECONDS["month"] * 1000

    def __init__(self, first: int) -> None:
        self._first = first

    def number(self, wall: datetime) -> int:
        """Return the number of a month, counted from the year 0."""
        this = 12 * wall.year + wall.month - 1
        return this if wall >= self.begin(this) else this - 1

    def begin(self, number: int) -> datetime:
        """Return the midnight at which a month begins."""
        year, month = divmod(number, 12)
        day = min(self._first, monthrange(year, month + 1)[1])
        return datetime(year, month + 1, day)  # noqa: DTZ001  of a wall clock


class Years(Dates):
    """Years of the calendar; one that begins on another day is a cron expression."""

    longest_ms = SECONDS["year"] * 1000

    def number(self, wall: datetime) -> int:
        """Return the year of a time."""
        return wall.year

    def begin(self, number: int) -> datetime:
        """Return the midnight at which a year begins."""
        return datetime(number, 1, 1)  # noqa: DTZ001  of a wall clock


class Firings(Dates):
    """The times of a cron expression, counted from the first one since ``FIRST``; before it is the window -1."""

    FIRST: Final = 1969  # where the epoch is in the west

    def __init__(self, cron: Cron) -> None:
        minutes = cron.minutes
        night = minutes[0] + cron.longest_days * _MINUTES - minutes[-1]
        self.longest_ms = max([night, *(later - minute for minute, later in pairwise(minutes))]) * 60_000
        self._cron = cron
        self._before = {self.FIRST: 0}

    def number(self, wall: datetime) -> int:
        """Return the number of the last firing up to a time."""
        days, today, minutes = self._cron.days_of(wall.year), wall.toordinal(), self._cron.minutes
        place = bisect_left(days, today)
        past = (self._days_before(wall.year) + place) * len(minutes)
        if place == len(days) or days[place] != today:
            return past - 1
        return past + bisect_right(minutes, 60 * wall.hour + wall.minute) - 1

    def begin(self, number: int) -> datetime:
        """Return the time of a firing. Raises ``ValueError`` for one after ``LAST``."""
        if number < 0:
            return datetime(self.FIRST, 1, 1)  # noqa: DTZ001  of a wall clock
        day, minute = divmod(number, len(self._cron.minutes))
        for year in range(self.FIRST, LAST.year + 1):
            days, place = self._cron.days_of(year), day - self._days_before(year)
            if place < len(days):
                return datetime.fromordinal(days[place]) + timedelta(minutes=self._cron.minutes[minute])
        raise ValueError(f"no firing {number} is known")

    def _days_before(self, year: int) -> int:
        """Return the number of days from ``FIRST`` up to a year."""
        for each in range(self.FIRST, year):
            if each + 1 not in self._before:
                self._before[each + 1] = self._before[each] + len(self._cron.days_of(each))
        return self._before[year]
