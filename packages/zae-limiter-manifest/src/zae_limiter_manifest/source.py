"""Parse YAML text into a plain value and the places of its parts; scalars have the values of yaml.safe_load."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any, Final, NoReturn

import yaml
from attrs import Factory, define, frozen
from yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
)
from yaml.reader import Reader

from .checks import ALREADY_CHECKED, Finding
from .nodes import Node
from .problems import Path, Problem, Problems, describe, excerpt, format_path, show
from .scalars import ScalarError, is_merge_key, read_scalar

MAX_BYTES: Final = 10_000_000
"""The largest text of a manifest, in bytes, or characters if it is decoded; 50,000 entities take about 7.5 MB."""

MAX_DEPTH: Final = 20
MAX_NODES: Final = 1_100_000
"""The most keys and values of a manifest; 50,000 entities with two limits each have a million."""

MAX_ALIASED_NODES: Final = 1_000_000

_TOO_DEEP: Final = f"nested more than {MAX_DEPTH} deep"
_TOO_MUCH: Final = "move limits that many entities share into a resource"

Report = Callable[[str], None]
"""Gets what reading is at: `reading limits.yaml: 31 %`."""

_NODES_BETWEEN_REPORTS: Final = 8192

_NodeEvent = AliasEvent | ScalarEvent | CollectionStartEvent
_CLOSERS: Final = {"{": "}", "[": "]", '"': '"', "'": "'"}
_MANIFEST: Final = re.compile(
    r"""^[{ ]*["']?(?:namespace|system|resources?|tiers?|entit(?:y|ies))["']? *:""", re.MULTILINE
)
_LINE_BREAK: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


class _Text:
    """A text that converts offsets to lines and columns."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(found.end() for found in _LINE_BREAK.finditer(self.text))]

    def problem(self, at: int, path: Path, message: str) -> Problem:
        line, column = self.place(at)
        shown = excerpt(self._line(line), line + 1, column) if self._is_manifest else ""
        return Problem(self.file, line + 1, column + 1, format_path(path), message, shown)

    def _line(self, line: int) -> str:
        end = self._starts[line + 1] if line + 1 < len(self._starts) else len(self.text)
        return self.text[self._starts[line] : end].rstrip("\r\n\x85\u2028\u2029")

    @cached_property
    def _is_manifest(self) -> bool:
        """Whether the text is meant as a manifest: nothing is shown of any other file, which may hold secrets."""
        return _MANIFEST.search(self.text) is not None

    def place(self, at: int) -> tuple[int, int]:
        """Return the line and the column of an offset, from 0."""
        line = bisect_right(self._starts, at) - 1
        return line, at - self._starts[line]

    def lines(self) -> list[str]:
        """Return the lines, each with its end."""
        ends = [*self._starts[1:], len(self.text)]
        return [self.text[start:end] for start, end in zip(self._starts, ends, strict=True) if start < end]


@define
class Reading:
    """What files that are loaded together may still have, and their problems: together they have the bounds of one."""

    problems: Problems = Factory(Problems)
    bytes_left: int = Factory(lambda: MAX_BYTES)
    nodes_left: int = Factory(lambda: MAX_NODES)
    aliased_left: int = Factory(lambda: MAX_ALIASED_NODES)
    report: Report = lambda _: None


@frozen
class Source:
    """One document: its plain value, `ALREADY_CHECKED` where reading stopped."""

    value: object
    root: Node
    _reading: Reading
    _text: _Text

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems of this document, and of those read before it."""
        return self._reading.problems.listed()

    @property
    def lines(self) -> list[str]:
        """The lines of the text, each with its end."""
        return self._text.lines()

    def place(self, at: int) -> tuple[int, int]:
        """Return the line and the column of an offset, from 0."""
        return self._text.place(at)

    def note(self, finding: Finding) -> None:
        """Add the finding to the problems; among those kept, a mistake that aliases repeat is one."""
        problems = self._reading.problems
        identity = None if problems.are_enough else (self._text.file, self._offset(finding), finding.message)
        problems.note(partial(self.locate, finding), identity)

    def locate(self, finding: Finding) -> Problem:
        """Return the finding as a problem with its place in the text."""
        return self._text.problem(self._offset(finding), finding.path, str(finding.message))

    def _offset(self, finding: Finding) -> int:
        node: Node | int = self.root
        key_at = self.root.at
        for key in finding.path:
            if isinstance(node, int) or key not in node.parts:
                break
            part = node.parts[key]
            key_at = node.keys.get(key, part if isinstance(part, int) else part.at)
            node = part
        at = node if isinstance(node, int) else node.at
        return key_at if finding.on_key else at


def read_source(text: str | bytes, file: str, reading: Reading | None = None) -> Source:
    """Return the one document in the text; a text above `MAX_BYTES`, with those read before it, is not read."""
    reading = reading or Reading()
    if len(text) > reading.bytes_left:
        return _unread(file, reading)
    reading.bytes_left -= len(text)
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            return _undecodable(error, file, reading)
    # A byte order mark is not part of the text, and takes no column.
    return _Reader(_Text(text.removeprefix("\ufeff"), file), reading).read()


def _unread(file: str, reading: Reading) -> Source:
    together = "" if reading.bytes_left == MAX_BYTES else ", together with the files before it"
    message = f"is larger than {MAX_BYTES // 1_000_000} MB{together}: {_TOO_MUCH}"
    reading.problems.note(lambda: Problem(file, None, None, format_path(()), message))
    return Source(ALREADY_CHECKED, Node(ALREADY_CHECKED, 0), reading, _Text("", file))


def _undecodable(error: UnicodeDecodeError, file: str, reading: Reading) -> Source:
    before = _Text(error.object[: error.start].decode("utf-8"), file)
    message = f"not UTF-8 text: the byte 0x{error.object[error.start]:02x}"
    reading.problems.note(lambda: before.problem(len(before.text), (), message))
    return Source(ALREADY_CHECKED, Node(ALREADY_CHECKED, 0), reading, before)


class _Stopped(Exception):
    """Reading cannot go on; the problem is recorded."""


class _Reader:
    """Reads events, not nodes: depth and aliases are bounded before anything grows."""

    def __init__(self, text: _Text, reading: Reading) -> None:
        self._text = text
        self._reading = reading
        self._anchors: dict[str, Node | None] = {}  # None: still being read
        self._path: list[object] = []
        self._depth = 0  # differs from the path's: keys nest, too

    def read(self) -> Source:
        try:
            root = self._read()
        except _Stopped:
            root = Node(ALREADY_CHECKED, 0)
        return Source(root.value, root, self._reading, self._text)

    def _read(self) -> Node:
        if match := Reader.NON_PRINTABLE.search(self._text.text):
            self._stop(match.start(), f"not valid YAML: the character U+{ord(match[0]):04X}")
        # libyaml, if it is installed: ten times as fast, with the same events.
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            self._events: Iterator[Any] = iter(loader(self._text.text).get_event, None)
            return self._read_document()
        except yaml.MarkedYAMLError as error:
            at = error.problem_mark.index if error.problem_mark else 0
            if "nesting depth" in str(error.problem):  # libyaml has a bound of its own
                self._stop(at, _TOO_DEEP)
            self._stop(at, f"not valid YAML: {self._cause(error, at)}")

    def _cause(self, error: yaml.MarkedYAMLError, at: int) -> str:
        """Return what is wrong by an error of the parser, which says only what it was about to read."""
        text = self._text.text
        if text[at : at + 1] == "\t":
            return "a tab: indent with spaces"
        began = error.context_mark.index if error.context_mark else at
        opener = text[began : began + 1]
        if opener in _CLOSERS and "expected" in str(error.problem):
            line, column = self._text.place(began)
            missing = "" if opener in "\"'" else ", or a comma is missing in it"
            return f"the {opener} of line {line + 1}, column {column + 1} is not closed by {_CLOSERS[opener]}{missing}"
        return ", ".join(filter(None, (error.context, error.problem)))

    def _read_document(self) -> Node:
        root: Node | None = None
        for event in self._events:
            if not isinstance(event, DocumentStartEvent):
                continue
            if root:
                self._note(_at(event), "a second document: a manifest is one document")
                break
            root = self._read_root(next(self._events))
        return root or self._stop(0, "is empty")

    def _read_root(self, event: _NodeEvent) -> Node:
        if isinstance(event, ScalarEvent):  # it may be any file's, and is not shown
            self._stop(_at(event), f"must be a map, not {describe('', shown=False)}")
        return self._read_node(event)

    def _count(self, event: _NodeEvent) -> None:
        self._reading.nodes_left -= 1
        if self._reading.nodes_left < 0:
            self._stop(_at(event), f"has more than {MAX_NODES:,} keys and values: {_TOO_MUCH}")
        if not self._reading.nodes_left % _NODES_BETWEEN_REPORTS:
            self._reading.report(f"reading {self._text.file}: {_at(event) / len(self._text.text):.0%}")

    def _read_node(self, event: _NodeEvent) -> Node:
        self._count(event)
        if isinstance(event, AliasEvent):
            return self._read_alias(event)
        if event.anchor is None:
            return self._read_unnamed(event)
        if event.anchor in self._anchors:
            self._note(_at(event), f"duplicate anchor {show(event.anchor)}")
        self._anchors[event.anchor] = None
        node = self._anchors[event.anchor] = self._read_unnamed(event)
        return node

    def _read_unnamed(self, event: ScalarEvent | CollectionStartEvent) -> Node:
        return self._read_scalar(event) if isinstance(event, ScalarEvent) else self._read_collection(event)

    def _read_alias(self, event: AliasEvent) -> Node:
        if event.anchor not in self._anchors:
            return self._skip(_at(event), f"the alias {show(event.anchor)} has no anchor above it")
        node = self._anchors[event.anchor]
        if node is None:
            return self._skip(_at(event), f"the alias {show(event.anchor)} is inside the value that it repeats")
        self._reading.aliased_left -= node.size
        if self._reading.aliased_left < 0:
            self._stop(_at(event), f"aliases repeat more than {MAX_ALIASED_NODES} values")
        return node

    def _read_scalar(self, event: ScalarEvent) -> Node:
        return Node(self._scalar(event), _at(event))

    def _scalar(self, event: ScalarEvent) -> object:
        """Return the value of a scalar, `ALREADY_CHECKED` for one with a problem."""
        try:
            return read_scalar(event)
        except ScalarError as error:
            self._note(_at(event), str(error))
            return ALREADY_CHECKED

    def _read_collection(self, event: CollectionStartEvent) -> Node:
        at = _at(event)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._stop(at, _TOO_DEEP)
        node = self._read_map(event) if isinstance(event, MappingStartEvent) else self._read_list(at)
        self._depth -= 1
        if event.tag not in (None, "!"):
            return self._skip(at, f"the tag {show(event.tag)} is not supported")
        return node

    def _read_list(self, at: int) -> Node:
        items: list[object] = []
        node = Node(items, at)
        while not isinstance(event := next(self._events), SequenceEndEvent):
            part = self._read_part(len(items), event)
            node.add(len(items), None, part)
            items.append(part.value)
        return node

    def _read_map(self, start: MappingStartEvent) -> Node:
        entries: dict[object, object] = {}
        node, shared = Node(entries, _at(start)), []
        last: object = None
        while not isinstance(event := next(self._events), MappingEndEvent):
            if isinstance(event, ScalarEvent) and event.value == "<<" and is_merge_key(event):
                shared += self._read_merged(event)
                continue
            key, value = self._read_key(event), next(self._events)
            if start.flow_style and last is not None and self._is_cut_off(event, value):
                self._note_comma(node, last, event)
                entries[last] = ALREADY_CHECKED
                continue
            last = key
            if isinstance(value, ScalarEvent) and value.anchor is None and key not in entries:
                # Most values, without the layers that collections and anchors need.
                self._count(value)
                self._path.append("?" if key is ALREADY_CHECKED else key)
                scalar = self._scalar(value)
                self._path.pop()
                if key is not ALREADY_CHECKED:
                    entries[key] = scalar
                    node.add_scalar(key, _at(event), _at(value))
                continue
            part = self._read_part("?" if key is ALREADY_CHECKED else key, value)
            if key in entries:
                self._note(_at(event), partial(self._duplicate_key, key, node.keys[key]), key)
                entries[key] = node.add_again(key, _at(event), part, entries[key])
            elif key is not ALREADY_CHECKED:
                node.add(key, _at(event), part)
                entries[key] = part.value
        for each in shared:
            node.merge(each)
        return node

    def _read_merged(self, event: ScalarEvent) -> list[Node]:
        """Return the maps of a merge key: the map that has it gets all of their keys that are not its own."""
        self._read_node(event)
        part = self._read_part(event.value, next(self._events))
        maps = part.value if isinstance(part.value, list) else [part.value]
        if not all(isinstance(each, dict) or each is ALREADY_CHECKED for each in maps):
            self._note(
                _at(event), "a merge key takes a map, or a list of maps: alias the map to be shared", event.value
            )
        return part.maps()

    def _is_cut_off(self, event: _NodeEvent, value: _NodeEvent) -> bool:
        """Return whether a key without a value, in a map in braces, stands right behind a comma: what was one text is
        cut at the comma. Metadata may mean it.
        """
        if not isinstance(event, ScalarEvent) or not isinstance(value, ScalarEvent) or "metadata" in self._path:
            return False
        is_empty = _at(value) == _end(value) and not value.value
        return is_empty and self._text.text[_at(event) - 1 : _at(event)] == ","

    def _note_comma(self, node: Node, last: object, event: ScalarEvent) -> None:
        part = node.parts[last]
        at = part if isinstance(part, int) else part.at
        text = self._text.text[at : _end(event)]
        self._note(at, f"a comma ends a text in braces: write {show(text)} in quotes", last)

    def _duplicate_key(self, key: object, first_at: int) -> str:
        return f"duplicate key {show(key)}, first in line {self._text.problem(first_at, (), '').line}"

    def _read_key(self, event: _NodeEvent) -> object:
        """Return the key, or `ALREADY_CHECKED` for an entry to leave out."""
        if isinstance(event, ScalarEvent) and event.anchor is None:
            self._count(event)
            return self._scalar(event)
        key = self._read_node(event).value
        if isinstance(key, dict | list):
            self._note(_at(event), f"a key must be a string, not {describe(key)}")
            return ALREADY_CHECKED
        return key

    def _read_part(self, key: object, event: _NodeEvent) -> Node:
        self._path.append(key)
        node = self._read_node(event)
        self._path.pop()
        return node

    def _note(self, at: int, message: str | Callable[[], str], *below: object) -> None:
        def make() -> Problem:
            said = message if isinstance(message, str) else message()
            return self._text.problem(at, (*self._path, *below), said)

        self._reading.problems.note(make)

    def _skip(self, at: int, message: str) -> Node:
        self._note(at, message)
        return Node(ALREADY_CHECKED, at)

    def _stop(self, at: int, message: str) -> NoReturn:
        self._note(at, message)
        raise _Stopped


def _end(event: Any) -> int:
    index: int = event.end_mark.index
    return index


def _at(event: Any) -> int:
    index: int = event.start_mark.index
    return index
