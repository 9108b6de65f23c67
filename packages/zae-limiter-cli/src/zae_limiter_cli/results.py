"""Write results to files: completely or not at all, and never where a link leads."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from .errors import CommandError

_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag


def write_file(path: Path, content: str | bytes, *, mode: int = 0o666) -> None:
    """Write a result; replace an existing file as a whole or not at all, and follow no symbolic link."""
    with writing(path, mode=mode) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)


@contextmanager
def writing(path: Path, *, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Open a file for a result that comes piece by piece; it replaces an existing file at the end of the block, and
    never if the block raises.
    """
    if path.is_symlink():
        raise CommandError(f"{path}: this is a symbolic link, and the command writes to none: pass the name of a file")
    if path.exists() and not path.is_file():
        raise CommandError(f"{path}: not an ordinary file, and writing would replace it: pass the name of a file")
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(beside, _NEW_FILE, mode)
    except OSError as error:  # it shall name the file that was asked for
        raise type(error)(error.errno, error.strerror, str(path)) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
