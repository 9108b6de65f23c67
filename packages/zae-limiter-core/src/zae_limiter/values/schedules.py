"""The schedule of a limit: other values at other times, by the clocks of a zone.

Everything follows from the limit and an instant, so every process finds the same values, and no write is needed when
they change. The first entry that holds wins. An entry begins and ends at the first instant at which the clocks of its
zone show its time, or a later one: no change of the clocks makes it begin twice.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Final

from ..exceptions import ValidationError
from ..runtime.dataclass import dataclass, fields
from .clocks import clocks_of
from .schedule_text import FULL_DAY, MAX_ENTRIES, find_unreachable, read_entry, write_entry

NEVER_MS: Final = 1 << 200  # as ``rules.rule.FOREVER_MS``
KINDS: Final = ("token_bucket", "calendar", "first_use")  # of the limits that may have a schedule
SEPARATOR: Final = "; "
_DAYS_AROUND: Final = 16


@dataclass(frozen=True, slots=True)
class ScheduleEntry:
    """One entry of a schedule: a name, when it holds, and the values of the limit then.

    ``times`` are minutes of the day, the end above the begin and possibly of the next day; ``days`` are 1 for Monday to
    7; ``dates`` are the first and the last one, as ``2026-12-24``. What is left out holds always. ``refill_period``
    ``None``: that of the limit. ``str`` gives the text, which ``parse`` reads.
    """

    name: str
    capacity: int
    burst: int
    refill_amount: int
    refill_period: int | None = None
    times: tuple[int, int] | None = None
    days: tuple[int, ...] = ()
    dates: tuple[str, str] | None = None
    timezone: str = "UTC"
    unit: str = ""

    @classmethod
    def parse(cls, text: str) -> "ScheduleEntry":
        """Return the entry of a text such as ``night: 00:00-06:00 Europe/Berlin 100/min``. Raises ``ValueError``."""
        return cls(**read_entry(text))

    def __str__(self) -> str:
        return write_entry({each.name: getattr(self, each.name) for each in fields(self)})

    def holds(self, t_ms: int) -> bool:
        """Return whether it holds at an instant."""
        second = t_ms // 1000
        today = clocks_of(self.timezone).shown(second).date().toordinal()
        spans = (self._span(day) for day in range(today - 2, today + 2) if self._is_on(day))
        return any(begin <= second < end for begin, end in spans)

    def next_edge(self, t_ms: int) -> int:
        """Return the first instant after ``t_ms`` at which it begins or ends, ``NEVER_MS`` if none comes."""
        second = t_ms // 1000
        first = clocks_of(self.timezone).shown(second).date().toordinal() - 2
        last = NEVER_MS
        if self.dates is not None:
            begin, last = (date.fromisoformat(day).toordinal() for day in self.dates)
            first = max(first, begin)
        for day in range(first, min(first + _DAYS_AROUND, last + 1)):
            for edge in self._edges(day):
                if edge > second:
                    return edge * 1000
        end = self._span(last)[1] if first <= last < NEVER_MS else 0  # of an entry that holds day and night until then
        return end * 1000 if end > second else NEVER_MS

    def last_edge(self, t_ms: int) -> int:
        """Return the last instant up to ``t_ms`` at which it began or ended, 0 if there was none."""
        second = t_ms // 1000
        last, first = clocks_of(self.timezone).shown(second).date().toordinal() + 1, 0
        if self.dates is not None:
            first, end = (date.fromisoformat(day).toordinal() for day in self.dates)
            last = min(last, end)
        for day in range(last, max(last - _DAYS_AROUND, 0), -1):
            for edge in reversed(self._edges(day)):
                if edge <= second:
                    return max(0, edge * 1000)
        begin = self._span(first)[0] if 0 < first <= last else second + 1
        return max(0, begin * 1000) if begin <= second else 0

    def _edges(self, day: int) -> list[int]:
        """Return when it begins and ends on a day: nothing where it goes on from the day before, or until the next."""
        if not self._is_on(day):
            return []
        begin, end = self._span(day)
        goes_on_from = self._is_on(day - 1) and self._span(day - 1)[1] >= begin
        goes_on_until = self._is_on(day + 1) and self._span(day + 1)[0] <= end
        return [*(() if goes_on_from else (begin,)), *(() if goes_on_until else (end,))]

    def _is_on(self, day: int) -> bool:
        """Return whether it begins on a day, which is counted as by ``date.toordinal``."""
        if self.days and (day - 1) % 7 + 1 not in self.days:
            return False
        return self.dates is None or self.dates[0] <= date.fromordinal(day).isoformat() <= self.dates[1]

    def _span(self, day: int) -> tuple[int, int]:
        return _span(*(self.times or (0, FULL_DAY)), day, self.timezone)


@lru_cache(maxsize=4096)  # a wait that is long looks at many days, again and again
def _span(begin: int, end: int, day: int, timezone: str) -> tuple[int, int]:
    """Return the seconds at which minutes of a day begin and end by the clocks of a zone."""
    midnight, clocks = datetime.fromordinal(day), clocks_of(timezone)
    return clocks.first(midnight + timedelta(minutes=begin)), clocks.first(midnight + timedelta(minutes=end))


def check_schedule(
    name: str, kind: str, given: object, check_values: Callable[[ScheduleEntry], object]
) -> tuple[ScheduleEntry, ...]:
    """Return the schedule of a limit, given as entries or texts. Raises ``ValidationError``, which names the entry.

    ``check_values`` raises it for values of an entry that the limit cannot have.
    """
    field = f"schedule of limit {name!r}"
    if isinstance(given, str | ScheduleEntry) or not isinstance(given, Iterable):
        raise ValidationError(field, given, "must be a list of entries, such as ['night: 00:00-06:00 100/min']")
    entries = tuple(_entry(field, each) for each in given)
    if len(entries) > MAX_ENTRIES:
        raise ValidationError(f"number of entries in the {field}", len(entries), f"must be at most {MAX_ENTRIES}")
    if entries and kind not in KINDS:
        problem = f"must be empty: the tokens of a limit whose kind is {kind} do not come back with time"
        raise ValidationError(field, str(entries[0]), problem)
    for entry in entries:
        _check_entry(field, entry, kind, check_values)
    _check_together(field, entries)
    return entries


def parse_schedule(text: str) -> tuple[ScheduleEntry, ...]:
    """Return the entries of a stored schedule. Raises ``ValueError``."""
    return tuple(map(ScheduleEntry.parse, text.split(SEPARATOR)))


def _entry(field: str, given: object) -> ScheduleEntry:
    if isinstance(given, ScheduleEntry):
        given = str(given)  # which checks what it was made of
    if not isinstance(given, str):
        raise ValidationError(field, given, "must have texts such as 'night: 00:00-06:00 Europe/Berlin 100/min'")
    try:
        return ScheduleEntry.parse(given)
    except ValueError as error:
        raise ValidationError(field, given, str(error)) from None


def _check_entry(field: str, entry: ScheduleEntry, kind: str, check_values: Callable[[ScheduleEntry], object]) -> None:
    try:
        clocks_of(entry.timezone)
        if kind != "token_bucket" and entry.refill_period is not None:
            problem = f"means nothing for a limit whose kind is {kind}: write capacity and the amount"
            raise ValidationError("rate", str(entry), problem)
        check_values(entry)
    except ValidationError as error:
        raise ValidationError(field, str(entry), f"{error.field}: {error.problem}") from None


def _check_together(field: str, entries: Sequence[ScheduleEntry]) -> None:
    names = [entry.name for entry in entries]
    for name in names:
        if names.count(name) > 1:
            raise ValidationError(field, name, "is the name of two entries: give each its own")
    plain = [{each.name: getattr(entry, each.name) for each in fields(entry)} for entry in entries]
    if found := find_unreachable(plain):
        raise ValidationError(field, found[0], f"never holds: {' or '.join(found[1])} comes first whenever it would")
