"""Prefetched tokens beside corrections into debt, deletions, resets and limits that are not held; what reads say."""

from contextlib import suppress

import pytest

from support.core.prefetching import RPM, held, live_by_the_worlds_clock, until_written, use, warm
from support.core.shards import aim_at, shard_items, split
from support.core.worlds import World, drain, take
from zae_limiter import Limit, RateLimitExceeded


@pytest.fixture(autouse=True)
def _no_real_time(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    live_by_the_worlds_clock(request, monkeypatch)


async def test_a_correction_into_debt_takes_no_block_and_is_paid_with_what_is_held(world: World) -> None:
    limiter, _ = process = await warm(world, RPM)
    await until_written(process)
    assert held(world, limiter)
    async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
        await lease.settle(rpm=6_100)
    await until_written(process)
    assert held(world, limiter) == 0
    debt = await limiter.available("e", "r")
    assert -300 < debt["rpm"] < 0
    other = await world.process()
    with pytest.raises(RateLimitExceeded) as refused:
        await take(other.limiter, "e", "r", rpm=1)
    assert refused.value.retry_after_seconds == pytest.approx((1 - debt["rpm"]) / 100, abs=0.02)
    with pytest.raises(RateLimitExceeded):
        await take(limiter, "e", "r", rpm=1)


async def test_what_is_left_of_a_block_does_not_come_back_to_a_bucket_that_was_made_anew(world: World) -> None:
    limiter, _ = process = await warm(world, RPM)
    await until_written(process)
    assert held(world, limiter)
    await limiter.delete_entity("e")
    world.clock.advance(seconds=1.2)
    assert await drain(limiter, "e", "r", "rpm", step=10) <= 5_900


@pytest.mark.parametrize("away", [False, True])
async def test_a_reset_fills_the_bucket_with_all_that_is_held_of_it(world: World, away: bool) -> None:  # noqa: FBT001
    limiter, _ = process = await warm(world, RPM)
    await until_written(process)
    assert held(world, limiter)
    if not away:
        await limiter.repository.reset_bucket("e", "r")
        assert held(world, limiter) == 0
        assert await drain(limiter, "e", "r", "rpm", step=10) == 5_900
        return
    other = await world.process()
    await other.limiter.repository.reset_bucket("e", "r")
    world.clock.advance(seconds=1.2)
    assert await drain(other.limiter, "e", "r", "rpm", step=10) == 5_900
    world.clock.advance(seconds=0.1)
    assert await drain(limiter, "e", "r", "rpm") <= 10
    await until_written(process)
    assert await drain(other.limiter, "e", "r", "rpm") == 0


@pytest.mark.parametrize("other", [Limit.concurrent("other", 5), Limit.per_month("other", 1_000)], ids=str)
async def test_a_call_that_names_another_limit_takes_no_block_from_those_that_do_not(
    world: World, other: Limit
) -> None:
    process = await world.process()
    limiter, wire = process
    await limiter.set_resource_defaults("r", [RPM, other])
    await use(world, limiter, 100, rpm=1)
    await until_written(process)
    async with limiter.acquire("e", "r", {"rpm": 1, "other": 1}):
        pass
    await until_written(process)
    wire.sent()
    for _ in range(250):
        await use(world, limiter, 1, rpm=1)
        await until_written(process)
    assert len(wire.sent()) <= 1.2 * 5 + 2


async def test_reads_by_the_limits_of_the_call_know_what_is_held_by_them(world: World) -> None:
    process = await world.process()
    limiter, _ = process
    for _ in range(100):
        async with limiter.acquire("e", "r", {"rpm": 1}, limits=[RPM]):
            pass
        world.clock.advance(seconds=0.02)
    await until_written(process)
    other = await world.process()
    async with other.limiter.acquire("e", "r", {"rpm": 1}, limits=[RPM]) as lease:
        await lease.settle(rpm=(await other.limiter.available("e", "r", [RPM]))["rpm"] + 1)
    left = (await limiter.available("e", "r", [RPM]))["rpm"]
    assert left > 0
    check = await limiter.check("e", "r", {"rpm": left}, limits=[RPM])
    assert check.passes
    assert (await limiter.check("e", "r", {"rpm": left}, [RPM])).passes
    explained = (await limiter.explain("e", "r", {"rpm": left}, limits=[RPM])).buckets[0].limits[0]
    assert explained.prefetched == left
    assert not (await limiter.check("e", "r", {"rpm": left}, limits=[Limit.per_minute("rpm", 6_000)])).passes


async def test_no_more_is_available_than_can_ever_pass(world: World) -> None:
    limiter, _ = process = await warm(world, RPM)
    await until_written(process)
    assert held(world, limiter)
    world.clock.advance(seconds=0.9)
    assert await limiter.available("e", "r") == {"rpm": 5_900}


@pytest.mark.parametrize("asked", ["key", "org"])
async def test_all_of_a_held_call_comes_back_behind_a_split(world: World, asked: str) -> None:
    """What comes back is divided as the shard was that the call asked: not as the one that was written last."""
    limiter, _ = process = await world.process(split_above=1)
    aim_at(limiter, 1)
    await limiter.create_entity("org")
    await limiter.create_entity("key", parent_id="org", cascade=True)
    await limiter.set_limits("org", [Limit.custom("t", 1000, refill_amount=1, refill_period=60, prefetch=5)])
    await limiter.set_limits("key", [Limit.per_hour("t", 10_000)])
    used = 0
    while len(shard_items(world, limiter, "org")) < 2:
        world.clock.advance(ms=30)
        await take(limiter, "org", "r", t=1)
        await until_written(process)
        used += 1
    for _ in range(4):  # calls that begin just behind the split, and outlive the reservation
        with suppress(LookupError):
            async with limiter.acquire(asked, "r", {"t": 4}):
                world.clock.advance(seconds=2)
                raise LookupError
    await limiter.repository.close()
    assert sum(item["b_t_tc"] for item in shard_items(world, limiter, "org").values()) == 1000 * used


async def test_a_held_call_from_before_a_split_comes_back_to_both_halves(world: World) -> None:
    limiter, _ = process = await warm(world, RPM)
    await until_written(process)
    aim_at(limiter, 0)
    assert held(world, limiter) > 4_000
    with suppress(LookupError):
        async with limiter.acquire("e", "r", {"rpm": 4}):
            split(world, limiter, "e", "r")
            world.clock.advance(seconds=2)
            await take(limiter, "e", "r", rpm=1)  # it knows of the split by now
            raise LookupError
    await limiter.repository.close()
    assert {shard: item["b_rpm_tc"] for shard, item in shard_items(world, limiter).items()} == {0: 103_000, 1: -2_000}
