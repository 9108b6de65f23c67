"""What a warm acquire asks of SQLite: its count is its cost."""

from contextlib import closing
from pathlib import Path

import pytest

from zae_limiter import Limit, SyncRateLimiter, SyncRepository
from zae_limiter.engines.sqlite.sync import SyncSQLiteStore
from zae_limiter.operations.values import Key, Update

WRITE = ["BEGIN IMMEDIATE", "PRAGMA data_version", "UPDATE items", "COMMIT"]


@pytest.fixture
def limiter(path: Path) -> SyncRateLimiter:
    """A limiter whose bucket has been used a few times."""
    limits = [Limit.per_day("rpd", 100), Limit.per_day("tpd", 100)]
    limiter = SyncRateLimiter(SyncRepository.sqlite(path), default_limits=limits)
    for _ in range(4):
        acquire(limiter)
    return limiter


def acquire(limiter: SyncRateLimiter) -> None:
    with limiter.acquire("ann", "api", {"rpd": 1, "tpd": 1}):
        pass


def statements_of(limiter: SyncRateLimiter) -> list[str]:
    """Return the first two words of each statement of an acquire, or all of a short one."""
    store = limiter.repository._store
    assert isinstance(store, SyncSQLiteStore)
    assert store._file._connection is not None
    found: list[str] = []
    store._file._connection.set_trace_callback(lambda sql: found.append(" ".join(sql.split()[:2])))
    acquire(limiter)
    store._file._connection.set_trace_callback(None)
    return found


def test_a_program_alone_writes_and_reads_nothing(limiter: SyncRateLimiter) -> None:
    with closing(limiter):
        assert [statements_of(limiter) for _ in range(3)] == [WRITE] * 3


def test_after_a_write_of_another_one_a_bucket_is_read_again(limiter: SyncRateLimiter, path: Path) -> None:
    with closing(limiter), closing(SyncSQLiteStore(path)) as other:
        other.perform(Update(Key("ns/A", "#META"), add={"n": 1}))
        found = statements_of(limiter)
        assert [each for each in found if each not in WRITE] == ["PRAGMA schema_version", "SELECT item,"]
        assert statements_of(limiter) == WRITE
