"""A file with the tables of a release before, and two programs of one file."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter.engines.sqlite.connection import APPLICATION, VERSION
from zae_limiter.engines.sqlite.sync import SyncSQLiteStore
from zae_limiter.operations.values import Scan
from zae_limiter.schema.table import INDEXES

# As the releases with these versions of the tables have written them.
COLUMNS = {1: "", 2: "written INTEGER, "}
TIMES = {1: "", 2: ", 0 AS seen, 0 AS before"}
SCHEMA = """
PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;
CREATE TABLE items (pk TEXT NOT NULL, sk TEXT NOT NULL, item TEXT NOT NULL, expires INTEGER, hour INTEGER,
    {written}PRIMARY KEY (pk, sk)) WITHOUT ROWID;
CREATE INDEX items_by_expiry ON items (expires) WHERE expires IS NOT NULL;
CREATE TABLE entries (name TEXT NOT NULL, pk TEXT NOT NULL, sk TEXT NOT NULL, item_pk TEXT NOT NULL,
    item_sk TEXT NOT NULL, PRIMARY KEY (name, pk, sk, item_pk, item_sk)) WITHOUT ROWID;
CREATE TABLE uncounted (pk TEXT PRIMARY KEY, resource TEXT NOT NULL, hour INTEGER NOT NULL,
    counted TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX uncounted_by_resource ON uncounted (resource);
CREATE TABLE tokens (token TEXT PRIMARY KEY, digest BLOB NOT NULL, used INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX tokens_by_use ON tokens (used);
CREATE TABLE file AS SELECT randomblob(16) AS id{times};
PRAGMA application_id = {application};
PRAGMA user_version = {version};
"""
LIMITS = [Limit.per_day("rpd", 10), Limit.per_day("tpd", 100)]


def limiter_of(path: Path) -> SyncRateLimiter:
    return SyncRateLimiter(SyncRepository.sqlite(path), default_limits=LIMITS)


def take(limiter: SyncRateLimiter, times: int) -> int:
    """Return how many calls passed."""
    passed = 0
    for _ in range(times):
        try:
            with limiter.acquire("ann", "api", {"rpd": 1, "tpd": 1}):
                passed += 1
        except RateLimitExceeded:
            pass
    return passed


@pytest.fixture(params=[1, 2])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file of a version before, in which 4 of 10 tokens are taken."""
    with limiter_of(tmp_path / "new.db") as limiter:
        take(limiter, 4)
    with closing(SyncSQLiteStore(tmp_path / "new.db")) as store:
        items = store.perform(Scan(1000)).items
    version = request.param
    fields = {"written": COLUMNS[version], "times": TIMES[version], "application": APPLICATION, "version": version}
    with closing(sqlite3.connect(tmp_path / "old.db")) as file, file:
        file.executescript(SCHEMA.format(**fields))
        for item in items:
            key = item["PK"], item["SK"]
            file.execute("INSERT INTO items (pk, sk, item) VALUES (?, ?, ?)", (*key, json.dumps(item)))
            for name, index in INDEXES.items():
                if index.pk in item:
                    file.execute(
                        "INSERT INTO entries VALUES (?, ?, ?, ?, ?)", (name, item[index.pk], item[index.sk], *key)
                    )
    return tmp_path / "old.db"


def test_a_file_of_a_version_before_is_upgraded_when_it_is_opened(old: Path) -> None:
    with limiter_of(old) as limiter:
        assert take(limiter, 2) == 2
        limiter.repository.get_usage_summary(entity_id="ann")
    with limiter_of(old) as limiter:
        assert take(limiter, 10) == 4
        assert limiter.repository.get_usage_summary(entity_id="ann").total_events == 10
    with closing(sqlite3.connect(old)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (VERSION,)
        assert database.execute("PRAGMA quick_check").fetchone() == ("ok",)
        (names,) = database.execute("SELECT counters FROM items WHERE sk = '#STATE'").fetchone()
    assert {"b_rpd_tk", "b_tpd_tc"} <= {*json.loads(names)}
