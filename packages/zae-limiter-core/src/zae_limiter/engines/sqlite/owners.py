"""Check the owner of a file, and the files beside it.

SQLite finds the journal, the log and the log's index of a file by their names, and uses what is there before this
program can look at anything. A journal is played back into the file, and the file that it names as its super-journal is
deleted; all writes go through the log, and can be read by every program that has it open. So they are checked before
SQLite opens them, and again afterwards. No file is opened here but a journal, on which SQLite has no locks.

A folder in which others may write is only reported: they may put a file there between the check and the opening.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from ...operations.errors import NotApplied
from ...runtime.named_tuple import NamedTuple

LOGS: Final = ("-wal", "-shm")
JOURNAL: Final = "-journal"
_MAGIC: Final = bytes.fromhex("d9d505f920a163d7")  # begins a journal, and ends one with a super-journal
_ORIGINAL_SIZE: Final = slice(16, 20)  # of a journal's head: the pages that the file had before
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
WAY_OUT: Final = "stop the programs that use the file, and find who put it there before you remove it"


class Risk(NamedTuple):
    """What others may do to a file, what helps, and a command for it."""

    told: str
    remedy: str
    command: tuple[str, ...] = ()


def check_file(path: Path) -> None:
    """Check that SQLite may open a file, and what is beside it. Raises ``NotApplied``, ``OSError``."""
    file = path.stat()
    if not stat.S_ISREG(file.st_mode):
        raise NotApplied(f"{path} is not a regular file: name another one")
    if file.st_nlink > 1:  # each name would have a log of its own
        raise NotApplied(f"{path} has {file.st_nlink} names (hard links): remove the others, or name another file")
    # The log first: it is made once the journal of a new file is gone.
    beside = dict(_beside(path))
    for place, found in beside.items():
        if not stat.S_ISREG(found.st_mode):
            raise NotApplied(f"{place} is a link, a pipe or a folder, not a regular file: {WAY_OUT}")
        if found.st_nlink > 1:
            raise NotApplied(f"{place} has {found.st_nlink} names (hard links): {WAY_OUT}")
        trusted = found.st_uid in {0, os.geteuid(), file.st_uid} if os.name == "posix" else True
        # A user who may write the file may own what is beside it.
        writers = file.st_mode & 0o002 or (file.st_mode & 0o020 and found.st_gid == file.st_gid)
        if not trusted and not writers:
            raise NotApplied(f"{place} belongs to another user (uid {found.st_uid}): {WAY_OUT}")
    has_log = any(found.st_size and str(place).endswith(LOGS[0]) for place, found in beside.items())
    for place, found in beside.items():
        if found.st_size and str(place).endswith(JOURNAL):
            _check_journal(place, has_log=has_log)


def risks_of(path: Path) -> Iterator[Risk]:
    """Yield what others may do to a file; nothing if the system has no such modes. Raises ``OSError``."""
    if os.name != "posix":
        return
    file, folder = path.stat(), Path(os.path.realpath(path)).parent
    known = {0, os.geteuid()}
    if mode := stat.S_IMODE(file.st_mode) & 0o077 and stat.S_IMODE(file.st_mode):
        told = f"{path} has the mode {mode:04o}: other users of this host may read or write it"
        yield Risk(told, "`chmod 600` leaves it to its owner alone", ("chmod", "600", str(path)))
    if file.st_uid not in known:
        told = f"{path} belongs to another user (uid {file.st_uid}), who may read and change it"
        yield Risk(told, "let the user own it whose programs use it")
    for place, found in _beside(path):
        if found.st_uid not in {*known, file.st_uid}:
            told = f"{place} belongs to another user (uid {found.st_uid}), who may read and change what the file gets"
            yield Risk(told, "stop the programs that use it, so that it is made anew")
        if (mode := stat.S_IMODE(found.st_mode)) & ~file.st_mode & 0o077:
            told = (
                f"{place} has the mode {mode:04o}, wider than that of the file: others may read or write what it gets"
            )
            yield Risk(told, "`chmod 600` leaves it to its owner alone", ("chmod", "600", str(place)))
    above = folder.stat()
    # A group of the owner's own has his number, on the systems that give each user one.
    if above.st_mode & 0o002 or (above.st_mode & 0o020 and above.st_gid != above.st_uid):
        mode = stat.S_IMODE(above.st_mode)
        told = f"others may write in {folder} (mode {mode:04o}), so they may put files beside {path.name}"
        yield Risk(told, "keep it in a folder where only its owner may write")
    elif above.st_uid not in {*known, file.st_uid}:
        told = f"{folder} belongs to another user (uid {above.st_uid}), who may replace {path.name}"
        yield Risk(told, "keep it in a folder of the user whose programs use it")


def _beside(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    real = os.path.realpath(path)  # where SQLite has them
    for suffix in (*LOGS, JOURNAL):
        with suppress(FileNotFoundError):
            yield Path(real + suffix), os.lstat(real + suffix)


def _check_journal(place: Path, *, has_log: bool) -> None:
    """Raise ``NotApplied`` for a journal that no program of ours leaves.

    Ours have one for a moment only: a new file gets its log by a transaction with a journal, of a file of no pages. The
    file itself is not opened to see whether it has a log: closing it would end the locks of this process on it.
    """
    with suppress(FileNotFoundError):  # the transaction has ended
        with os.fdopen(os.open(place, _FLAGS), "rb") as journal:
            head = journal.read(28)
            journal.seek(max(journal.seek(0, os.SEEK_END) - len(_MAGIC), 0))
            tail = journal.read()
        if len(head) == 28 and tail == _MAGIC:
            raise NotApplied(f"{place} names another file, which SQLite would delete (a super-journal): {WAY_OUT}")
        if has_log and head.startswith(_MAGIC) and any(head[_ORIGINAL_SIZE]):
            raise NotApplied(f"{place} is beside a log, so it is of another file, and would damage this one: {WAY_OUT}")
