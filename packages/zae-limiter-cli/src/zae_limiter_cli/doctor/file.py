"""Check a file of SQLite."""

import os
import shlex
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from ..connection import Connection
from ..errors import CommandError
from .findings import Checks, Finding

ABSENT: Final = (
    "region",
    "credentials",
    "rights",
    "stack",
    "aggregator",
    "provisioner",
    "planner",
    "stream",
    "dead letters",
    "alarms",
)
FREE_WARNS: Final = 100 * 1024 * 1024  # bytes
WAIT_SECONDS: Final = 5.0
WORK_SECONDS: Final = 60.0  # of one check: all of a file is read, which may be large
FUTURE_MS: Final = 60_000  # as core has it
LOG_WARNS: Final = 64 * 1024 * 1024  # bytes: four times the size to which a log is cut
SHOWN: Final = 5  # names of buckets


def check_file(connection: Connection, checks: Checks) -> Iterator[Finding]:
    """Yield what there is to say about a file, and what does not apply to it."""
    path = connection.file
    assert path is not None  # of a connection to a file
    if not path.exists():
        fix = "check --store; a program that opens it makes it, and so does `zae-limiter limits apply`"
        yield Finding("file", "fail", f"there is no file {path}", fix)
    else:
        yield checks.make("file", lambda: _file(path))
        yield checks.make("content", lambda: _content(path))
        yield checks.make("clock", lambda: _clock(path))
        yield checks.make("version", lambda: _version(connection))
        yield checks.make("sizes", lambda: _sizes(path))
    yield from (Finding(check, "n/a", "a file has none: it needs no AWS") for check in ABSENT)


def _file(path: Path) -> Finding:
    if not os.access(path, os.R_OK | os.W_OK):
        return Finding("file", "fail", f"this user may not read and write {path}", "change its owner or its mode")
    if not os.access(path.absolute().parent, os.W_OK):  # SQLite keeps a journal beside it
        return Finding("file", "fail", f"this user may not write in {path.absolute().parent}", "change its mode")
    from zae_limiter.maintenance import StoreError, check_place, risks_of

    try:
        check_place(path, probe=True)
    except StoreError as error:
        return Finding("file", "fail", str(error), "the programs that use it refuse it, too")
    if risks := tuple(risks_of(path)):
        commands = tuple(shlex.join(risk.command) for risk in risks if risk.command)
        return Finding(
            "file",
            "warn",
            "; ".join(risk.told for risk in risks),
            "unless that is meant: " + "; ".join(dict.fromkeys(risk.remedy for risk in risks)),
            commands=commands,
        )
    return Finding("file", "ok", f"{path}, whose lock keeps a second process out")


def _content(path: Path) -> Finding:
    """Return whether SQLite finds the file whole, with our tables. It reads all of it, and changes nothing."""
    try:
        with _opened(path) as database:
            (first,) = database.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:  # such as a lock that another program holds
        return Finding("content", "unknown", f"SQLite could not look: {error}", "run it again while no program writes")
    except sqlite3.DatabaseError as error:
        return Finding("content", "fail", f"SQLite cannot read it: {error}", "restore a copy of the file")
    except CommandError as error:
        return Finding("content", "fail", str(error), "its programs refuse it, too")
    if first != "ok":
        return Finding("content", "fail", f"it is damaged: {first}", "restore a copy of the file")
    return Finding("content", "ok", "SQLite finds the file whole")


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a file to read it. Raises ``CommandError`` unless its tables are ours: others may be views that compute."""
    from zae_limiter.maintenance import StoreError, check_place, check_tables, restrict

    until = time.monotonic() + WORK_SECONDS
    url = f"file:{quote(str(path.absolute()))}?mode=ro"
    try:
        check_place(path)  # first: SQLite would wait for ever at a pipe
        database = sqlite3.connect(url, uri=True, timeout=WAIT_SECONDS)
    except StoreError as error:
        raise CommandError(str(error)) from error
    with closing(database):
        restrict(database)
        try:
            check_tables(database, path, lambda: time.monotonic() > until)
        except StoreError as error:
            raise CommandError(str(error)) from error
        yield database


def _clock(path: Path) -> Finding:
    """Return whether a fast clock has written buckets, which no call has brought back yet."""
    from zae_limiter.maintenance import BucketId

    limit_ms = time.time_ns() // 1_000_000 + FUTURE_MS
    try:
        with _opened(path) as database:
            found = database.execute("SELECT pk, written FROM items WHERE written > ?", (limit_ms,)).fetchall()
    except sqlite3.Error as error:
        return Finding("clock", "unknown", f"SQLite could not look: {error}")
    if not found:
        return Finding("clock", "ok", "no bucket was written by a fast clock")

    def name(pk: str) -> str:
        with suppress(ValueError):  # a row that is not a bucket is named by its key
            return str(BucketId.parse(pk))
        return pk

    names = [name(str(pk)) for pk, _ in found]
    fast = (max(written for _, written in found) - limit_ms + FUTURE_MS) // 1000
    shown = ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
    told = f"{len(names)} buckets were written by a clock that was up to {fast:,} s fast: {shown}"
    fix = "check that this host's clock is right now; then leave them: the next call brings each back with its balance"
    return Finding("clock", "warn", told, fix, {"buckets": names, "fast_seconds": fast})


def _version(connection: Connection) -> Finding:
    from zae_limiter.maintenance import SyncMaintenance
    from zae_limiter.values.versions import check_compatible, core_version

    from ..errors import message_of

    try:
        with connection.open_table() as table:
            found = SyncMaintenance(table).get_version_record()
        if found is None:
            return Finding("version", "ok", "no version is recorded: every release of this schema may use it")
        check_compatible(found, stack=connection.name, client_version=core_version())
    except Exception as error:
        if message_of(error) is None:
            raise
        return Finding("version", "fail", str(message_of(error)), "install the release that the message names")
    return Finding("version", "ok", f"schema {found.schema_version}, set up by core {found.core_version}")


def _sizes(path: Path) -> Finding:
    size, free = path.stat().st_size, shutil.disk_usage(path.absolute().parent).free
    log = Path(f"{path.resolve()}-wal")
    log_size = log.stat().st_size if log.exists() else 0
    with _opened(path) as database:
        (unused,) = database.execute("SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size")
        (shrinks,) = database.execute("PRAGMA auto_vacuum").fetchone()
    details = {"bytes": size, "unused_bytes": unused[0], "log_bytes": log_size, "free_bytes": free}
    told = f"{_mb(size)}, of which {_mb(unused[0])} are unused; its log {_mb(log_size)}; {_mb(free)} free on the disk"
    if free < max(FREE_WARNS, size):
        return Finding("sizes", "warn", told, "make room: without it, every acquire that writes fails", details)
    if log_size > LOG_WARNS:
        fix = f"find who reads the file for so long: fuser {shlex.quote(str(path))}; after that the log is cut"
        return Finding("sizes", "warn", told, fix, details)
    if not shrinks and unused[0] > max(FREE_WARNS, size // 2):
        fix = "stop the programs that use it, and let SQLite make it anew once; from then on it shrinks by itself:"
        command = f"sqlite3 {shlex.quote(str(path))} 'PRAGMA auto_vacuum = INCREMENTAL; VACUUM'"
        return Finding("sizes", "warn", told, fix, details, (command,))
    return Finding("sizes", "ok", told, details=details)


def _mb(count: int) -> str:
    return f"{count / 1024 / 1024:,.1f} MB"
