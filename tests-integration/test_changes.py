"""What lives here: limits that change while a bucket is in use, as a second process with a cache of its own sees it.
What never does: which level wins.
"""

from typing import NamedTuple

import pytest

from clocks import ManualClock
from stage import Stage
from zae_limiter import Limit, RateLimiter, RateLimitExceeded, ValidationError

CACHE_LIFE = 5
A_DAY = 86_400


class Scene(NamedTuple):
    """Who changes the limits, and who takes; the clock of both."""

    changer: RateLimiter
    taker: RateLimiter
    clock: ManualClock


def daily(name: str, capacity: int) -> Limit:
    """A limit so slow that nothing is minted while a test looks."""
    return Limit.custom(name, capacity, refill_amount=1, refill_period=A_DAY)


@pytest.fixture
async def scene(stage: Stage) -> Scene:
    """A bucket of 100, of which each process has taken 10."""
    clock = ManualClock()
    changer = await stage.open(clock=clock, config_cache_ttl=CACHE_LIFE)
    await changer.set_resource_defaults("gpt-4", [daily("rpm", 100)])
    taker = await stage.open(clock=clock, config_cache_ttl=CACHE_LIFE)
    for limiter in (changer, taker):
        assert await drain(limiter, most=10) == 10
    clock.advance(1)
    return Scene(changer, taker, clock)


async def drain(limiter: RateLimiter, limit: str = "rpm", *, most: int = 1000) -> int:
    """What single takes get, until one is refused or there were ``most``."""
    for got in range(most):
        try:
            async with limiter.acquire("key", "gpt-4", {limit: 1}):
                pass
        except RateLimitExceeded:
            return got
    return most


async def test_a_lowered_limit_holds_after_one_cache_life(scene: Scene) -> None:
    await scene.changer.set_resource_defaults("gpt-4", [daily("rpm", 30)])
    assert await drain(scene.taker, most=5) == 5
    scene.clock.advance(CACHE_LIFE + 0.001)
    assert await drain(scene.taker) == 30


async def test_a_raised_limit_keeps_the_tokens_and_fills_up_to_the_new_ceiling(scene: Scene) -> None:
    await scene.changer.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 240)])
    scene.clock.advance(CACHE_LIFE + 0.001)
    assert await drain(scene.taker) == 80
    scene.clock.advance(10)
    assert await drain(scene.taker) == 40
    scene.clock.advance(3600)
    assert await drain(scene.taker) == 240


async def test_an_added_limit_starts_full_and_the_other_keeps_its_tokens(scene: Scene) -> None:
    await scene.changer.set_resource_defaults("gpt-4", [daily("rpm", 100), daily("tpm", 7)])
    scene.clock.advance(CACHE_LIFE + 0.001)
    assert await drain(scene.taker, "tpm") == 7
    assert await drain(scene.taker) == 80


async def test_a_removed_limit_is_ignored_and_comes_back_as_it_was(scene: Scene) -> None:
    both = [daily("rpm", 100), daily("tpm", 7)]
    await scene.changer.set_resource_defaults("gpt-4", both)
    scene.clock.advance(CACHE_LIFE + 0.001)
    assert await drain(scene.taker, "tpm", most=3) == 3
    await scene.changer.set_resource_defaults("gpt-4", both[1:])
    scene.clock.advance(CACHE_LIFE + 0.001)
    with pytest.raises(ValidationError):
        await drain(scene.taker)
    await scene.changer.set_resource_defaults("gpt-4", both)
    scene.clock.advance(CACHE_LIFE + 0.001)
    assert await drain(scene.taker, "tpm") == 4
    assert await drain(scene.taker) == 80


async def test_before_its_cache_life_ends_a_process_follows_one_that_knows_better(scene: Scene) -> None:
    await scene.changer.set_resource_defaults("gpt-4", [daily("rpm", 30)])
    assert await drain(scene.changer, most=1) == 1  # its own change is obeyed at once
    assert await drain(scene.taker) == 29


async def test_the_bucket_never_gives_more_than_the_larger_limit_across_changes(scene: Scene, stage: Stage) -> None:
    limits = {capacity: Limit.per_minute("rpm", capacity) for capacity in (100, 600, 60)}
    begun = stage.consumed("key", "gpt-4", "rpm")
    start_ms = scene.clock.ms
    for capacity in (600, 60, 600, 100, 60) * 4:
        await scene.changer.set_resource_defaults("gpt-4", [limits[capacity]])
        for _ in range(3):
            await drain(scene.changer)
            await drain(scene.taker)
            scene.clock.advance(2)
    elapsed = (scene.clock.ms - start_ms) / 1000
    admitted = (stage.consumed("key", "gpt-4", "rpm") - begun) / 1000
    assert admitted <= 80 + 600 * elapsed / 60


async def test_first_limits_are_found_after_one_cache_life(stage: Stage) -> None:
    clock = ManualClock()
    changer = await stage.open(clock=clock, config_cache_ttl=CACHE_LIFE)
    taker = await stage.open(clock=clock, config_cache_ttl=CACHE_LIFE)
    with pytest.raises(ValidationError):
        await drain(taker)
    await changer.set_resource_defaults("gpt-4", [daily("rpm", 3)])
    clock.advance(CACHE_LIFE + 0.001)
    assert await drain(taker) == 3
