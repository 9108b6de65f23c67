"""Crowds that wait for a parent's tokens, in virtual time: a parent of one shard, and a small one of many shards.

Never: a crowd of one bucket (waiting).
"""

import asyncio
from itertools import pairwise
from typing import NamedTuple

from zae_limiter import Limit, Options, RateLimiter, RateLimiterUnavailable, RateLimitExceeded, Repository
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.engines.meter import Meter
from zae_limiter.flows.bucket.splitting import split_shard
from zae_limiter.flows.process.namespace_state import NamespaceState, Settings
from zae_limiter.flows.steps import Log, Sleep, play
from zae_limiter.schema.items import BucketId

from . import virtual
from .report import Row

MAX_WAIT = 120.0
SECONDS = 0.01  # of a request


class Family(NamedTuple):
    """Processes with so many callers each, all for one child; the tokens a second of its parent, on so many shards."""

    processes: int
    callers: int
    rate: int
    shards: int = 1


CONTENDED, SMALL, SHARED = Family(3, 120, 50), Family(1, 240, 80, 64), Family(3, 80, 80, 64)


def measure() -> list[Row]:
    """The rows of each family. On shards, all is granted but for the token that each of the 64 may hold in the end."""
    return [
        *virtual.run(_family(CONTENDED, granted=95, requests=3.0)),
        *virtual.run(_family(SMALL, granted=78, requests=3.0)),
        *virtual.run(_family(SHARED, granted=78, requests=8.0)),
    ]


async def _family(family: Family, *, granted: int, requests: float) -> list[Row]:
    """What the crowd gets, what it costs, and who is overtaken or told of an outage."""
    meter, time_now = Meter(), asyncio.get_running_loop().time
    table, options = MemoryTable(meter), Options(clock=virtual.VirtualClock())
    limiters = [
        RateLimiter(await Repository.over(virtual.Distant(table, SECONDS), options)) for _ in range(family.processes)
    ]
    await _prepare(limiters[0], family, table)
    served: list[list[int]] = [[] for _ in limiters]
    unavailable = 0

    async def caller(process: int, number: int) -> None:
        nonlocal unavailable
        try:
            async with limiters[process].acquire("child", "gpt-4", {"rps": 1}, max_wait=MAX_WAIT):
                served[process].append(number)
        except RateLimiterUnavailable:
            unavailable += 1
        except RateLimitExceeded:
            pass

    meter.reset()
    begun = time_now()
    everyone = [(process, number) for number in range(family.callers) for process in range(family.processes)]
    await asyncio.gather(*(caller(*each) for each in everyone))
    due, admitted = family.rate * (time_now() - begun), sum(map(len, served))
    who = f"{family.processes} x {family.callers:,} callers, a parent of {family.rate} a second"
    who += f" on {family.shards} shards" if family.shards > 1 else ""
    rows = [
        Row(f"{who}: granted of what is due", 100 * admitted / due, "%", at_least=granted, at_most=100),
        Row(f"{who}: requests of each admission", meter.requests.total() / admitted, at_most=requests),
        Row(f"{who}: unavailable", unavailable, at_most=0),
    ]
    if family.shards == 1:
        overtaken = sum(later < earlier for numbers in served for earlier, later in pairwise(numbers))
        rows.append(Row(f"{who}: overtaken in their process", overtaken, at_most=0))
    return rows


async def _prepare(limiter: RateLimiter, family: Family, table: MemoryTable) -> None:
    """Have a child with more tokens than its parent, whose bucket is split and empty."""
    repository = limiter.repository
    await repository.create_entity("parent")
    await repository.create_entity("child", parent_id="parent", cascade=True)
    await repository.set_resource_defaults("gpt-4", [Limit.per_second("rps", 100 * family.rate)])
    await repository.set_limits("parent", [Limit.per_second("rps", family.rate)], "gpt-4")
    async with limiter.acquire("parent", "gpt-4", {"rps": family.rate}):
        pass
    clock, bucket = virtual.VirtualClock(), BucketId(repository.namespace_id, "parent", "gpt-4")
    aggregator = NamespaceState(
        "default", repository.namespace_id, stack="benchmark", now=clock.now_ms, settings=Settings()
    )
    count = 1
    while count < family.shards:
        for shard in range(count):
            play(
                split_shard(aggregator, bucket.other(shard)),
                lambda step: None if isinstance(step, (Sleep, Log)) else table.execute(step),
            )
        count *= 2
