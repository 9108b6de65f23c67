"""What lives here: calendar limits and totals as several processes use them up on real tables, over a boundary; and how
long the bucket of a total that expires stays there.
What never does: when a window begins (core's tests of the rules), simulated faults (core's simulation).
"""

import asyncio
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from support.integration.harness import Harness
from zae_limiter import Limit, RateLimiter, RateLimitExceeded
from zae_limiter.testing import ManualClock

pytestmark = pytest.mark.needs("atomic")

BERLIN = ZoneInfo("Europe/Berlin")
USD = Limit.per_month("usd", 30, timezone="Europe/Berlin", starts_on=29, carry_over=5)
LIMITS = [USD, Limit.total("credits", 100), Limit.per_minute("rpm", 10_000)]


@pytest.fixture
def clock() -> ManualClock:
    """On the eve of a month that begins when clocks are put on."""
    return ManualClock(round(datetime(2026, 3, 28, 23, 59, tzinfo=BERLIN).timestamp() * 1000))


async def used(limiter: RateLimiter, most: int) -> int:
    """How many of so many calls at once are admitted."""

    async def one() -> bool:
        try:
            async with limiter.acquire("key", "gpt-4", {"usd": 1, "credits": 1, "rpm": 1}):
                return True
        except RateLimitExceeded:
            return False

    return sum(await asyncio.gather(*(one() for _ in range(most))))


async def used_by(limiters: list[RateLimiter]) -> int:
    """How much several processes get at once."""
    return sum(await asyncio.gather(*(used(limiter, 20) for limiter in limiters)))


@pytest.mark.parametrize("variant", ["async"], indirect=True)
async def test_processes_use_up_each_month_exactly_and_the_total_once(harness: Harness, clock: ManualClock) -> None:
    limiters = [await harness.open(clock=clock) for _ in range(3)]
    await limiters[0].set_resource_defaults("gpt-4", LIMITS)
    assert await used_by(limiters) == 30
    clock.advance(120)
    assert await used(limiters[0], 10) == 10
    clock.advance(31 * 86_400)
    assert await used_by(limiters) == 35
    clock.advance(31 * 86_400)
    assert await used_by(limiters) == 25
    assert await limiters[1].available("key", "gpt-4") == {"usd": 5, "credits": 0, "rpm": 9_975}
    assert await limiters[0].repository.credit_bucket("key", "gpt-4", {"credits": 50})
    assert await used_by(limiters) == 5
    [bucket] = [await limiters[2].repository.get_bucket("key", "gpt-4")]
    assert bucket is not None
    assert [each.limit for each in bucket.limits] == sorted(LIMITS, key=lambda limit: limit.name)


async def test_a_budget_that_expires_lives_by_its_last_use(harness: Harness, clock: ManualClock) -> None:
    limiter, week = await harness.open(clock=clock), 7 * 86_400
    await limiter.set_limits("session", [Limit.total("calls", 5, expires=week)], "agents")
    for left in (4, 3, 2):
        clock.advance(86_400)
        async with limiter.acquire("session", "agents", {"calls": 1}):
            pass
        bucket = await limiter.repository.get_bucket("session", "agents")
        assert bucket is not None
        assert bucket.expires_at_ms is not None
        assert 0 <= bucket.expires_at_ms - clock.now_ms() - week * 1000 < 1000
        assert bucket.available == {"calls": left}
