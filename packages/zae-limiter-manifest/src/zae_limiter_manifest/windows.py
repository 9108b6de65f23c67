"""Check the calendar windows of limits: their names, cron expressions, time zones, and what goes together."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache, lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from .limit_text import cron_problem, near_zone
from .problems import show

UTC: Final = "UTC"
KINDS: Final = ("token_bucket", "calendar", "first_use", "total", "concurrent")
WINDOWS: Final = ("minute", "hour", "day", "week", "month", "year")
LAST_START: Final = {"week": 7, "month": 31}
MAX_EXPIRES: Final = {"concurrent": 86_400, "total": 315_360_000}  # a day, ten years
LEAST_OF_TOTAL: Final = 86_400

_ELAPSED: Final = ("minute", "hour")
_ZONE: Final = re.compile(r"[A-Z][A-Za-z0-9_+-]{0,29}(/[A-Za-z0-9_+-]{1,30}){0,3}")  # not localtime
_FIELDS_OF_CRON: Final = 5
_LONGEST_CRON: Final = 100
_LONGEST_KEY: Final = 32
_MAY_BE_FAR: Final = datetime(2000, 1, 1)  # noqa: DTZ001  of a wall clock


def as_window(given: Any) -> Any:
    """Return a cron expression with one space between its fields; leave anything else to the checks."""
    parts = given.split() if isinstance(given, str) else []
    return " ".join(parts) if len(parts) == _FIELDS_OF_CRON else given


@cache
def find_window_problem(text: str) -> str | None:
    """Return the problem of a window, None for the name of one and for a cron expression."""
    if text in WINDOWS:
        return None
    names = ", ".join(f"`{name}`" for name in WINDOWS)
    if len(text.split()) == _FIELDS_OF_CRON + 1:
        return f"is not a window: {cron_problem(text.split())}"
    if len(text.split()) != _FIELDS_OF_CRON or len(text) > _LONGEST_CRON:
        return f"must be {names}, or a cron expression of five fields like `0 6 * * MON`, not {show(text)}"
    from cronsim import CronSim, CronSimError  # most manifests have none

    try:
        next(CronSim(text, _MAY_BE_FAR))
    except (CronSimError, StopIteration, ValueError, TypeError, ArithmeticError, AssertionError) as error:
        return f"is not a cron expression that fires: {show(text)}: {error}"
    return None


@cache
def find_zone_problem(text: str) -> str | None:
    """Return the problem of a time zone, None for one that this machine knows."""
    try:
        if _ZONE.fullmatch(text):
            ZoneInfo(text)
            return None
    except (ZoneInfoNotFoundError, OSError, ValueError):  # also a folder of the database
        pass
    if near := near_zone(text):
        return f"must be a time zone, not {show(text)}, did you mean `{near}`?"
    return f"must be a time zone like `Europe/Berlin`, not {show(text)}, which this machine's database does not have"


def has_no_rate(limit: Mapping[Any, object]) -> bool:
    """Return whether the tokens of a limit, as plain values in any spelling, come all at once or never."""
    said = said_of(limit)
    return "window" in said or said.get("kind") in KINDS[1:]


def find_conflicts(limit: Mapping[Any, object]) -> Iterator[tuple[object, str]]:
    """Yield each key that does not go with the others, and its problem. The keys may be in any spelling."""
    for name, problem in _conflicts(said_of(limit)):
        yield {plain(key): key for key in limit if isinstance(key, str)}[name], problem


def _conflicts(said: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    window = said.get("window")
    kind = said.get("kind", "token_bucket" if window is None else "calendar")
    if window is not None and kind != "calendar":
        yield "kind", f"must not be {show(kind)} beside a `window`: leave one of them out"
    elif kind == "calendar" and window is None:
        yield "kind", "is `calendar`, so that the limit needs a `window`: add one, such as `window: month`"
    elif window is None:
        for name in ("timezone", "startson"):
            if said.get(name) not in (None, "", UTC, 1, "1"):
                yield name, "is for a `window`: add one, or leave it out"
    else:
        yield from _of_window(said, window)
    if kind in KINDS[1:]:
        yield from _without_rate(said, kind)
    yield from _of_slots(said, kind)


def _without_rate(said: Mapping[str, object], kind: object) -> Iterator[tuple[str, str]]:
    """Yield what means nothing where tokens come all at once or never; the period of `first_use` is its window."""
    capacity = str(said.get("capacity"))
    allowed = {"refillperiod": ("60",), "prefetch": ("0", "0.0")}
    if kind != "calendar":
        allowed["refillamount"] = (capacity, "1")
    if kind == "first_use":
        del allowed["refillperiod"]
        allowed["burst"] = (capacity,)
    for name, values in allowed.items():
        if name in said and str(said[name]) not in values:
            yield name, f"means nothing beside `kind: {kind}`: leave it out"


def _of_slots(said: Mapping[str, object], kind: object) -> Iterator[tuple[str, str]]:
    given = str(said.get("expires"))
    expires = int(given) if given.isascii() and given.isdecimal() and len(given) < 12 else None
    if kind == "total" and expires is not None and 0 < expires < LEAST_OF_TOTAL:
        problem = f"must be at least {LEAST_OF_TOTAL:,} seconds, a day, beside `kind: total`, not {expires:,}"
        yield "expires", f"{problem}; leave it out for a total that never expires"
    if kind != "concurrent":
        if kind != "total" and given not in ("None", "0"):
            yield "expires", "is for totals and slots: add `kind: total` or `kind: concurrent`, or leave it out"
        return
    if expires == 0:
        yield "expires", "must be at least 1 second beside `kind: concurrent`"
    if expires is not None and MAX_EXPIRES["concurrent"] < expires <= MAX_EXPIRES["total"]:
        yield "expires", f"must be at most {MAX_EXPIRES['concurrent']:,} seconds, a day, beside `kind: concurrent`"
    if str(said.get("burst")) not in ("None", str(said.get("capacity"))):
        yield "burst", "must be the capacity beside `kind: concurrent`: leave it out"
    if said.get("alert"):
        yield "alert", "means nothing beside `kind: concurrent`: slots have no window; leave it out"
    if said.get("unit"):
        yield "unit", "means nothing beside `kind: concurrent`: slots are not money; leave it out"
    if said.get("weights"):
        yield "weights", "mean nothing beside `kind: concurrent`: leave them out"


def _of_window(said: Mapping[str, object], window: object) -> Iterator[tuple[str, str]]:
    if window in _ELAPSED and said.get("timezone", UTC) != UTC:
        yield "timezone", f"must be {UTC}: a `window` of one {window} begins at the full {window} of {UTC} everywhere"
    first, most = said.get("startson"), LAST_START.get(str(window), 1)
    if first is not None and str(first).isdecimal() and int(str(first)) > most:
        yield "startson", f"must be at most {most} with `window: {window}`, not {show(first)}"


def said_of(limit: Mapping[Any, object]) -> dict[str, object]:
    """Return what a limit says, by key in the plainest spelling."""
    return {plain(key): value for key, value in limit.items() if isinstance(key, str)}


def plain(key: str) -> str:
    """Return a key in the spelling that YAML's and CloudFormation's have in common."""
    return _plain(key) if len(key) <= _LONGEST_KEY else _plain.__wrapped__(key)


@lru_cache(maxsize=256)
def _plain(key: str) -> str:
    return key.replace("_", "").lower()
