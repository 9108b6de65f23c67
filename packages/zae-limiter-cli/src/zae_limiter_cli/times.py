"""Read and write instants and lengths of time as people do. The caller passes the current time.

A time without a zone is of the operator's own zone, as the operating system has it. Clocks that change skip some times
and show others twice: such a time is refused, with the times in UTC that may be meant; a day alone begins with its
first instant.
"""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from itertools import pairwise
from math import ceil
from typing import Final, NamedTuple

from .errors import CommandError

_LENGTH: Final = re.compile(r"([0-9]{1,9})([mhdw])")
_SIZES: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
LEAST_WHOLE: Final = 10  # seconds above which tenths say nothing
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DAYS: Final = {"yesterday": -1, "today": 0, "tomorrow": 1}
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def parse_instant(option: str, text: str, now: datetime, zone: tzinfo | None = None) -> datetime:
    """Return a time that was typed, in UTC: so long before ``now``, such as 30m; a time of day, its last one; a day,
    with a time or its begin. ``zone`` is for times without one, the operator's own by default. Raises ``CommandError``.
    """
    from zae_limiter.values.usage import EARLIEST

    try:
        if ago := _LENGTH.fullmatch(text):
            instant = now - _length(ago)
        else:
            instant = _When.of(option, text, zone).last(now).astimezone(UTC)
    except (ValueError, OverflowError):
        raise CommandError(
            f"{option} {text!r}: must be how long ago (minutes, hours, days, weeks): 30m, 24h, 7d, 2w, or a time like "
            "06:00, yesterday, '06:00 Europe/Berlin', 2024-01-31 or 2024-01-31T14:00Z"
        ) from None
    if instant < EARLIEST:
        raise CommandError(f"{option} {text!r}: must not be before {EARLIEST:%Y-%m-%d}")
    return instant


def parse_end(option: str, text: str, now: datetime) -> datetime:
    """Return a time after ``now`` that was typed, in its zone: so long after ``now``, such as 30m; a time of day, its
    next one; a day, with a time or its begin. Raises ``CommandError``.
    """
    try:
        if later := _LENGTH.fullmatch(text):
            return (now + _length(later)).astimezone()
        return _When.of(option, text, None).next(now)
    except (ValueError, OverflowError):
        raise CommandError(
            f"{option} {text!r}: must be how long from now (minutes, hours, days, weeks): 30m, 2h, 7d, 1w, or a time "
            "like 06:00, 'tomorrow 6:00', '06:00 Europe/Berlin' or 2026-01-31T18:00Z"
        ) from None


def shown(instant: datetime) -> str:
    """Return an instant for people, in UTC, to the minute."""
    return instant.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def both(instant: datetime) -> str:
    """Return an instant for people in its zone, for one in UTC in the operator's, and in UTC: to the minute."""
    there = instant if instant.utcoffset() or hasattr(instant.tzinfo, "key") else instant.astimezone()
    if not there.utcoffset():
        return f"{shown(instant)} (UTC)"
    at_utc = shown(instant)
    at_utc = at_utc[-len("06:00") :] if at_utc[:10] == f"{there:%Y-%m-%d}" else at_utc
    return f"{there:%Y-%m-%d %H:%M} {getattr(there.tzinfo, 'key', None) or there.tzname()} ({at_utc} UTC)"


def duration(seconds: float) -> str:
    """Return a length of time for people: `0.4 s`, `42 s`, `3 min 20 s`, `11 h 59 min`, `2 d 3 h`.

    It is rounded up, so that no caller comes back too early.
    """
    exact = round(seconds, 6)
    if exact <= LEAST_WHOLE:
        return f"{ceil(exact * 10) / 10:g} s"
    for (large, size), (small, part) in pairwise(_SIZES):
        whole = ceil(exact / part) * part
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size:,} {large} {rest} {small}" if rest else f"{whole // size:,} {large}"
    return f"{ceil(exact)} s"


def iso(instant: datetime) -> str:
    """Return an instant for programs, in the form of all documents: UTC, as `2026-01-31T14:00:00.000Z`."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _When(NamedTuple):
    """A time that was typed: a day or none, a time of day or none, a zone or the operator's; ``None`` for what is
    missing.
    """

    option: str
    text: str
    day: date | str | None
    clock: time | None
    zone: tzinfo | None

    @classmethod
    def of(cls, option: str, text: str, zone: tzinfo | None) -> "_When":
        """Return what a text says: a day, a time of day, a zone, in this order. Raises ``ValueError``, and
        ``CommandError`` for an unknown zone.
        """
        words = text.replace(",", " ").split()
        day: date | str | None = None
        if words and _name_of(words[0]):
            day = _name_of(words.pop(0))
        elif words and ":" not in words[0].upper().partition("T")[0]:
            written, _, rest = words.pop(0).upper().partition("T")
            day = date.fromisoformat(written)
            words = [rest, *words] if rest else words
        clock = None
        if words and words[0][:1].isdigit():
            written = words.pop(0).upper()
            clock = time.fromisoformat(f"0{written}" if written[1:2] == ":" else written)
            if clock.tzinfo is not None:
                clock, zone = clock.replace(tzinfo=None), clock.tzinfo
            elif words:
                zone = _zone_of(option, text, words.pop(0))
        elif words:
            zone = _zone_of(option, text, words.pop(0))
        if words or (day is None and clock is None):
            raise ValueError(text)
        return cls(option, text, day, clock, zone)

    def next(self, now: datetime) -> datetime:
        """Return the next such time after ``now``; of a date the one there is. Raises ``CommandError``."""
        there = now.astimezone(self.zone)
        passed = (self.clock or time()) <= there.time().replace(tzinfo=None)
        if self.day is None:
            return self._at(there.date() + timedelta(days=passed))
        if self.day in _WEEKDAYS:
            ahead = (_WEEKDAYS.index(str(self.day)) - there.weekday()) % 7
            return self._at(there.date() + timedelta(days=ahead or 7 * passed))
        return self._named(there.date())

    def last(self, now: datetime) -> datetime:
        """Return the last such time until ``now``; of a date the one there is. Raises ``CommandError``."""
        there = now.astimezone(self.zone)
        to_come = (self.clock or time()) > there.time().replace(tzinfo=None)
        if self.day is None:
            return self._at(there.date() - timedelta(days=to_come))
        if self.day in _WEEKDAYS:
            ago = (there.weekday() - _WEEKDAYS.index(str(self.day))) % 7
            return self._at(there.date() - timedelta(days=ago or 7 * to_come))
        return self._named(there.date())

    def _named(self, today: date) -> datetime:
        day = self.day
        return self._at(day if isinstance(day, date) else today + timedelta(days=_DAYS[str(day)]))

    def _at(self, day: date) -> datetime:
        """Return the instant on a day. Raises ``CommandError`` for one that clocks skip, or show twice.

        Where clocks change, the offsets before and after (``fold``) give two instants; where they skip the time,
        neither shows it.
        """
        wall = datetime.combine(day, self.clock or time())
        first, second = sorted(wall.replace(tzinfo=self.zone, fold=fold).astimezone(UTC) for fold in (0, 1))
        if first == second or self.clock is None:
            there = (first.astimezone(self.zone), second.astimezone(self.zone))
            return next((each for each in there if each.date() == day), there[1])
        where = f"on {day}{f' in {self.zone}' if self.zone else ''}"
        told = f"{self.option} {self.text!r}: {wall:%H:%M} {{}} {where}, because clocks go {{}}: pass {{}}"
        if second.astimezone(self.zone).replace(tzinfo=None) != wall:
            later = f"{second.astimezone(self.zone):%H:%M}, or {second:%Y-%m-%dT%H:%MZ}"
            raise CommandError(told.format("is left out", "forward", later))
        raise CommandError(told.format("comes twice", "back", f"{first:%Y-%m-%dT%H:%MZ} or {second:%Y-%m-%dT%H:%MZ}"))


def _length(found: re.Match[str]) -> timedelta:
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _name_of(word: str) -> str | None:
    """Return the day that a word names: `tomorrow`, or a weekday, also by its first three letters."""
    written = word.lower()
    names: Sequence[str] = (*_DAYS, *_WEEKDAYS)
    return next((each for each in names if written == each or (each in _WEEKDAYS and written == each[:3])), None)


def _zone_of(option: str, text: str, word: str) -> tzinfo | None:
    """Return the zone that a word names: `UTC`, `+02:00`, `Europe/Berlin`. Raises ``CommandError``."""
    from zae_limiter import ValidationError
    from zae_limiter.values.windows import zone_of

    if word.upper() in {"Z", "UTC"}:
        return UTC
    if word[0] in "+-":
        return time.fromisoformat(f"00:00{word}").tzinfo
    try:
        return zone_of(word)
    except ValidationError as error:
        raise CommandError(f"{option} {text!r}: {word!r} {error.problem}") from error
