import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from zae_limiter_cli.local.stream_index import index_streams

OF_DYNOXIDE = """CREATE TABLE _stream_records (
    id INTEGER PRIMARY KEY AUTOINCREMENT, table_name TEXT NOT NULL, new_image TEXT, sequence_number TEXT NOT NULL,
    shard_id TEXT NOT NULL, created_at INTEGER NOT NULL)"""
ASKED = (
    "SELECT COALESCE(MAX(CAST(sequence_number AS INTEGER)), 0) + 1 FROM _stream_records WHERE table_name = 't'",
    "SELECT MIN(sequence_number), MAX(sequence_number) FROM _stream_records WHERE table_name = 't' AND shard_id = 's'",
    """SELECT new_image FROM _stream_records WHERE table_name = 't' AND shard_id = 's'
    AND CAST(sequence_number AS INTEGER) > 7 ORDER BY CAST(sequence_number AS INTEGER) ASC LIMIT 9""",
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "dynoxide.db"


@pytest.fixture
def running(path: Path) -> Iterator[sqlite3.Connection]:
    """Dynoxide's own connection to its file."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        yield connection


def plans(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as anew:
        return [anew.execute(f"EXPLAIN QUERY PLAN {asked}").fetchall()[0][-1] for asked in ASKED]


def test_what_dynoxide_asks_of_its_streams_is_looked_up(path: Path, running: sqlite3.Connection) -> None:
    running.execute(OF_DYNOXIDE)
    assert not any("INDEX" in plan for plan in plans(path))
    for _ in range(2):  # a file that is kept has it already
        index_streams(path)
    looked_up = plans(path)
    assert "USING INDEX _zael_numbers (table_name=?)" in looked_up[0]
    assert "USING COVERING INDEX _zael_shards (table_name=? AND shard_id=?)" in looked_up[1]
    assert "USING INDEX _zael_numbers (table_name=? AND <expr>>?)" in looked_up[2]


def test_a_file_with_other_tables_stays_as_it_is_and_a_missing_one_is_not_made(
    path: Path, running: sqlite3.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    running.execute("CREATE TABLE streams (number)")
    with caplog.at_level(logging.WARNING):
        index_streams(path)
        index_streams(path.with_name("missing.db"))
    assert [record.getMessage() for record in caplog.records] == [
        "the streams of dynoxide have no index: no such table: main._stream_records",
        "the streams of dynoxide have no index: unable to open database file",
    ]
    assert running.execute("SELECT name FROM sqlite_master").fetchall() == [("streams",)]
    assert not path.with_name("missing.db").exists()
