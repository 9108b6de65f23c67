"""Acquires that arrive by chance, at processes that know nothing of each other, on one bucket 4 ms away.

Lives here: that load, in virtual time. Never: group commit at work, a figure.
"""

import asyncio
import random
from collections.abc import Sequence

from zae_limiter import Limit, Options, RateLimiter, RateLimitExceeded, Repository
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.engines.meter import Meter

from .virtual import Distant, VirtualClock, run

LATENCY_SECONDS = 0.004
WARM_UP_SECONDS = 5.0


def writes_per_admission(limits: Sequence[Limit], *, processes: int, per_second: float, seconds: float) -> float:
    """Writes for each acquire of one token of every limit that was admitted."""
    return run(_writes(limits, processes, per_second, seconds))


async def _writes(limits: Sequence[Limit], processes: int, per_second: float, seconds: float) -> float:
    chance, meter = random.Random(1), Meter()
    random.seed(1)  # the driver's jitter
    limiters = await _limiters(MemoryTable(meter), limits, processes)
    await _offer(limiters, limits, per_second, WARM_UP_SECONDS, chance)
    meter.reset()
    admitted = await _offer(limiters, limits, per_second, seconds, chance)
    return meter.requests["UpdateItem"] / admitted


async def _limiters(table: MemoryTable, limits: Sequence[Limit], processes: int) -> list[RateLimiter]:
    options = Options(clock=VirtualClock())
    repositories = [await Repository.over(Distant(table, LATENCY_SECONDS), options) for _ in range(processes)]
    await repositories[0].set_resource_defaults("gpt-4", limits)
    return [RateLimiter(repository) for repository in repositories]


async def _offer(
    limiters: Sequence[RateLimiter],
    limits: Sequence[Limit],
    per_second: float,
    seconds: float,
    chance: random.Random,
) -> int:
    """How many were admitted of arrivals by chance, each at a process by chance."""
    loop, consume = asyncio.get_running_loop(), {limit.name: 1 for limit in limits}
    until, arrivals = loop.time() + seconds, []
    while loop.time() < until:
        arrivals.append(asyncio.create_task(_admitted(chance.choice(limiters), consume)))
        await asyncio.sleep(chance.expovariate(per_second))
    return sum(await asyncio.gather(*arrivals))


async def _admitted(limiter: RateLimiter, consume: dict[str, int]) -> bool:
    try:
        async with limiter.acquire("user", "gpt-4", consume):
            return True
    except RateLimitExceeded:
        return False
