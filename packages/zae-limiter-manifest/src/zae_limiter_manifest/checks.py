"""Check plain values against shapes, and yield every problem. ``source`` adds the positions in a file."""

import difflib
import json
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache, partial
from itertools import chain
from typing import Any, Final

from attrs import frozen

from .equal_values import MOST_REMEMBERED, NoKey, key_of, value_of
from .limit_text import EXAMPLES, read_limit
from .metadata import find_metadata_problems
from .naming import NameKind, find_name_problem, in_nfc
from .problems import A_MAP, Occurrence, Path, Problem, Problems, describe, format_path, show
from .renamed import renamed_key
from .scalars import OddInteger
from .schedules import find_entry_problem, find_schedule_problem
from .shapes import (
    DEFAULT_REFILL_PERIOD_SECONDS,
    Anything,
    Cascading,
    Choice,
    Choices,
    Entries,
    Flag,
    Integer,
    JsonMap,
    Name,
    NamedMap,
    Names,
    Number,
    Percent,
    Percents,
    Record,
    Seconds,
    Shape,
    Text,
    Window,
    Zone,
)
from .windows import find_window_problem, find_zone_problem, has_no_rate

ALREADY_CHECKED: Final = object()
"""Replaces a value that was checked before, whether valid or already reported: every shape accepts it."""
_EXTENDS_KEYS: Final = ("extends", "Extends")
_EXTENDS: Final = "limits add to those of the next level, not of another tier; tiers share them by an anchor of `x-…`"


@frozen
class Repeated:
    """The values of a repeated key. Each of them is checked."""

    values: list[object]


# CloudFormation passes numbers as text, large ones sometimes as 5.0E8.
_DIGITS: Final = re.compile(r"-?[0-9]{1,20}|[0-9](\.[0-9]{1,20})?[eE][0-9]{1,2}")
_DECIMAL: Final = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?([eE]-?[0-9]{1,2})?")
_IN_WORDS: Final = {3: "three", 6: "six"}
_CASCADES: Final = ("on", "off", "inherit", "true", "false")
_FLAGS: Final = {"true": True, "false": False}


@frozen
class Hinted:
    """A message that ends with the word that was probably meant. The search for that word is slow, so it runs only in
    `str`.
    """

    text: str
    given: object
    words: tuple[str, ...]
    otherwise: str = ""

    def __str__(self) -> str:
        close = difflib.get_close_matches(self.given[:64], self.words, n=1) if isinstance(self.given, str) else []
        return f"{self.text}, did you mean `{close[0]}`?" if close else f"{self.text}{self.otherwise}"


@frozen
class Finding:
    """A problem of the value at a path, or of its key; `str` of the message makes its text."""

    path: Path
    message: "str | Hinted"
    on_key: bool = False


def read_integer(shape: Integer, value: object) -> int | None:
    """Return the integer of a value, or of its text if the shape allows text; None for anything else."""
    if type(value) is int:
        return value
    if not shape.as_text or not isinstance(value, str) or not _DIGITS.fullmatch(value):
        return None
    number = Decimal(value)
    return int(number) if number == number.to_integral_value() else None


def read_seconds(shape: Seconds | Number, value: object) -> float | None:
    """Return the number of a value, or of its text if the shape allows text; None for anything else."""
    if type(value) in (int, float):
        return float(value) if abs(value) <= shape.highest else value  # type: ignore[arg-type, return-value]
    if not shape.as_text or not isinstance(value, str) or not _DECIMAL.fullmatch(value):
        return None
    return float(value)


def read_flag(shape: Flag, value: object) -> bool | None:
    """Return the boolean of a value, or of its text if the shape allows text; None for anything else."""
    if isinstance(value, bool):
        return value
    return _FLAGS.get(value) if shape.as_text and isinstance(value, str) else None


def read_json_map(value: object) -> object:
    """Return the map in a JSON text; any other value as it is."""
    if not isinstance(value, str):
        return value
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return found if isinstance(found, dict) else value


def _in_integer(shape: Integer, value: object, path: Path) -> Sequence[Finding]:
    number = read_integer(shape, value)
    if isinstance(value, OddInteger):
        problem = f"must be an integer in decimal digits, not {show(value.text)}: {value.advice}"
    elif number is None:
        problem = f"must be an integer, not {describe(value)}"
    elif number < shape.least:
        problem = f"must be at least {shape.least}, not {show(number)}"
    elif number > shape.highest:
        problem = f"must be at most {shape.highest}, not {show(number)}"
    else:
        return ()
    return [Finding(path, problem)]


def _in_decimal(shape: Seconds | Number, value: object, path: Path) -> Iterator[Finding]:
    number = read_seconds(shape, value)
    if isinstance(shape, Seconds):
        what, unit, decimals = "a number of seconds", " seconds", 3
    else:
        what, unit, decimals = "a number", "", shape.decimals
    if isinstance(value, OddInteger):
        yield Finding(path, f"must be in decimal digits, not {show(value.text)}: {value.advice}")
    elif number is None:
        yield Finding(path, f"must be {what}, not {describe(value)}")
    elif not 0 <= number <= shape.highest:
        yield Finding(path, f"must be from 0 to {shape.highest}{unit}, not {show(value)}")
    elif number != round(number, decimals):
        yield Finding(path, f"must have at most {_IN_WORDS[decimals]} decimals, not {show(value)}")


def _in_window(shape: Window | Zone, value: object, path: Path) -> Iterator[Finding]:
    if isinstance(shape, Window) and type(value) is int:
        advice = f"for seconds from the first use write the limit as `100 per {value}s from first use`"
        yield Finding(path, f"must be a string, not {describe(value)}: {advice}")
    elif not isinstance(value, str):
        yield Finding(path, f"must be a string, not {describe(value)}")
    elif problem := (find_window_problem if isinstance(shape, Window) else find_zone_problem)(value):
        yield Finding(path, problem)


def _in_choice(shape: Choice, value: object, path: Path) -> Iterator[Finding]:
    if not isinstance(value, str) or value not in shape.words:
        given = value if isinstance(value, str) else None
        yield Finding(path, Hinted(f"must be {shape.alternatives}, not {describe(value)}", given, tuple(shape.words)))


def _in_choices(shape: Choices, value: object, path: Path) -> Iterator[Finding]:
    if not isinstance(value, list | tuple):
        yield Finding(path, f"must be a list of names, not {describe(value)}")
        return
    for place, each in enumerate(value):
        if not isinstance(each, str) or each not in shape.words:
            otherwise = f"; known are {', '.join(shape.words)}"
            yield Finding((*path, place), Hinted(f"{show(each)} is not known here", each, shape.words, otherwise))
        elif each in value[:place]:
            yield Finding((*path, place), f"{show(each)} is there already: leave one out")


def _in_flag(shape: Flag, value: object, path: Path) -> Sequence[Finding]:
    if read_flag(shape, value) is not None:
        return ()
    way_out = f": {_EXTENDS}" if path[-1] in _EXTENDS_KEYS else ""
    return [Finding(path, f"must be true or false, not {describe(value)}{way_out}")]


def _in_cascade(_: Cascading, value: object, path: Path) -> Iterator[Finding]:
    if not isinstance(value, bool) and value not in _CASCADES:
        given = value if isinstance(value, str) else None
        yield Finding(path, Hinted(f"must be on, off or inherit, not {describe(value)}", given, _CASCADES[:3]))


def _in_name(shape: Name, value: object, path: Path) -> Iterator[Finding]:
    if not isinstance(value, str):
        yield Finding(path, f"must be a string, not {describe(value)}")
    elif problem := find_name_problem(shape.kind, value):
        yield Finding(path, f"{show(value)} {problem}")


def _in_text(shape: Text, value: object, path: Path) -> Iterator[Finding]:
    if not isinstance(value, str):
        yield Finding(path, f"must be a string, not {describe(value)}")
    elif len(value) > shape.longest:
        yield Finding(path, f"must have at most {shape.longest} characters, not {len(value)}")


def _in_names(shape: Names, value: object, path: Path) -> Iterator[Finding]:
    if not isinstance(value, list):
        yield Finding(path, f"must be a list of names, not {describe(value)}")
        return
    if not shape.least <= len(value) <= shape.most:
        yield Finding(path, f"must have {shape.least} to {shape.most} of them, not {len(value)}")
    names: set[str] = set()
    for place, each in enumerate(value):
        yield from _in_name(Name(shape.kind), each, (*path, place))
        if isinstance(each, str):
            if in_nfc(each) in names:
                yield Finding((*path, place), f"{show(each)} is there already: leave one out")
            names.add(in_nfc(each))


def _in_entries(_: Entries, value: object, path: Path) -> Iterator[Finding]:
    if not isinstance(value, list | tuple):
        yield Finding(path, f"must be a list of entries, not {describe(value)}")
        return
    problems: list[Finding] = []
    for place, each in enumerate(value):
        if not isinstance(each, str):
            problems.append(Finding((*path, place), f"must be a string, not {describe(each)}"))
        elif problem := find_entry_problem(each):
            problems.append(Finding((*path, place), problem))
    yield from problems
    if not problems and (problem := find_schedule_problem(list(value))):
        yield Finding(path, problem)


def read_percents(shape: Percents, value: object) -> list[int] | None:
    """Return the whole numbers of a list, or of their texts if the shape allows text; None for anything else."""
    if not isinstance(value, list | tuple):
        return None
    found = [read_integer(Integer(100, as_text=shape.as_text), each) for each in value]
    numbers = [each for each in found if each is not None]
    return numbers if len(numbers) == len(found) else None


def _in_percents(shape: Percents, value: object, path: Path) -> Iterator[Finding]:
    found = read_percents(shape, value)
    valid = found is not None and 1 <= len(found) <= shape.most and all(1 <= each <= 100 for each in found)
    if not valid or found != sorted(set(found or ())):
        rule = f"must be a list of 1 to {shape.most} whole numbers from 1 to 100, each above the one before"
        yield Finding(path, f"{rule}, like [80, 95], not {_listed(value, shape.most)}")


def _in_percent(_: Percent, value: object, path: Path) -> Iterator[Finding]:
    digits = value[:-1] if isinstance(value, str) and value.endswith("%") else ""
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 2 and digits[0] != "0"):
        yield Finding(path, f"must be a whole percentage from 1% to 99%, like 80%, not {describe(value)}")


def _listed(value: object, most: int) -> str:
    """Return what a value is, with one more of its items than a list may have."""
    if not isinstance(value, list | tuple):
        return describe(value)
    shown = [describe(each) for each in value[: most + 1]]
    more = " and more" if len(value) > len(shown) else ""
    return f"a list of {', '.join(shown)}{more}" if shown else "an empty list"


def _in_metadata(shape: JsonMap, value: object, path: Path) -> Iterator[Finding]:
    if shape.as_text:
        value = read_json_map(value)
    if not isinstance(value, A_MAP):
        yield no_map(path, value)
        return
    if not _is_read(value):  # a part of it has a problem already
        return
    for below, problem in find_metadata_problems(value):
        yield Finding((*path, *below), problem)


def _is_read(value: object) -> bool:
    """Return whether reading found no problem in the value or below."""
    if isinstance(value, A_MAP):
        return all(_is_read(part) for part in value.values())
    if isinstance(value, list):
        return all(map(_is_read, value))
    return value is not ALREADY_CHECKED and not isinstance(value, Repeated)


def no_map(path: Path, value: object) -> Finding:
    """Yield a problem for a value that is not a map. A whole document may be any file, so show nothing of it."""
    return Finding(path, f"must be a map, not {describe(value, shown=bool(path))}")


def find_problems(shape: Shape, value: object, path: Path = ()) -> Iterable[Finding]:
    """Return the problems of a value and of everything in it, which are looked for as they are iterated over."""
    if value is ALREADY_CHECKED:
        return ()
    if isinstance(value, Repeated):
        return _in_each(shape, value, path)
    return _FINDERS[type(shape)](shape, value, path)


def _in_each(shape: Shape, value: Repeated, path: Path) -> Iterator[Finding]:
    for index, each in enumerate(value.values):
        yield from find_problems(shape, each, (*path, Occurrence(index)))


def _in_map(shape: Record, value: object, path: Path) -> Iterable[Finding]:
    return () if shape.recurs and _is_known_sound(shape, value) else _in_record(shape, value, path)


def _is_known_sound(shape: Record, value: object) -> bool:
    """Return whether the value, or an equal one before it, has no problems; False where that is not remembered."""
    try:
        return _is_sound(shape, key_of(value))
    except (NoKey, _Unsound):
        return False


class _Unsound(Exception):
    """A value has problems. What raises is not remembered: the caller looks for them anyway, with their paths."""


@lru_cache(MOST_REMEMBERED)
def _is_sound(shape: Record, key: Hashable) -> bool:
    if any(True for _ in _in_record(shape, value_of(key), ())):
        raise _Unsound
    return True


def enforce(shape: Shape, value: object, name: str, more: Iterable[Finding] = ()) -> None:
    """Check a value; raises `ManifestError` with its problems and those of `more`, without positions."""
    problems: Problems | None = None
    for found in chain(find_problems(shape, value), more):
        problems = problems or Problems()
        problems.note(partial(_placeless, name, found))
    if problems is not None:
        problems.refuse()


def _placeless(name: str, found: Finding) -> Problem:
    return Problem(name, None, None, format_path(found.path), str(found.message))


def keys_only(entries: Mapping[str, object]) -> dict[str, object]:
    """Return the keys of a map, to be checked without their values, which checked themselves on construction."""
    return dict.fromkeys(entries, ALREADY_CHECKED)


def _in_table(shape: NamedMap, value: object, path: Path) -> Iterator[Finding]:
    if shape.word and value == shape.word:
        return
    if not isinstance(value, A_MAP):
        problem = f"must be a map or `{shape.word}`, not {describe(value)}"
        yield Finding(path, problem) if shape.word and isinstance(value, str) else no_map(path, value)
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


def spelled_out(record: Record, value: object, name: object = "") -> object:
    """Return the map that the text of a limit stands for; any other value as it is. Raises `ValueError`."""
    if record.short is None or not isinstance(value, str):
        return value
    keys = record.short
    return {keys[field]: given for field, given in read_limit(value, str(name)).items()}


def _in_record(shape: Record, value: object, path: Path) -> Iterator[Finding]:
    try:
        value = spelled_out(shape, value, path[-1] if path else "")
    except ValueError as error:
        yield Finding(path, f"{show(value)} {error}")
        return
    if not isinstance(value, A_MAP):
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
            yield from _prefetch_too_long(shape, value, path, key)
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
    for name, entry in entries.items() if isinstance(entries, A_MAP) else ():
        with suppress(ValueError):
            limit = spelled_out(of_entry.entry, entry, name)
            if isinstance(limit, A_MAP):
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


def _prefetch_too_long(shape: Record, value: Mapping[object, object], path: Path, key: str) -> Iterator[Finding]:
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
    if not seconds or has_no_rate(limit):
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
    if new := renamed_key(key, words):
        return Hinted(f"unknown key {show(key)}: it is called `{new}` now", key, ())
    if key in ("limits", "Limits") and "resources" in map(str.lower, words):
        of = "`system`, or of a resource" if "system" in map(str.lower, words) else "a resource"
        way_out = "" if "system" in map(str.lower, words) else ", of all of them `resources: {_default_: {limits: …}}`"
        return Hinted(f"unknown key {show(key)}: limits are of {of}{way_out}", key, ())
    if key in _EXTENDS_KEYS:
        return Hinted(f"unknown key {show(key)}: it stands beside `limits`, and is true: {_EXTENDS}", key, ())
    return Hinted(f"unknown key {show(key)}", key, words, f"; known here: {', '.join(f'`{k}`' for k in words)}")


def _unquoted_key(path: Path, key: object) -> Finding:
    return Finding(path, f"a key must be a string, not {describe(key)}: put it in quotes", on_key=True)


def _in_anything(*_: object) -> Sequence[Finding]:
    return ()


_FINDERS: Final[Mapping[type, Callable[[Any, object, Path], Iterable[Finding]]]] = {
    Record: _in_map,
    NamedMap: _in_table,
    Integer: _in_integer,
    Seconds: _in_decimal,
    Number: _in_decimal,
    Choice: _in_choice,
    Choices: _in_choices,
    Name: _in_name,
    Window: _in_window,
    Zone: _in_window,
    Text: _in_text,
    Names: _in_names,
    Percents: _in_percents,
    Percent: _in_percent,
    Entries: _in_entries,
    JsonMap: _in_metadata,
    Cascading: _in_cascade,
    Flag: _in_flag,
    Anything: _in_anything,
}
