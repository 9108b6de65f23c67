"""Mistakes of a manifest with their places, the error that carries them, and the form of values in messages."""

import json
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Final

from attrs import field, frozen

A_MAP: Final = (dict, Mapping)
"""What a map of plain values may be; nearly all are a ``dict``, of which no abstract class need be asked."""

Path = tuple[object, ...]
"""The keys from the top of a manifest down to a value, as they were read; a wrong key need not be a string.

An `Occurrence` follows a repeated key."""

MOST_PROBLEMS: Final = 1000
"""The most mistakes that an error carries: of all others it has the number."""

# Printable for Python, and nothing to see: Unicode's Default_Ignorable_Code_Point, and what is blank by itself:
# the blank pattern of Braille, joiners of Tifinagh and Brahmi, the filler of Khitan, a head of no note.
INVISIBLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u2d7f\u3164\ufe00-\ufe0f\uffa0"
    "\U0001107f\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)
_MOST_EXCERPTS: Final = 20
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
    excerpt: str = field(default="", eq=False, repr=False)
    """The line of the file, and below it a caret at the column; empty if it must not be shown."""

    @property
    def where(self) -> str:
        """The file, with the line and the column if they are known."""
        return self.file if self.line is None else f"{self.file}:{self.line}:{self.column}"

    def __str__(self) -> str:
        return printable(f"{self.where}: {self.path}: {self.message}")


class ManifestError(ValueError):
    """An invalid manifest: `problems` contains every mistake up to `MOST_PROBLEMS`, and `str()` has one on each line.

    If there are more, the last problem says how many.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))

    def with_excerpts(self) -> str:
        """Return `str()` with the line of the file below each of the first mistakes."""
        shown = (each.excerpt if place < _MOST_EXCERPTS else "" for place, each in enumerate(self.problems))
        return "\n".join(
            f"{each}\n{line}" if line else str(each) for each, line in zip(self.problems, shown, strict=True)
        )


class Problems:
    """The mistakes found so far: the first ones, and the number of all others, so that many cost no memory."""

    def __init__(self) -> None:
        self._kept: list[Problem] = []
        self._seen: set[Hashable] = set()
        self._more = 0

    def note(self, make: Callable[[], Problem], identity: Hashable = None) -> None:
        """Keep the problem that `make` returns, unless one with this identity is kept; only count it if there are
        enough.
        """
        if self.are_enough:
            self._more += 1
        elif identity is None or identity not in self._seen:
            self._kept.append(make())
            self._seen.add(identity)

    @property
    def are_enough(self) -> bool:
        """Return whether further problems are only counted."""
        return len(self._kept) >= MOST_PROBLEMS

    def listed(self) -> tuple[Problem, ...]:
        """Return the problems, from the top of each file down; the last one says how many more there are."""
        files = {file: number for number, file in enumerate(dict.fromkeys(each.file for each in self._kept))}
        found = sorted(self._kept, key=lambda each: (files[each.file], each.line or 0, each.column or 0))
        if self._more:
            message = f"and {self._more:,} more mistake{'s' if self._more > 1 else ''}"
            found.append(Problem(found[-1].file, None, None, format_path(()), message))
        return tuple(found)

    def refuse(self) -> None:
        """Raise `ManifestError` if there are problems."""
        if self._kept:
            raise ManifestError(self.listed())


def excerpt(line: str, number: int, column: int) -> str:
    """Return a line of a file, shortened around the column (from 0), and a caret below it."""
    begin = max(0, column - _LONGEST_SHOWN) if len(line) > 2 * _LONGEST_SHOWN else 0
    before, after = printable(line[begin:column]), printable(line[column : begin + 2 * _LONGEST_SHOWN].rstrip())
    start = "…" if begin else ""
    return f"{number:>5} | {start}{before}{after}\n{'':>5} | {' ' * len(start + before)}^"


def format_path(path: Path) -> str:
    """Return a path as text: `entities["a.b"].resources.gpt-4`, or `(document)` for the whole."""
    written = (key for key in path if not isinstance(key, Occurrence))
    steps = "".join(f".{key}" if _is_plain(key) else f"[{show(key)}]" for key in written)
    return steps.removeprefix(".") or "(document)"


def _is_plain(key: object) -> bool:
    return isinstance(key, str) and len(key) <= _LONGEST_SHOWN and _PLAIN_KEY.fullmatch(key) is not None


def show(value: object) -> str:
    """Return a value on one line, in printable characters, shortened if it is long."""
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
    """Return the text, or its beginning if it is longer than ``longest`` characters."""
    return text if len(text) <= longest else text[:longest] + "…"


def printable(text: str) -> str:
    """Return the text on one line, with control characters, line ends, direction marks and invisible characters
    escaped.
    """
    if text.isprintable() and (text.isascii() or not INVISIBLE.search(text)):
        return text
    return "".join(map(_printable, text))


def _printable(character: str) -> str:
    if character.isprintable() and not INVISIBLE.search(character):
        return character
    return character.encode("ascii", "backslashreplace").decode().translate(_CONTROLS)


def describe(value: object, *, shown: bool = True) -> str:
    """Return a phrase for a value that follows "not": `null`, `a map`, `the string "ten"`; `a scalar` if it must not be
    shown.
    """
    match value:
        case bool() | int() | float() | str() if not shown:
            return "a scalar"
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
