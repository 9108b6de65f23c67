"""How much of what is due a bucket hands out under overload, in virtual time: the same run every time.

Lives here: three processes' worth of limiters on a table in memory, 4 ms away. Never: real processes (overload).
"""

import asyncio
import random

from zae_limiter import Limit, Options, RateLimiter, RateLimitExceeded, Repository
from zae_limiter.engines.memory.table import MemoryTable

from .report import Row
from .virtual import Distant, VirtualClock, run

RATE = 50
SECONDS = 8.0
PROCESSES = 3
CALLERS = 10
PAUSE_SECONDS = 0.1
SEEDS = 10


def measure() -> list[Row]:
    shares = [run(_share(seed)) for seed in range(SEEDS)]
    return [
        Row("granted of what is due, worst of 10 runs", min(shares), "%", at_least=98, at_most=100),
        Row("granted of what is due, best of 10 runs", max(shares), "%", at_least=98, at_most=100),
    ]


async def _share(seed: int) -> float:
    random.seed(seed)
    table, options = MemoryTable(), Options(clock=VirtualClock())
    repositories = [await Repository.over(Distant(table, 0.004), options) for _ in range(PROCESSES)]
    await repositories[0].set_resource_defaults("gpt-4", [Limit.per_second("rps", RATE)])
    begun = asyncio.get_running_loop().time()
    counts = await asyncio.gather(*(press(RateLimiter(repository), SECONDS) for repository in repositories))
    seconds = asyncio.get_running_loop().time() - begun
    return 100 * sum(counts) / due(seconds)


def due(seconds: float) -> float:
    """What a bucket that was full has to hand out in so many seconds."""
    return RATE + RATE * seconds


async def press(limiter: RateLimiter, seconds: float) -> int:
    """How many are admitted of ten callers who ask again and again, twice the rate in all."""
    until = asyncio.get_running_loop().time() + seconds
    return sum(await asyncio.gather(*(_caller(limiter, until) for _ in range(CALLERS))))


async def _caller(limiter: RateLimiter, until: float) -> int:
    admitted, time = 0, asyncio.get_running_loop().time
    while time() < until:
        try:
            async with limiter.acquire("user", "gpt-4", {"rps": 1}):
                admitted += 1
        except RateLimitExceeded:
            pass
        # Not beyond the end: what is minted while nobody asks is not due.
        await asyncio.sleep(min(random.expovariate(1 / PAUSE_SECONDS), max(0, until - time())))
    return admitted
