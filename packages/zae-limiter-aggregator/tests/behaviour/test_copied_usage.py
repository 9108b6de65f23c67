"""A copied namespace on a table with a stream: the aggregator counts what is used from then on, and nothing twice."""

from pathlib import Path

import pytest

from support.aggregator.lives import Life
from support.aggregator.streams import LABEL, Record
from support.core.copies import Killed as KilledCopy
from support.core.copies import MortalStore, answers, copy, fill, opened, table_over, usage
from zae_limiter import Limit, SyncRateLimiter
from zae_limiter.engines.engine import SyncStore
from zae_limiter.engines.memory.store import SyncMemoryStore
from zae_limiter.engines.sqlite.sync import SyncSQLiteStore
from zae_limiter.operations.values import Scan
from zae_limiter.schema.changes import consumption

ENTITIES = ("project", "key/1|ü", "key-2")


@pytest.fixture
def life() -> Life:
    return Life()


@pytest.fixture
def file(life: Life, tmp_path: Path) -> SyncStore:
    return SyncSQLiteStore(tmp_path / "limits.db", clock=life.clock)


def stored(life: Life) -> SyncStore:
    return SyncMemoryStore(life.table)


def use(*limiters: SyncRateLimiter) -> None:
    """The same use of each, of a copied bucket and of one that is new."""
    for limiter in limiters:
        for entity in ENTITIES:
            with limiter.acquire(entity, "gpt-4", {"rpm": 4}) as lease:
                lease.adjust(rpm=-1)


def test_the_stream_of_a_copy_counts_nothing_and_later_use_is_added(life: Life, file: SyncStore) -> None:
    source = opened(file, life.clock)
    fill(source, life.clock)
    copy(table_over(file, life.clock), table_over(stored(life), life.clock))
    target = opened(stored(life), life.clock, register=False)
    before = answers(target)
    assert life.drain().snapshots == 0
    assert answers(target) == before == answers(source)
    use(source, target)
    life.drain()
    assert [usage(target, entity) for entity in ENTITIES] == [usage(source, entity) for entity in ENTITIES]


def test_a_copy_that_was_killed_and_repeated_is_counted_once_too(life: Life, file: SyncStore) -> None:
    source = opened(file, life.clock)
    fill(source, life.clock)
    for lives in (1, 2):
        with pytest.raises(KilledCopy):
            copy(table_over(file, life.clock), table_over(MortalStore(stored(life), lives), life.clock))
    copy(table_over(file, life.clock), table_over(stored(life), life.clock))
    target = opened(stored(life), life.clock, register=False)
    use(source, target)
    life.drain()
    assert [usage(target, entity) for entity in ENTITIES] == [usage(source, entity) for entity in ENTITIES]


def test_the_marks_of_a_younger_stream_do_not_hide_what_is_used_later(life: Life) -> None:
    """Of two stacks, the one that is copied from may have the later stream."""
    other = Life()
    source = opened(SyncMemoryStore(other.table), life.clock)
    source.set_system_defaults([Limit.per_minute("rpm", 100)])
    use(source)
    other.take([_with_label(each, "2030-01-01T00:00:00.000") for each in other.table.stream])
    copy(table_over(SyncMemoryStore(other.table), life.clock), table_over(stored(life), life.clock), "prod")
    target = opened(stored(life), life.clock, register=False)
    use(target)
    life.drain()
    (hour, _) = usage(target, "key-2")
    assert (hour.consumed, hour.total_events) == ({"rpm": 6}, 2)


def _with_label(record: Record, label: str) -> Record:
    return {**record, "eventSourceARN": record["eventSourceARN"].replace(LABEL, label)}


def test_no_inserted_bucket_of_a_copy_looks_like_use(life: Life, file: SyncStore) -> None:
    fill(opened(file, life.clock), life.clock)
    copy(table_over(file, life.clock), table_over(stored(life), life.clock))
    buckets = [item for item in life.table.execute(Scan(1000)).items if item["SK"] == "#STATE"]
    assert len(buckets) == 4
    assert not any(consumption(None, item) for item in buckets)
