"""Mistakes of a manifest with their places, the error that carries them, and the form of values in messages."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from attrs import frozen

Path = tuple[object, ...]
"""The keys from the top of a manifest down to a value, as they were read; a wrong key need not be a string.

An `Occurrence` follows a repeated key."""

_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST_SHOWN: Final = 60
_LARGEST_SHOWN: Final = 10**30
_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), 127)}


@frozen
class Occurrence:
    """The index of a value of a repeated key, from 0; printed paths omit it."""

    index: int


@frozen
class Problem:
    """One mistake: its file, line and column (from 1; None if the input was not text), path and message."""

    file: str
    line: int | None
    column: int | None
    path: str
    message: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}:{self.column}"
        return printable(f"{place}: {self.path}: {self.message}")


class ManifestError(ValueError):
    """An invalid manifest: `problems` contains every mistake, and `str()` has one on each line."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


def format_path(path: Path) -> str:
    """A path as text: `entities["a.b"].resources.gpt-4`, or `(document)` for the whole."""
    written = (key for key in path if not isinstance(key, Occurrence))
    steps = "".join(f".{key}" if _is_plain(key) else f"[{show(key)}]" for key in written)
    return steps.removeprefix(".") or "(document)"


def _is_plain(key: object) -> bool:
    return isinstance(key, str) and len(key) <= _LONGEST_SHOWN and _PLAIN_KEY.fullmatch(key) is not None


def show(value: object) -> str:
    """A value on one line, in printable characters, shortened if it is long."""
    if isinstance(value, str):
        return printable(json.dumps(shortened(value), ensure_ascii=False))
    # Python refuses to print an integer of more than 4,300 digits.
    if isinstance(value, int) and abs(value) > _LARGEST_SHOWN:
        return "(very large)" if value > 0 else "(very small)"
    try:
        return printable(shortened(str(value)))
    except (RecursionError, ValueError):  # nested without end, or a very large number inside
        return type(value).__name__


def shortened(text: str, longest: int = _LONGEST_SHOWN) -> str:
    """The text, or its beginning if it is longer than ``longest`` characters."""
    return text if len(text) <= longest else text[:longest] + "…"


def printable(text: str) -> str:
    """The text on one line, with control characters, line ends and direction marks escaped."""
    return text if text.isprintable() else "".join(map(_printable, text))


def _printable(character: str) -> str:
    return (
        character
        if character.isprintable()
        else character.encode("ascii", "backslashreplace").decode().translate(_CONTROLS)
    )


def describe(value: object) -> str:
    """A phrase for a value that follows "not": `null`, `a map`, `the string "ten"`."""
    match value:
        case None:
            return "null"
        case bool():
            return f"the boolean {str(value).lower()}"
        case int():
            return f"the integer {show(value)}"
        case float():
            return f"the float {value}"
        case str():
            return f"the string {show(value)}"
        case Mapping():
            return "a map"
        case Sequence():
            return "a list"
        case _:
            return f"a {type(value).__name__}"
