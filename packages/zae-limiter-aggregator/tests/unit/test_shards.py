"""Shards that are written too often, as the stream shows it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.aggregator.lives import START_MS, Life
from support.aggregator.streams import Record, record
from zae_limiter import Options, SyncRateLimiter, SyncRepository
from zae_limiter.engines.memory.store import SyncMemoryStore
from zae_limiter.flows.bucket.splitting import split_shard
from zae_limiter.operations.values import Delete, Get, Item, Key, Update
from zae_limiter.schema.items import BucketId
from zae_limiter.schema.keys import sk_state
from zae_limiter_aggregator.batch import read_batch
from zae_limiter_aggregator.shards import write_rate


def image(writes: int, shards: int = 1) -> dict[str, Any]:
    return {**BucketId("ns", "e", "r").attributes(), "rf": 1, "shard_count": shards, "b_wcu_tc": writes * 1000}


def burst(number: int, milliseconds: int, *, shards: int = 1, begin: int = 0) -> list[Record]:
    """So many writes, evenly spread, from so many milliseconds behind a full second on."""
    return [
        record(n, image(n, shards), image(n + 1, shards), at_ms=START_MS + begin + n * milliseconds // number)
        for n in range(number)
    ]


@pytest.mark.parametrize(
    ("number", "milliseconds", "begin", "expected"),
    [
        (1000, 1000, 0, 1000),
        (1000, 100, 0, 1000),
        (1000, 2000, 0, 500),
        (10, 10, 0, 10),
        (855, 1900, 50, 428),  # they bear two dates, which are a second apart
        (1000, 1000, 500, 500),
        (2000, 2000, 300, 1000),
    ],
)
def test_the_fullest_second_of_the_clock_counts(number: int, milliseconds: int, begin: int, expected: int) -> None:
    assert write_rate(read_batch(burst(number, milliseconds, begin=begin)).changes) == expected


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=200))
def test_no_shard_is_taken_for_one_that_is_written_more_often_than_it_is(instants: list[int]) -> None:
    instants.sort()
    records = [record(n, image(n), image(n + 1), at_ms=START_MS + at) for n, at in enumerate(instants)]
    within_a_second = (sum(first <= at < first + 1000 for at in instants) for first in instants)
    assert write_rate(read_batch(records).changes) <= max(within_a_second)


def test_a_record_that_comes_twice_is_no_second_write() -> None:
    records = burst(500, 1000)
    assert write_rate(read_batch([each for each in records for _ in range(2)]).changes) == 500


def test_writes_from_before_the_last_split_do_not_count() -> None:
    records = [*burst(900, 1000), record(900, image(900), image(901, 2), at_ms=START_MS + 999), *burst(5, 5, shards=2)]
    assert write_rate(read_batch(records[:901]).changes) == 1


class Busy(Life):
    """A bucket that is written as often as a test says."""

    def __init__(self) -> None:
        super().__init__()
        with self.limiter.acquire("key-abc", "gpt-4", {"tpm": 500}):
            pass
        self.bucket = BucketId(self.repository.namespace_id, "key-abc", "gpt-4")

    def write(self, number: int, *, shard: int = 0) -> list[Record]:
        """So many writes to a shard within a second; the records of them."""
        self.clock.advance(1)
        before = len(self.stream)
        for _ in range(number):
            self.table.execute(Update(self.key(shard), add={"b_wcu_tc": 1000}))
        return self.stream[before:]

    def split(self, shard: int) -> list[Record]:
        """Split a shard, as a client does; the records of it."""
        self.clock.advance(1)  # so that no anchor lies in the future
        before = len(self.stream)
        self.repository.driver.run(split_shard(self.repository.namespace_state, self.bucket.other(shard)))
        return self.stream[before:]

    def counts(self) -> list[int]:
        """What each shard says how many there are."""
        items: list[Item | None] = [self.table.execute(Get(self.key(shard))) for shard in range(16)]
        return [item["shard_count"] for item in items if item is not None]

    def available(self) -> dict[str, int]:
        found = self.repository.get_bucket("key-abc", "gpt-4")
        assert found is not None
        return dict(found.available)

    def key(self, shard: int) -> Key:
        return Key(self.bucket.other(shard).pk, sk_state())


@pytest.mark.parametrize(("number", "splits"), [(799, 0), (800, 1), (1000, 1)])
def test_a_shard_is_split_at_eighty_percent_of_what_an_item_takes(number: int, splits: int) -> None:
    life = Busy()
    records = life.write(number)
    before = life.available()
    account = life.take(records)
    assert (account.splits, life.counts()) == (splits, [2, 2] if splits else [1])
    assert life.available() == before


def test_a_batch_that_comes_again_splits_nothing_again() -> None:
    life = Busy()
    records = life.write(900)
    assert [life.take(records).splits for _ in range(3)] == [1, 0, 0]
    assert life.counts() == [2, 2]


def test_a_batch_that_comes_late_takes_nothing_from_a_bucket_that_was_anchored_since() -> None:
    life = Busy()
    records = life.write(900)
    life.clock.advance(600)
    life.repository.reset_bucket("key-abc", "gpt-4")
    life.clock.advance(1)
    assert life.take(records).splits == 1
    assert life.available() == {"rpm": 1_000_000, "tpm": 1_000_000}


def test_of_another_shard_than_the_first_the_first_is_split_before() -> None:
    life = Busy()
    life.split(0)
    assert life.take(life.write(900, shard=1)).splits == 2
    assert life.counts() == [4, 4, 4, 4]


def test_where_shard_0_was_split_the_others_follow() -> None:
    life = Busy()
    life.split(0)
    before = life.available()
    records = life.split(0)
    assert life.counts() == [4, 2, 4]
    life.clock.advance(1)
    assert life.take(records).splits == 1
    assert life.counts() == [4, 4, 4, 4]
    assert life.available() == before


def test_a_bucket_in_one_piece_has_no_others() -> None:
    life = Busy()
    assert life.take(life.split(0)).splits == 0
    assert life.counts() == [2, 2]


def test_where_shard_0_was_split_twice_in_a_batch_the_others_follow_twice() -> None:
    life = Busy()
    life.split(0)
    records = [*life.split(0), *life.split(0)]
    assert life.counts() == [8, 2, 4, 8]
    assert life.take(records).splits == 4
    assert life.counts() == [8] * 8
    assert life.take(records).splits == 0


def test_a_shard_that_is_gone_is_left_alone() -> None:
    life = Busy()
    records = life.write(900)
    life.clock.advance(3600)
    life.table.expire(life.clock.now_ms() // 1000)
    assert life.take(records).splits == 0
    assert life.counts() == []


def test_what_was_consumed_before_and_after_a_split_is_counted() -> None:
    life = Busy()
    life.take(life.write(900))
    for _ in range(40):
        with life.limiter.acquire("key-abc", "gpt-4", {"tpm": 5}):
            pass
    life.drain()
    (usage,) = life.usage("key-abc", "daily")
    assert (dict(usage.consumed), usage.total_events) == ({"tpm": 700}, 41)


def test_a_shard_that_outlived_its_bucket_and_is_replaced_takes_nothing_back() -> None:
    life = Busy()
    life.split(0)
    for _ in range(20):
        with life.limiter.acquire("key-abc", "gpt-4", {"tpm": 5}):
            pass
    life.table.execute(Delete(life.key(0)))
    life.clock.advance(3600)
    other = SyncRateLimiter(SyncRepository.over(SyncMemoryStore(life.table), Options(stack="demo", clock=life.clock)))
    with other.acquire("key-abc", "gpt-4", {"tpm": 500}):
        pass
    life.split(0)
    assert life.counts() == [2, 2]
    life.drain()
    (usage,) = life.usage("key-abc", "daily")
    assert (dict(usage.consumed), usage.total_events) == ({"tpm": 1100}, 22)


def test_a_request_that_several_shards_serve_is_counted_whole() -> None:
    life = Busy()
    life.take(life.write(900))
    life.clock.advance(10)
    with life.limiter.acquire("key-abc", "gpt-4", {"tpm": 999_999}):
        pass
    life.drain()
    (usage,) = life.usage("key-abc", "daily")
    assert (dict(usage.consumed), usage.total_events) == ({"tpm": 1_000_499}, 2)


def written_for(life: Busy, seconds: int, per_second: int) -> list[Record]:
    """So many writes a second to shard 0; the records of them, one a second."""
    before = len(life.stream)
    for _ in range(seconds):
        life.clock.advance(1)
        life.table.execute(Update(life.key(0), add={"b_wcu_tc": 1000 * per_second}))
    return life.stream[before:]


def test_a_bucket_that_is_quiet_for_ten_minutes_has_one_shard_again() -> None:
    life = Busy()
    life.split(0)
    life.split(0)
    life.split(1)
    before = life.available()
    assert life.take(written_for(life, 590, 1)).merges == 0
    records = written_for(life, 20, 1)
    usage = life.take(records)
    assert (usage.merges, usage.splits, usage.dropped, life.counts()) == (3, 0, 0, [1])
    life.clock.advance(0.01)  # two anchors were set within a millisecond
    assert life.available() == before
    assert life.take(records).merges == 0
    assert life.take(written_for(life, 700, 1)).merges == 0


def test_a_bucket_that_is_written_often_stays_split_and_is_measured_anew_every_ten_minutes() -> None:
    """Traffic that has ended long ago does not keep a bucket split: each time begins with its own count."""
    life = Busy()
    life.split(0)
    for _ in range(2):
        account = life.take(written_for(life, 601, 65))  # 130 a second on both shards
        assert (account.merges, account.refills, life.counts()) == (0, 1, [2, 2])
    assert life.take(written_for(life, 601, 60)).merges == 1


def test_a_bucket_that_was_split_before_anybody_noted_its_writes_is_measured_first() -> None:
    life = Busy()
    life.split(0)
    life.table.execute(Update(life.key(0), add={"b_wcu_tc": 1000}, remove=("wa",)))
    assert [life.take(written_for(life, 601, 1)).merges for _ in range(2)] == [0, 1]


def test_merges_count_no_usage_again() -> None:
    life = Busy()
    life.split(0)
    for _ in range(50):
        with life.limiter.acquire("key-abc", "gpt-4", {"tpm": 500}):
            pass
    life.clock.advance(601)
    with life.limiter.acquire("key-abc", "gpt-4", {"tpm": 500}):
        pass
    written_for(life, 1, 1)
    life.take(life.stream)
    assert life.counts() == [1]
    life.take(life.stream)
    found = life.repository.get_bucket("key-abc", "gpt-4")
    assert found is not None
    assert {each.limit.name: each.consumed for each in found.limits} == {"rpm": 0, "tpm": 52 * 500}
    (day,) = life.usage("key-abc", "daily")
    assert (day.consumed, day.total_events) == ({"tpm": 52 * 500}, 52)


def test_a_batch_merges_few_of_many_quiet_buckets_and_the_next_ones_the_others() -> None:
    life = Busy()
    for number in range(10):
        with life.limiter.acquire(f"key-{number}", "gpt-4", {"tpm": 500}):
            pass
        life.bucket = BucketId(life.repository.namespace_id, f"key-{number}", "gpt-4")
        life.split(0)
    life.clock.advance(600)
    before = len(life.stream)
    for number in range(10):
        life.bucket = BucketId(life.repository.namespace_id, f"key-{number}", "gpt-4")
        life.table.execute(Update(life.key(0), add={"b_wcu_tc": 1000}))
    records = life.stream[before:]
    assert life.take(records).merges == 8
    for _ in range(30):
        life.take(records)
    ids = [BucketId(life.repository.namespace_id, f"key-{number}", "gpt-4") for number in range(10)]
    items = [life.table.execute(Get(Key(each.pk, sk_state()))) for each in ids]
    assert {item["shard_count"] for item in items} == {1}
