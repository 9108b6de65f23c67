"""Calendar windows: their names, and what a limit that has one must be."""

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from .. import values
from ..exceptions import ValidationError

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

UTC: Final = "UTC"
CALENDAR: Final = "calendar"
SECONDS: Final[Mapping[str, int]] = {
    "minute": 60,
    "hour": 3600,
    "day": 86400,
    "week": 604_800,
    "month": 2_678_400,
    "year": 31_622_400,
}
"""The seconds of each window by name, when no clock is changed; a month has 31 days, a year 366."""
ELAPSED: Final = frozenset(("minute", "hour"))  # counted in elapsed time, so a zone means nothing

_LAST_START: Final[Mapping[str, int]] = {"week": 7, "month": 31}
_ZONE: Final = r"[A-Z][A-Za-z0-9_+-]{0,29}(/[A-Za-z0-9_+-]{1,30}){0,3}"  # not localtime
_FIELDS_OF_CRON: Final = 5
_LONGEST_CRON: Final = 100
_CYCLE: Final = (1970, 2030)  # between 1901 and 2099 the days of the weeks repeat every 28 years


def check_window(limit: str, window: str, timezone: str, starts_on: int) -> str:
    """Return the window of a limit, with one space between the fields of a cron expression.

    Raises ``ValidationError``, which names the field.
    """
    if not isinstance(window, str) or (window not in SECONDS and len(window.split()) != _FIELDS_OF_CRON):
        names = ", ".join(SECONDS)
        problem = f"must be one of {names}, or a cron expression of five fields, like '0 6 * * MON'"
        if isinstance(window, str) and len(window.split()) == _FIELDS_OF_CRON + 1:
            problem = f"is not a window: {values.limit_text.cron_problem(window.split())}"
        raise ValidationError(f"window of limit {limit!r}", window, problem)
    zone_of(timezone, f"timezone of limit {limit!r}")
    if window in ELAPSED and timezone != UTC:
        problem = f"must be {UTC}: a window of one {window} begins at the full {window} of {UTC} everywhere"
        raise ValidationError(f"timezone of limit {limit!r}", timezone, problem)
    most = _LAST_START.get(window, 1)
    if type(starts_on) is not int or not 1 <= starts_on <= most:
        problem = f"must be a day from 1 to {most}" if most > 1 else "must be 1: only a month and a week begin on a day"
        raise ValidationError(f"starts_on of limit {limit!r}", starts_on, problem)
    if window not in SECONDS:
        cron_of(window, f"window of limit {limit!r}")
    return " ".join(window.split())


@lru_cache(maxsize=1024)
def zone_of(timezone: str, field: str = "timezone") -> "ZoneInfo":
    """Return a time zone of the IANA database. Raises ``ValidationError`` for one that this machine does not know."""
    problem = "is not a time zone of this machine's database: use a name like Europe/Berlin, or `pip install -U tzdata`"
    if not isinstance(timezone, str) or not re.fullmatch(_ZONE, timezone):
        raise ValidationError(field, timezone, problem)
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # most limits have no calendar

    try:
        return ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, OSError, ValueError) as error:  # a folder of the database, a broken file
        near = values.limit_text.near_zone(timezone)
        problem = problem if near is None else f"is not a time zone, did you mean {near}?"
        raise ValidationError(field, timezone, problem) from error


class Cron:
    """A cron expression: the minutes of a day at which it fires, and the days by their ordinals, year by year.

    ``longest_days``: the most days between two days on which it fires.
    """

    def __init__(self, expression: str) -> None:
        from cronsim import CronSim  # most processes have no such limit

        self._parsed = CronSim(expression, datetime(2000, 1, 1))  # noqa: DTZ001  it only parses
        self._days: dict[int, Sequence[int]] = {}
        self.minutes = sorted(60 * hour + minute for hour in self._parsed.hours for minute in self._parsed.minutes)
        days = [day for year in range(*_CYCLE) for day in self.days_of(year)]
        if not days:
            raise ValueError("its day never comes")
        self.longest_days = max((later - day for day, later in pairwise(days)), default=days[-1] - days[0])

    def days_of(self, year: int) -> Sequence[int]:
        """Return the ordinals of the days of a year on which it fires, in order."""
        if year not in self._days:
            days = map(date.fromordinal, range(date(year, 1, 1).toordinal(), date(year + 1, 1, 1).toordinal()))
            parsed = self._parsed
            self._days[year] = [day.toordinal() for day in days if day.month in parsed.months and parsed.match_day(day)]
        return self._days[year]


@lru_cache(maxsize=256)
def cron_of(expression: str, field: str = "cron") -> Cron:
    """Return a cron expression of five fields. Raises ``ValidationError`` for any other, and for one that never fires.

    A day matches as in Debian's cron: either of its two fields suffices, unless one begins with a star.
    """
    if len(expression) > _LONGEST_CRON:
        raise ValidationError(field, expression, f"must have at most {_LONGEST_CRON} characters")
    from cronsim import CronSimError

    try:
        return Cron(expression)
    except (CronSimError, ValueError, TypeError, ArithmeticError, AssertionError) as error:
        problem = f"is not a cron expression of five fields that fires: {error}"
        raise ValidationError(field, expression, problem) from error


def burst_of(name: str, capacity: int, burst: int | None, carry_over: int | bool, window: str | None) -> int | None:  # noqa: FBT001
    """Return the burst: that of the caller, or the capacity and what is carried over."""
    if window not in (None, CALENDAR):
        raise ValidationError(f"window of limit {name!r}", window, "must be 'calendar', or left out")
    if carry_over is False or (type(carry_over) is int and not carry_over):
        return burst
    field = f"carry_over of limit {name!r}"
    if type(carry_over) not in (int, bool) or carry_over < 0:
        raise ValidationError(
            field, carry_over, "must be a whole number of tokens, 0 or more, or True for the capacity"
        )
    if window is None:
        raise ValidationError(field, carry_over, "belongs to a calendar window: add window='calendar'")
    if burst is not None:
        raise ValidationError(field, carry_over, f"cannot be given with burst={burst}, which bounds the same")
    if type(capacity) is not int or not capacity:
        return None  # which is refused, or blocks
    return capacity + (capacity if carry_over is True else carry_over)
