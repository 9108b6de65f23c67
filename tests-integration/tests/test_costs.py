"""What lives here: requests and write units of every row of "One acquire = one write", counted.
What never does: who is admitted (test_concurrency, test_failures).
"""

import asyncio
from collections.abc import Iterator
from itertools import pairwise

import pytest

from support.integration.clocks import START_MS
from support.integration.harness import Harness
from support.integration.proxy import Call, Fault, Proxy
from support.integration.targets import Target
from zae_limiter import Limit, RateLimiter, RateLimitExceeded
from zae_limiter.testing import ManualClock

pytestmark = pytest.mark.needs("atomic", "capacity")

RPM, TPM = Limit.per_minute("rpm", 100), Limit.per_minute("tpm", 10_000)
ONE = {"rpm": 1, "tpm": 50}
FOREVER = 10**6  # seconds; reading configs is a row of its own
INDEXES_OF_A_BUCKET = 3


def costs(harness: Harness, *, write: float = 0, index: float = 0, **requests: int) -> bool:
    """Whether exactly these requests were sent, and the units are these; says what it was where not."""
    meter = harness.meter.snapshot()
    assert (dict(meter.requests), meter.write_units, meter.index_units) == (requests, write, index)
    return True


async def take(limiter: RateLimiter, entity: str = "key", amounts: dict[str, int] | None = None) -> None:
    async with limiter.acquire(entity, "gpt-4", amounts or ONE) as lease:
        assert not lease.degraded


async def refused(limiter: RateLimiter, entity: str = "key", amounts: dict[str, int] | None = None) -> None:
    with pytest.raises(RateLimitExceeded):
        await take(limiter, entity, amounts)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS)


async def opened(harness: Harness, clock: ManualClock, *, config_cache_ttl: float = FOREVER) -> RateLimiter:
    """A limiter with limits for everybody on gpt-4; nobody has a bucket."""
    limiter = await harness.open(clock=clock, config_cache_ttl=config_cache_ttl)
    await limiter.set_resource_defaults("gpt-4", [RPM, TPM])
    harness.meter.reset()
    return limiter


async def test_admitted_costs_one_write_however_long_ago_the_last_one_was(harness: Harness, clock: ManualClock) -> None:
    limiter = await opened(harness, clock)
    await take(limiter)
    for pause in (0, 0.001, 0.5, 30, 60, 3600, 86_400):
        clock.advance(pause)
        harness.meter.reset()
        await take(limiter)
        assert costs(harness, write=1, UpdateItem=1), pause


async def test_a_misjudged_ceiling_costs_a_second_write(harness: Harness, clock: ManualClock) -> None:
    limiter, other = await opened(harness, clock), await harness.open(clock=clock)
    await take(limiter)
    clock.advance(60)
    await take(other)
    harness.meter.reset()
    await take(limiter)
    assert costs(harness, write=2, UpdateItem=2)


async def test_an_anchor_that_moved_costs_a_second_write(harness: Harness, clock: ManualClock) -> None:
    limiter = await opened(harness, clock)
    await take(limiter)
    clock.advance(1)
    other = await harness.open(clock=clock)
    await other.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 200), TPM])
    await take(other)
    harness.meter.reset()
    await take(limiter)
    assert costs(harness, write=2, UpdateItem=2, BatchGetItem=1)


async def test_tokens_that_others_took_cost_the_refused_one_write(harness: Harness, clock: ManualClock) -> None:
    limiter, other = await opened(harness, clock), await harness.open(clock=clock)
    await take(limiter)
    await take(other, amounts={"rpm": 99})
    harness.meter.reset()
    await refused(limiter)
    assert costs(harness, write=1, UpdateItem=1)


async def test_rejected_by_a_fresh_copy_costs_nothing(harness: Harness, clock: ManualClock) -> None:
    limiter = await opened(harness, clock)
    await take(limiter, amounts={"rpm": 100})
    harness.meter.reset()
    for _ in range(10):
        await refused(limiter)
    clock.advance(0.5)
    await refused(limiter)
    assert costs(harness)


async def test_rejected_by_a_copy_that_is_not_fresh_costs_one_write(harness: Harness, clock: ManualClock) -> None:
    limiter = await opened(harness, clock)
    await take(limiter, amounts={"rpm": 100})
    clock.advance(1)
    harness.meter.reset()
    await refused(limiter, amounts={"rpm": 2})
    assert costs(harness, write=1, UpdateItem=1)


async def test_without_staleness_each_rejection_costs_one_write(harness: Harness, clock: ManualClock) -> None:
    limiter = await harness.open(clock=clock, rejection_staleness=0)
    await limiter.set_resource_defaults("gpt-4", [RPM, TPM])
    await take(limiter, amounts={"rpm": 100})
    harness.meter.reset()
    for _ in range(3):
        await refused(limiter)
    assert costs(harness, write=3, UpdateItem=3)


@pytest.mark.needs("endpoint")
async def test_concurrent_acquires_of_a_bucket_cost_one_write_per_batch(
    harness: Harness, proxy: Proxy, clock: ManualClock
) -> None:
    await opened(harness, clock)
    limiter = await harness.open(clock=clock, endpoint_url=proxy.url)
    await take(limiter)
    proxy.clear()
    proxy.faults = [Fault("late", "UpdateItem", times=1, seconds=2.0)]  # time for forty threads to begin
    harness.meter.reset()
    first = asyncio.create_task(take(limiter))
    await until_called(proxy, 1)
    await asyncio.gather(first, *(take(limiter) for _ in range(40)))
    assert costs(harness, write=2, UpdateItem=2)
    assert harness.consumed("key", "gpt-4", "rpm") == 42_000


@pytest.fixture
async def family(harness: Harness, clock: ManualClock) -> RateLimiter:
    """A child that cascades, and its parent; neither has a bucket."""
    limiter = await opened(harness, clock)
    await limiter.create_entity("project")
    await limiter.create_entity("key", parent_id="project", cascade=True)
    harness.meter.reset()
    return limiter


async def test_a_warm_cascade_costs_one_write_a_side(harness: Harness, family: RateLimiter, clock: ManualClock) -> None:
    await take(family)
    for pause in (0, 10, 3600):
        clock.advance(pause)
        harness.meter.reset()
        await take(family)
        assert costs(harness, write=2, UpdateItem=2)


@pytest.mark.needs("endpoint")
async def test_the_sides_of_a_cascade_are_written_in_parallel(
    harness: Harness, family: RateLimiter, proxy: Proxy, clock: ManualClock
) -> None:
    limiter = await harness.open(clock=clock, endpoint_url=proxy.url)
    await take(limiter)
    proxy.clear()
    proxy.faults = [Fault("late", "UpdateItem", seconds=0.5)]
    await take(limiter)
    assert [call.request for call in proxy.calls] == ["UpdateItem", "UpdateItem"]
    assert overlap(proxy.calls)


async def test_limits_that_expired_are_read_beside_the_write(harness: Harness, clock: ManualClock) -> None:
    limiter = await opened(harness, clock, config_cache_ttl=60)
    await take(limiter)
    clock.advance(61)
    harness.meter.reset()
    await take(limiter)
    assert costs(harness, write=1, UpdateItem=1, BatchGetItem=1)


@pytest.mark.needs("endpoint")
async def test_that_read_adds_no_round_trip(harness: Harness, proxy: Proxy, clock: ManualClock) -> None:
    await opened(harness, clock)
    limiter = await harness.open(clock=clock, endpoint_url=proxy.url)
    await take(limiter)
    clock.advance(61)
    proxy.clear()
    proxy.faults = [Fault("late", name, seconds=0.5) for name in ("UpdateItem", "BatchGetItem")]
    await take(limiter)
    assert sorted(call.request for call in proxy.calls) == ["BatchGetItem", "UpdateItem"]
    assert overlap(proxy.calls)


async def test_a_bucket_unknown_to_the_process_costs_one_read_and_the_write(
    harness: Harness, clock: ManualClock
) -> None:
    await take(await opened(harness, clock))
    limiter = await harness.open(clock=clock)
    await take(limiter)
    assert costs(harness, write=1, BatchGetItem=1, UpdateItem=1)


async def test_a_bucket_that_is_missing_costs_one_read_and_its_creation(harness: Harness, clock: ManualClock) -> None:
    limiter = await opened(harness, clock)
    await take(limiter)
    assert costs(harness, write=1, index=INDEXES_OF_A_BUCKET, BatchGetItem=1, PutItem=1)


async def test_a_child_and_a_parent_that_are_both_missing_are_made_in_one_transaction(
    harness: Harness, family: RateLimiter, target: Target
) -> None:
    await take(family)
    # who the parent is, is known only when the child has been read
    write, index = target.quirks.two_buckets_units
    assert costs(harness, write=write, index=index, BatchGetItem=2, TransactWriteItems=1)


@pytest.mark.long(keep=1)
async def test_acquire_number_5000_costs_what_number_5_costs(harness: Harness, clock: ManualClock) -> None:
    limiter = await harness.open(clock=clock, config_cache_ttl=FOREVER)
    await limiter.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 10**6), Limit.per_minute("tpm", 10**9)])
    for _ in range(4):
        await take(limiter)
    harness.meter.reset()
    await take(limiter)
    assert costs(harness, write=1, UpdateItem=1)
    for start, end in pairwise(range(5, 5_000, 222)):
        await asyncio.gather(*(take(limiter) for _ in range(start, end)))
    await asyncio.gather(*(take(limiter) for _ in range(harness.consumed("key", "gpt-4", "rpm") // 1000, 4_999)))
    harness.meter.reset()
    await take(limiter)
    assert costs(harness, write=1, UpdateItem=1)
    assert harness.consumed("key", "gpt-4", "rpm") == 5_000_000


async def until_called(proxy: Proxy, times: int) -> None:
    """Wait until so many more requests have come by."""
    while proxy.arrived.acquire(blocking=False):
        pass
    for _ in range(times):
        await asyncio.to_thread(proxy.arrived.acquire)


def overlap(calls: list[Call]) -> bool:
    """Whether each call began before the one before it had its answer."""
    return all(later.begun < earlier.ended for earlier, later in pairs(calls))


def pairs(calls: list[Call]) -> Iterator[tuple[Call, Call]]:
    return pairwise(sorted(calls, key=lambda call: call.begun))
