"""How much is admitted: what there is and what is minted, never more; in both variants, by one process and several."""
# ruff: noqa: PT012 - a block under a lease that raises takes more than one line

import random

import pytest

from support.core.worlds import World, drain, outcomes, passes, take
from zae_limiter import Limit, RateLimiter

SLOW = Limit.custom("rpm", 1000, refill_amount=1, refill_period=10 * 365 * 24 * 3600)


async def test_three_processes_admit_exactly_what_there_is(world: World) -> None:
    processes = [await world.process(default_limits=[SLOW], rejection_staleness=0) for _ in range(3)]
    chance = random.Random(7)

    async def work(limiter: RateLimiter) -> int:
        admitted = 0
        for step in (chance.randint(1, 3), 2, 1):
            admitted += await drain(limiter, "e", "r", "rpm", step=step)
        return admitted

    counts = await outcomes(*(work(process.limiter) for process in processes for _ in range(10)))
    assert sum(counts) == 1000
    item = world.bucket_of(processes[0].limiter, "e", "r")
    assert item is not None
    assert item["b_rpm_tc"] == 1_000_000
    assert (await processes[0].limiter.available("e", "r")) == {"rpm": 0}


HUNDRED = Limit.per_minute("rpm", 100)


async def hammer(world: World, limiters: list[RateLimiter], *, rounds: int = 150) -> tuple[int, int]:
    """Admitted in ``rounds`` of takes ten milliseconds apart, and what was minted meanwhile."""
    admitted = 0
    for _ in range(rounds):
        for limiter in limiters:
            admitted += await passes(limiter, "e", "r", rpm=1)
        world.clock.advance(ms=10)
    return admitted, rounds * 10 * 100 // 60_000


@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize("before", ["new", "one take", "long busy"])
async def test_an_idle_bucket_of_100_gives_100_and_what_is_minted_not_200(
    world: World, processes: int, before: str
) -> None:
    limiters = [
        (await world.process(default_limits=[HUNDRED], config_cache_ttl=10**6)).limiter for _ in range(processes)
    ]
    if before == "one take":
        await take(limiters[0], "e", "r", rpm=1)
    if before == "long busy":
        await hammer(world, limiters, rounds=300)
    world.clock.advance(seconds=3600)
    admitted, minted = await hammer(world, limiters)
    slack = 0 if processes == 1 else 5  # 5 % of the ceiling may be lost where several processes meet at it
    assert 100 + minted - slack - 1 <= admitted <= 100 + minted


async def test_so_it_does_with_an_adjust_that_comes_after_the_bucket_has_filled_up_again(world: World) -> None:
    limiter, _ = await world.process(default_limits=[HUNDRED], config_cache_ttl=10**6)
    async with limiter.acquire("e", "r", {"rpm": 50}) as lease:
        world.clock.advance(seconds=3600)
        await lease.adjust(rpm=20)
    admitted, minted = await hammer(world, [limiter])
    assert 80 + minted - 1 <= admitted <= 80 + minted


async def test_a_rollback_that_comes_after_the_bucket_has_filled_up_again_gives_nothing_extra(world: World) -> None:
    limiter, _ = await world.process(default_limits=[HUNDRED], config_cache_ttl=10**6)
    with pytest.raises(RuntimeError):
        async with limiter.acquire("e", "r", {"rpm": 50}):
            world.clock.advance(seconds=3600)
            raise RuntimeError
    admitted, minted = await hammer(world, [limiter])
    assert 100 + minted - 1 <= admitted <= 100 + minted


@pytest.mark.slow
async def test_a_slow_limit_beside_a_fast_one_in_a_bucket_that_is_always_hit_neither_starves_nor_mints(
    world: World,
) -> None:
    slow, fast = Limit.per_day("slow", 100), Limit.per_second("fast", 100)  # 864 s for a token of the slow one
    limiter, _ = await world.process(default_limits=[slow, fast], config_cache_ttl=10**6)
    await take(limiter, "e", "r", slow=100)
    admitted = 0
    for second in range(1, 4321):
        world.clock.advance(seconds=1)
        await take(limiter, "e", "r", fast=90)
        if second % 16 == 0:
            admitted += await passes(limiter, "e", "r", slow=1, fast=1)
    assert admitted == 5
    assert await limiter.available("e", "r") == {"slow": 0, "fast": 9}


async def test_a_busy_bucket_of_one_process_gets_all_that_is_minted(world: World) -> None:
    limit = Limit.per_second("rpm", 50)
    limiter, _ = await world.process(default_limits=[limit], rejection_staleness=0, config_cache_ttl=10**6)
    admitted = 0
    for _ in range(800):
        while await passes(limiter, "e", "r", rpm=1):
            admitted += 1
        world.clock.advance(ms=10)
    assert admitted == 50 + 50 * 8 - 1  # the last token is minted with the last ten milliseconds
