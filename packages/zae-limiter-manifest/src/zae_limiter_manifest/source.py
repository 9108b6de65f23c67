"""YAML text into a plain value and the place of each part: scalars mean what they mean to yaml.safe_load.
Never knows what a manifest is; reads no file."""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, NoReturn

import yaml
from attrs import Factory, field, frozen
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

from .checks import SETTLED, Finding
from .problems import ManifestError, Problem, describe, format_path, show
from .scalars import ScalarError, is_merge_key, read_scalar

MAX_DEPTH: Final = 20
MAX_ALIASED_NODES: Final = 1_000_000

_NodeEvent = AliasEvent | ScalarEvent | CollectionStartEvent


class _Mark(NamedTuple):
    line: int
    column: int


@frozen
class _Node:
    """A value, where it begins, the parts of it with the marks of their keys, and how many nodes it stands for."""

    value: object
    mark: _Mark
    parts: dict[object, "tuple[_Mark, _Node]"] = Factory(dict)
    size: int = 1


@frozen
class Source:
    """One document: its plain value, and the problems that it has as YAML."""

    file: str
    value: object
    problems: tuple[Problem, ...]
    _root: _Node = field(repr=False)

    def locate(self, finding: Finding) -> Problem:
        """The finding, with the place in the text that it speaks of."""
        node = self._root
        key_mark = node.mark
        for key in finding.path:
            if key not in node.parts:
                break
            key_mark, node = node.parts[key]
        mark = key_mark if finding.on_key else node.mark
        return Problem(self.file, mark.line, mark.column, format_path(finding.path), finding.message)


def read_source(text: str, file: str) -> Source:
    """The one document in the text; raises `ManifestError` where reading cannot go on."""
    return _Reader(text, file).read()


class _Reader:
    """Reads events, not nodes: depth and aliases are bounded before anything grows."""

    def __init__(self, text: str, file: str) -> None:
        self._text = text
        self._file = file
        self._problems: list[Problem] = []
        self._anchors: dict[str, _Node | None] = {}  # None: still being read
        self._path: list[object] = []
        self._depth = 0  # not that of the path: keys nest too
        self._aliased = 0

    def read(self) -> Source:
        self._refuse_unprintable()
        # libyaml where there is one: ten times as fast, the same events.
        self._events: Iterator[Any] = yaml.parse(self._text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        try:
            root = self._read_document()
        except yaml.MarkedYAMLError as error:
            self._stop(_mark_of(error), f"not valid YAML: {', '.join(filter(None, (error.context, error.problem)))}")
        return Source(self._file, root.value, tuple(self._problems), root)

    def _refuse_unprintable(self) -> None:
        if match := Reader.NON_PRINTABLE.search(self._text):
            before = self._text[: match.start()]
            mark = _Mark(before.count("\n") + 1, match.start() - before.rfind("\n"))
            self._stop(mark, f"not valid YAML: the character U+{ord(match[0]):04X}")

    def _read_document(self) -> _Node:
        root: _Node | None = None
        for event in self._events:
            if not isinstance(event, DocumentStartEvent):
                continue
            if root:
                self._stop(_mark_of(event), "a second document: a manifest is one document")
            root = self._read_node(next(self._events))
        return root or self._stop(_Mark(1, 1), "is empty")

    def _read_node(self, event: _NodeEvent) -> _Node:
        if isinstance(event, AliasEvent):
            return self._read_alias(event)
        if event.anchor is None:
            return self._read_unnamed(event)
        if event.anchor in self._anchors:
            self._note(_mark_of(event), f"the anchor {show(event.anchor)} stands twice")
        self._anchors[event.anchor] = None
        node = self._anchors[event.anchor] = self._read_unnamed(event)
        return node

    def _read_unnamed(self, event: ScalarEvent | CollectionStartEvent) -> _Node:
        return self._read_scalar(event) if isinstance(event, ScalarEvent) else self._read_collection(event)

    def _read_alias(self, event: AliasEvent) -> _Node:
        mark = _mark_of(event)
        if event.anchor not in self._anchors:
            self._stop(mark, f"the alias {show(event.anchor)} has no anchor above it")
        node = self._anchors[event.anchor]
        if node is None:
            self._stop(mark, f"the alias {show(event.anchor)} stands inside what it repeats")
        self._aliased += node.size
        if self._aliased > MAX_ALIASED_NODES:
            self._stop(mark, f"aliases repeat more than {MAX_ALIASED_NODES} values")
        return node

    def _read_scalar(self, event: ScalarEvent) -> _Node:
        mark = _mark_of(event)
        try:
            return _Node(read_scalar(event), mark)
        except ScalarError as error:
            self._note(mark, str(error))
            return _Node(SETTLED, mark)

    def _read_collection(self, event: CollectionStartEvent) -> _Node:
        mark = _mark_of(event)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._stop(mark, f"nested more than {MAX_DEPTH} deep")
        node = self._read_map(mark) if isinstance(event, MappingStartEvent) else self._read_list(mark)
        self._depth -= 1
        if event.tag not in (None, "!"):
            self._note(mark, f"the tag {show(event.tag)} is not supported")
            return _Node(SETTLED, mark)
        return node

    def _read_list(self, mark: _Mark) -> _Node:
        items: list[_Node] = []
        while not isinstance(event := next(self._events), SequenceEndEvent):
            items.append(self._read_part(len(items), event))
        parts: dict[object, tuple[_Mark, _Node]] = {index: (item.mark, item) for index, item in enumerate(items)}
        return _Node([item.value for item in items], mark, parts, _size(items))

    def _read_map(self, mark: _Mark) -> _Node:
        parts: dict[object, tuple[_Mark, _Node]] = {}
        while not isinstance(event := next(self._events), MappingEndEvent):
            key_mark = _mark_of(event)
            key = self._read_key(event)
            node = self._read_part("?" if key is SETTLED else key, next(self._events))
            if key in parts:
                first = parts[key][0]
                self._note(key_mark, f"the key {show(key)} stands twice, first in line {first.line}", key)
            elif key is not SETTLED:
                parts[key] = (key_mark, node)
        value = {key: node.value for key, (_, node) in parts.items()}
        return _Node(value, mark, parts, _size(node for _, node in parts.values()))

    def _read_key(self, event: _NodeEvent) -> object:
        """The key, or `SETTLED`: the entry is left out then."""
        key = self._read_node(event).value
        if isinstance(key, dict | list):
            self._note(_mark_of(event), f"a key must be a string, not {describe(key)}")
            return SETTLED
        if isinstance(event, ScalarEvent) and is_merge_key(event):
            self._note(_mark_of(event), "merge keys are not supported: repeat the keys, or alias a whole value")
            return SETTLED
        return key

    def _read_part(self, key: object, event: _NodeEvent) -> _Node:
        self._path.append(key)
        node = self._read_node(event)
        self._path.pop()
        return node

    def _note(self, mark: _Mark, message: str, *below: object) -> None:
        path = format_path((*self._path, *below))
        self._problems.append(Problem(self._file, mark.line, mark.column, path, message))

    def _stop(self, mark: _Mark, message: str) -> NoReturn:
        self._note(mark, message)
        raise ManifestError(self._problems) from None


def _size(nodes: Iterable[_Node]) -> int:
    return 1 + sum(node.size for node in nodes)


def _mark_of(where: Any) -> _Mark:
    """From an event or an error of yaml, whose marks count from 0."""
    mark = getattr(where, "start_mark", None) or getattr(where, "problem_mark", None)
    return _Mark(mark.line + 1, mark.column + 1) if mark else _Mark(1, 1)
