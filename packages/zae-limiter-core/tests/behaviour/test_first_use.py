"""Limits whose windows begin with the first use."""

import random
from typing import Any

import pytest

from support.core.shards import shard_items, split_into
from support.core.worlds import World, drain, passes, take
from zae_limiter import Limit, RateLimiter, RateLimitExceeded, ValidationError, http

QUOTA = Limit.quota("rpm", 5, window=3600)


def item_of(world: World, limiter: RateLimiter) -> dict[str, Any]:
    """The bucket's item, which is there."""
    item = world.bucket_of(limiter, "e", "r")
    assert item is not None
    return item


async def refusal(limiter: RateLimiter, **consume: int) -> RateLimitExceeded:
    with pytest.raises(RateLimitExceeded) as caught:
        await take(limiter, "e", "r", **consume)
    return caught.value


async def test_a_window_begins_with_the_first_token_and_is_full_at_its_end(world: World) -> None:
    limiter, _ = await world.process(default_limits=[QUOTA])
    world.clock.advance(1_234.567)
    await take(limiter, "e", "r", rpm=1)
    world.clock.advance(1_000)
    assert await drain(limiter, "e", "r", "rpm") == 4
    refused = await refusal(limiter, rpm=1)
    assert refused.retry_after_seconds == 2_600
    assert http.headers(refused)["RateLimit-Policy"] == '"rpm";q=5;w=3600'
    world.clock.advance(2_599.999)
    assert not await passes(limiter, "e", "r", rpm=1)
    world.clock.advance(0.001)
    assert await limiter.available("e", "r") == {"rpm": 5}
    assert await drain(limiter, "e", "r", "rpm") == 5


async def test_the_next_window_begins_with_the_next_use_and_not_with_the_end_of_the_last(world: World) -> None:
    limiter, _ = await world.process(default_limits=[QUOTA])
    await take(limiter, "e", "r", rpm=5)
    world.clock.advance(3_600 + 3_000)
    await take(limiter, "e", "r", rpm=5)
    world.clock.advance(3_599)
    assert (await refusal(limiter, rpm=1)).retry_after_seconds == 1


async def test_each_use_costs_one_write_also_the_first_of_a_window(world: World) -> None:
    limiter, wire = await world.process(config_cache_ttl=86_400.0, bucket_ttl_multiplier=0)
    await limiter.set_resource_defaults("r", [QUOTA, Limit.per_minute("tpm", 100)])
    await take(limiter, "e", "r", rpm=1, tpm=1)
    wire.sent()
    for seconds in (10, 3_600, 10, 7_200):
        world.clock.advance(seconds)
        await take(limiter, "e", "r", rpm=1, tpm=1)
        assert wire.sent() == ["Update"], seconds
    assert await limiter.available("e", "r") == {"rpm": 4, "tpm": 99}


async def test_what_takes_of_another_limit_begins_no_window(world: World) -> None:
    limiter, _ = await world.process(default_limits=[QUOTA, Limit.per_minute("tpm", 100)])
    await take(limiter, "e", "r", tpm=1)
    assert "b_rpm_bg" not in item_of(world, limiter)
    world.clock.advance(1_800)
    await take(limiter, "e", "r", rpm=5)
    world.clock.advance(3_500)
    await take(limiter, "e", "r", tpm=1)
    assert (await refusal(limiter, rpm=1)).retry_after_seconds == 100


async def test_a_refusal_begins_no_window(world: World) -> None:
    limiter, _ = await world.process(default_limits=[QUOTA])
    await take(limiter, "e", "r", rpm=5)
    world.clock.advance(3_700)
    assert (await refusal(limiter, rpm=6)).retry_after_seconds == float("inf")
    world.clock.advance(1_000)
    await take(limiter, "e", "r", rpm=1)
    assert item_of(world, limiter)["b_rpm_bg"] == world.clock.now_ms()


async def test_a_debt_is_paid_by_the_next_windows(world: World) -> None:
    limiter, _ = await world.process(default_limits=[QUOTA])
    async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
        await lease.adjust(rpm=11)
    assert await limiter.available("e", "r") == {"rpm": -7}
    assert (await refusal(limiter, rpm=1)).retry_after_seconds == 7_200
    world.clock.advance(7_200)
    assert await drain(limiter, "e", "r", "rpm") == 3


async def test_a_reset_ends_the_window(world: World) -> None:
    limiter, _ = await world.process(default_limits=[QUOTA])
    await take(limiter, "e", "r", rpm=5)
    world.clock.advance(3_000)
    await limiter.repository.reset_bucket("e", "r")
    world.clock.advance(10)
    await take(limiter, "e", "r", rpm=5)
    world.clock.advance(3_599)
    assert (await refusal(limiter, rpm=1)).retry_after_seconds == 1


async def test_a_waiting_caller_is_served_at_the_end_of_the_window(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.quota("rpm", 5, window=20)])
    await take(limiter, "e", "r", rpm=5)
    before = world.clock.now_ms()
    async with limiter.acquire("e", "r", {"rpm": 2}, max_wait=30):
        pass
    assert 20_000 <= world.clock.now_ms() - before <= 22_000


async def test_the_bucket_stays_on_one_shard(world: World) -> None:
    limiter, _ = await world.process(default_limits=[QUOTA])
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, 4)
    assert list(shard_items(world, limiter)) == [0]


async def test_a_bucket_that_expires_was_full(world: World) -> None:
    limiter, _ = await world.process(default_limits=[QUOTA], bucket_ttl_multiplier=1)
    await take(limiter, "e", "r", rpm=5)
    world.clock.advance(3_599)
    assert world.expire() == 0
    world.clock.advance(120)
    assert world.expire() == 1
    assert await drain(limiter, "e", "r", "rpm") == 5


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("seed", range(8))
async def test_no_window_admits_more_whoever_takes(world: World, seed: int) -> None:
    dice = random.Random(seed)
    processes = [(await world.process(default_limits=[QUOTA])).limiter for _ in range(3)]
    begin, left, begun = 0, 5, False
    for _ in range(120):
        world.clock.advance(ms=dice.choice((0, 1, 400_000, 1_799_999, 3_600_000)))
        now, amount = world.clock.now_ms(), dice.randint(1, 3)
        if not begun or now >= begin + 3_600_000:
            begin, left, begun = now, 5, True
        passed = await passes(dice.choice(processes), "e", "r", rpm=amount)
        assert passed == (amount <= left), (now, amount, left)
        left -= amount if passed else 0


def test_what_does_not_go_with_it_is_refused() -> None:
    for values, problem in (
        ({"burst": 9}, "burst of limit 'rpm' 9: means nothing"),
        ({"refill_amount": 3}, "refill_amount of limit 'rpm' 3: means nothing"),
        ({"prefetch": 1.0}, "prefetch of limit 'rpm' 1.0: means nothing"),
        ({"window": "day"}, "belongs to a calendar limit"),
        ({"refill_period": 0}, "must be from 1"),
    ):
        with pytest.raises(ValidationError, match=problem):
            Limit.from_dict({"name": "rpm", "capacity": 5, "kind": "first_use", **values})
    for more, problem in (
        ({"window": 60, "cron": "0 6 * * MON"}, "means nothing beside window="),
        ({"window": 60, "timezone": "Europe/Berlin"}, "means nothing beside window="),
        ({"window": 60, "carry_over": 3}, "must be 0"),
        ({}, "needs cron="),
        ({"window": "60"}, "must be a whole number"),
    ):
        with pytest.raises(ValidationError, match=problem):
            Limit.quota("rpm", 5, **more)


async def test_a_window_that_begins_lets_no_other_limit_pass_before_its_instant(world: World) -> None:
    """The window's write moves the anchor a millisecond into the future, and decides by what is there now."""
    fast = Limit.custom("tpm", 1, refill_amount=1000, refill_period=1)
    limiter, _ = await world.process(default_limits=[QUOTA, fast])
    await take(limiter, "e", "r", tpm=1)
    assert await limiter.time_until_available("e", "r", {"rpm": 1, "tpm": 1}) == 0.001
    assert (await refusal(limiter, rpm=1, tpm=1)).retry_after_seconds == 0.001
    world.clock.advance(ms=1)
    await take(limiter, "e", "r", rpm=1, tpm=1)
