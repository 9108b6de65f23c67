"""The errors of SQLite as store errors: what is certain of the outcome, and what to do.

https://www.sqlite.org/rescode.html
"""

import sqlite3
from pathlib import Path
from threading import current_thread, main_thread
from typing import Final

from ...operations.errors import Denied, Invalid, NotApplied, OutcomeUnknown, StoreError, Unreachable
from ...schema.record import UNREADABLE

WAITED_FOR: Final = frozenset((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL))
KEEPS_CONNECTION: Final = WAITED_FOR | {sqlite3.SQLITE_FULL, sqlite3.SQLITE_INTERRUPT}
_OF_THE_OPERATION: Final = frozenset(
    (sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_RANGE)
)
_OF_A_CALL: Final = (sqlite3.Error, StoreError, OverflowError, *UNREADABLE)
_OUTAGES: Final = {
    sqlite3.SQLITE_BUSY: "another process holds its lock: find it with `fuser {path}`",
    sqlite3.SQLITE_LOCKED: "another connection of this process holds its lock",
    sqlite3.SQLITE_PROTOCOL: "its processes do not agree on who has its lock",
    sqlite3.SQLITE_FULL: "its disk is full: free some of it",
    sqlite3.SQLITE_IOERR: "its disk does not read or write: see the log of the kernel; or it was deleted while a"
    " program that still runs used it: stop all that do",
    sqlite3.SQLITE_NOMEM: "this process has no more memory",
    sqlite3.SQLITE_INTERRUPT: "the work on it was interrupted, or was not done in time",
}
_DENIALS: Final = {
    sqlite3.SQLITE_PERM: "this user may not use it: let it read and write the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: let this user read and write the file and its folder",
    sqlite3.SQLITE_AUTH: "this process may not use it",
}
_DAMAGES: Final = {  # also of a file that was read before: no outage, which would end
    sqlite3.SQLITE_READONLY: "it is read-only: let this user write the file and its folder",
    sqlite3.SQLITE_CORRUPT: "it is damaged: restore a copy, or let `sqlite3 {path} .recover` save what it can",
    sqlite3.SQLITE_NOTADB: "it is not an SQLite database: name another file",
}


def code_of(error: BaseException) -> int:
    """Return the primary code of an error of SQLite; 0 if it has none."""
    return int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


def is_of_file(error: BaseException) -> bool:
    """Return whether the file, or its disk, is the cause, and not the operation, such as a text in another encoding."""
    return isinstance(error, sqlite3.Error) and code_of(error) not in {0, *_OF_THE_OPERATION}


def is_of_system(error: OSError) -> bool:
    """Return whether the system reports an error of a file; else a signal handler raised it, such as `TimeoutError`."""
    return error.errno is not None and not isinstance(error, TimeoutError)  # no file on this host times out


def is_of_signal(error: Exception) -> bool:
    """Return whether a signal handler raised an error that came in a transaction. Handlers run in the main thread, and
    what an operation raises there by its own fault is known.
    """
    return current_thread() is main_thread() and not isinstance(error, _OF_A_CALL)


def refusal_of(error: Exception) -> Exception:
    """Return the error of an operation that SQLite cannot take, such as a key with half a character or a row without
    end; a fault of this program as it is.
    """
    if not isinstance(error, sqlite3.Error | UnicodeError | OverflowError):
        return error
    refusal = Invalid(f"it cannot be stored or read: {error}")
    refusal.__cause__ = error
    return refusal


def damaged(path: Path, why: str) -> NotApplied:
    """Return the error of a file whose own tables cannot be used."""
    return NotApplied(f"{path}: {_DAMAGES[sqlite3.SQLITE_CORRUPT].format(path=path)} ({why})")


def gone(path: Path) -> Unreachable:
    """Return the error of a file that is no longer at its path."""
    return Unreachable(
        f"{path}: the file that this program uses was deleted or replaced: start all programs that use it again"
    )


def log_gone(path: Path) -> Unreachable:
    """Return the error of a file whose log, or the log's index, is no longer beside it."""
    return Unreachable(
        f"{path}: its log ({path.name}-wal, {path.name}-shm) was deleted or replaced while programs used it: stop all"
        " programs that use the file, then start them"
    )


def fault_of(error: BaseException, path: Path, *, committing: bool = False) -> StoreError:
    """Return the store error of an error of SQLite. ``committing``: the transaction may be in the file."""
    code = code_of(error)
    for texts, kind in ((_OUTAGES, Unreachable), (_DENIALS, Denied), (_DAMAGES, NotApplied)):
        if code in texts:
            fault: StoreError = kind(f"{path}: {texts[code].format(path=path)} ({error})")
            break
    else:
        fault = NotApplied(f"{path}: {error}")
    if committing and code == sqlite3.SQLITE_IOERR:
        fault = OutcomeUnknown(str(fault))
    fault.__cause__ = error
    return fault
