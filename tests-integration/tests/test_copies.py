"""What lives here: a file copied to a table, by processes that die right before any of their writes.
What never does: every refusal, usage by the stream, the command (tests of core, of the aggregator, of the CLI).
"""

import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from support.core.copies import answers, copy, fill, opened, table_over
from support.integration.copying_processes import WRITES, copier
from support.integration.harness import Harness
from support.integration.split_processes import Place, Worker
from zae_limiter import SyncRateLimiter, SyncRepository
from zae_limiter.engines.engine import SyncStore
from zae_limiter.engines.sqlite.sync import SyncSQLiteStore
from zae_limiter.testing import ManualClock

pytestmark = [pytest.mark.needs("atomic"), pytest.mark.parametrize("variant", ["sync"], indirect=True)]

EVERY_WRITE = os.environ.get("ZAEL_TEST_EVERY_WRITE") == "1"
DEATHS = (0, 1, 4, 6)  # right before the registration, two pages, and the opening


@pytest.fixture
def clock() -> ManualClock:
    """Some hours ago, so that what the copy dates is later, and nothing has expired."""
    return ManualClock(round(time.time() * 1000) - 4 * 3_600_000)


@pytest.fixture
def file(tmp_path: Path, clock: ManualClock) -> Iterator[SyncStore]:
    store = SyncSQLiteStore(tmp_path / "limits.db", clock=clock)
    yield store
    store.close()


@pytest.fixture
def source(file: SyncStore, clock: ManualClock) -> SyncRateLimiter:
    limiter = opened(file, clock)
    fill(limiter, clock)
    return limiter


@pytest.fixture
async def store(harness: Harness, clock: ManualClock) -> AsyncIterator[SyncStore]:
    await harness.open()  # which makes the table
    if harness.target.folder is None:
        yield harness._aside
    else:  # a file removes what has expired by the clock of its store
        with closing(SyncSQLiteStore(harness.target.folder / harness.table_name, clock=clock)) as store:
            yield store


@pytest.fixture
def table(store: SyncStore, clock: ManualClock) -> SyncRepository:
    return table_over(store, clock)


def same_from(store: SyncStore, source: SyncRateLimiter, clock: ManualClock) -> bool:
    assert answers(opened(store, clock, register=False)) == answers(source)
    return True


async def test_every_method_answers_the_same_from_the_table_and_behind_further_use(
    source: SyncRateLimiter, file: SyncStore, store: SyncStore, table: SyncRepository, clock: ManualClock
) -> None:
    copy(table_over(file, clock), table, "prod")
    assert same_from(store, source, clock)
    for limiter in (source, opened(store, clock, register=False)):
        with limiter.acquire("key/1|ü", "gpt-4", {"rpm": 3}):
            pass
    left = [each.available("key/1|ü", "gpt-4")["rpm"] for each in (source, opened(store, clock, register=False))]
    assert left[0] == left[1] < 60 - 3


@pytest.mark.needs("endpoint")
async def test_whoever_dies_before_any_write_leaves_nothing_open_and_the_next_one_copies_all(
    source: SyncRateLimiter,
    store: SyncStore,
    table: SyncRepository,
    clock: ManualClock,
    harness: Harness,
    tmp_path: Path,
) -> None:
    for lives in count() if EVERY_WRITE else DEATHS:
        mortal, heir = (
            Worker(
                copier,
                Place(harness.target.endpoint_url or "", harness.table_name, lives=each, mortal=WRITES),
                tmp_path / "limits.db",
            )
            for each in (lives, None)
        )
        for worker in (mortal, heir):
            worker.wait_until_ready()
        mortal.order("go")
        died = mortal.fate().died
        assert died or EVERY_WRITE
        if died:
            assert table.get_namespace("prod") is None
            heir.order("go")
            assert heir.fate().admitted == 1
        assert same_from(store, source, clock), lives
        for worker in (mortal, heir):
            worker.close()
        if not died:
            assert lives > max(DEATHS)
            break
        table.delete_namespace("prod")
