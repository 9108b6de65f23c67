"""What lives here: overrides as several processes on one table see them begin, change and end.
What never does: every case of the rules (core's own tests), the command line (test_declarative_embedded).
"""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from support.core.owners import maintenance_of
from support.integration.clocks import START_MS
from support.integration.harness import Harness
from zae_limiter import Limit, RateLimiter, RateLimitExceeded
from zae_limiter.clock.system import SystemClock
from zae_limiter.flows.bucket.splitting import split_shard
from zae_limiter.flows.steps import Log, Sleep, play
from zae_limiter.operations.values import Item, Query
from zae_limiter.schema.items import BucketId
from zae_limiter.testing import ManualClock

pytestmark = pytest.mark.needs("atomic")

CACHE_LIFE = 5
ENTITY, RESOURCE = "auth0|123", "/v1/chat#7"
OWN, MORE, NONE = (Limit.per_minute("rpm", capacity) for capacity in (10, 600, 0))


def later(clock: ManualClock, **units: float) -> datetime:
    return datetime.fromtimestamp(clock.now_ms() // 1000, UTC) + timedelta(**units)


def configs(harness: Harness) -> list[Item]:
    return [item for item in harness.items() if item["SK"].startswith("#CONFIG")]


async def limits_of(limiter: RateLimiter, entity: str = ENTITY) -> list[Limit]:
    return (await limiter.repository.resolve_limits(entity, RESOURCE))[0]


async def drain(limiter: RateLimiter, entity: str = ENTITY, *, step: int = 1, most: int = 1000) -> int:
    """What takes of ``step`` get, until one is refused."""
    for got in range(0, most, step):
        try:
            async with limiter.acquire(entity, RESOURCE, {"rpm": step}):
                pass
        except RateLimitExceeded:
            return got
    return most


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS)


@pytest.fixture
async def three(harness: Harness, clock: ManualClock) -> list[RateLimiter]:
    """Three processes; the resource alone has limits, and each process has taken one token."""
    processes = [await harness.open(clock=clock, config_cache_ttl=CACHE_LIFE) for _ in range(3)]
    await processes[0].set_resource_defaults(RESOURCE, [OWN])
    assert [await drain(each, most=1) for each in processes] == [1, 1, 1]
    return processes


async def test_an_override_holds_everywhere_and_ends_at_its_instant_without_a_write(
    harness: Harness, clock: ManualClock, three: list[RateLimiter]
) -> None:
    admin, *others = three
    await admin.set_limits(ENTITY, [MORE], RESOURCE, override_until=later(clock, seconds=60))
    until_ms = (await admin.repository.get_override(ENTITY, RESOURCE)).until_ms  # type: ignore[union-attr]
    stored = configs(harness)
    assert await limits_of(admin) == [MORE]
    clock.advance(CACHE_LIFE + 0.001)
    assert [await limits_of(each) for each in others] == [[MORE], [MORE]]
    assert [await drain(each, most=1) for each in others] == [1, 1]
    clock.advance(10)
    assert await drain(others[0], step=10) == 100  # ten tokens a second
    clock.advance(ms=until_ms - 1 - clock.now_ms())
    assert [await limits_of(each) for each in three] == [[MORE]] * 3
    clock.advance(ms=1)
    assert [await limits_of(each) for each in three] == [[OWN]] * 3
    assert sum([await drain(each) for each in three]) <= OWN.burst
    assert await admin.repository.list_entities_with_custom_limits(RESOURCE) == []
    assert configs(harness) == stored


async def test_an_override_that_is_changed_or_ended_by_hand_is_followed_in_a_cache_life(
    clock: ManualClock, three: list[RateLimiter]
) -> None:
    admin, *others = three
    await admin.set_limits(ENTITY, [MORE], RESOURCE, override_until=later(clock, hours=1))
    clock.advance(CACHE_LIFE + 0.001)
    assert [await drain(each, most=1) for each in others] == [1, 1]
    await admin.set_limits(ENTITY, [NONE], RESOURCE, override_until=later(clock, hours=2))
    clock.advance(CACHE_LIFE + 0.001)
    assert [await drain(each) for each in others] == [0, 0]
    await admin.repository.delete_override(ENTITY, RESOURCE)
    clock.advance(CACHE_LIFE + 0.001)
    assert [await drain(each) for each in others] == [0, 0]  # a bucket that was blocked begins empty
    clock.advance(60)
    assert sum([await drain(each) for each in others]) == OWN.burst


async def test_an_override_is_of_its_namespace_alone(harness: Harness, clock: ManualClock) -> None:
    here, there = [await harness.open(namespace=name, clock=clock) for name in ("here", "there")]
    for limiter in (here, there):
        await limiter.set_limits(ENTITY, [OWN], RESOURCE)
    await here.set_limits(ENTITY, [MORE], RESOURCE, override_until=later(clock, hours=1))
    assert [await limits_of(each) for each in (here, there)] == [[MORE], [OWN]]
    assert await there.repository.get_override(ENTITY, RESOURCE) is None


async def test_an_override_of_a_parent_holds_its_children(clock: ManualClock, three: list[RateLimiter]) -> None:
    admin, other, _ = three
    await admin.create_entity("org")
    await admin.create_entity("key", parent_id="org", cascade=True)
    await admin.set_limits("org", [NONE], override_until=later(clock, seconds=10))
    clock.advance(CACHE_LIFE + 0.001)
    assert await drain(other, "key") == 0
    clock.advance(10 + 60)
    assert await drain(other, "key") == OWN.burst


@pytest.mark.long(keep=1)
async def test_every_shard_of_a_bucket_obeys(harness: Harness, clock: ManualClock, three: list[RateLimiter]) -> None:
    admin, other, _ = three
    flow = split_shard(admin.repository.namespace_state, BucketId(harness.namespace_id, ENTITY, RESOURCE))
    play(flow, lambda step: None if isinstance(step, (Sleep, Log)) else harness.perform(step))
    await admin.set_limits(ENTITY, [MORE], RESOURCE, override_until=later(clock, seconds=300))
    for limit in (MORE, OWN):
        clock.advance(CACHE_LIFE + 0.001)
        for _ in range(2):  # each shard has the limits from its next write
            await drain(other)
            clock.advance(100)
        assert await drain(other) == limit.burst
        clock.advance(200)


async def test_changes_of_two_processes_at_the_same_time_are_one_after_the_other(
    clock: ManualClock, three: list[RateLimiter]
) -> None:
    await three[0].set_limits(ENTITY, [OWN], RESOURCE)

    async def change(limiter: RateLimiter, own: int) -> None:
        for number in range(6):
            limit, until = Limit.per_minute("rpm", own + number), later(clock, hours=1 + number)
            await limiter.set_limits(ENTITY, [limit], RESOURCE, override_until=until)
            await limiter.set_limits(ENTITY, [limit], RESOURCE)
            await limiter.repository.delete_override(ENTITY, RESOURCE)

    await asyncio.gather(change(three[1], 100), change(three[2], 200))
    page = await three[0].repository.get_audit_events(ENTITY, limit=100)
    events = [each for each in page.events if each.after]
    by_version = sorted(events, key=lambda each: version(each.after))
    assert [version(each.after) for each in by_version] == list(range(1, len(events) + 1))
    assert all(former.after == later.before for former, later in pairwise(by_version))
    last: Any = by_version[-1].after
    assert await three[0].repository.get_override(ENTITY, RESOURCE) is None
    assert (await three[0].get_limits(ENTITY, RESOURCE))[0].capacity == last["limits"]["rpm"]["capacity"]
    assert {each.action for each in events} == {"limits_set", "override_set", "override_deleted"}


def version(config: Any) -> int:
    return int(config["config_version"])


async def test_an_entity_and_a_namespace_take_their_overrides_with_them(harness: Harness, clock: ManualClock) -> None:
    limiter = await harness.open(namespace="doomed", clock=clock)
    repository = limiter.repository
    await limiter.create_entity(ENTITY)
    for resource in (RESOURCE, "_default_"):
        await limiter.set_limits(ENTITY, [MORE], resource, override_until=later(clock, hours=1))
    await limiter.delete_limits(ENTITY, RESOURCE)
    assert await limiter.repository.list_resources_with_entity_configs() == ["/v1/chat#7", "_default_"]
    await limiter.delete_entity(ENTITY)
    assert configs(harness) == []
    await limiter.set_limits(ENTITY, [MORE], RESOURCE, override_until=later(clock, hours=1))
    deleted = await repository.delete_namespace("doomed")
    other = await harness.open(namespace="other", clock=clock)
    await maintenance_of(other.repository).purge_namespace(deleted.namespace_id)
    assert not harness.perform(Query(deleted.namespace_id, "GSI4")).items


def machine(fast_seconds: int) -> SystemClock:
    return SystemClock(wall_ns=lambda: time.time_ns() + fast_seconds * 10**9)


@pytest.mark.needs("endpoint", "atomic")
@pytest.mark.parametrize("variant", ["async"], indirect=True)  # of real time
async def test_clocks_that_are_hours_off_end_it_at_the_instant_of_the_store(harness: Harness) -> None:
    off = [machine(fast) for fast in (0, 3600, -86_400)]
    processes = [await harness.open(machine=each) for each in off]
    await processes[0].set_resource_defaults(RESOURCE, [OWN])
    for seconds in (5, 20, 120):  # as many as it takes to see it in force
        until = datetime.now(UTC) + timedelta(seconds=seconds)
        await processes[1].set_limits(ENTITY, [MORE], RESOURCE, override_until=until)
        found = [await limits_of(each) for each in processes]
        if datetime.now(UTC) < until - timedelta(seconds=2.5):
            break
    assert found == [[MORE]] * 3
    await asyncio.sleep((until - datetime.now(UTC)).total_seconds() + 2.5)  # a clock may be off by as much
    assert [await limits_of(each) for each in processes] == [[OWN]] * 3
