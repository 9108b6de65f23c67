"""Manifests in files, directories and standard input; results to a file."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from zae_limiter_manifest import LimitsManifest, load_all

from ..errors import CommandError

STANDARD_INPUT: Final = "-"
SUFFIXES: Final = frozenset({".yaml", ".yml"})


def load_files(paths: Sequence[str]) -> tuple[LimitsManifest, ...]:
    """The manifests, one for each namespace. Raises ``ManifestError`` with every mistake of all files."""
    return load_all(read_files(paths))


def read_files(paths: Iterable[str]) -> list[tuple[str, bytes]]:
    """Name and text of each file; of a directory those with a YAML name, also in directories below it."""
    return [source for path in paths for source in _read(path)]


def _read(path: str) -> Iterator[tuple[str, bytes]]:
    if path == STANDARD_INPUT:
        yield "<stdin>", sys.stdin.buffer.read()
        return
    place = Path(path)
    if not place.is_dir():
        yield path, place.read_bytes()
        return
    found = sorted(each for each in place.rglob("*") if each.suffix in SUFFIXES and each.is_file())
    if not found:
        raise CommandError(f"{path}: no *.yaml or *.yml file in this directory")
    yield from ((str(each), each.read_bytes()) for each in found)


def write_file(path: Path, text: str) -> None:
    """Write a result; a file that is there is replaced as a whole or not at all."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
