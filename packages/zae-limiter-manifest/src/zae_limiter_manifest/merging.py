"""Make one document of the files of a namespace.

The system level, each resource, each tier and each entity is whole in one file: who reads it there has read all of it.
A file that has tiers alone may leave the namespace out: its tiers are those of every namespace of the other files.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from .checks import Finding
from .naming import in_nfc
from .problems import A_MAP, Path, Problem, show
from .source import Source

SHARED: Final = "x-"  # begins the keys of parts that are there to be aliased
_NAMESPACE: Final = "namespace"
_TIERS: Final = "tiers"
_SECTIONS: Final = frozenset({"resources", _TIERS, "entities"})


@frozen
class Document:
    """The plain values of a namespace, and the files that they are from."""

    value: Any
    _sources: Sequence[Source]

    def note(self, finding: Finding) -> None:
        """Add the finding to the problems, in the file that has its place."""
        if (source := self._source_of(finding)) is not None:
            source.note(finding)

    def locate(self, finding: Finding) -> Problem | None:
        """Return the finding with its place in the file that has it."""
        source = self._source_of(finding)
        return None if source is None else source.locate(finding)

    def _source_of(self, finding: Finding) -> Source | None:
        section, *name = finding.path[:2]
        for source in self._sources:
            there = source.value.get(section) if isinstance(source.value, Mapping) else None
            if not name or (isinstance(there, A_MAP) and name[0] in there):
                return source
        return None


def without_shared_parts(value: Any) -> Any:
    """Return a document without its keys that begin with ``x-``; what is not a map, as it is."""
    if not isinstance(value, dict):
        return value
    return {key: part for key, part in value.items() if not (isinstance(key, str) and key.startswith(SHARED))}


def has_tiers_alone(value: Any) -> bool:
    """Return whether a document has tiers and nothing else, also no namespace."""
    return isinstance(value, dict) and without_shared_parts(value).keys() == {_TIERS}


def merge(sources: Sequence[Source]) -> list[Document]:
    """Return a document for each namespace. What two files declare is a problem of the second, which names the first.

    A file without a valid namespace has a problem already, and is a document of its own. One that has tiers alone is
    the first of each namespace, and has a problem if there is no other file.
    """
    shared = [source for source in sources if has_tiers_alone(source.value)]
    files: dict[object, list[Source]] = {}
    for source in sources:
        if has_tiers_alone(source.value):
            continue
        namespace = source.value.get(_NAMESPACE) if isinstance(source.value, Mapping) else None
        files.setdefault(namespace if isinstance(namespace, str) else object(), []).append(source)
    for source in shared if not files else ():
        source.note(Finding((), f"`{_NAMESPACE}` is missing: add it, or pass a file that has it beside these tiers"))
    return [Document(_merged([*shared, *each]), [*shared, *each]) for each in files.values()]


def _merged(sources: Sequence[Source]) -> Any:
    if len(sources) == 1:
        return without_shared_parts(sources[0].value)
    value: dict[object, Any] = {}
    places: dict[Path, str] = {}
    for source in sources:
        for key, part in without_shared_parts(source.value).items():
            if key in _SECTIONS and isinstance(part, A_MAP):
                section = value.setdefault(key, {})
                for name, entry in part.items():
                    if _is_first(source, (key, name), places):
                        section[name] = entry
            elif key == _NAMESPACE or _is_first(source, (key,), places):
                value[key] = part
    return value


def _is_first(source: Source, path: Path, places: dict[Path, str]) -> bool:
    """Return whether no file before declares this, and note a problem if one does."""
    *section, name = path
    identity = (*section, in_nfc(name) if isinstance(name, str) else name)
    here = source.locate(Finding(path, "", on_key=True))
    first = places.setdefault(identity, f"{here.file}:{here.line}")
    if first == f"{here.file}:{here.line}":
        return True
    source.note(Finding(path, f"{show(name)} is declared in {first} too: leave one of them out", on_key=True))
    return False
