"""What lives here: what an acquire on a bucket of several shards gets, and what it costs, in both variants.
What never does: several processes (test_shards_killed), what splits a bucket (test_shards_pace).
"""

import asyncio
from contextlib import suppress

import pytest

from support.core.owners import maintenance_of
from support.integration.harness import Harness
from zae_limiter import Limit, RateLimiter, RateLimitExceeded
from zae_limiter.clock.system import SystemClock
from zae_limiter.exceptions import ContentionError
from zae_limiter.flows.bucket.splitting import split_shard
from zae_limiter.flows.process.namespace_state import NamespaceState, Settings
from zae_limiter.flows.steps import Log, Sleep, play
from zae_limiter.schema.items import BucketId

pytestmark = pytest.mark.needs("atomic")

DAILY = Limit.per_day("rpm", 100)


@pytest.fixture
async def limiter(harness: Harness) -> RateLimiter:
    """One who has taken 10 of 100 tokens, and takes what it saw within a minute for fresh: an emulator may be slow."""
    limiter = await harness.open(rejection_staleness=60)
    await limiter.set_resource_defaults("gpt-4", [DAILY])
    await take(limiter, 10)
    return limiter


async def take(limiter: RateLimiter, amount: int) -> None:
    async with limiter.acquire("key", "gpt-4", {"rpm": amount}):
        pass


def split_into(harness: Harness, count: int) -> None:
    """Have somebody, who tells nobody, split all shards of the bucket until there are so many."""
    namespace_state = NamespaceState(
        "default", harness.namespace_id, stack="aside", now=SystemClock().now_ms, settings=Settings()
    )
    shards = 1
    while shards < count:
        for shard in range(shards):
            flow = split_shard(namespace_state, BucketId(harness.namespace_id, "key", "gpt-4", shard))
            play(flow, lambda step: None if isinstance(step, (Sleep, Log)) else harness.perform(step))
        shards *= 2
    harness.meter.reset()


def consumed(harness: Harness, count: int) -> list[int]:
    """What each shard has counted, in millitokens."""
    buckets = [BucketId(harness.namespace_id, "key", "gpt-4", shard) for shard in range(count)]
    pks = [bucket.pk for bucket in buckets]
    return [item["b_rpm_tc"] for pk in pks for item in harness.items() if item["PK"] == pk]


async def test_most_of_the_capacity_passes_at_once_on_four_shards_and_costs_a_write_for_each(
    harness: Harness, limiter: RateLimiter
) -> None:
    split_into(harness, 4)
    newcomer = await harness.open()
    await take(newcomer, 80)
    assert harness.meter.snapshot().requests["UpdateItem"] == 4
    assert sum(consumed(harness, 4)) == 90_000
    assert await newcomer.available("key", "gpt-4") == {"rpm": 10}
    with pytest.raises(RateLimitExceeded) as refusal:
        await take(newcomer, 11)
    assert refusal.value.primary_violation.available == 10
    assert sum(consumed(harness, 4)) == 90_000
    await take(newcomer, 10)


async def test_who_knows_of_no_shards_gets_most_of_the_capacity_too(harness: Harness, limiter: RateLimiter) -> None:
    split_into(harness, 4)
    await take(limiter, 80)
    assert await limiter.available("key", "gpt-4") == {"rpm": 10}
    assert sum(consumed(harness, 4)) == 90_000


async def test_who_has_not_heard_of_a_split_obeys_after_one_lost_race(harness: Harness, limiter: RateLimiter) -> None:
    split_into(harness, 2)
    await take(limiter, 1)
    assert dict(harness.meter.snapshot().requests) == {"UpdateItem": 2}
    harness.meter.reset()
    for _ in range(20):
        await take(limiter, 1)
    assert dict(harness.meter.snapshot().requests) == {"UpdateItem": 20, "BatchGetItem": 1}  # to find the other shard
    assert min(consumed(harness, 2)) > 0
    assert sum(consumed(harness, 2)) == 31_000


async def test_a_refusal_by_fresh_copies_of_all_shards_asks_nobody(harness: Harness, limiter: RateLimiter) -> None:
    split_into(harness, 4)
    await take(limiter, 90)
    harness.meter.reset()
    for _ in range(3):
        with pytest.raises(RateLimitExceeded):
            await take(limiter, 1)
    assert dict(harness.meter.snapshot().requests) == {}


@pytest.mark.long(keep=1)
async def test_a_bucket_merges_while_many_take_and_give_back_and_the_ledger_is_exact(harness: Harness) -> None:
    """A total does not refill: what callers kept and what is left are all that there was, to the thousandth."""
    processes = [await harness.open() for _ in range(3)]
    await processes[0].set_resource_defaults("gpt-4", [Limit.total("rpm", 10_000)])
    await take(processes[0], 1)
    split_into(harness, 16)
    kept, merged = [1], False

    async def work(limiter: RateLimiter, number: int) -> None:
        while not merged or len(kept) < 200:
            async with limiter.acquire("key", "gpt-4", {"rpm": 1 + number % 3}) as lease:
                if number % 2:
                    await lease.adjust(rpm=number % 5 - 1)
            kept.append(sum(lease.consumed.values()))

    callers = [asyncio.create_task(work(processes[number % 3], number)) for number in range(6)]
    while not merged:
        with suppress(ContentionError):  # they write all the time, and a merge needs a moment without
            await maintenance_of(processes[0].repository).merge_bucket("key", "gpt-4")
        bucket = await processes[0].repository.get_bucket("key", "gpt-4")
        assert bucket is not None
        merged = bucket.shard_count == 1
    await asyncio.gather(*callers)
    for limiter in processes:
        await limiter.close()  # what comes back to a shard that has merged, nobody waits for
    left = await (await harness.open()).available("key", "gpt-4")
    assert left == {"rpm": 10_000 - sum(kept)}
    assert [item["shard_count"] for item in harness.items() if "shard_count" in item] == [1]
