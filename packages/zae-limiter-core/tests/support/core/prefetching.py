"""A process that prefetches tokens of one bucket, and what it holds.
Never an assertion on what the limiter says."""

import asyncio
import time
from typing import Any

import pytest

from support.core.worlds import Process, World, take
from zae_limiter import Limit, RateLimiter

RPM = Limit.per_minute("rpm", 6_000, prefetch=1)  # 100 a second; 5,900 are usable
TPM = Limit.per_minute("tpm", 600_000, prefetch=1)


def live_by_the_worlds_clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a reservation live by the clock of the world alone: a busy machine may stand still for more than a second."""
    if "world" in request.fixturenames:
        clock = request.getfixturevalue("world").clock
        monkeypatch.setattr(time, "clock_gettime_ns", lambda _: clock.now_ms() * 1_000_000)


async def warm(world: World, *limits: Limit, **options: Any) -> Process:
    """A process that has used the bucket for two seconds, 50 acquires in each."""
    process = await world.process(**options)
    await process.limiter.set_resource_defaults("r", [*limits])
    await use(world, process.limiter, 100, rpm=1, **({"tpm": 1} if len(limits) > 1 else {}))
    process.wire.sent()
    return process


async def use(world: World, limiter: RateLimiter, acquires: int, **consume: int) -> None:
    """Acquire so often, every 20 ms; what is written in the background is written within them."""
    for _ in range(acquires):
        await take(limiter, "e", "r", **consume)
        await _until_idle(limiter)
        world.clock.advance(seconds=0.02)


def held(world: World, limiter: RateLimiter) -> int:
    """What the process holds of the bucket, in millitokens of all limits."""
    home = limiter.repository.namespace_state.cached_shards.get(("e", "r", 0))
    assert home is not None
    assert home.prefetch is not None
    return sum(home.prefetch.left().values())


async def item_of(world: World, limiter: RateLimiter) -> dict[str, Any]:
    item = world.bucket_of(limiter, "e", "r")
    assert item is not None
    return item


async def until_written(process: Process) -> None:
    """Wait for the writes in the background, which take no time by the world's clock."""
    await _until_idle(process.limiter)


async def _until_idle(limiter: RateLimiter) -> None:
    for _ in range(500):
        if not limiter.repository.driver._active:
            return
        await asyncio.sleep(0.002)
