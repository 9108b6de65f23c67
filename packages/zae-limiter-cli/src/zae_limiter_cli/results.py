"""Write results to files: completely or not at all, and never where a link leads.

A result is written beside its file, and then takes its name. What a killed command leaves there, the next one that
writes the same file removes: it knows by the system's lock, which ends with its process.
"""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from .errors import CommandError

if sys.platform != "win32":
    import fcntl

_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK
_OLD_FILE: Final = os.O_WRONLY | _NO_LINK | getattr(os, "O_NONBLOCK", 0)  # a pipe shall not hold up anybody
_MOST_AT_ONCE: Final = 100


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
    try:
        beside, descriptor = _open_beside(path, mode)
    except OSError as error:  # it shall name the file that was asked for
        raise type(error)(error.errno, error.strerror, str(path)) from error
    file = os.fdopen(descriptor, "wb")
    try:
        yield file
        file.flush()
        _let_go_on_windows(file)
        beside.replace(path)  # while it is locked: no process takes it for one that was left
    except BaseException:
        _let_go_on_windows(file)
        beside.unlink(missing_ok=True)
        raise
    finally:
        file.close()


def _let_go_on_windows(file: BinaryIO) -> None:
    """Close a file that Windows would neither rename nor remove while it is open."""
    if sys.platform == "win32":
        file.close()


def _open_beside(path: Path, mode: int) -> tuple[Path, int]:
    """Create the file that is to become ``path``, under the first name that no other command has."""
    names = [path.with_name(f".{path.name}.{number}") for number in range(_MOST_AT_ONCE)]
    for left in filter(os.path.lexists, names):  # all of them: what has a low number may be gone already
        _remove_if_left(left)
    for beside in names:
        with suppress(FileExistsError, BlockingIOError):
            descriptor = os.open(beside, _NEW_FILE, mode)
            try:
                _lock(descriptor)
            except BlockingIOError:  # another command takes it for one that was left, and removes it
                os.close(descriptor)
                raise
            except OSError:  # a file system without locks, on which no process removes what is left
                return beside, descriptor
            if _has_name(descriptor, beside):
                return beside, descriptor
            os.close(descriptor)  # another command was faster
    raise FileExistsError(errno.EEXIST, f"{_MOST_AT_ONCE} files beside it are in the way, such as {names[0].name}")


def _remove_if_left(beside: Path) -> None:
    with suppress(OSError):  # a command has it, or it is a link, or another user's
        descriptor = os.open(beside, _OLD_FILE)
        try:
            _lock(descriptor)
            if _has_name(descriptor, beside):  # no other was faster
                beside.unlink()  # which Windows refuses as long as a command has it open
        finally:
            os.close(descriptor)


def _has_name(descriptor: int, path: Path) -> bool:
    """Return whether an open file is the one that has this name now: another command may have removed it since."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _lock(descriptor: int) -> None:
    """Lock an open file until it is closed. Raises ``BlockingIOError`` if another process has locked it."""
    if sys.platform != "win32":
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
