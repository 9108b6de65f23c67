"""How often writers that know nothing of each other get in each other's way.

Lives here: 20 tasks with caches of their own on one bucket, 4 ms from it, in virtual time. Never: group commit at work.
"""

import asyncio
import random

from zae_limiter import Limit, Options, RateLimiter, RateLimitExceeded, Repository
from zae_limiter.operations.capacity import Meter
from zae_limiter.operations.memory import MemoryStore

from .report import Row
from .virtual import Distant, VirtualClock, run

TASKS = 20
RATE = 50
LATENCY_SECONDS = 0.004
SECONDS = 120.0
WARM_UP_SECONDS = 5.0
LOADS = ((0.5, 1.3), (0.95, 1.1), (2.0, 2.0))


def measure() -> list[Row]:
    return [
        Row(f"offered {load:.0%} of the rate: writes of each admission", run(_writes(load)), at_most=at_most)
        for load, at_most in LOADS
    ]


async def _writes(load: float) -> float:
    chance, meter = random.Random(1), Meter()
    random.seed(1)  # the driver's jitter
    limiters = await _limiters(MemoryStore(meter))
    await _offer(limiters, RATE * load, WARM_UP_SECONDS, chance)
    meter.reset()
    admitted = await _offer(limiters, RATE * load, SECONDS, chance)
    return meter.requests["UpdateItem"] / admitted


async def _limiters(table: MemoryStore) -> list[RateLimiter]:
    options = Options(clock=VirtualClock())
    repositories = [await Repository.over(Distant(table, LATENCY_SECONDS), options) for _ in range(TASKS)]
    await repositories[0].set_resource_defaults("gpt-4", [Limit.per_second("rps", RATE)])
    return [RateLimiter(repository) for repository in repositories]


async def _offer(limiters: list[RateLimiter], rate: float, seconds: float, chance: random.Random) -> int:
    """How many were admitted of arrivals by chance, each at a task by chance."""
    loop = asyncio.get_running_loop()
    until, arrivals = loop.time() + seconds, []
    while loop.time() < until:
        arrivals.append(asyncio.create_task(_admitted(chance.choice(limiters))))
        await asyncio.sleep(chance.expovariate(rate))
    return sum(await asyncio.gather(*arrivals))


async def _admitted(limiter: RateLimiter) -> bool:
    try:
        async with limiter.acquire("user", "gpt-4", {"rps": 1}):
            return True
    except RateLimitExceeded:
        return False
