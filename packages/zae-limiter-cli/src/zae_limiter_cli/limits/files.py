"""Read manifests from files, directories and standard input."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zae_limiter_manifest import MAX_BYTES, LimitsManifest, load_all

from ..errors import CommandError
from ..inputs import read_head, read_stream
from ..progress import phases

if TYPE_CHECKING:
    from zae_limiter_manifest.warned import Warned

STANDARD_INPUT: Final = "-"
SUFFIXES: Final = frozenset({".yaml", ".yml"})
MOST_ENTRIES: Final = 10_000
"""The most files and directories below a directory of manifests: a larger one was hardly meant."""


def load_files(paths: Sequence[str], namespace: str | None = None) -> tuple[LimitsManifest, ...]:
    """Return the manifests, one for each namespace, or the one of ``namespace``.

    On a terminal it shows what it is at, if that takes longer than a second. Raises ``ManifestError`` with every
    mistake of all files, ``CommandError`` if none is of that namespace.
    """
    with phases() as report:
        found = load_all(read_files(paths), report)
    return _chosen(found, namespace)


def load_with_their_warnings(
    paths: Sequence[str], namespace: str | None = None
) -> tuple[tuple[LimitsManifest, ...], list["Warned"]]:
    """Return what ``load_files`` does, and the warnings of these manifests."""
    from zae_limiter_manifest.warnings import load_with_warnings

    with phases() as report:
        found = load_with_warnings(read_files(paths), report)
    chosen = _chosen([manifest for manifest, _ in found], namespace)
    return chosen, [
        each for manifest, warnings in found if namespace in (None, manifest.namespace) for each in warnings
    ]


def refuse_beyond_bounds(paths: Sequence[str], bounds: Path) -> None:
    """Raise ``ManifestError`` with each place of the files that is beyond the bounds in a file."""
    from zae_limiter_manifest.bounds import Bounds, refuse_beyond

    refuse_beyond(read_files(paths), Bounds.from_yaml(read_head(bounds, MAX_BYTES + 1), str(bounds)))


def _chosen(found: Sequence[LimitsManifest], namespace: str | None) -> tuple[LimitsManifest, ...]:
    chosen = tuple(each for each in found if namespace in (None, each.namespace))
    if namespace is not None and not chosen:
        declared = ", ".join(each.namespace for each in found)
        way_out = f"pass a file of {namespace}, or leave --namespace out"
        raise CommandError(f"--namespace {namespace}: the files declare {declared}: {way_out}")
    return chosen


def read_files(paths: Iterable[str]) -> list[tuple[str, bytes]]:
    """Return the name and the text of each file; of a directory those with a YAML name, also in directories below it.

    If the files together are too large, read only enough for the loader to refuse them. Raises ``CommandError`` for a
    link below a directory, and for a directory that has too much beside manifests.
    """
    read: list[tuple[str, bytes]] = []
    left = MAX_BYTES
    for path in paths:
        for name, take in _found(path):
            text = take(left + 1)
            read.append((name, text))
            left -= len(text)
            if left < 0:
                return read
    return read


def _found(path: str) -> Iterator[tuple[str, Callable[[int], bytes]]]:
    """Yield the name of each file that a path stands for, and the function that reads a number of its bytes."""
    if path == STANDARD_INPUT:
        yield "<stdin>", partial(read_stream, sys.stdin.buffer, "<stdin>")
    elif (place := Path(path)).is_dir():
        for each in _manifests_below(place):
            yield str(each), partial(read_head, each, follow=False)
    else:
        yield path, partial(read_head, place)


def _manifests_below(directory: Path) -> list[Path]:
    named = [each for each in _entries_below(directory) if each.suffix in SUFFIXES]
    for each in named:
        if each.is_symlink():
            raise CommandError(f"{each}: a symbolic link, which is not followed: pass its target with -f")
    found = sorted(each for each in named if each.is_file())
    if not found:
        raise CommandError(f"{directory}: no *.yaml or *.yml file in this directory")
    return found


def _entries_below(directory: Path) -> Iterator[Path]:
    seen = 0
    for place, directories, files in os.walk(directory):  # which follows no link
        seen += len(directories) + len(files)
        if seen > MOST_ENTRIES:
            way_out = "pass a directory of manifests, or each manifest"
            raise CommandError(f"{directory}: there are more than {MOST_ENTRIES:,} files in this directory: {way_out}")
        yield from (Path(place, each) for each in files)
