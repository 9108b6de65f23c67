"""Check plain values against shapes, and yield every problem. ``source`` adds the positions in a file."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial

from .limit_text import EXAMPLES, read_limit
from .naming import NameKind, find_name_problem, in_nfc
from .problems import Occurrence, Path, Problem, Problems, describe, format_path, show
from .shapes import DEFAULT_REFILL_PERIOD_SECONDS, Flag, Integer, NamedMap, Record, Seconds, Shape
from .value_checks import (
    ALREADY_CHECKED,
    Finding,
    Hinted,
    Repeated,
    find_value_problems,
    no_map,
    read_flag,
    read_integer,
    read_seconds,
)
from .windows import has_no_rate


def find_problems(shape: Shape, value: object, path: Path = ()) -> Iterator[Finding]:
    """Yield the problems of a value and of everything in it."""
    if value is ALREADY_CHECKED:
        return
    if isinstance(value, Repeated):
        for index, each in enumerate(value.values):
            yield from find_problems(shape, each, (*path, Occurrence(index)))
        return
    match shape:
        case NamedMap():
            yield from _in_table(shape, value, path)
        case Record():
            yield from _in_record(shape, value, path)
        case _:
            yield from find_value_problems(shape, value, path)


def enforce(shape: Shape, value: object, name: str, more: Iterable[Finding] = ()) -> None:
    """Check a value; raises `ManifestError` with its problems and those of `more`, without positions."""
    problems = Problems()
    for found in (*find_problems(shape, value), *more):
        problems.note(partial(_placeless, name, found))
    problems.refuse()


def _placeless(name: str, found: Finding) -> Problem:
    return Problem(name, None, None, format_path(found.path), str(found.message))


def keys_only(entries: Mapping[str, object]) -> dict[str, object]:
    """Return the keys of a map, to be checked without their values, which checked themselves on construction."""
    return dict.fromkeys(entries, ALREADY_CHECKED)


def _in_table(shape: NamedMap, value: object, path: Path) -> Iterator[Finding]:
    if not isinstance(value, Mapping):
        yield no_map(path, value)
        return
    if len(value) < shape.least:
        yield Finding(path, "must not be empty")
    if shape.most is not None and len(value) > shape.most:
        yield Finding(path, f"must have at most {shape.most:,} entries, not {len(value):,}: {shape.advice}")
        return
    yield from _spelled_twice(value, path)
    for key, item in value.items():
        below = (*path, key)
        yield from _in_key(shape.kind, key, below)
        yield from find_problems(shape.entry, item, below)


def spelled_out(record: Record, value: object) -> object:
    """Return the map that the text of a limit stands for; any other value as it is. Raises `ValueError`."""
    if record.short is None or not isinstance(value, str):
        return value
    keys = record.short
    return {keys[name]: field for name, field in read_limit(value).items()}


def _in_record(shape: Record, value: object, path: Path) -> Iterator[Finding]:
    try:
        value = spelled_out(shape, value)
    except ValueError as error:
        yield Finding(path, f"{show(value)} {error}")
        return
    if not isinstance(value, Mapping):
        yield no_map(path, value) if shape.short is None else _no_limit(path, value)
        return
    for key, item in value.items():
        member = shape.members.get(key)
        if member is None:
            yield _unknown_key((*path, key), key, shape.members)
        else:
            yield from find_problems(member.shape, item, (*path, key))
    yield from _between_members(shape, value, path)


def _between_members(shape: Record, value: Mapping[object, object], path: Path) -> Iterator[Finding]:
    """Yield the problems of members with each other, and of missing ones."""
    for key, member in shape.ruled.items():
        if member.is_missing(key, value):
            yield Finding(path, f"`{key}` is missing", on_key=True)
        if member.at_least and key in value:
            yield from _below(shape, value, path, key)
        if member.spreads_to and key in value:
            yield from _against_level(shape, value, path, key)
        if isinstance(member.shape, Seconds) and key in value:
            yield from _too_far_ahead(shape, value, path, key)
    for conflicting, problem in shape.conflicts(value) if shape.conflicts else ():
        yield Finding((*path, conflicting), problem)


def _no_limit(path: Path, value: object) -> Finding:
    return Finding(path, f"must be a limit, not {describe(value)}: a text such as {EXAMPLES[0]}, or a map")


def _entries(
    record: Record, value: Mapping[object, object], spread: str
) -> Iterator[tuple[object, Mapping[object, object]]]:
    """Yield the entries that are maps, or texts of limits, by name; all others have a problem of their own."""
    of_entry, entries = record.members[spread].shape, value.get(spread, {})
    assert isinstance(of_entry, NamedMap)
    assert isinstance(of_entry.entry, Record), "the limits of a level are records"
    for name, entry in entries.items() if isinstance(entries, Mapping) else ():
        with suppress(ValueError):
            limit = spelled_out(of_entry.entry, entry)
            if isinstance(limit, Mapping):
                yield name, limit


def _below(shape: Record, value: Mapping[object, object], path: Path, key: str) -> Iterator[Finding]:
    """Yield a problem if an integer is below that of another key; nothing if either is invalid itself."""
    member = shape.members[key]
    floor = member.at_least
    if not floor or not isinstance(member.shape, Integer):
        return
    mine, least = read_integer(member.shape, value[key]), read_integer(member.shape, value.get(floor))
    if mine is None or least is None:
        return
    if member.shape.least <= mine < least <= member.shape.highest:
        yield Finding((*path, key), f"must be at least the {floor.lower()}: {mine} < {least}")
    if least == 0 < mine:
        yield Finding((*path, key), f"must be 0, not {show(mine)}: a {floor.lower()} of 0 blocks")


def _against_level(shape: Record, value: Mapping[object, object], path: Path, key: str) -> Iterator[Finding]:
    """Yield a problem for each entry whose flag contradicts that of its level, and for a level's flag without
    entries.
    """
    member = shape.members[key]
    spread = member.spreads_to
    if not spread or not isinstance(member.shape, Flag) or (flag := read_flag(member.shape, value[key])) is None:
        return
    if flag and spread not in value and not shape.members[spread].is_missing(spread, value):
        yield Finding((*path, key), f"is for the `{spread}` of this level, which has none: leave it out", on_key=True)
    for name, entry in _entries(shape, value, spread):
        own = read_flag(member.shape, entry.get(key))
        if own not in (None, flag):
            said = f"the level has `{key}: {str(flag).lower()}`, which is for all of its `{spread}`"
            yield Finding((*path, spread, name, key), f"must not be {str(own).lower()}: {said}; leave one of them out")


def _too_far_ahead(shape: Record, value: Mapping[object, object], path: Path, key: str) -> Iterator[Finding]:
    """Yield a problem if seconds leave no token of a limit's burst: of this limit, or of one that has its level's."""
    member = shape.members[key]
    if not isinstance(member.shape, Seconds) or (seconds := read_seconds(member.shape, value[key])) is None:
        return
    if not 0 <= seconds <= member.shape.highest:
        return
    if member.off is not None and (problem := _leaves_no_token(shape, value, key, seconds)):
        yield Finding((*path, key), problem)
    spread = member.spreads_to
    if spread is None or not isinstance(value.get(spread, {}), Mapping):
        return
    of_entry = shape.members[spread].shape
    assert isinstance(of_entry, NamedMap)
    assert isinstance(of_entry.entry, Record), "the limits of a level are records"
    if spread not in value and not shape.members[spread].is_missing(spread, value):
        yield Finding((*path, key), f"is for the `{spread}` of this level, which has none: leave it out", on_key=True)
    for name, entry in _entries(shape, value, spread):
        if key not in entry and (problem := _leaves_no_token(of_entry.entry, entry, key, seconds)):
            yield Finding((*path, spread, name), f"has the `{key}` of its level, which {problem}", on_key=True)


def _leaves_no_token(record: Record, limit: Mapping[object, object], key: str, seconds: float) -> str | None:
    """Return the problem of a limit whose burst comes back within the seconds; None for a limit with another
    mistake.
    """
    keys = record.members[key].off
    assert keys is not None, "the keys of a limit's numbers are known"
    if has_no_rate(limit):
        return None
    capacity = _whole(record, limit, keys.capacity, None)
    burst = _whole(record, limit, keys.burst, capacity)
    amount = _whole(record, limit, keys.amount, capacity)
    period = _whole(record, limit, keys.period, DEFAULT_REFILL_PERIOD_SECONDS)
    if not (capacity and burst and amount and period):
        return None
    most_ms = (burst - 1) * period * 1000 // amount
    if round(seconds * 1000) <= most_ms:
        return None
    longest = f"at most {most_ms / 1000:g} seconds, or a larger burst"
    return f"leaves no token of the burst of {burst}, because as many come in {seconds:g} seconds: {longest}"


def _whole(record: Record, limit: Mapping[object, object], key: str, otherwise: int | None) -> int | None:
    """Return a number of a limit, and another one if it is not given; None if it is invalid."""
    shape = record.members[key].shape
    if key not in limit or not isinstance(shape, Integer):
        return otherwise
    number = read_integer(shape, limit[key])
    return number if number is not None and shape.least <= number <= shape.highest else None


def _in_key(kind: NameKind, key: object, path: Path) -> Iterator[Finding]:
    if not isinstance(key, str):
        yield _unquoted_key(path, key)
    elif problem := find_name_problem(kind, key):
        yield Finding(path, f"{show(key)} {problem}", on_key=True)


def _spelled_twice(table: Mapping[object, object], path: Path) -> Iterator[Finding]:
    names: set[str] = set()
    for key in table:
        if isinstance(key, str):
            if in_nfc(key) in names:
                problem = "is there already, in another spelling of Unicode: leave one out"
                yield Finding((*path, key), f"{show(key)} {problem}", on_key=True)
            names.add(in_nfc(key))


def _unknown_key(path: Path, key: object, known: Iterable[str]) -> Finding:
    if not isinstance(key, str):
        return _unquoted_key(path, key)
    return Finding(path, describe_unknown_key(key, known), on_key=True)


def describe_unknown_key(key: object, known: Iterable[str]) -> Hinted:
    """Return `unknown key "refil_period", did you mean `refill_period`?`, or the list of known keys."""
    words = tuple(known)
    if key in ("limits", "Limits") and "resources" in map(str.lower, words):
        of = "`system`, or of a resource" if "system" in map(str.lower, words) else "a resource"
        way_out = "" if "system" in map(str.lower, words) else ", of all of them `resources: {_default_: {limits: …}}`"
        return Hinted(f"unknown key {show(key)}: limits are of {of}{way_out}", key, ())
    return Hinted(f"unknown key {show(key)}", key, words, f"; known here: {', '.join(f'`{k}`' for k in words)}")


def _unquoted_key(path: Path, key: object) -> Finding:
    return Finding(path, f"a key must be a string, not {describe(key)}: put it in quotes", on_key=True)
