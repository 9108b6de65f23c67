"""Check single values against shapes; read those that CloudFormation passes as text. ``checks`` has maps of them."""

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Final

from attrs import frozen

from .metadata import find_metadata_problems
from .naming import find_name_problem, in_nfc
from .problems import Path, describe, show
from .scalars import OddInteger
from .schedules import find_entry_problem, find_schedule_problem
from .shapes import (
    Cascading,
    Choice,
    Entries,
    Flag,
    Integer,
    JsonMap,
    Name,
    Names,
    Number,
    Percents,
    Seconds,
    Text,
    ValueShape,
    Window,
    Zone,
)
from .windows import find_window_problem, find_zone_problem

ALREADY_CHECKED: Final = object()
"""Replaces a value that was checked before, whether valid or already reported: every shape accepts it."""


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


def find_value_problems(shape: ValueShape, value: object, path: Path) -> Iterator[Finding]:
    """Yield the problems of a value that is no map of other shapes."""
    match shape:
        case Integer() | Seconds() | Number():
            yield from _in_number(shape, value, path)
        case Choice():
            yield from _in_choice(shape, value, path)
        case Name():
            yield from _in_name(shape, value, path)
        case Window() | Zone() | Entries():
            yield from _in_times(shape, value, path)
        case Text():
            yield from _in_text(shape, value, path)
        case Names() | Percents():
            yield from _in_names(shape, value, path) if isinstance(shape, Names) else _in_percents(shape, value, path)
        case JsonMap():
            yield from _in_metadata(read_json_map(value) if shape.as_text else value, path)
        case Cascading():
            yield from _in_cascade(value, path)
        case Flag() if read_flag(shape, value) is None:
            yield Finding(path, f"must be true or false, not {describe(value)}")


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


def _in_number(shape: Integer | Seconds | Number, value: object, path: Path) -> Iterator[Finding]:
    yield from _in_integer(shape, value, path) if isinstance(shape, Integer) else _in_decimal(shape, value, path)


def _in_integer(shape: Integer, value: object, path: Path) -> Iterator[Finding]:
    number = read_integer(shape, value)
    if isinstance(value, OddInteger):
        yield Finding(path, f"must be an integer in decimal digits, not {show(value.text)}: {value.advice}")
    elif number is None:
        yield Finding(path, f"must be an integer, not {describe(value)}")
    elif number < shape.least:
        yield Finding(path, f"must be at least {shape.least}, not {show(number)}")
    elif number > shape.highest:
        yield Finding(path, f"must be at most {shape.highest}, not {show(number)}")


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


def _in_times(shape: Window | Zone | Entries, value: object, path: Path) -> Iterator[Finding]:
    yield from _in_entries(value, path) if isinstance(shape, Entries) else _in_window(shape, value, path)


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


def _in_cascade(value: object, path: Path) -> Iterator[Finding]:
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


def _in_entries(value: object, path: Path) -> Iterator[Finding]:
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


def _listed(value: object, most: int) -> str:
    """Return what a value is, with one more of its items than a list may have."""
    if not isinstance(value, list | tuple):
        return describe(value)
    shown = [describe(each) for each in value[: most + 1]]
    more = " and more" if len(value) > len(shown) else ""
    return f"a list of {', '.join(shown)}{more}" if shown else "an empty list"


def _in_metadata(value: object, path: Path) -> Iterator[Finding]:
    if not isinstance(value, Mapping):
        yield no_map(path, value)
        return
    if not _is_read(value):  # a part of it has a problem already
        return
    for below, problem in find_metadata_problems(value):
        yield Finding((*path, *below), problem)


def _is_read(value: object) -> bool:
    """Return whether reading found no problem in the value or below."""
    if isinstance(value, Mapping):
        return all(_is_read(part) for part in value.values())
    if isinstance(value, list):
        return all(map(_is_read, value))
    return value is not ALREADY_CHECKED and not isinstance(value, Repeated)


def no_map(path: Path, value: object) -> Finding:
    """Yield a problem for a value that is not a map. A whole document may be any file, so show nothing of it."""
    return Finding(path, f"must be a map, not {describe(value, shown=bool(path))}")
