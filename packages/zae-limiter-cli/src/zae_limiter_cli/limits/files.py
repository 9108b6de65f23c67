"""Manifests in files, directories and standard input; results to a file."""

import os
import secrets
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from zae_limiter_manifest import MAX_BYTES, LimitsManifest, load_all

from ..errors import CommandError

STANDARD_INPUT: Final = "-"
SUFFIXES: Final = frozenset({".yaml", ".yml"})

_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag


def load_files(paths: Sequence[str]) -> tuple[LimitsManifest, ...]:
    """The manifests, one for each namespace. Raises ``ManifestError`` with every mistake of all files."""
    return load_all(read_files(paths))


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


def write_file(path: Path, text: str, *, mode: int = 0o666) -> None:
    """Write a result; a file that is there is replaced as a whole or not at all, and no symbolic link is followed."""
    if path.is_symlink():
        raise CommandError(f"{path}: this is a symbolic link, which is not written to: pass the name of a file")
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(beside, _NEW_FILE, mode)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
