"""A name that a bucket does not limit, and one above it does: the bucket counts it, and nothing is written for it."""

from typing import Any

import pytest

from support.core.worlds import Process, World, passes, take
from zae_limiter import Limit, SyncRateLimiter, SyncRepository
from zae_limiter.testing import ManualClock

RPM, USD = Limit.per_minute("rpm", 60), Limit.per_day("usd", 9_000)
BOTH: Any = {"rpm": 1, "usd": 500}
LEVELS: Any = {"org": [USD, RPM], "team": [RPM], "key": [RPM]}


async def tree(world: World, **options: Any) -> Process:
    """A key of a team of an org, which alone limits ``usd``."""
    it = await world.process(**options)
    for entity_id, parent in ("org", None), ("team", "org"), ("key", "team"):
        await it.limiter.create_entity(entity_id, parent_id=parent, cascade=parent is not None)
        await it.limiter.set_limits(entity_id, LEVELS[entity_id])
    return it


def counts(world: World, it: Process, name: str = "usd") -> list[int]:
    """What the buckets from the key up have counted of a name."""
    items = [world.bucket_of(it.limiter, entity_id, "r") or {} for entity_id in ("key", "team", "org")]
    return [item.get(f"b_{name}_tc", 0) // 1000 for item in items]


async def test_every_bucket_below_the_limit_counts_it_and_no_request_or_unit_is_more(world: World) -> None:
    it = await tree(world)
    await take(it.limiter, "key", "r", **BOTH)
    await take(it.limiter, "key", "r", **BOTH)
    it.wire.sent()
    world.meter.reset()
    await take(it.limiter, "key", "r", **BOTH)
    assert it.wire.sent() == ["Update"] * 3
    assert (world.meter.write_units, world.meter.read_units) == (3, 0)
    assert (counts(world, it), counts(world, it, "rpm")) == ([1500] * 3, [3] * 3)
    key = world.bucket_of(it.limiter, "key", "r")
    assert key is not None
    assert "b_usd_tk" not in key
    assert await it.limiter.available("key", "r") == {"rpm": 57}
    assert [each.unlimited for each in (await it.limiter.explain("key", "r")).buckets] == [(), (), ()]
    assert (await it.limiter.check("key", "r", BOTH)).unlimited == ()


async def test_what_the_limit_above_refuses_is_not_counted(world: World) -> None:
    it = await tree(world)
    await take(it.limiter, "org", "r", rpm=1, usd=8_000)
    await take(it.limiter, "key", "r", **BOTH)
    for _ in range(3):
        assert not await passes(it.limiter, "key", "r", rpm=1, usd=800)
    assert counts(world, it) == [500, 500, 8_500]
    with pytest.raises(KeyError):
        async with it.limiter.acquire("key", "r", BOTH):
            raise KeyError
    assert counts(world, it) == [500, 500, 8_500]


async def test_a_lease_corrects_every_count(world: World) -> None:
    it = await tree(world)
    async with it.limiter.acquire("key", "r", {"rpm": 1}) as lease:
        await lease.consume(usd=700)
        await lease.adjust(usd=-200)
    assert counts(world, it) == [500] * 3
    async with it.limiter.acquire("key", "r", BOTH) as lease:
        await lease.settle(usd=20)
    assert counts(world, it) == [520] * 3
    async with it.limiter.acquire("key", "r", {"rpm": 1}) as lease:
        await lease.adjust(usd=3)
    assert counts(world, it) == [523] * 3


async def test_a_call_for_that_name_alone_is_counted_as_one_of_the_key(world: World) -> None:
    it = await tree(world)
    for _ in range(2):
        await take(it.limiter, "key", "r", usd=40)
    assert counts(world, it) == [80] * 3
    key = world.bucket_of(it.limiter, "key", "r")
    assert key is not None
    assert (key["ev"], key["b_rpm_tc"]) == (2, 0)


async def test_a_limit_that_the_key_gets_goes_on_from_its_count(world: World) -> None:
    it = await tree(world)
    await take(it.limiter, "key", "r", **BOTH)
    await it.limiter.set_limits("key", [RPM, Limit.per_day("usd", 600)])
    await take(it.limiter, "key", "r", **BOTH)
    assert counts(world, it) == [1000] * 3
    assert not await passes(it.limiter, "key", "r", rpm=1, usd=200)
    await it.limiter.set_limits("key", [RPM])
    await take(it.limiter, "key", "r", **BOTH)
    assert counts(world, it) == [1500] * 3


async def test_one_parent_counts_nothing_that_only_the_other_one_limits(world: World) -> None:
    it = await world.process()
    await it.limiter.create_entity("team")
    await it.limiter.create_entity("project")
    await it.limiter.create_entity("key", parent_ids=["team", "project"], cascade=True)
    await it.limiter.set_limits("key", [RPM])
    await it.limiter.set_limits("team", [RPM])
    await it.limiter.set_limits("project", [USD])
    await take(it.limiter, "key", "r", **BOTH)
    items = [world.bucket_of(it.limiter, each, "r") or {} for each in ("key", "team", "project")]
    assert [item.get("b_usd_tc") for item in items] == [500_000, None, 500_000]


@pytest.mark.parametrize("count_units", [False, True], ids=["own table", "requests"])
def test_a_table_in_memory_counts_the_same(*, count_units: bool) -> None:
    repository = SyncRepository.in_memory(clock=ManualClock(), count_units=count_units)
    limiter = SyncRateLimiter(repository)
    for entity_id, parent in ("org", None), ("team", "org"), ("key", "team"):
        limiter.create_entity(entity_id, parent_id=parent, cascade=parent is not None)
        limiter.set_limits(entity_id, LEVELS[entity_id])
    for _ in range(5):
        with limiter.acquire("key", "r", BOTH):
            pass
    with limiter.acquire("key", "r", BOTH) as lease:
        lease.adjust(usd=-100)
    with limiter.acquire("key", "r", {"usd": 1}):
        pass
    for entity_id in LEVELS:
        usage = repository.get_usage_summary(entity_id=entity_id, resource="r", window="hourly")
        assert ({each.limit_name: each.total for each in usage.limits}, usage.total_events) == (
            {"rpm": 6, "usd": 2_901},
            7,
        )
