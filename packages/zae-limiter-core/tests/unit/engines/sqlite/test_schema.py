"""A file of somebody else: what its schema has beside our tables would run with our statements."""

import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from zae_limiter import Limit, StoreRefusedError, SyncRateLimiter, SyncRepository
from zae_limiter.engines.sqlite.connection import VERSION, connect
from zae_limiter.engines.sqlite.file import SQLiteFile
from zae_limiter.engines.sqlite.sync import SyncSQLiteStore
from zae_limiter.engines.time_left import set_deadline
from zae_limiter.operations.errors import Unreachable
from zae_limiter.operations.values import Get, Key, Update

KEY = Key("ns/A", "#META")
ADD = Update(KEY, add={"n": 1})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that has limits, and which no program has open."""
    path = tmp_path / "limits.db"
    limits = [Limit.per_minute("rpm", 60)]
    with (
        SyncRateLimiter(SyncRepository.sqlite(path), default_limits=limits) as limiter,
        limiter.acquire("ann", "api", {"rpm": 1}),
    ):
        pass
    return path


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        for statement in statements:
            other.execute(statement)


def view_for_items(path: Path) -> None:
    """Replace the table of items by a view that computes for ever."""
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"
    columns = "pk, sk, item, expires, hour, written"
    change(
        path,
        "ALTER TABLE items RENAME TO kept",
        f"CREATE VIEW items AS SELECT {columns} FROM kept WHERE (SELECT count(*) FROM ({endless})) > 0",
    )


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("CREATE TRIGGER thief AFTER INSERT ON items BEGIN DELETE FROM items; END", "trigger 'thief'"),
        ("CREATE VIEW look AS SELECT * FROM items", "view 'look'"),
        ("CREATE TABLE mine (n)", "table 'mine'"),
        ("ALTER TABLE items ADD COLUMN extra AS (hex(zeroblob(1000000)))", "table 'items'"),
        ("ALTER TABLE items ADD COLUMN extra TEXT", "table 'items'"),
        ("CREATE INDEX computing ON items (hex(item))", "index 'computing'"),
        ("DROP INDEX items_by_expiry", "index 'items_by_expiry'"),
        ('CREATE TABLE "\x1b[2J\nx" (n)', r"table '\x1b[2J x'"),
    ],
)
def test_a_schema_that_we_do_not_write_is_refused(path: Path, statement: str, named: str) -> None:
    change(path, statement)
    before = path.read_bytes()
    with pytest.raises(StoreRefusedError) as caught:
        SyncRepository.sqlite(path)
    assert f"{path}: another program has changed its tables ({named}): restore a copy" in str(caught.value)
    assert path.read_bytes() == before


def test_a_view_in_place_of_a_table_is_refused_at_once(path: Path) -> None:
    view_for_items(path)
    begin = time.monotonic()
    with pytest.raises(StoreRefusedError, match="another program has changed its tables"):
        SyncRepository.sqlite(path)
    assert time.monotonic() - begin < 2


@pytest.mark.parametrize("statement", ["ANALYZE", "VACUUM", "REINDEX"])
def test_what_an_operator_does_to_a_file_is_no_change_of_its_schema(path: Path, statement: str) -> None:
    change(path, statement)
    with closing(SyncSQLiteStore(path)) as store:
        assert store.perform(ADD)["n"] == 1


def test_an_upgraded_file_has_our_schema(path: Path) -> None:
    change(
        path,
        "ALTER TABLE items DROP COLUMN written",
        "ALTER TABLE file DROP COLUMN seen",
        "ALTER TABLE file DROP COLUMN before",
        "PRAGMA user_version = 1",
    )
    for _ in range(2):
        with closing(SyncSQLiteStore(path)) as store:
            store.perform(ADD)
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (VERSION,)


def test_the_schema_of_a_file_is_not_trusted(path: Path) -> None:
    connection, _ = connect(path, lambda call: call(), lambda: False)
    with closing(connection):
        assert connection.execute("PRAGMA trusted_schema").fetchone() == (0,)


@pytest.fixture
def little_time() -> Iterator[None]:
    before = set_deadline(time.monotonic() + 0.2)
    yield
    set_deadline(before)


@pytest.mark.usefixtures("little_time")
def test_a_statement_that_lasts_is_ended_by_the_time_out(path: Path) -> None:
    """A program that has the file open, and then gets a view in place of a table by another one."""
    with closing(SyncSQLiteStore(path)) as store:
        store.perform(ADD)
        view_for_items(path)
        begin = time.monotonic()
        with pytest.raises(Unreachable, match="was not done in time"):
            store.perform(Get(KEY))
        assert time.monotonic() - begin < 2


@pytest.mark.skipif(os.name != "posix", reason="this system has no modes of files")
def test_a_file_that_others_may_use_is_said_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def opened() -> list[str]:
        caplog.clear()
        with closing(SyncSQLiteStore(path)) as store, caplog.at_level(logging.WARNING):
            store.perform(ADD)
        return [record.getMessage() for record in caplog.records]

    assert opened() == []
    path.chmod(0o640)
    told = f"{path} has the mode 0640: other users of this host may read or write it"
    assert [line.startswith(told) for line in opened()] == [True]
    assert opened() == []


def test_looking_at_the_time_runs_no_code_of_python(tmp_path: Path) -> None:
    """A signal handler that raises in a call of SQLite's would be lost."""
    file = SQLiteFile(tmp_path / "limits.db", _Clock())
    assert file._is_late() is True
    file._until[0] = time.monotonic() + 60
    assert file._is_late() is False
    assert type(file._is_late).__module__ == "functools"


class _Clock:
    def now_ms(self) -> int:
        return 0
