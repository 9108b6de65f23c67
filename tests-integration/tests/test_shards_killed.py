"""What lives here: a bucket that is split under load by a process that dies right before any of its writes.
What never does: when a bucket splits by itself (test_shards_pace), what an acquire on shards costs (test_shards).
"""

import os
import time
from collections.abc import Iterator
from itertools import count, cycle

import pytest

from support.integration.awaited import Variant
from support.integration.bucket_shards import BucketShards, Reader, Watch
from support.integration.harness import Harness
from support.integration.split_processes import Fate, Place, Worker, ready, splitter, taker
from zae_limiter import Limit, RateLimiter, RateLimitExceeded

pytestmark = [pytest.mark.needs("endpoint", "atomic"), pytest.mark.parametrize("variant", ["async"], indirect=True)]

VARIANTS: tuple[Variant, Variant] = ("async", "sync")
TEN_YEARS = 10 * 365 * 24 * 3600
STANDING = Limit.custom("rpm", 15_000, refill_amount=1, refill_period=TEN_YEARS)
FIRST = 12_000  # so that no shard is near its ceiling: what runs over is lost, by design
LARGE = 700  # more than one of eight shards has
LATE_SECONDS = 0.2  # a request outlives who sent it
EVERY_WRITE = os.environ.get("ZAEL_TEST_EVERY_WRITE") == "1"  # some minutes; else a few of them


@pytest.fixture
async def limiter(harness: Harness) -> RateLimiter:
    limiter = await harness.open()
    await limiter.set_resource_defaults("gpt-4", [STANDING])
    return limiter


@pytest.fixture
def reader(limiter: RateLimiter, harness: Harness) -> Iterator[Reader]:
    reader = Reader(harness.target.endpoint_url or "", harness.table_name, harness.namespace_id)
    yield reader
    reader.close()


@pytest.fixture
def takers(limiter: RateLimiter, harness: Harness) -> Iterator[list[Worker]]:
    """One process of each variant."""
    with ready(*(Worker(taker, place(harness, variant), seed) for seed, variant in enumerate(VARIANTS))) as workers:
        yield workers


def place(harness: Harness, variant: Variant, *, lives: int | None = None) -> Place:
    return Place(harness.target.endpoint_url or "", harness.table_name, variant, lives=lives)


def deaths(harness: Harness) -> Iterator[tuple[int, Variant]]:
    """After how many writes a process of which variant dies."""
    if not EVERY_WRITE:
        yield from zip(harness.target.quirks.deaths, cycle(VARIANTS))
        return
    for lives in count():
        for variant in VARIANTS:
            yield lives, variant


async def take(limiter: RateLimiter, entity_id: str, amount: int) -> None:
    async with limiter.acquire(entity_id, "gpt-4", {"rpm": amount}):
        pass


def split_under_load(takers: list[Worker], mortal: Worker, entity_id: str) -> tuple[Fate, int]:
    """How the process fared that splits, and what the others got meanwhile."""
    mortal.wait_until_ready()
    for worker in [*takers, mortal]:
        worker.order(entity_id)
    fate = mortal.fate()
    for worker in takers:
        worker.order("end")
    return fate, sum(worker.fate().admitted for worker in takers)


def settled(reader: Reader, entity_id: str) -> BucketShards:
    """The bucket when the last requests of dead processes have been applied."""
    bucket: BucketShards | None = None
    while bucket != (bucket := reader.read(entity_id, "gpt-4", "rpm")):
        time.sleep(LATE_SECONDS)
    return bucket


async def all_is_there(limiter: RateLimiter, reader: Reader, entity_id: str) -> None:
    """What was not consumed can be taken at once, from all shards, and not a token more."""
    consumed = reader.read(entity_id, "gpt-4", "rpm").consumed
    left, part = divmod(STANDING.capacity * 1000 - consumed, 1000)  # who dies may leave a part of a request behind
    assert await limiter.available(entity_id, "gpt-4") == {"rpm": left}
    await take(limiter, entity_id, left)
    with pytest.raises(RateLimitExceeded):
        await take(limiter, entity_id, 1)
    assert reader.read(entity_id, "gpt-4", "rpm").consumed == STANDING.capacity * 1000 - part


async def test_no_death_between_two_writes_of_a_split_makes_or_loses_a_token(
    harness: Harness, limiter: RateLimiter, takers: list[Worker], reader: Reader
) -> None:
    outlived: set[Variant] = set()
    for lives, variant in deaths(harness):
        entity_id = f"split-by-{variant}-that-dies-after-{lives}"
        await take(limiter, entity_id, FIRST)
        mortal = Worker(splitter, place(harness, variant, lives=lives), entity_id, LARGE)
        with Watch(reader, entity_id, "gpt-4", "rpm"):
            fate, survivors = split_under_load(takers, mortal, entity_id)
        mortal.close()
        taken = settled(reader, entity_id).consumed / 1000 - FIRST - survivors
        assert fate.admitted <= taken <= fate.admitted + fate.pending, (entity_id, fate)
        await all_is_there(limiter, reader, entity_id)
        if not fate.died:
            assert len(reader.read(entity_id, "gpt-4", "rpm").shards) >= 8
            outlived.add(variant)
        if outlived == set(VARIANTS):
            break
