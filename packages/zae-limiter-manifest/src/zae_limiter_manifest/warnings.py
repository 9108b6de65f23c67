"""What is not a mistake in a manifest, and may not be meant: all warnings, less those that it ignores."""

from collections.abc import Iterable, Iterator

from attrs import evolve

from .checks import Finding
from .collector import paused_collector
from .converter import CONVERTER
from .families import find_in_families
from .left_out import find_left_out
from .look_alikes import find_look_alikes
from .manifest import LimitsManifest, read_all
from .meanings import find_bare_money, find_open_days
from .merging import Document
from .source import Report
from .unused import find_unused
from .warned import PARENT_WITHOUT_CASCADE, Warned

_FINDERS = (find_left_out, find_look_alikes, find_bare_money, find_open_days, find_in_families, find_unused)


def find_warnings(manifest: LimitsManifest) -> Iterator[Warned]:
    """Yield the warnings of a manifest that it does not ignore, without lines."""
    for find in _FINDERS:
        yield from (each for each in find(manifest) if each.name not in manifest.ignore)


def load_with_warnings(
    sources: Iterable[tuple[str, str | bytes]], report: Report | None = None
) -> tuple[tuple[LimitsManifest, tuple[Warned, ...]], ...]:
    """Return what `load_all` does, each manifest with its warnings and their lines."""
    with paused_collector():
        return tuple(map(_with_warnings, read_all(sources, report)))


def _with_warnings(document: Document) -> tuple[LimitsManifest, tuple[Warned, ...]]:
    manifest = CONVERTER.structure(document.value, LimitsManifest)
    found = (each for each in find_warnings(manifest) if not _is_meant(document, each))
    return manifest, tuple(_located(document, each) for each in found)


def _is_meant(document: Document, warned: Warned) -> bool:
    """Return whether the file says that what the warning is of is meant: the declarations have no `cascade: false`."""
    return warned.name == PARENT_WITHOUT_CASCADE and "cascade" in document.value["entities"].get(warned.at[1], {})


def _located(document: Document, warned: Warned) -> Warned:
    return evolve(warned, place=document.locate(Finding(warned.at, "", on_key=True)))
