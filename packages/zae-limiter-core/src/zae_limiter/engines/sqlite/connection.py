"""A connection to a file, whose tables are made by the first one.

A file may be foreign, and whatever its schema has beside the tables runs with the statements of this program: a
trigger, a view in place of a table, a generated column. So the schema of a file is compared with those that this
project writes, before anything else is read and whenever it has changed since, and SQLite trusts none of its functions
to it. Reading the schema is bounded, as is what one value may take: a page that follows itself makes a row of any
length. SQLite itself may read such a row to compare its key, which takes no more than the file has bytes, as its size
is shown.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from typing import Final, TypeAlias

from ...operations.errors import NotApplied
from .faults import code_of, damaged, fault_of
from .place import check_again, make_file

# Of the tables below: `PRAGMA user_version`. Each version has other tables than the one before: a program that has the
# file open looks at it only when the schema has changed.
VERSION: Final = 3
APPLICATION: Final = 0x7A61656C  # "zael": `PRAGMA application_id`, by which `file` and other programs know it
NUMBERS: Final = tuple(f"c{place}" for place in range(16))  # the columns of a bucket's numbers: of six limits
CHECKPOINT_PAGES: Final = 4_000  # of the log: a commit of that many waits for the disk
LOG_BYTES: Final = CHECKPOINT_PAGES * 4096  # to which a log that became longer is cut, once its pages are in the file

_TABLES: Final = (
    # An item as JSON. ``expires``: the second from which it may be removed. ``hour``: that of a bucket's uncounted use,
    # ``written``: the millisecond of its last write. ``counters``: the names, as JSON, of the attributes that are in
    # the columns after it, in their order, and not in ``item``.
    f"""CREATE TABLE items (pk TEXT NOT NULL, sk TEXT NOT NULL, item TEXT NOT NULL, expires INTEGER, hour INTEGER,
    written INTEGER, counters TEXT, {", ".join(f"{name} INTEGER" for name in NUMBERS)}, PRIMARY KEY (pk, sk))
    WITHOUT ROWID""",
    "CREATE INDEX items_by_expiry ON items (expires) WHERE expires IS NOT NULL",
    # A row for each index that an item is in.
    """CREATE TABLE entries (name TEXT NOT NULL, pk TEXT NOT NULL, sk TEXT NOT NULL, item_pk TEXT NOT NULL,
    item_sk TEXT NOT NULL, PRIMARY KEY (name, pk, sk, item_pk, item_sk)) WITHOUT ROWID""",
    # A row for each bucket with uncounted use: the bucket as it was counted last.
    """CREATE TABLE uncounted (pk TEXT PRIMARY KEY, resource TEXT NOT NULL, hour INTEGER NOT NULL,
    counted TEXT NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX uncounted_by_resource ON uncounted (resource)",
    # The request tokens of the last minutes.
    "CREATE TABLE tokens (token TEXT PRIMARY KEY, digest BLOB NOT NULL, used INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE INDEX tokens_by_use ON tokens (used)",
    # One row. By ``id`` a process knows the file again, where a new one has the inode of a deleted one. ``seen`` and
    # ``before`` are what sweeps have seen of the clock.
    "CREATE TABLE file AS SELECT randomblob(16) AS id, 0 AS seen, 0 AS before",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)

# From version 2: an item keeps its numbers in its JSON until it is written.
_SINCE_2: Final = (
    "ALTER TABLE items ADD COLUMN counters TEXT",
    *(f"ALTER TABLE items ADD COLUMN {name} INTEGER" for name in NUMBERS),
    f"PRAGMA user_version = {VERSION}",
)
_SINCE_1: Final = (
    "ALTER TABLE items ADD COLUMN written INTEGER",
    "ALTER TABLE file ADD COLUMN seen INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE file ADD COLUMN before INTEGER NOT NULL DEFAULT 0",
)
_UPGRADES: Final = {0: _TABLES, 1: (*_SINCE_1, *_SINCE_2), 2: _SINCE_2}  # by the version that a file has

# The tables of the versions before.
_SECOND: Final = (
    """CREATE TABLE items (pk TEXT NOT NULL, sk TEXT NOT NULL, item TEXT NOT NULL, expires INTEGER, hour INTEGER,
    written INTEGER, PRIMARY KEY (pk, sk)) WITHOUT ROWID""",
    *_TABLES[1:],
)
_FIRST: Final = tuple(each.replace("written INTEGER, ", "").replace(", 0 AS seen, 0 AS before", "") for each in _SECOND)

# What a file may have: the tables of this version, of one before, and those that were upgraded to it.
_KNOWN: Final = (
    _TABLES,
    (*_SECOND, *_SINCE_2),
    (*_FIRST, *_SINCE_1, *_SINCE_2),
    _SECOND,
    (*_FIRST, *_SINCE_1),
    _FIRST,
)

# What SQLite writes itself for ANALYZE is left out.
_SCHEMA: Final = """SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE ifnull(sql, '') NOT IN
    ('CREATE TABLE sqlite_stat1(tbl,idx,stat)', 'CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)') LIMIT 64"""
LOOKS_AFTER: Final = 100_000  # steps of SQLite's machine, some milliseconds, after which it looks at the time

# An item has 400 KB as DynamoDB counts them, and JSON writes one byte of a text as six at most.
LONGEST_VALUE: Final = 4 << 20
LONGEST_STATEMENT: Final = 10_000  # of ours and in the schema, where the longest has some hundreds
SCHEMA_STEPS: Final = 10_000  # to read a schema, of 1,400 rows: ours, with what ANALYZE writes, takes some hundreds
ID_BYTES: Final = 16

Schema: TypeAlias = frozenset[tuple[str, ...]]  # the rows of `sqlite_schema`

# One statement, so one state: another process may make the tables meanwhile.
_MARKS: Final = """SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
    FROM pragma_application_id, pragma_user_version"""


def connect(
    path: Path, patiently: Callable[[Callable[[], bytes]], bytes], is_late: Callable[[], bool]
) -> tuple[sqlite3.Connection, bytes]:
    """Return a connection to a file, which is made if it is missing, and the file's id. Raises ``StoreError``.

    ``patiently`` calls a function again for as long as another process holds the lock. A statement that runs long is
    interrupted once ``is_late``, which runs no code of Python: an error of a signal handler in it would be lost.
    """
    make_file(path)
    try:
        connection = sqlite3.connect(
            path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=64
        )
    except sqlite3.Error as error:
        raise fault_of(error, path) from error
    try:
        restrict(connection)
        file_id = patiently(lambda: _prepare(connection, path, is_late))
        check_again(path)  # another user may have made a log in between, to read what is written
    except sqlite3.Error as error:
        connection.close()
        raise fault_of(error, path) from error
    except BaseException:
        connection.close()
        raise
    return connection, file_id


def restrict(connection: sqlite3.Connection) -> None:
    """Bound what a file can make SQLite do and keep, before anything is read from it."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, LONGEST_STATEMENT)


def _prepare(connection: sqlite3.Connection, path: Path, is_late: Callable[[], bool]) -> bytes:
    """Make the tables if they are missing, and return the file's id, which was drawn with them."""
    check_tables(connection, path, is_late)
    if not connection.execute("PRAGMA application_id").fetchone()[0]:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # of a new file alone: sweeps give pages back
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise NotApplied(f"{path}: its file system has no shared memory for processes; name a file on another one")
    # A commit is in the log before it is answered, which outlives the process. Only a crash of the host loses some.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")
    if not has_version(connection):
        _make_tables(connection, path)
    (file_id,) = connection.execute("SELECT id FROM file").fetchone() or (None,)
    if type(file_id) is not bytes or len(file_id) != ID_BYTES:
        raise damaged(path, "it has no id")
    return file_id


def check_tables(connection: sqlite3.Connection, path: Path, is_late: Callable[[], bool] | None = None) -> None:
    """Raise ``NotApplied`` for the database of another program, of another version, or with other tables than ours.

    Statements after it are interrupted once ``is_late``. Until then SQLite reads the schema, whose time grows with the
    square of its rows.
    """
    connection.set_progress_handler(partial(bool, True), SCHEMA_STEPS)
    try:
        application, version, tables = connection.execute(_MARKS).fetchone()
        if application == APPLICATION and version not in {*_UPGRADES, VERSION} - {0}:
            raise other_version(path)
        if application != APPLICATION and (application or version or tables):
            raise NotApplied(f"{path} is the database of another program: name another file")
        if tables:
            _check_schema(connection, path)
    except UnicodeError as error:  # in the text of an error of SQLite
        raise damaged(path, "its schema is not text") from error
    except sqlite3.Error as error:
        if code_of(error) != sqlite3.SQLITE_INTERRUPT:
            raise
        raise NotApplied(
            f"{path} has many more tables than this program writes: restore a copy of before, or name another file"
        ) from error
    finally:
        connection.set_progress_handler(is_late, LOOKS_AFTER)


def _check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Raise ``NotApplied`` unless the file has the tables and indexes that this project writes, and nothing else."""
    found = _schema_of(connection)
    if any(found == _made_by(each) for each in _KNOWN):  # the first one, as a rule
        return
    found, known = _in_one_line(found), [_in_one_line(_made_by(each)) for each in _KNOWN]
    if found in known:
        return
    nearest = min(known, key=lambda each: len(each ^ found))
    (kind, name, *_) = min(found - nearest or nearest - found)
    raise NotApplied(
        f"{path}: another program has changed its tables ({kind} {name[:60]!a}): restore a copy of before, or name"
        " another file"
    )


def _schema_of(connection: sqlite3.Connection) -> Schema:
    return frozenset(connection.execute(_SCHEMA))


def _in_one_line(schema: Schema) -> Schema:
    """Return a schema without line breaks, which an ``ALTER TABLE`` may move."""
    return frozenset((kind, *(" ".join(str(each).split()) for each in row)) for kind, *row in schema)


@cache
def _made_by(statements: tuple[str, ...]) -> Schema:
    """Return the schema that statements make."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        for statement in statements:
            made.execute(statement)
        return _schema_of(made)


def has_version(connection: sqlite3.Connection) -> bool:
    """Return whether the tables are those of this release."""
    return bool(connection.execute("PRAGMA user_version").fetchone() == (VERSION,))


def checked_schema(connection: sqlite3.Connection, path: Path, is_late: Callable[[], bool], checked: int | None) -> int:
    """Return a number that changes with the tables, which other programs may change; check them if it is another one
    than ``checked``. Raises ``NotApplied``.
    """
    version: int = connection.execute("PRAGMA schema_version").fetchone()[0]
    if version != checked:
        check_tables(connection, path, is_late)
        if not has_version(connection):
            raise other_version(path)
    return version


def other_version(path: Path) -> NotApplied:
    """Return the error of a file with the tables of another release."""
    return NotApplied(
        f"{path}: another release of zae-limiter-core has changed its tables, and this one knows version {VERSION} of"
        " them: install that release for this program, too, and start it again; or name another file"
    )


def _make_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables, or upgrade them, unless another process has."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not has_version(connection):
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version not in _UPGRADES:  # by another process, since they were checked
                raise other_version(path)
            for statement in _UPGRADES[version]:
                connection.execute(statement)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
