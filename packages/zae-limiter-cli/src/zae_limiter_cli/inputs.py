"""Read the beginning of files that somebody names: no more than is needed to refuse what is too large."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

_READ: Final = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag


def read_head(path: Path, most: int, *, follow: bool = True) -> bytes:
    """Return at most ``most`` bytes of a file. Raises ``OSError`` with its name; also for a link, unless ``follow``."""
    with _naming(str(path)), os.fdopen(os.open(path, _READ if follow else _READ | _NO_LINK), "rb") as file:
        return file.read(most)


def read_stream(file: BinaryIO, name: str, most: int) -> bytes:
    """Return at most ``most`` bytes of an open file. Raises ``OSError`` with this name."""
    with _naming(name):
        return file.read(most)


@contextmanager
def _naming(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # one of reading has no name
        raise type(error)(error.errno, error.strerror, name) from error
