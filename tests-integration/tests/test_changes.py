"""What lives here: limits that change while a bucket is in use, as a second process with a cache of its own sees it.
What never does: which level wins.
"""

from typing import NamedTuple

import pytest

from support.integration.clocks import START_MS
from support.integration.harness import Harness
from zae_limiter import Limit, RateLimiter, RateLimitExceeded, ValidationError
from zae_limiter.testing import ManualClock

CACHE_LIFE = 5
A_DAY = 86_400


class ApiCase(NamedTuple):
    """Who changes the limits, and who takes; the clock of both."""

    changer: RateLimiter
    taker: RateLimiter
    clock: ManualClock


def daily(name: str, capacity: int) -> Limit:
    """A limit so slow that nothing is minted while a test looks."""
    return Limit.custom(name, capacity, refill_amount=1, refill_period=A_DAY)


@pytest.fixture
async def api_case(harness: Harness) -> ApiCase:
    """A bucket of 100, of which each process has taken 10."""
    clock = ManualClock(START_MS)
    changer = await harness.open(clock=clock, config_cache_ttl=CACHE_LIFE)
    await changer.set_resource_defaults("gpt-4", [daily("rpm", 100)])
    taker = await harness.open(clock=clock, config_cache_ttl=CACHE_LIFE)
    for limiter in (changer, taker):
        assert await drain(limiter, most=10) == 10
    clock.advance(1)
    return ApiCase(changer, taker, clock)


async def drain(limiter: RateLimiter, limit: str = "rpm", *, most: int = 1000) -> int:
    """What single takes get, until one is refused or there were ``most``."""
    for got in range(most):
        try:
            async with limiter.acquire("key", "gpt-4", {limit: 1}):
                pass
        except RateLimitExceeded:
            return got
    return most


async def test_a_lowered_limit_holds_after_one_cache_life(api_case: ApiCase) -> None:
    await api_case.changer.set_resource_defaults("gpt-4", [daily("rpm", 30)])
    assert await drain(api_case.taker, most=5) == 5
    api_case.clock.advance(CACHE_LIFE + 0.001)
    assert await drain(api_case.taker) == 30


async def test_a_raised_limit_keeps_the_tokens_and_fills_up_to_the_new_ceiling(api_case: ApiCase) -> None:
    await api_case.changer.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 240)])
    api_case.clock.advance(CACHE_LIFE + 0.001)
    assert await drain(api_case.taker) == 80
    api_case.clock.advance(10)
    assert await drain(api_case.taker) == 40
    api_case.clock.advance(3600)
    assert await drain(api_case.taker) == 240


async def test_an_added_limit_starts_full_and_the_other_keeps_its_tokens(api_case: ApiCase) -> None:
    await api_case.changer.set_resource_defaults("gpt-4", [daily("rpm", 100), daily("tpm", 7)])
    api_case.clock.advance(CACHE_LIFE + 0.001)
    assert await drain(api_case.taker, "tpm") == 7
    assert await drain(api_case.taker) == 80


async def test_a_removed_limit_is_ignored_and_comes_back_as_it_was(api_case: ApiCase) -> None:
    both = [daily("rpm", 100), daily("tpm", 7)]
    await api_case.changer.set_resource_defaults("gpt-4", both)
    api_case.clock.advance(CACHE_LIFE + 0.001)
    assert await drain(api_case.taker, "tpm", most=3) == 3
    await api_case.changer.set_resource_defaults("gpt-4", both[1:])
    api_case.clock.advance(CACHE_LIFE + 0.001)
    with pytest.raises(ValidationError):
        await drain(api_case.taker)
    await api_case.changer.set_resource_defaults("gpt-4", both)
    api_case.clock.advance(CACHE_LIFE + 0.001)
    assert await drain(api_case.taker, "tpm") == 4
    assert await drain(api_case.taker) == 80


async def test_before_its_cache_life_ends_a_process_follows_one_that_knows_better(api_case: ApiCase) -> None:
    await api_case.changer.set_resource_defaults("gpt-4", [daily("rpm", 30)])
    assert await drain(api_case.changer, most=1) == 1  # its own change is obeyed at once
    assert await drain(api_case.taker) == 29


async def test_the_bucket_never_gives_more_than_the_larger_limit_across_changes(
    api_case: ApiCase, harness: Harness
) -> None:
    limits = {capacity: Limit.per_minute("rpm", capacity) for capacity in (100, 600, 60)}
    begun = harness.consumed("key", "gpt-4", "rpm")
    start_ms = api_case.clock.now_ms()
    for capacity in (600, 60, 600, 100, 60) * 2:
        await api_case.changer.set_resource_defaults("gpt-4", [limits[capacity]])
        for _ in range(3):
            await drain(api_case.changer)
            await drain(api_case.taker)
            api_case.clock.advance(2)
    elapsed = (api_case.clock.now_ms() - start_ms) / 1000
    admitted = (harness.consumed("key", "gpt-4", "rpm") - begun) / 1000
    assert admitted <= 80 + 600 * elapsed / 60


async def test_first_limits_are_found_after_one_cache_life(harness: Harness) -> None:
    clock = ManualClock(START_MS)
    changer = await harness.open(clock=clock, config_cache_ttl=CACHE_LIFE)
    taker = await harness.open(clock=clock, config_cache_ttl=CACHE_LIFE)
    with pytest.raises(ValidationError):
        await drain(taker)
    await changer.set_resource_defaults("gpt-4", [daily("rpm", 3)])
    clock.advance(CACHE_LIFE + 0.001)
    assert await drain(taker) == 3
