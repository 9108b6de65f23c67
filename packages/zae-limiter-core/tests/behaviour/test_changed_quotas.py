"""What was used of a quota counts, whatever the quota becomes."""

import random
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from support.core.shards import split_into
from support.core.worlds import World, drain, passes, take
from zae_limiter import Limit, RateLimiter, RateLimitExceeded, Repository
from zae_limiter.testing import ManualClock

BERLIN = "Europe/Berlin"


def daily(quota: int, timezone: str = "UTC") -> Limit:
    return Limit.per_day("usd", quota, window="calendar", timezone=timezone)


KINDS: dict[str, Callable[[int], Limit]] = {
    "day": daily,
    "month": lambda quota: Limit.per_month("usd", quota),
    "zone": lambda quota: daily(quota, BERLIN),
    "cron": lambda quota: Limit.parse(f"usd: {quota} cron 0 6 * * MON UTC"),
    "first use": lambda quota: Limit.quota("usd", quota, window=7200),
    "total": lambda quota: Limit.total("usd", quota),
    "rate": lambda quota: Limit.custom("usd", quota, refill_amount=1, refill_period=86_400),
}


def noon(world: World) -> None:
    """Move the clock on to a Tuesday's noon."""
    instant = datetime(2026, 5, 5, 12, tzinfo=ZoneInfo("UTC"))
    world.clock.advance(ms=round(instant.timestamp() * 1000) - world.clock.now_ms())


async def opened(world: World, used: int, limit: Limit) -> RateLimiter:
    """Return a limiter whose entity has used so much of its limit."""
    noon(world)
    limiter, _ = await world.process()
    await limiter.set_limits("e", [limit], "r")
    if used:
        await take(limiter, "e", "r", usd=used)
    return limiter


async def left(limiter: RateLimiter, limit: Limit | None = None) -> int:
    """Return what is left, after a change if there is one."""
    if limit is not None:
        await limiter.set_limits("e", [limit], "r")
    return (await limiter.available("e", "r"))["usd"]


@pytest.mark.parametrize("kind", [name for name in KINDS if name != "rate"])
async def test_a_raised_quota_lets_in_at_once(world: World, kind: str) -> None:
    limiter = await opened(world, 80, KINDS[kind](100))
    assert not await passes(limiter, "e", "r", usd=21)
    assert await left(limiter, KINDS[kind](1000)) == 920
    assert await drain(limiter, "e", "r", "usd") == 920


@pytest.mark.parametrize("kind", [name for name in KINDS if name != "rate"])
async def test_a_quota_below_its_use_lets_nothing_pass(world: World, kind: str) -> None:
    limiter = await opened(world, 50, KINDS[kind](100))
    assert await left(limiter, KINDS[kind](40)) == 0
    assert not await passes(limiter, "e", "r", usd=1)
    assert await left(limiter, KINDS[kind](60)) == 10
    assert await drain(limiter, "e", "r", "usd") == 10


async def test_a_debt_by_a_change_ends_with_the_window(world: World) -> None:
    limiter = await opened(world, 50, daily(100))
    await left(limiter, daily(40))
    assert not await passes(limiter, "e", "r", usd=1)
    world.clock.advance(12 * 3600)
    assert await drain(limiter, "e", "r", "usd") == 40
    assert await left(limiter, daily(100)) == 60  # of the window before nothing counts


async def test_a_debt_by_a_call_outlives_the_window(world: World) -> None:
    limiter = await opened(world, 100, daily(100))
    async with limiter.acquire("e", "r", {"usd": 0}) as lease:
        await lease.adjust(usd=20)
    await left(limiter, daily(40))
    assert not await passes(limiter, "e", "r", usd=1)
    world.clock.advance(12 * 3600)
    assert await drain(limiter, "e", "r", "usd") == 20


@pytest.mark.parametrize(("one", "other"), [*pairwise([*KINDS, "day", "rate", "month", "total", "day"])])
async def test_changes_back_and_forth_give_nothing(world: World, one: str, other: str) -> None:
    limiter = await opened(world, 30, KINDS[one](100))
    taken = 30
    for limit in (KINDS[other](50), KINDS[one](100)) * 5:
        await limiter.set_limits("e", [limit], "r")
        await take(limiter, "e", "r", usd=1)
        taken += 1
    assert 100 - taken - (one == "rate") <= await left(limiter, KINDS[one](100)) <= 100 - taken


@pytest.mark.parametrize(("one", "other"), [("day", "month"), ("month", "day"), ("total", "day"), ("day", "total")])
async def test_another_window_begins_with_what_was_used(world: World, one: str, other: str) -> None:
    limiter = await opened(world, 80, KINDS[one](100))
    assert await left(limiter, KINDS[other](300)) == 220
    assert await drain(limiter, "e", "r", "usd") == 220


async def test_a_rate_that_becomes_a_quota_counts_what_it_lacks(world: World) -> None:
    limiter = await opened(world, 30, KINDS["rate"](100))
    assert await left(limiter, daily(1000)) == 970
    assert await drain(limiter, "e", "r", "usd") == 970


async def test_a_used_up_quota_becomes_an_empty_rate(world: World) -> None:
    limiter = await opened(world, 900, daily(1000))
    assert await left(limiter, Limit.per_minute("usd", 60)) == 0
    assert not await passes(limiter, "e", "r", usd=1)
    world.clock.advance(10.5)
    assert await drain(limiter, "e", "r", "usd") == 10
    assert await left(limiter, daily(1000)) == 100  # the rate brought ten, which were used


async def test_a_raised_quota_keeps_what_was_carried_over(world: World) -> None:
    carries = Limit.custom("usd", 100, burst=150, kind="calendar", window="day")
    limiter = await opened(world, 30, carries)
    world.clock.advance(86_400)
    assert await left(limiter) == 150
    assert await left(limiter, Limit.custom("usd", 200, burst=300, kind="calendar", window="day")) == 250


async def test_what_comes_back_counts_under_the_changed_quota(world: World) -> None:
    limiter = await opened(world, 0, daily(100))
    async with limiter.acquire("e", "r", {"usd": 50}) as lease:
        assert await left(limiter, daily(60)) == 10
        await lease.adjust(usd=-20)
    assert await left(limiter) == 30
    assert await left(limiter, daily(100)) == 70


async def test_the_pieces_of_a_schedule_count_what_was_used(world: World) -> None:
    """By day 500, else 100; of which 80 are used before."""
    scheduled = Limit.custom("usd", 100, kind="calendar", window="day", schedule=["day: 13:00-17:00 capacity 500"])
    limiter = await opened(world, 80, scheduled)
    assert await left(limiter) == 20
    world.clock.advance(3600)
    assert await left(limiter) == 420
    await take(limiter, "e", "r", usd=300)
    world.clock.advance(4 * 3600)
    assert not await passes(limiter, "e", "r", usd=1)
    assert await left(limiter) == 0
    world.clock.advance(7 * 3600)
    assert await drain(limiter, "e", "r", "usd") == 100


async def test_two_processes_with_different_quotas_give_nothing(world: World) -> None:
    noon(world)
    one, other = [(await world.process())[0] for _ in range(2)]
    taken, quotas = 0, {id(one): 100, id(other): 40}
    for _ in range(200):
        limiter = random.Random(world.clock.now_ms()).choice([one, other])
        world.clock.advance(30)
        try:
            async with limiter.acquire("e", "r", {"usd": 1}, [daily(quotas[id(limiter)])]):
                taken += 1
        except RateLimitExceeded:
            pass
    assert 40 <= taken <= 100


@pytest.mark.parametrize("quota", [1000, 60])
async def test_each_shard_follows_its_own_use(world: World, quota: int) -> None:
    limiter = await opened(world, 0, daily(100))
    await take(limiter, "e", "r", usd=0)
    split_into(world, limiter, 4)
    taken = 0
    for _ in range(40):
        await take(limiter, "e", "r", usd=1)
        taken += 1
    await limiter.set_limits("e", [daily(quota)], "r")
    assert taken + await drain(limiter, "e", "r", "usd") <= max(100, quota)
    await limiter.set_limits("e", [daily(100)], "r")


async def test_a_reset_forgets_what_a_lowered_quota_noted(world: World) -> None:
    limiter = await opened(world, 50, daily(100))
    await left(limiter, daily(40))
    assert not await passes(limiter, "e", "r", usd=1)
    await limiter.repository.reset_bucket("e", "r")
    assert await left(limiter, daily(100)) == 100


async def test_a_debt_over_a_boundary_refuses_by_an_old_copy(world: World) -> None:
    """A write that begins a window sets the balance, so that no condition of it would refuse."""
    noon(world)
    limit = Limit.custom("usd", 3, kind="first_use", refill_period=20, schedule=["a: 12:00-12:05 capacity 2"])
    limiter, _ = await world.process()
    await limiter.set_limits("e", [limit], "r")
    async with limiter.acquire("e", "r", {"usd": 2}) as lease:
        await lease.adjust(usd=3)
    world.clock.advance(28)
    assert not await passes(limiter, "e", "r", usd=2)
    assert await left(limiter) == -1


@pytest.mark.parametrize("max_wait", [0.0, 1.0])
async def test_a_raise_counts_on_shards_that_it_has_not_reached(max_wait: float) -> None:
    clock = ManualClock()
    limiter = RateLimiter(Repository.in_memory(clock=clock, split_above=3))
    await limiter.set_limits("e", [daily(300)], "r")
    while await passes(limiter, "e", "r", usd=1):
        clock.advance(0.05)
    await limiter.set_limits("e", [daily(30_000)], "r")
    for _ in range(5):
        async with limiter.acquire("e", "r", {"usd": 5000}, max_wait=max_wait):
            pass
    assert await left(limiter) == 4700
    await limiter.close()
