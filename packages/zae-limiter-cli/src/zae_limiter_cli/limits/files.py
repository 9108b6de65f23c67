"""Manifests in files, directories and standard input."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from zae_limiter_manifest import MAX_BYTES, LimitsManifest, load_all

from ..errors import CommandError

STANDARD_INPUT: Final = "-"
SUFFIXES: Final = frozenset({".yaml", ".yml"})


def load_files(paths: Sequence[str], namespace: str | None = None) -> tuple[LimitsManifest, ...]:
    """The manifests, one for each namespace, or the one of ``namespace``.

    Raises ``ManifestError`` with every mistake of all files, ``CommandError`` if none is of that namespace.
    """
    found = load_all(read_files(paths))
    chosen = tuple(each for each in found if namespace in (None, each.namespace))
    if namespace is not None and not chosen:
        declared = ", ".join(each.namespace for each in found)
        way_out = f"pass a file of {namespace}, or leave --namespace out"
        raise CommandError(f"--namespace {namespace}: the files declare {declared}: {way_out}")
    return chosen


def read_files(paths: Iterable[str]) -> list[tuple[str, bytes]]:
    """Name and text of each file; of a directory those with a YAML name, also in directories below it.

    Of a file that is too large for a manifest it reads only so much that the loader refuses it.
    """
    return [source for path in paths for source in _read(path)]


def _read(path: str) -> Iterator[tuple[str, bytes]]:
    if path == STANDARD_INPUT:
        yield "<stdin>", _head(sys.stdin.buffer)
        return
    place = Path(path)
    if not place.is_dir():
        yield path, _head_of(place)
        return
    found = sorted(each for each in place.rglob("*") if each.suffix in SUFFIXES and each.is_file())
    if not found:
        raise CommandError(f"{path}: no *.yaml or *.yml file in this directory")
    yield from ((str(each), _head_of(each)) for each in found)


def _head_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return _head(file)


def _head(file: BinaryIO) -> bytes:
    return file.read(MAX_BYTES + 1)
