"""Write and read instants and lengths of time as people do, always in UTC. The caller passes the current time."""

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from math import ceil
from typing import Final

from .errors import CommandError

_AGO: Final = re.compile(r"([0-9]{1,9})([mhdw])")
_SIZES: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
LEAST_WHOLE: Final = 10  # seconds above which tenths say nothing
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_instant(option: str, text: str, now: datetime) -> datetime:
    """Return an ISO time (UTC without a zone), or a time before ``now``: 30m, 24h, 7d. Raises ``CommandError``."""
    from zae_limiter.values.usage import EARLIEST

    try:
        instant = _instant(text, now)
    except (ValueError, OverflowError):
        raise CommandError(
            f"{option} {text!r}: must be a time like 2024-01-31 or 2024-01-31T14:00Z, "
            "or how long ago (minutes, hours, days, weeks): 30m, 24h, 7d, 2w"
        ) from None
    if instant < EARLIEST:
        raise CommandError(f"{option} {text!r}: must not be before {EARLIEST:%Y-%m-%d}")
    return instant


def parse_end(option: str, text: str, now: datetime) -> datetime:
    """Return a time after ``now``: 30m, 2h, 7d; or an ISO time with a zone. Raises ``CommandError``."""
    try:
        if later := _AGO.fullmatch(text):
            return now + timedelta(**{_UNITS[later[2]]: int(later[1])})
        instant = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        instant = None
    if instant is None or instant.utcoffset() is None:
        raise CommandError(
            f"{option} {text!r}: must be how long from now (minutes, hours, days, weeks): 30m, 2h, 7d, 1w, "
            "or a time with a zone like 2026-01-31T18:00Z"
        )
    return instant


def shown(instant: datetime) -> str:
    """Return an instant for people: to the minute."""
    return instant.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


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


def _instant(text: str, now: datetime) -> datetime:
    if ago := _AGO.fullmatch(text):
        return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    instant = datetime.fromisoformat(text)
    return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)
