"""What lives here: reads of buckets and of usage, resets and credits, on every target, with what they cost.
What never does: what a read says in every case (core's own tests).
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.core.owners import maintenance_of
from support.core.snapshots import usage_item
from support.integration.clocks import START_MS
from support.integration.harness import Harness
from support.integration.proxy import Fault, Proxy
from support.integration.targets import Target
from zae_limiter import Limit, RateLimiter, RateLimiterUnavailable, ValidationError
from zae_limiter.operations.values import BatchWrite, Put
from zae_limiter.testing import ManualClock
from zae_limiter.values.buckets import BucketLimit, LimitCapacity
from zae_limiter.values.usage import LimitUsage, UsageSnapshot, Window

RPM, TPM = Limit.per_minute("rpm", 100), Limit.per_minute("tpm", 10_000)
DAY = datetime(2026, 9, 1, tzinfo=UTC)

costed = pytest.mark.needs("atomic", "capacity")


def cost(harness: Harness) -> tuple[dict[str, int], float, float]:
    """The requests since the last time, and the units that they read and wrote on the table."""
    meter = harness.meter.snapshot()
    harness.meter.reset()
    return dict(meter.requests), meter.read_units, meter.write_units


async def take(limiter: RateLimiter, entity: str, resource: str = "gpt-4", **amounts: int) -> None:
    async with limiter.acquire(entity, resource, amounts):
        pass


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS)


@pytest.fixture
async def limiter(harness: Harness, clock: ManualClock) -> RateLimiter:
    """Three entities have buckets on gpt-4, one of them on another resource too."""
    limiter = await harness.open(clock=clock)
    await limiter.set_system_defaults([RPM, TPM])
    for entity in ("a", "b", "c"):
        await take(limiter, entity, rpm=40, tpm=1_000)
    await take(limiter, "a", "gpt-4o", rpm=1)
    harness.meter.reset()
    return limiter


@costed
async def test_a_bucket_costs_one_read(harness: Harness, limiter: RateLimiter) -> None:
    bucket = await limiter.repository.get_bucket("a", "gpt-4")
    assert bucket is not None
    assert bucket.limits == (BucketLimit(RPM, 60, 40), BucketLimit(TPM, 9_000, 1_000))
    assert cost(harness) == ({"BatchGetItem": 1}, 1, 0)
    assert await limiter.repository.get_buckets("a", "gpt-4") == [bucket]
    assert cost(harness) == ({"BatchGetItem": 1}, 1, 0)
    assert await limiter.repository.get_bucket("nobody", "gpt-4") is None


@costed
async def test_the_buckets_of_an_entity_cost_a_query_and_a_read_of_each(harness: Harness, limiter: RateLimiter) -> None:
    buckets = await limiter.repository.get_buckets("a")
    assert [(bucket.resource, bucket.available["rpm"]) for bucket in buckets] == [("gpt-4", 60), ("gpt-4o", 99)]
    assert cost(harness) == ({"Query": 1, "BatchGetItem": 1}, 2.5, 0)


@costed
async def test_a_resources_capacity_costs_a_query_and_a_read_of_each_bucket(
    harness: Harness, limiter: RateLimiter
) -> None:
    capacity = await limiter.repository.get_resource_capacity("gpt-4")
    assert capacity.entities == 3
    assert capacity.limits == (LimitCapacity("rpm", 300, 180, 3), LimitCapacity("tpm", 30_000, 27_000, 3))
    asked = harness.partitions  # eight at a time: those of one wave share a read of the items
    requests, units, written = cost(harness)
    assert requests["Query"] == asked
    assert 1 <= requests["BatchGetItem"] <= -(-asked // 8)
    assert (units, written) == (3 + asked / 2, 0)


@costed
async def test_giving_costs_a_read_and_a_transaction(harness: Harness, limiter: RateLimiter, target: Target) -> None:
    table, index = target.quirks.credit_units
    repository = limiter.repository
    assert await repository.credit_bucket("a", "gpt-4", {"rpm": 10}, principal="alice")
    assert harness.meter.snapshot().index_units == index
    assert cost(harness) == ({"BatchGetItem": 1, "TransactWriteItems": 1}, 1, table)
    assert await limiter.available("a", "gpt-4") == {"rpm": 70, "tpm": 9_000}
    harness.meter.reset()
    assert await repository.reset_bucket("a", "gpt-4", principal="bob")
    assert harness.meter.snapshot().index_units == index
    assert cost(harness) == ({"BatchGetItem": 1, "TransactWriteItems": 1}, 1, table)
    assert await limiter.available("a", "gpt-4") == {"rpm": 100, "tpm": 10_000}
    assert harness.consumed("a", "gpt-4", "rpm") == 40_000
    told = (await repository.get_audit_events("a")).events
    assert [(each.action, each.principal) for each in told] == [("bucket_reset", "bob"), ("bucket_credited", "alice")]
    harness.meter.reset()
    assert not await repository.reset_bucket("nobody", "gpt-4")
    assert not await repository.credit_bucket("nobody", "gpt-4", {"rpm": 1})
    assert cost(harness)[0] == {"BatchGetItem": 2}  # emulators do not agree what it costs to read nothing


async def test_who_is_reset_passes_at_once(limiter: RateLimiter) -> None:
    await take(limiter, "a", rpm=60)
    assert not (await limiter.check("a", "gpt-4", {"rpm": 1})).passes
    await limiter.repository.reset_bucket("a", "gpt-4")
    await take(limiter, "a", rpm=100)
    await limiter.repository.credit_bucket("a", "gpt-4", {"rpm": 3})
    await take(limiter, "a", rpm=3)
    assert await limiter.available("a", "gpt-4") == {"rpm": 0, "tpm": 10_000}


def snapshot(entity: str, resource: str, start: datetime, window: Window, amount: int) -> UsageSnapshot:
    return UsageSnapshot(entity, resource, window, start, {"rpm": 1, "tpm": amount}, 1)


@pytest.fixture
def snapshots(harness: Harness, limiter: RateLimiter) -> list[UsageSnapshot]:
    """Two hours of two entities on two resources, and the day of each; oldest first, entities by name."""
    windows: list[tuple[Window, int]] = [("hourly", 0), ("hourly", 1), ("daily", 0)]
    made = [
        snapshot(entity, resource, DAY + timedelta(hours=hour), window, 10 * (hour + 1))
        for resource in ("gpt-4", "gpt-4o")
        for window, hour in windows
        for entity in ("a", "b")
    ]
    assert limiter.repository.namespace_id == harness.namespace_id
    harness.perform(BatchWrite(tuple(Put(usage_item(harness.namespace_id, each)) for each in made)))
    harness.meter.reset()
    return made


@pytest.mark.needs("uncounted")
async def test_usage_comes_by_entity_and_by_resource_in_pages(
    harness: Harness, limiter: RateLimiter, snapshots: list[UsageSnapshot]
) -> None:
    repository = limiter.repository
    hourly = [each for each in snapshots if each.window == "hourly"]
    whole = await repository.get_usage_snapshots(entity_id="a")
    assert list(whole.snapshots) == [each for each in hourly if each.entity_id == "a"]
    assert cost(harness)[0] == {"Query": 1}
    whole = await repository.get_usage_snapshots(resource="gpt-4")
    assert list(whole.snapshots) == [each for each in hourly if each.resource == "gpt-4"]
    assert cost(harness)[0] == {"Query": harness.partitions, "BatchGetItem": 1}
    questions: list[dict[str, Any]] = [
        {"entity_id": "a"},
        {"resource": "gpt-4"},
        {"entity_id": "b", "resource": "gpt-4o"},
    ]
    for asked in questions:
        whole = await repository.get_usage_snapshots(**asked)
        found: list[UsageSnapshot] = []
        following = None
        while True:
            page = await repository.get_usage_snapshots(limit=1, next=following, **asked)
            found += page.snapshots
            if page.next is None:
                break
            following = page.next
        assert tuple(found) == whole.snapshots


@pytest.mark.needs("uncounted")
async def test_usage_is_bounded_in_time(limiter: RateLimiter, snapshots: list[UsageSnapshot]) -> None:
    later = DAY + timedelta(hours=1)
    questions: list[dict[str, Any]] = [
        {"entity_id": "a", "resource": "gpt-4"},
        {"resource": "gpt-4"},
        {"entity_id": "a"},
    ]
    for asked in questions:
        after = await limiter.repository.get_usage_snapshots(start=later, **asked)
        before = await limiter.repository.get_usage_snapshots(end=later, **asked)
        daily = await limiter.repository.get_usage_snapshots(window="daily", start=DAY, **asked)
        assert {each.window_start for each in after.snapshots} == {later}
        assert {each.window_start for each in (*before.snapshots, *daily.snapshots)} == {DAY}
        assert {each.window for each in daily.snapshots} == {"daily"}
        none = await limiter.repository.get_usage_snapshots(start=later + timedelta(days=1), **asked)
        assert none.snapshots == ()


@pytest.mark.needs("uncounted")
async def test_usage_is_summed(harness: Harness, limiter: RateLimiter, snapshots: list[UsageSnapshot]) -> None:
    summary = await limiter.repository.get_usage_summary(resource="gpt-4")
    assert (summary.windows, summary.total_events) == (2, 4)
    assert summary.limits == (LimitUsage("rpm", 4, 2, 2, 2.0), LimitUsage("tpm", 60, 20, 40, 30.0))
    assert cost(harness)[0] == {"Query": harness.partitions, "BatchGetItem": 1}
    assert (await limiter.repository.get_usage_summary(entity_id="a", window="daily")).total_events == 2


async def test_bad_input_is_refused_before_any_request(harness: Harness, limiter: RateLimiter) -> None:
    repository = limiter.repository
    for call in (
        lambda: repository.get_bucket(" ", "gpt-4"),
        lambda: repository.get_buckets("a", " "),
        lambda: repository.get_resource_capacity("_default_"),
        lambda: repository.reset_bucket("a", "gpt-4", principal=""),
        lambda: repository.credit_bucket("a", "gpt-4", {"rpm": 0}),
        lambda: maintenance_of(repository).get_buckets_at([("a", "")]),
        lambda: repository.get_usage_snapshots(entity_id="a", next="?"),
        lambda: repository.get_usage_summary(resource="gpt-4", start=DAY, end=DAY),
    ):
        with pytest.raises(ValidationError):
            await call()
    assert cost(harness) == ({}, 0, 0)


@pytest.mark.needs("endpoint")
async def test_without_the_store_each_says_so_and_gives_nothing(
    harness: Harness, limiter: RateLimiter, clock: ManualClock, proxy: Proxy
) -> None:
    cut_off = (await harness.open(clock=clock, endpoint_url=proxy.url)).repository
    proxy.faults = [Fault("drop", name) for name in ("BatchGetItem", "Query", "TransactWriteItems")]
    for call in (
        lambda: cut_off.get_bucket("a", "gpt-4"),
        lambda: cut_off.get_buckets("a"),
        lambda: cut_off.get_resource_capacity("gpt-4"),
        lambda: cut_off.reset_bucket("a", "gpt-4"),
        lambda: cut_off.get_usage_snapshots(resource="gpt-4"),
        lambda: cut_off.get_usage_summary(entity_id="a"),
    ):
        with pytest.raises(RateLimiterUnavailable):
            await call()
    proxy.faults.pop(0)
    with pytest.raises(RateLimiterUnavailable):
        await cut_off.credit_bucket("a", "gpt-4", {"rpm": 1})
    left = await limiter.available("a", "gpt-4")
    assert left["rpm"] == 60
    assert 9_000 <= left["tpm"] < 9_100  # and what refills in the pauses before a lost write goes again


@pytest.mark.needs("endpoint", "atomic")
async def test_a_credit_whose_answer_was_lost_is_given_once(
    harness: Harness, limiter: RateLimiter, clock: ManualClock, proxy: Proxy
) -> None:
    slow = (await harness.open(clock=clock, endpoint_url=proxy.url, read_timeout=2.5)).repository
    proxy.faults = [Fault("late", "TransactWriteItems", times=1, seconds=5)]
    assert await slow.credit_bucket("a", "gpt-4", {"rpm": 5})
    assert cost(harness)[0] == {"BatchGetItem": 1, "TransactWriteItems": 2}
    assert (await limiter.available("a", "gpt-4"))["rpm"] == 65
