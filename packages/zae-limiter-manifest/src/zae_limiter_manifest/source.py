"""Parse YAML text into a plain value and the places of its parts; scalars have the values of yaml.safe_load."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
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

from .checks import ALREADY_CHECKED, Finding, Repeated
from .problems import Occurrence, Path, Problem, describe, format_path, show
from .scalars import ScalarError, is_merge_key, read_scalar

MAX_BYTES: Final = 10_000_000
"""The largest text of a manifest, in bytes, or characters if it is decoded; 50,000 entities take about 7.5 MB."""

MAX_DEPTH: Final = 20
MAX_ALIASED_NODES: Final = 1_000_000

_NodeEvent = AliasEvent | ScalarEvent | CollectionStartEvent
_LINE_BREAK: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


@define
class _Node:
    """A value, its offset, the number of nodes in it, and the offsets of its keys and parts.

    A part is a node, or the offset of a scalar: a large manifest is mostly scalars.
    """

    value: object
    at: int
    size: int = 1
    keys: dict[object, int] = Factory(dict)
    parts: dict[object, "_Node | int"] = Factory(dict)

    def add(self, key: object, key_at: int, part: "_Node") -> None:
        self.size += part.size
        self.keys[key] = key_at
        self.parts[key] = part if part.parts else part.at

    def add_again(self, key: object, key_at: int, part: "_Node", before: object) -> Repeated:
        """Add a value of a repeated key, and return all its values; the key keeps its first place."""
        values = before if isinstance(before, Repeated) else Repeated([before])
        several = self.parts[key]
        if isinstance(several, int) or several.value is not values:
            first, several = several, _Node(values, self.keys[key])
            several.keys[Occurrence(0)], several.parts[Occurrence(0)] = self.keys[key], first
            self.parts[key] = several
        several.add(Occurrence(len(values.values)), key_at, part)
        values.values.append(part.value)
        self.size += part.size
        return values


class _Text:
    """A text that converts offsets to lines and columns, from 1."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(found.end() for found in _LINE_BREAK.finditer(self.text))]

    def problem(self, at: int, path: Path, message: str) -> Problem:
        line = bisect_right(self._starts, at)
        return Problem(self.file, line, at - self._starts[line - 1] + 1, format_path(path), message)


@frozen
class Source:
    """One document: its plain value, `ALREADY_CHECKED` where reading stopped, and its problems as YAML."""

    value: object
    problems: tuple[Problem, ...]
    _text: _Text
    _root: _Node

    def locate(self, finding: Finding) -> Problem:
        """The finding as a problem with its place in the text."""
        node: _Node | int = self._root
        key_at = self._root.at
        for key in finding.path:
            if isinstance(node, int) or key not in node.parts:
                break
            key_at, node = node.keys[key], node.parts[key]
        at = node if isinstance(node, int) else node.at
        return self._text.problem(key_at if finding.on_key else at, finding.path, finding.message)


def read_source(text: str | bytes, file: str) -> Source:
    """The one document in the text; a text above `MAX_BYTES` is not read."""
    if len(text) > MAX_BYTES:
        return _unread(file)
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            return _undecodable(error, file)
    # A byte order mark is not part of the text, and takes no column.
    return _Reader(_Text(text.removeprefix("\ufeff"), file)).read()


def _unread(file: str) -> Source:
    message = f"is larger than {MAX_BYTES // 1_000_000} MB: move limits that many entities share into a resource"
    problem = Problem(file, None, None, format_path(()), message)
    return Source(ALREADY_CHECKED, (problem,), _Text("", file), _Node(ALREADY_CHECKED, 0))


def _undecodable(error: UnicodeDecodeError, file: str) -> Source:
    before = _Text(error.object[: error.start].decode("utf-8"), file)
    message = f"not UTF-8 text: the byte 0x{error.object[error.start]:02x}"
    return Source(ALREADY_CHECKED, (before.problem(len(before.text), (), message),), before, _Node(ALREADY_CHECKED, 0))


class _Stopped(Exception):
    """Reading cannot go on; the problem is recorded."""


class _Reader:
    """Reads events, not nodes: depth and aliases are bounded before anything grows."""

    def __init__(self, text: _Text) -> None:
        self._text = text
        self._problems: list[Problem] = []
        self._anchors: dict[str, _Node | None] = {}  # None: still being read
        self._path: list[object] = []
        self._depth = 0  # differs from the path's: keys nest, too
        self._aliased = 0

    def read(self) -> Source:
        try:
            root = self._read()
        except _Stopped:
            root = _Node(ALREADY_CHECKED, 0)
        return Source(root.value, tuple(self._problems), self._text, root)

    def _read(self) -> _Node:
        if match := Reader.NON_PRINTABLE.search(self._text.text):
            self._stop(match.start(), f"not valid YAML: the character U+{ord(match[0]):04X}")
        # libyaml, if it is installed: ten times as fast, with the same events.
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self._events: Iterator[Any] = yaml.parse(self._text.text, Loader=loader)
        try:
            return self._read_document()
        except yaml.MarkedYAMLError as error:
            at = error.problem_mark.index if error.problem_mark else 0
            self._stop(at, f"not valid YAML: {', '.join(filter(None, (error.context, error.problem)))}")

    def _read_document(self) -> _Node:
        root: _Node | None = None
        for event in self._events:
            if not isinstance(event, DocumentStartEvent):
                continue
            if root:
                self._note(_at(event), "a second document: a manifest is one document")
                break
            root = self._read_node(next(self._events))
        return root or self._stop(0, "is empty")

    def _read_node(self, event: _NodeEvent) -> _Node:
        if isinstance(event, AliasEvent):
            return self._read_alias(event)
        if event.anchor is None:
            return self._read_unnamed(event)
        if event.anchor in self._anchors:
            self._note(_at(event), f"duplicate anchor {show(event.anchor)}")
        self._anchors[event.anchor] = None
        node = self._anchors[event.anchor] = self._read_unnamed(event)
        return node

    def _read_unnamed(self, event: ScalarEvent | CollectionStartEvent) -> _Node:
        return self._read_scalar(event) if isinstance(event, ScalarEvent) else self._read_collection(event)

    def _read_alias(self, event: AliasEvent) -> _Node:
        if event.anchor not in self._anchors:
            return self._skip(_at(event), f"the alias {show(event.anchor)} has no anchor above it")
        node = self._anchors[event.anchor]
        if node is None:
            return self._skip(_at(event), f"the alias {show(event.anchor)} is inside the value that it repeats")
        self._aliased += node.size
        if self._aliased > MAX_ALIASED_NODES:
            self._stop(_at(event), f"aliases repeat more than {MAX_ALIASED_NODES} values")
        return node

    def _read_scalar(self, event: ScalarEvent) -> _Node:
        try:
            return _Node(read_scalar(event), _at(event))
        except ScalarError as error:
            return self._skip(_at(event), str(error))

    def _read_collection(self, event: CollectionStartEvent) -> _Node:
        at = _at(event)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._stop(at, f"nested more than {MAX_DEPTH} deep")
        node = self._read_map(at) if isinstance(event, MappingStartEvent) else self._read_list(at)
        self._depth -= 1
        if event.tag not in (None, "!"):
            return self._skip(at, f"the tag {show(event.tag)} is not supported")
        return node

    def _read_list(self, at: int) -> _Node:
        items: list[object] = []
        node = _Node(items, at)
        while not isinstance(event := next(self._events), SequenceEndEvent):
            part = self._read_part(len(items), event)
            node.add(len(items), part.at, part)
            items.append(part.value)
        return node

    def _read_map(self, at: int) -> _Node:
        entries: dict[object, object] = {}
        node = _Node(entries, at)
        while not isinstance(event := next(self._events), MappingEndEvent):
            key = self._read_key(event)
            part = self._read_part("?" if key is ALREADY_CHECKED else key, next(self._events))
            if key in entries:
                first = self._text.problem(node.keys[key], (), "").line
                self._note(_at(event), f"duplicate key {show(key)}, first in line {first}", key)
                entries[key] = node.add_again(key, _at(event), part, entries[key])
            elif key is not ALREADY_CHECKED:
                node.add(key, _at(event), part)
                entries[key] = part.value
        return node

    def _read_key(self, event: _NodeEvent) -> object:
        """The key, or `ALREADY_CHECKED` for an entry to leave out."""
        key = self._read_node(event).value
        if isinstance(key, dict | list):
            self._note(_at(event), f"a key must be a string, not {describe(key)}")
            return ALREADY_CHECKED
        if isinstance(event, ScalarEvent) and is_merge_key(event):
            self._note(_at(event), "merge keys are not supported: repeat the keys, or alias a whole value")
            return ALREADY_CHECKED
        return key

    def _read_part(self, key: object, event: _NodeEvent) -> _Node:
        self._path.append(key)
        node = self._read_node(event)
        self._path.pop()
        return node

    def _note(self, at: int, message: str, *below: object) -> None:
        self._problems.append(self._text.problem(at, (*self._path, *below), message))

    def _skip(self, at: int, message: str) -> _Node:
        self._note(at, message)
        return _Node(ALREADY_CHECKED, at)

    def _stop(self, at: int, message: str) -> NoReturn:
        self._note(at, message)
        raise _Stopped


def _at(event: Any) -> int:
    index: int = event.start_mark.index
    return index
