"""A table that was put back to an earlier instant: what docs/operate/disaster-recovery.md promises of its balances.

Lives here: processes that lived through it, and new ones. Never: how a table is restored.
"""

from collections.abc import Sequence

import pytest

from support.core.worlds import World, drain, take
from zae_limiter import Limit
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
