"""Put the entries of a manifest's text in order, comments and all.

The problem: YAML libraries that keep comments hang them on the value above, and sorting tears them off. The choice:
lines are moved, never written anew. An entry owns its lines and the comment right above its key; keys of the model come
in the model's order, names in that of the alphabet. The price: maps in braces and single lines stay as they are.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from .manifest import MANIFEST
from .merging import SHARED
from .naming import in_nfc
from .nodes import Node
from .problems import ManifestError, Problem, format_path
from .shapes import NamedMap, Record, Shape
from .source import Source, read_source

_BRACES: Final = re.compile(r"(?:[&!]\S*\s+)*\{")


class _Entry(NamedTuple):
    """An entry of a map: its key, its value, its lines from its comment to the next entry, and the line of its key."""

    key: str
    part: Node | int
    begin: int
    at: int


def order(text: str | bytes, name: str) -> str:
    """Return a manifest's text with its entries in order; equal values, and all of its lines but blank ones.

    Raises `ManifestError` for a text that is not YAML in UTF-8, and for one whose aliases would stand above their
    anchors.
    """
    source = read_source(text, name)
    if source.problems:
        raise ManifestError(source.problems)
    ordered = "".join(_Lines(source).ordered(source.root, MANIFEST, 0, len(source.lines)))
    again = read_source(ordered, name)
    if again.problems or again.value != source.value:
        message = "cannot be put in order: an alias would stand above its anchor; put what is shared into `x-` keys"
        raise ManifestError([Problem(name, None, None, format_path(()), message)])
    return ordered


class _Lines:
    """The lines of a text, each with its end."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._lines = source.lines

    def ordered(self, node: Node | int, shape: Shape | None, begin: int, end: int) -> Iterator[str]:
        """Yield the lines of a value, from one line to before another, in order."""
        entries = [] if isinstance(node, int) else self._entries(node, begin, end)
        if not entries:
            yield from self._lines[begin:end]
            return
        ends = [*(entry.begin for entry in entries[1:]), self._tail(entries[-1], end)]
        blocks = [
            list(self._block(entry, _below(shape, entry.key), stop)) for entry, stop in zip(entries, ends, strict=True)
        ]
        apart = 2 * sum(self._is_blank(entry.begin - 1) for entry in entries[1:]) > len(entries[1:])
        yield from self._lines[begin : entries[0].begin]
        places = sorted(range(len(entries)), key=lambda place: _rank(shape, entries[place].key, place))
        for number, place in enumerate(places):
            if number and apart:
                yield "\n"
            yield from blocks[place]
        yield from self._lines[ends[-1] : end]

    def _block(self, entry: _Entry, shape: Shape | None, end: int) -> Iterator[str]:
        """Yield the lines of one entry; the blank ones below belong to none."""
        while self._is_blank(end - 1):
            end -= 1
        yield from self._lines[entry.begin : entry.at]
        last = list(self.ordered(entry.part, shape, entry.at, end))
        yield from last
        if last and not last[-1].endswith(("\n", "\r")):
            yield "\n"

    def _entries(self, node: Node, begin: int, end: int) -> list[_Entry]:
        """Return the entries of a map that are here, from the top; none of a map in braces."""
        line, column = self._source.place(node.at)
        if _BRACES.match(self._lines[line], column):
            return []
        places = [(*self._source.place(offset), key) for key, offset in node.keys.items()]
        places = sorted(each for each in places if begin <= each[0] < end)  # others are an alias's, or merged
        first = min((column for _, column, _ in places), default=0)  # keys that are merged in place are deeper
        return [
            _Entry(key, node.parts[key], self._comment(line, column, begin), line)
            for line, column, key in places
            if column == first and isinstance(key, str)
        ]

    def _comment(self, line: int, column: int, begin: int) -> int:
        """Return the first line of the comment right above a key."""
        while line > begin and self._lines[line - 1].startswith(f"{' ' * column}#"):
            line -= 1
        return line

    def _tail(self, last: _Entry, end: int) -> int:
        """Return the line from which on there are only comments that belong to no entry."""
        column = len(self._lines[last.at]) - len(self._lines[last.at].lstrip())
        line = end
        while line > last.at + 1 and self._is_below(line - 1, column):
            line -= 1
        return line

    def _is_below(self, line: int, column: int) -> bool:
        text = self._lines[line]
        return self._is_blank(line) or (text.lstrip().startswith("#") and len(text) - len(text.lstrip()) <= column)

    def _is_blank(self, line: int) -> bool:
        return not self._lines[line].strip()


def _below(shape: Shape | None, key: str) -> Shape | None:
    """Return the shape of the value of a key; `None` if it has no order of its own."""
    if isinstance(shape, NamedMap):
        return shape.entry
    if isinstance(shape, Record) and key in shape.members:
        return shape.members[key].shape
    return None


def _rank(shape: Shape | None, key: str, place: int) -> tuple[float, str, int]:
    """Return what sorts the key of a map: shared parts come below the namespace, unknown keys last."""
    if isinstance(shape, NamedMap):
        return 0, in_nfc(key), place
    if not isinstance(shape, Record):
        return 0, "", place
    if shape is MANIFEST and key.startswith(SHARED):
        return 0.5, "", place
    known = list(shape.members)
    return (known.index(key) if key in known else len(known)), "", place
