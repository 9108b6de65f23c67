"""How large a file and its log become, and how long."""

import json
import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from zae_limiter import Limit, Repository, SyncRateLimiter, SyncRepository, ValidationError
from zae_limiter.engines.sqlite.connection import LOG_BYTES
from zae_limiter.engines.sqlite.file import LOG_WARNS
from zae_limiter.engines.sqlite.sync import SyncSQLiteStore
from zae_limiter.operations.values import BatchWrite, Key, Put, Update
from zae_limiter.settings import BuilderBase, Options
from zae_limiter.testing import ManualClock

ADD = Update(Key("ns/A", "#META"), add={"n": 1})
DAY = 86_400


def test_a_file_shrinks_once_its_items_have_expired(path: Path) -> None:
    clock = ManualClock()
    with closing(SyncSQLiteStore(path, clock=clock)) as store:
        ttl = clock.now_ms() // 1000 + 60
        for start in range(0, 10_000, 25):
            puts = (Put({"PK": f"ns/{n}", "SK": "s", "text": "x" * 800, "ttl": ttl}) for n in range(start, start + 25))
            store.perform(BatchWrite(tuple(puts)))
        for _ in range(600):
            clock.advance(2)
            store.perform(ADD)
    size = path.stat().st_size
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT count(*) FROM items").fetchone() == (1,)
        assert database.execute("PRAGMA quick_check").fetchone() == ("ok",)
    assert size < 6_000_000 < 10_000 * 800


def expiries(path: Path) -> dict[str, int | None]:
    """Return the days after its window for which each snapshot of usage is kept, by the window."""
    with closing(sqlite3.connect(path)) as database:
        items = [json.loads(text) for (text,) in database.execute("SELECT item FROM items WHERE sk LIKE '#USAGE%'")]
    length = {"hourly": 3600, "daily": DAY}
    start = {"hourly": 1_699_999_200, "daily": 1_699_920_000}
    return {
        each["window"]: (each["ttl"] - start[each["window"]] - length[each["window"]]) // DAY if "ttl" in each else None
        for each in items
    }


def use(repository: SyncRepository) -> None:
    with SyncRateLimiter(repository, default_limits=[Limit.per_minute("rpm", 5)]) as limiter:
        with limiter.acquire("ann", "api", {"rpm": 1}):
            pass
        repository.get_usage_snapshots(entity_id="ann", resource="api")


def test_usage_is_kept_for_as_long_as_an_option_says(path: Path) -> None:
    use(SyncRepository.sqlite(path, clock=ManualClock(), usage_hourly_days=2, usage_daily_days=0))
    assert expiries(path) == {"hourly": 2, "daily": None}


async def test_and_so_it_is_in_the_other_variant_and_by_the_environment(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZAEL_USAGE_HOURLY_DAYS", "7")
    monkeypatch.setenv("ZAEL_USAGE_DAILY_DAYS", "30")
    async with await Repository.sqlite(path, usage_daily_days=31) as repository:
        assert repository.name == "default"
    use(SyncRepository.sqlite(path, clock=ManualClock()))
    assert expiries(path) == {"hourly": 7, "daily": 30}


def test_by_default_it_is_kept_as_by_the_aggregator(path: Path) -> None:
    use(SyncRepository.sqlite(path, clock=ManualClock()))
    assert expiries(path) == {"hourly": 90, "daily": 730}


def test_a_life_of_usage_that_is_no_number_of_days_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    built = BuilderBase().usage_hourly_days(3).usage_daily_days(4)._options
    assert built.usage_days == {"hourly": 3, "daily": 4}
    with pytest.raises(ValidationError, match="usage_hourly_days"):
        Options(usage_hourly_days=-1)
    monkeypatch.setenv("ZAEL_USAGE_DAILY_DAYS", "two years")
    with pytest.raises(ValidationError, match="ZAEL_USAGE_DAILY_DAYS"):
        Options()


def test_a_log_that_a_reader_keeps_is_told_with_its_size_and_then_cut(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = path.with_name("limits.db-wal")
    with closing(SyncSQLiteStore(path)) as store, closing(sqlite3.connect(path, isolation_level=None)) as reader:
        store.perform(ADD)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM items").fetchone()
        n = 0
        with caplog.at_level(logging.WARNING):
            while log.stat().st_size < 1.5 * LOG_WARNS:
                n += 1
                store.perform(Put({"PK": f"ns/{n}", "SK": "s", "text": "x" * 300_000}))
        warnings = [each.getMessage() for each in caplog.records if "log of" in each.getMessage()]
        assert len(warnings) == 1
        assert f"the log of {path} has " in warnings[0]
        assert f"find it by `fuser {path}`" in warnings[0]
        reader.execute("COMMIT")
        for _ in range(3):
            store.perform(ADD)
        assert log.stat().st_size <= LOG_BYTES
