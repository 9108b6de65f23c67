"""Acquires that an outage lets through by ``allow`` are counted by number, by writes that are made anyway."""

from typing import Any

import pytest

from support.core.worlds import Process, World, take
from zae_limiter import Limit, RateLimiter, RateLimiterUnavailable
from zae_limiter.operations.errors import Unreachable
from zae_limiter.operations.values import Update
from zae_limiter.schema.changes import consumption
from zae_limiter.schema.usage import additions

RPM = Limit.per_minute("rpm", 60)
AWAY = Unreachable("connection refused")


async def let_through(world: World, calls: int, *, warm: bool = True, **amounts: int) -> Process:
    """A process that had no answer for so many calls, and has the table back."""
    process = await world.process(default_limits=[RPM])
    if warm:
        await take(process.limiter, "e", "r", rpm=1)
    process.wire.break_down(AWAY)
    for _ in range(calls):
        async with process.limiter.acquire("e", "r", amounts or {"rpm": 10}, on_unavailable="allow") as lease:
            assert lease.degraded
    process.wire.repair()
    process.wire.sent()
    return process


def item_of(world: World, limiter: RateLimiter) -> dict[str, Any]:
    return world.bucket_of(limiter, "e", "r") or {}


async def test_their_number_goes_with_the_next_write_which_is_one_write_of_one_unit(world: World) -> None:
    limiter, wire = await let_through(world, 2)
    before = item_of(world, limiter)
    world.meter.reset()
    await take(limiter, "e", "r", rpm=1)
    assert wire.sent() == ["Update"]
    assert (world.meter.write_units, world.meter.read_units) == (1, 0)
    after = item_of(world, limiter)
    assert ("uc" in before, after["uc"], after["ev"], after["b_rpm_tc"]) == (False, 2, 2, 2_000)
    assert additions([consumption(before, after)]) == {"total_events": 1, "l_rpm": 1, "total_uncounted": 2}


async def test_a_process_that_begins_in_the_outage_tells_of_it_by_its_first_write(world: World) -> None:
    limiter, _ = await let_through(world, 2, warm=False)
    await take(limiter, "e", "r", rpm=1)
    assert item_of(world, limiter)["uc"] == 2


async def test_a_process_that_ends_writes_what_it_has_let_through(world: World) -> None:
    limiter, _ = await let_through(world, 2)
    await limiter.close()
    assert item_of(world, limiter)["uc"] == 2


async def test_a_failed_write_leaves_them_to_the_next(world: World) -> None:
    limiter, wire = await let_through(world, 1)
    wire.break_once(AWAY, on=Update)
    with pytest.raises(RateLimiterUnavailable):
        await take(limiter, "e", "r", rpm=1)
    await take(limiter, "e", "r", rpm=1)
    assert item_of(world, limiter)["uc"] == 1


async def test_an_acquire_of_nothing_is_none(world: World) -> None:
    limiter, _ = await let_through(world, 2, warm=False, rpm=0)
    for _ in range(2):
        await take(limiter, "e", "r", rpm=1)
    assert "uc" not in item_of(world, limiter)


async def test_one_that_goes_by_a_share_is_counted_itself(world: World) -> None:
    limiter, wire = await world.process(default_limits=[RPM])
    for _ in range(100):
        await take(limiter, "e", "r", rpm=1)
        world.clock.advance(seconds=1)
    wire.break_down(AWAY)
    async with limiter.acquire("e", "r", {"rpm": 1}, on_unavailable="share") as lease:
        assert lease.degraded
    wire.repair()
    await limiter.close()
    item = item_of(world, limiter)
    assert ("uc" in item, item["b_rpm_tc"], item["ev"]) == (False, 101_000, 101)
