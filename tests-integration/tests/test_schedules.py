"""What lives here: schedules, and windows of the first use, as several processes use them on real tables.
What never does: when an entry holds (core's tests of the values), simulated faults (core's simulation).
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
RPD = Limit.custom(
    "rpd",
    30,
    refill_period=86_400,
    schedule=["night: 22:00-03:30 Europe/Berlin 5/day burst 7", "off: sun 12:00-13:00 0/day"],
)
LIMITS = [RPD, Limit.quota("hourly", 12, window=3600)]


@pytest.fixture
def clock() -> ManualClock:
    """On the eve of the day on which clocks are put on: the night of the schedule has an hour less."""
    return ManualClock(round(datetime(2026, 3, 28, 21, 59, 50, tzinfo=BERLIN).timestamp() * 1000))


async def used(limiter: RateLimiter, limit: str, most: int = 20) -> int:
    """How many of so many calls at once are admitted."""

    async def one() -> bool:
        try:
            async with limiter.acquire("key", "gpt-4", {limit: 1}):
                return True
        except RateLimitExceeded:
            return False

    return sum(await asyncio.gather(*(one() for _ in range(most))))


async def used_by(limiters: list[RateLimiter], limit: str) -> int:
    """How much several processes get at once."""
    return sum(await asyncio.gather(*(used(limiter, limit) for limiter in limiters)))


async def limit_of(limiter: RateLimiter) -> Limit:
    """The first limit, as the bucket has it."""
    bucket = await limiter.repository.get_bucket("key", "gpt-4")
    assert bucket is not None
    return bucket.limits[0].limit


@pytest.mark.parametrize("variant", ["async"], indirect=True)
async def test_processes_find_each_boundary_for_themselves(harness: Harness, clock: ManualClock) -> None:
    limiters = [await harness.open(clock=clock) for _ in range(3)]
    await limiters[0].set_resource_defaults("gpt-4", [RPD])
    assert await used(limiters[0], "rpd", 10) == 10
    clock.advance(10)
    assert await used_by(limiters, "rpd") == 7
    clock.advance(4.5 * 3600 - 1)
    assert await used_by(limiters, "rpd") == 0
    assert (await limit_of(limiters[1])).burst == 7
    clock.advance(1)  # half past three, one hour of which the clocks left out
    assert await used(limiters[2], "rpd", 1) == 0
    assert (await limit_of(limiters[1])) == Limit.custom("rpd", 30, refill_period=86_400)
    clock.advance(86_400 / 30)
    assert await used_by(limiters, "rpd") == 1
    assert await limiters[0].time_until_available("key", "gpt-4", {"rpd": 1}) > 0


@pytest.mark.parametrize("variant", ["async"], indirect=True)
async def test_processes_begin_one_window_together(harness: Harness, clock: ManualClock) -> None:
    limiters = [await harness.open(clock=clock) for _ in range(3)]
    await limiters[0].set_resource_defaults("gpt-4", LIMITS)
    for _ in range(3):
        assert await used_by(limiters, "hourly") == 12
        clock.advance(3_599)
        assert await used_by(limiters, "hourly") == 0
        clock.advance(5_000)
    await limiters[1].repository.reset_bucket("key", "gpt-4")
    assert await used_by(limiters, "hourly") == 12


async def test_what_is_stored_is_read_back(harness: Harness, clock: ManualClock) -> None:
    limiter = await harness.open(clock=clock)
    await limiter.set_limits("key", LIMITS, "gpt-4")
    limits, _, _ = await limiter.repository.resolve_limits("key", "gpt-4")
    assert limits == sorted(LIMITS, key=lambda limit: limit.name)
    async with limiter.acquire("key", "gpt-4", {"hourly": 2, "rpd": 3}):
        pass
    clock.advance(10)
    assert await limiter.available("key", "gpt-4") == {"hourly": 10, "rpd": 7}
    found = await limiter.explain("key", "gpt-4", {"rpd": 8})
    assert found.buckets[0].limits[1].schedule == "night until 03:30 Europe/Berlin"
    assert not found.passes
