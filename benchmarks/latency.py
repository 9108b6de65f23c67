"""How long callers wait for an acquire, against a server that takes 4 ms.

Lives here: one bucket and a bucket for each caller, 1 to 1,000 callers; one caller whose tokens are prefetched. Never:
a network.
"""

import asyncio
import time
from dataclasses import replace

from zae_limiter import Options, RateLimiter, Repository
from zae_limiter.engines.memory.table import MemoryTable

from .canned import LIMITS, RESOURCE, entity, take, warm_limiter
from .measure import percentile, pin_client
from .report import Row
from .virtual import Distant

SERVICE_MS = 4
CALLERS = (1, 10, 100, 1000)
SECONDS = 2.0
PREFETCH_SECONDS = 1.0
HELD_P50_MS, HELD_P99_MS = 0.02, 0.1


def measure() -> list[Row]:
    pin_client()
    return asyncio.run(_measure())


async def _measure() -> list[Row]:
    rows: list[Row] = []
    async with warm_limiter(buckets=max(CALLERS), service_ms=SERVICE_MS) as (limiter, _, _):
        for callers in CALLERS:
            rows += await _waits(limiter, callers, [entity(0)] * callers, "one bucket")
        for callers in CALLERS:
            rows += await _waits(limiter, callers, [entity(number) for number in range(callers)], "a bucket each")
    return [*rows, *await _prefetched()]


async def _prefetched() -> list[Row]:
    """A caller who rests no moment; a renewal is written behind its back."""
    table = MemoryTable()
    async with await Repository.over(Distant(table, SERVICE_MS / 1000), Options()) as repository:
        limits = [replace(limit, prefetch=PREFETCH_SECONDS) for limit in LIMITS]
        await repository.set_resource_defaults(RESOURCE, limits)
        limiter, waits = RateLimiter(repository), list[float]()
        await _caller(limiter, entity(0), time.perf_counter() + 2 * PREFETCH_SECONDS, [])  # until its pace is known
        await _caller(limiter, entity(0), time.perf_counter() + SECONDS, waits)
    what = f"1 caller, one bucket, prefetch of {PREFETCH_SECONDS:g} s"
    return [
        Row(f"{what}: p50", percentile(waits, 50) * 1000, "ms", at_most=HELD_P50_MS),
        Row(f"{what}: p99", percentile(waits, 99) * 1000, "ms", at_most=HELD_P99_MS),
    ]


async def _waits(limiter: RateLimiter, callers: int, entities: list[str], where: str) -> list[Row]:
    waits: list[float] = []
    await asyncio.gather(*(take(limiter, entity_id) for entity_id in entities))  # opens the connections
    until = time.perf_counter() + SECONDS
    await asyncio.gather(*(_caller(limiter, entity_id, until, waits) for entity_id in entities))
    median, high = percentile(waits, 50), percentile(waits, 99)
    what = f"{callers:,} caller{'s' * (callers > 1)}, {where}"
    return [
        Row(f"{what}: p50", median * 1000, "ms"),
        Row(f"{what}: p99", high * 1000, "ms"),
        Row(f"{what}: p99 / p50", high / median, at_most=3 if callers == 100 else None),
    ]


async def _caller(limiter: RateLimiter, entity_id: str, until: float, waits: list[float]) -> None:
    while (begun := time.perf_counter()) < until:
        await take(limiter, entity_id)
        waits.append(time.perf_counter() - begun)
