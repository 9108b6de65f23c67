"""What lives here: what splits a bucket, and what does not: its pace, a store that throttles it, clocks.
What never does: a split that somebody asked for (test_shards, test_shards_killed).
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import Any

import pytest

from support.integration.bucket_shards import BucketShards, Reader, Watch
from support.integration.harness import Harness
from support.integration.proxy import Fault, Proxy
from support.integration.split_processes import Fate, Place, Worker, taker
from zae_limiter import Limit, RateLimiter, RateLimiterUnavailable, RateLimitExceeded
from zae_limiter.clock.system import SystemClock
from zae_limiter.operations.values import Transact

pytestmark = pytest.mark.parametrize("variant", ["async"], indirect=True)
processes = pytest.mark.needs("endpoint", "atomic")

TEN_YEARS = 10 * 365 * 24 * 3600
STANDING = Limit.custom("rpm", 1_000_000, refill_amount=1, refill_period=TEN_YEARS)
FIRST = 500_000  # so that no shard is near its ceiling: what runs over is lost, by design
TIMEOUT_SECONDS = 120.0


@pytest.fixture
async def limiter(harness: Harness) -> RateLimiter:
    limiter = await harness.open()
    await limiter.set_resource_defaults("gpt-4", [STANDING])
    async with limiter.acquire("key", "gpt-4", {"rpm": FIRST}):
        return limiter


class Drivers:
    """Processes of both variants that all take from the bucket."""

    def __init__(self, places: list[Place], reader: Reader) -> None:
        self._reader = reader
        self._workers = [Worker(taker, place, seed) for seed, place in enumerate(places)]
        for worker in self._workers:
            worker.wait_until_ready()

    def bucket(self) -> BucketShards:
        """The bucket as it is now."""
        return self._reader.read("key", "gpt-4", "rpm")

    def wait_until(self, holds: Callable[[BucketShards], bool]) -> None:
        """Wait until this holds of the bucket."""
        end = time.monotonic() + TIMEOUT_SECONDS
        while not holds(self.bucket()):
            assert time.monotonic() < end, self.bucket()
            time.sleep(0.1)

    def survivors(self) -> int:
        """How many of them have not died yet."""
        return sum(worker.lives for worker in self._workers)

    def begin(self) -> None:
        """Have them take."""
        for worker in self._workers:
            worker.order("key")

    def end(self) -> list[Fate]:
        """How each of them fared."""
        for worker in self._workers:
            worker.order("end")
        return [worker.fate() for worker in self._workers]

    def close(self) -> None:
        """End them."""
        for worker in self._workers:
            worker.close()


@pytest.fixture
def reader(limiter: RateLimiter, harness: Harness) -> Iterator[Reader]:
    reader = Reader(harness.target.endpoint_url or "", harness.table_name, harness.namespace_id)
    yield reader
    reader.close()


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def spread(before: BucketShards, after: BucketShards, families: int) -> list[float]:
    """Which part of the writes in between each shard had, with those that were split off from it since."""
    parts = [0] * families
    for shard, writes in after.writes.items():
        parts[shard % families] += writes - before.writes.get(shard, 0)
    return [part / sum(parts) for part in parts]


def is_spread(drivers: Drivers, families: int) -> bool:
    """Whether each shard has a good part of the next 200 writes."""
    before = drivers.bucket()
    drivers.wait_until(lambda bucket: sum(bucket.writes.values()) >= sum(before.writes.values()) + 200)
    parts = spread(before, drivers.bucket(), families)
    assert min(parts) > 0.4 / families, parts
    return True


@processes
async def test_a_bucket_that_is_driven_splits_by_itself_and_spreads_its_writes(
    harness: Harness, reader: Reader, limiter: RateLimiter, closing: ExitStack
) -> None:
    """Three processes, one of which dies when it is about to split a shard."""
    at = Place(harness.target.endpoint_url or "", harness.table_name, split_above=10)
    mortal = replace(at, split_above=1, lives=0, mortal=(Transact,))
    drivers = Drivers([at, replace(at, variant="sync"), mortal], reader)
    closing.callback(drivers.close)
    with Watch(reader, "key", "gpt-4", "rpm"):
        drivers.begin()
        drivers.wait_until(lambda bucket: bucket.writes.keys() >= {0, 1, 2, 3} and drivers.survivors() == 2)
        assert is_spread(drivers, 4)
        fates = drivers.end()
    assert [fate.died for fate in fates] == [False, False, True]
    taken, admitted = drivers.bucket().consumed // 1000 - FIRST, sum(fate.admitted for fate in fates)
    assert admitted <= taken <= admitted + fates[2].pending
    assert await limiter.available("key", "gpt-4") == {"rpm": STANDING.capacity - FIRST - taken}


@dataclass(slots=True)
class Ceiling(Fault):
    """DynamoDB's limit on the writes a second to one item; the refused ones do not count."""

    per_second: float = 60.0
    due: dict[bytes, float] = field(default_factory=dict)

    def takes(self, request: str, body: bytes) -> bool:
        if request not in {"UpdateItem", "TransactWriteItems"}:
            return False
        now, keys = time.monotonic(), set(re.findall(rb'BUCKET#[^"]+', body))
        if any(self.due.get(key, 0.0) > now for key in keys):
            return True
        self.due |= dict.fromkeys(keys, now + 1 / self.per_second)
        return False


@processes
async def test_a_bucket_that_the_store_throttles_splits_and_spreads_its_writes(
    harness: Harness, reader: Reader, proxy: Proxy, limiter: RateLimiter, closing: ExitStack
) -> None:
    proxy.faults.append(Ceiling("throttle", ""))
    tolerant = (RateLimitExceeded, RateLimiterUnavailable)
    at = Place(proxy.url, harness.table_name, split_above=200, refusals=tolerant)  # more than the store takes
    drivers = Drivers([at, replace(at, variant="sync")], reader)
    closing.callback(drivers.close)
    with Watch(reader, "key", "gpt-4", "rpm"):
        drivers.begin()
        drivers.wait_until(lambda bucket: bucket.writes.keys() >= {0, 1})
        assert is_spread(drivers, 2)
        fates = drivers.end()
    assert drivers.bucket().consumed // 1000 == FIRST + sum(fate.admitted for fate in fates)


HOUR, DAY = 3600, 24 * 3600
JUMPS = (0, HOUR, 2, DAY, 0, 7, HOUR + 1)  # never behind the bucket, which would have it anchored anew


class Jumping:
    """A clock that nothing corrects, set forward and back all the time."""

    def __init__(self) -> None:
        self._jumps = cycle(JUMPS)

    def now_ms(self) -> int:
        """Epoch milliseconds, of some hour or other."""
        return time.time_ns() // 1_000_000 + 1000 * next(self._jumps)


def machine(fast_seconds: int) -> SystemClock:
    """A machine whose wall clock is wrong by so much."""
    return SystemClock(wall_ns=lambda: time.time_ns() + fast_seconds * 10**9)


async def visit(limiter: RateLimiter, entity_id: str) -> None:
    async with limiter.acquire(entity_id, "gpt-4", {"rpm": 1}):
        pass


async def visit_often(limiter: RateLimiter, entity_id: str) -> None:
    for _ in range(12):
        await visit(limiter, entity_id)
        await asyncio.sleep(0.2)


@pytest.mark.needs("atomic")
async def test_no_clock_splits_a_bucket_that_is_slow_or_idle(harness: Harness) -> None:
    admin = await harness.open()
    for entity_id in ("slow", "idle"):
        await admin.set_limits(entity_id, [STANDING], "gpt-4")
        await visit(admin, entity_id)
    clocks: list[dict[str, Any]] = [{}, {"machine": machine(HOUR)}, {"machine": machine(-DAY)}, {"clock": Jumping()}]
    visitors = [await harness.open(split_above=60, **clock) for clock in clocks]
    for limiter in visitors:
        await visit(limiter, "idle")
    await asyncio.gather(*(visit_often(limiter, "slow") for limiter in visitors))
    for limiter in visitors:
        await visit(limiter, "idle")
    for entity_id, admitted in (("slow", 49), ("idle", 9)):
        bucket = harness.bucket(entity_id, "gpt-4")
        assert bucket is not None
        assert (bucket["shard_count"], bucket["b_rpm_tc"]) == (1, admitted * 1000)
