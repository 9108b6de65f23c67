"""Make one document of the files of a namespace.

The system level, each resource, each plan and each entity is whole in one file: who reads it there has read all of it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from .naming import in_nfc
from .problems import Path, show
from .source import Source
from .value_checks import Finding

SHARED: Final = "x-"  # begins the keys of parts that are there to be aliased
_NAMESPACE: Final = "namespace"
_SECTIONS: Final = frozenset({"resources", "plans", "entities"})


@frozen
class Document:
    """The plain values of a namespace, and the files that they are from."""

    value: Any
    _sources: Sequence[Source]

    def note(self, finding: Finding) -> None:
        """Add the finding to the problems, in the file that has its place."""
        section, *name = finding.path[:2]
        for source in self._sources:
            there = source.value.get(section) if isinstance(source.value, Mapping) else None
            if not name or (isinstance(there, Mapping) and name[0] in there):
                source.note(finding)
                return


def without_shared_parts(value: Any) -> Any:
    """Return a document without its keys that begin with ``x-``; what is no map, as it is."""
    if not isinstance(value, dict):
        return value
    return {key: part for key, part in value.items() if not (isinstance(key, str) and key.startswith(SHARED))}


def merge(sources: Iterable[Source]) -> list[Document]:
    """Return a document for each namespace. What two files declare is a problem of the second, which names the first.

    A file without a valid namespace has a problem already, and is a document of its own.
    """
    files: dict[object, list[Source]] = {}
    for source in sources:
        namespace = source.value.get(_NAMESPACE) if isinstance(source.value, Mapping) else None
        files.setdefault(namespace if isinstance(namespace, str) else object(), []).append(source)
    return [Document(_merged(each), each) for each in files.values()]


def _merged(sources: Sequence[Source]) -> Any:
    if len(sources) == 1:
        return without_shared_parts(sources[0].value)
    value: dict[object, Any] = {}
    places: dict[Path, str] = {}
    for source in sources:
        for key, part in without_shared_parts(source.value).items():
            if key in _SECTIONS and isinstance(part, Mapping):
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
