"""A file of somebody else: what its schema has beside our tables would run with our statements."""

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

import pytest

from zae_limiter import Limit, SyncRateLimiter, SyncRepository
from zae_limiter.engines.sqlite.connection import LONGEST_STATEMENT, LONGEST_VALUE, connect
from zae_limiter.engines.sqlite.file import REST, SQLiteFile
from zae_limiter.engines.sqlite.sync import SyncSQLiteStore
from zae_limiter.exceptions import StoreRefusedError
from zae_limiter.operations.errors import NotApplied
from zae_limiter.operations.values import Get, Key, Update

KEY = Key("ns/A", "#META")
ADD = Update(KEY, add={"n": 1})
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"


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
    columns = "pk, sk, item, expires, hour, written"
    change(
        path,
        "ALTER TABLE items RENAME TO kept",
        f"CREATE VIEW items AS SELECT {columns} FROM kept WHERE (SELECT count(*) FROM ({ENDLESS})) > 0",
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


def test_the_schema_of_a_file_is_not_trusted(path: Path) -> None:
    connection, _ = connect(path, lambda call: call(), lambda: False)
    with closing(connection):
        assert connection.execute("PRAGMA trusted_schema").fetchone() == (0,)


def test_a_statement_that_lasts_is_ended_by_the_time_out(path: Path) -> None:
    begin = time.monotonic()
    connection, _ = connect(path, lambda call: call(), lambda: time.monotonic() > begin + 0.2)
    with closing(connection), pytest.raises(sqlite3.OperationalError, match="interrupted"):
        connection.execute(f"SELECT count(*) FROM ({ENDLESS})")
    assert time.monotonic() - begin < 2


def trigger(path: Path) -> None:
    change(path, "CREATE TRIGGER thief AFTER UPDATE ON items BEGIN DELETE FROM items; END")


def a_thousand_views(path: Path) -> None:
    change(path, *(f"CREATE VIEW v{n} AS SELECT 1" for n in range(1000)))


@pytest.mark.parametrize("operation", [ADD, Get(KEY)])
@pytest.mark.parametrize("add", [trigger, view_for_items, a_thousand_views])
def test_what_another_program_adds_while_a_file_is_open_is_refused(
    path: Path, add: Callable[[Path], None], operation: Update | Get
) -> None:
    with closing(SyncSQLiteStore(path)) as store:
        store.perform(ADD)
        before = contents(path)
        add(path)
        for _ in range(2):
            begin = time.monotonic()
            with pytest.raises(NotApplied, match="another program has changed its tables"):
                store.perform(operation)
            assert time.monotonic() - begin < 2
        if add is trigger:
            assert contents(path) == before
            change(path, "DROP TRIGGER thief")
            assert store.perform(ADD)["n"] == 2


@pytest.mark.parametrize("statement", ["ANALYZE", "VACUUM"])
def test_what_an_operator_does_to_a_file_while_it_is_open_is_no_change(path: Path, statement: str) -> None:
    with closing(SyncSQLiteStore(path)) as store:
        store.perform(ADD)
        change(path, statement)
        assert store.perform(ADD)["n"] == 2


def contents(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as other:
        return other.execute("SELECT * FROM items").fetchall()


def put_into_schema(path: Path, rows: Iterable[tuple[str, str]]) -> None:
    """Put views into a schema as a file of somebody else may have them: SQLite itself would take minutes."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA writable_schema = ON")
        other.execute("BEGIN")
        sql = "INSERT INTO sqlite_schema (type, name, tbl_name, rootpage, sql) VALUES ('view', ?1, ?1, 0, ?2)"
        other.executemany(sql, rows)
        other.execute("COMMIT")


def test_a_schema_without_end_is_refused_at_once(path: Path) -> None:
    put_into_schema(path, ((f"v{n}", f"CREATE VIEW v{n} AS SELECT 1") for n in range(50_000)))
    begin = time.monotonic()
    with pytest.raises(StoreRefusedError, match="many more tables than this program writes"):
        SyncRepository.sqlite(path)
    assert time.monotonic() - begin < 1


def test_a_statement_in_a_schema_has_a_length(path: Path) -> None:
    put_into_schema(path, [("v", "CREATE VIEW v AS SELECT 1" + "+1" * LONGEST_STATEMENT)])
    with pytest.raises(StoreRefusedError, match="malformed database schema"):
        SyncRepository.sqlite(path)


def test_the_text_of_a_schema_may_be_none(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA writable_schema = ON")
        other.execute(
            "UPDATE sqlite_schema SET name = CAST(x'ff' AS TEXT), sql = CAST(x'ff' AS TEXT) WHERE type = 'index'"
        )
    with pytest.raises(StoreRefusedError, match="damaged: restore a copy"):
        SyncRepository.sqlite(path)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM file",
        "UPDATE file SET id = NULL",
        "UPDATE file SET id = 50000000000",
        "UPDATE file SET id = 'sixteen letters.'",
        "UPDATE file SET id = x'00'",
    ],
)
def test_a_file_without_an_id_is_damaged(path: Path, statement: str) -> None:
    change(path, statement)
    with pytest.raises(StoreRefusedError, match=r"damaged: restore a copy.* \(it has no id\)"):
        SyncRepository.sqlite(path)


@pytest.mark.parametrize("statement", ["UPDATE file SET seen = 'x'", "UPDATE file SET before = 9e999"])
def test_a_file_without_times_is_damaged(path: Path, statement: str) -> None:
    change(path, statement)
    with closing(SyncSQLiteStore(path)) as store:
        for _ in range(REST - 1):
            store.perform(ADD)
        for _ in range(2):
            with pytest.raises(NotApplied, match=r"damaged: .* no times; restore a copy"):
                store.perform(ADD)


def test_a_row_has_a_length(path: Path) -> None:
    change(path, f"UPDATE items SET item = hex(zeroblob({LONGEST_VALUE}))")
    with pytest.raises(StoreRefusedError, match="stored or read: string or blob too big"):
        SyncRepository.sqlite(path)


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
