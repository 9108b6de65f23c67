"""Check the schedules of limits: other values at other times, each entry as one text."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from .money import MICRO, write_money
from .problems import show
from .schedule_text import MAX_ENTRIES, find_unreachable, read_entry, write_entry
from .windows import find_zone_problem, plain, said_of


def as_schedule(given: Any) -> Any:
    """Return entries as the texts that `write_entry` gives; leave anything else to the checks."""
    if not isinstance(given, list | tuple):
        return given
    with suppress(ValueError, TypeError, AttributeError):
        return tuple(write_entry(read_entry(text)) for text in given)
    return tuple(given)


def find_entry_problem(text: str) -> str | None:
    """Return the problem of one entry, None for a valid one."""
    try:
        entry = read_entry(text)
    except ValueError as error:
        return f"{show(text)} {error}"
    if problem := find_zone_problem(entry["timezone"]):
        return f"its zone {problem}"
    if entry["burst"] < entry["capacity"]:
        return f"its burst must be at least its capacity: {entry['burst']} < {entry['capacity']}"
    return "its burst must be 0: a capacity of 0 blocks" if not entry["capacity"] and entry["burst"] else None


def find_schedule_problem(texts: Sequence[str]) -> str | None:
    """Return the problem of valid entries with each other, None if there is none."""
    entries = list(map(read_entry, texts))
    names = [entry["name"] for entry in entries]
    if len(texts) > MAX_ENTRIES:
        return f"must have at most {MAX_ENTRIES} entries, not {len(texts)}"
    for name in names:
        if names.count(name) > 1:
            return f"has two entries named {show(name)}: give each its own name"
    if found := find_unreachable(entries):
        first = " or ".join(map(show, found[1]))
        return f"has {show(found[0])}, which never holds: {first} comes first whenever it would"
    return None


def find_conflicts(limit: Mapping[Any, object]) -> Iterator[tuple[object, str]]:
    """Yield the key of a schedule that does not go with the rest of its limit, and its problem."""
    said = said_of(limit)
    texts = said.get("schedule")
    if not isinstance(texts, list | tuple) or not texts:
        return
    kind = said.get("kind", "token_bucket" if said.get("window") is None else "calendar")
    for text in texts:
        with suppress(ValueError, TypeError, AttributeError):
            if problem := _with_limit(read_entry(text), kind, said):
                key = next(key for key in limit if isinstance(key, str) and plain(key) == "schedule")
                yield key, f"{show(text)} {problem}"
                return


def _with_limit(entry: Mapping[str, Any], kind: object, said: Mapping[str, object]) -> str | None:
    prefetch, unit = said.get("prefetch"), said.get("unit") or ""
    if entry.get("unit", "") != unit:
        return (
            f"is not money as the limit is: write {write_money(100 * MICRO, str(unit))}"
            if unit
            else (f"is money, and the limit has no `unit`: add `unit: {entry['unit']}`")
        )
    if kind not in ("token_bucket", "calendar", "first_use"):
        return f"is for a limit that refills with time, which `kind: {kind}` does not"
    if kind != "token_bucket" and entry["refill_period"] is not None:
        return f"has a rate, which means nothing beside `kind: {kind}`: write `capacity` and the amount"
    if entry["refill_period"] is None or type(prefetch) not in (int, float) or not entry["capacity"]:
        return None
    off = -(-entry["refill_amount"] * round(float(str(prefetch)) * 1000) // (entry["refill_period"] * 1000))
    return None if entry["burst"] - off >= 1 else f"leaves no token: `prefetch` takes {off} off its burst"
