"""A table that was put back to an earlier instant: what docs/operate/disaster-recovery.md promises of its balances.

Lives here: processes that lived through it, and new ones. Never: how a table is restored.
"""

from collections.abc import Sequence

import pytest

from support.core.shards import split_into
from support.core.worlds import World, drain, take, until
from zae_limiter import Draw, Limit
from zae_limiter.operations.errors import TableMissing
from zae_limiter.operations.values import Delete, Item, Key, Put, Scan

LIMITS = [Limit.per_minute("rpm", 100)]


def items(world: World) -> Sequence[Item]:
    return [*world.table.execute(Scan(10_000)).items]


def put_back(world: World, kept: Sequence[Item]) -> None:
    """Make the table what it was, as a restore under the old name does."""
    for item in items(world):
        world.table.execute(Delete(Key(item["PK"], item["SK"])))
    for item in kept:
        world.table.execute(Put(item))


@pytest.mark.parametrize("used_behind", [0, 20, 70])
async def test_a_restored_bucket_gives_what_it_had_then_to_all_processes_together(
    world: World, used_behind: int
) -> None:
    old = (await world.process(default_limits=LIMITS)).limiter
    for _ in range(30):
        await take(old, "ann", "api", rpm=1)
    kept = items(world)
    for _ in range(used_behind):
        await take(old, "ann", "api", rpm=1)
    put_back(world, kept)
    new = (await world.process(default_limits=LIMITS)).limiter
    assert await drain(old, "ann", "api", "rpm", step=7) + await drain(new, "ann", "api", "rpm") == 70
    world.clock.advance(60)
    assert await drain(new, "ann", "api", "rpm") + await drain(old, "ann", "api", "rpm") == 100


async def test_what_was_refilled_since_then_is_there_up_to_the_burst(world: World) -> None:
    old = (await world.process(default_limits=LIMITS)).limiter
    await take(old, "ann", "api", rpm=90)
    kept = items(world)
    world.clock.advance(30)
    await take(old, "ann", "api", rpm=60)
    put_back(world, kept)
    assert await drain(old, "ann", "api", "rpm") == 0  # what a process saw last refuses for a second at most
    world.clock.advance(1.5)
    assert await drain(old, "ann", "api", "rpm") == 62  # 10 at that time, 52 since
    world.clock.advance(3600)
    assert await drain(old, "ann", "api", "rpm") == 100


async def test_limits_that_were_set_since_then_end_with_the_cache_of_each_process(world: World) -> None:
    old = (await world.process()).limiter
    await old.set_limits("ann", LIMITS)
    kept = items(world)
    await old.set_limits("ann", [Limit.per_minute("rpm", 500)])
    await take(old, "ann", "api", rpm=1)
    put_back(world, kept)
    world.clock.advance(61)
    await take(old, "ann", "api", rpm=1)
    world.clock.advance(60)
    assert await drain(old, "ann", "api", "rpm") == 100


async def test_a_table_without_buckets_begins_full(world: World) -> None:
    old = (await world.process(default_limits=LIMITS)).limiter
    kept = items(world)
    await take(old, "ann", "api", rpm=80)
    put_back(world, kept)
    new = (await world.process(default_limits=LIMITS)).limiter
    assert await drain(new, "ann", "api", "rpm") + await drain(old, "ann", "api", "rpm") == 100


async def test_no_feature_trips_over_a_table_that_went_back_in_time(world: World) -> None:
    """Leases that are open, slots, prefetched tokens, draws, parents and calendar windows live through it."""
    limiter, wire = process = await world.process(on_unavailable="allow")
    await limiter.create_entity("org")
    await limiter.create_entity("ann", parent_id="org", cascade=True)
    kinds = [
        Limit.per_minute("rpm", 6_000, prefetch=1),
        Limit.concurrent("parallel", 5),
        Limit.per_day("usd", 1_000, window="calendar"),
        Limit.total("credits", 500),
    ]
    await limiter.set_resource_defaults("api", kinds)
    await limiter.set_resource_defaults("tools", [Limit.per_minute("rpm", 6_000)])
    one = {"rpm": 1, "parallel": 1, "usd": 1, "credits": 1}
    draws = [Draw(resource="tools", consume={"rpm": 1})]
    kept: Sequence[Item] = []
    for step in range(150):
        if step == 100:
            kept = items(world)
        async with limiter.acquire("ann", "api", one, draws=draws) as lease:
            await lease.adjust(usd=1)
        world.clock.advance(0.02)
    async with limiter.acquire("ann", "api", one, draws=draws) as lease:
        wire.break_down(TableMissing("Requested resource not found"))
        await lease.adjust(usd=2)
        async with limiter.acquire("ann", "api", one, draws=draws) as other:
            assert other.degraded
        put_back(world, kept)
        wire.repair()
        await until(lambda: process.repository.get_store_stats().breaker == "closed")
    for _ in range(150):
        await take(limiter, "ann", "api", **one)
        world.clock.advance(0.02)
    for entity in ("ann", "org"):
        left = await limiter.available(entity, "api")
        assert left["parallel"] == 5
        assert 0 <= left["credits"] <= 500


@pytest.mark.parametrize("how", ["give back", "prefetched tokens"])
async def test_what_a_process_took_behind_the_backup_comes_on_top_of_it(world: World, how: str) -> None:
    """The table no longer knows of it: what comes back of it, or is still spent of it, is not in the bucket."""
    rate = Limit.per_minute("rpm", 6_000, prefetch=1 if how == "prefetched tokens" else 0)
    process = await world.process(default_limits=[rate])
    limiter = process.limiter
    await take(limiter, "ann", "api", rpm=1)
    kept = items(world)
    if how == "give back":
        async with limiter.acquire("ann", "api", {"rpm": 500}) as lease:
            put_back(world, kept)
            await lease.release(rpm=500)
        prefetched = 0
    else:
        for _ in range(100):
            await take(limiter, "ann", "api", rpm=1)
            world.clock.advance(0.02)
        put_back(world, kept)
        prefetched = 100  # a second of the limit
    new = (await world.process(default_limits=[rate])).limiter
    admitted = [await drain(each, "ann", "api", "rpm", step=25) for each in (limiter, new)]
    assert 5_000 < sum(admitted) <= 6_000 + prefetched


async def test_a_slot_that_was_taken_behind_the_backup_is_free_for_others(world: World) -> None:
    limiter = (await world.process(default_limits=[Limit.concurrent("parallel", 1)])).limiter
    await take(limiter, "ann", "api", parallel=1)
    kept = items(world)
    async with limiter.acquire("ann", "api", {"parallel": 1}):
        put_back(world, kept)
        new = (await world.process(default_limits=[Limit.concurrent("parallel", 1)])).limiter
        async with new.acquire("ann", "api", {"parallel": 1}):
            assert await new.available("ann", "api") == {"parallel": 0}
    assert await new.available("ann", "api") == {"parallel": 1}


async def test_a_namespace_that_was_registered_behind_the_backup_has_two_ids_until_a_restart(world: World) -> None:
    kept = items(world)
    old = await world.process("shop", default_limits=LIMITS)
    put_back(world, kept)
    await take(old.limiter, "ann", "api", rpm=60)
    new = await world.process("shop", default_limits=LIMITS)
    assert new.repository.namespace_id != old.repository.namespace_id
    assert await drain(new.limiter, "ann", "api", "rpm") == 100  # it sees nothing of the old one


async def test_a_table_whose_version_record_is_missing_opens(world: World) -> None:
    await world.process()
    table = [item for item in items(world) if "#VERSION" not in item["SK"]]
    put_back(world, table)
    await take((await world.process(default_limits=LIMITS)).limiter, "ann", "api", rpm=1)


@pytest.mark.parametrize("split_at", ["the backup", "the end"])
async def test_a_bucket_that_had_another_number_of_shards_then_gives_no_more(world: World, split_at: str) -> None:
    old = (await world.process(default_limits=LIMITS)).limiter
    for _ in range(30):
        await take(old, "ann", "api", rpm=1)
    if split_at == "the backup":
        split_into(world, old, 4, "ann", "api")
    kept = items(world)
    if split_at == "the end":
        split_into(world, old, 4, "ann", "api")
    for _ in range(40):
        await take(old, "ann", "api", rpm=1)
    put_back(world, kept)
    new = (await world.process(default_limits=LIMITS)).limiter
    assert await drain(old, "ann", "api", "rpm") + await drain(new, "ann", "api", "rpm") <= 70
    world.clock.advance(60)
    assert 96 <= await drain(new, "ann", "api", "rpm") + await drain(old, "ann", "api", "rpm") <= 100
