"""What 1,000 keys of one organisation cost at its bucket, which 20 processes share, in virtual time.

Lives here: that load, and the writes to the one bucket. Never: a path of more buckets (costs), a crowd that waits
(waiting_families).
"""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from zae_limiter import Limit, Options, RateLimiter, RateLimitExceeded, Repository
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.operations.values import Operation, Put, Update

from . import virtual
from .report import DOCS

KEYS, PROCESSES = 1_000, 20
CALLS_PER_SECOND = 400  # fewer writes than split a bucket
WARM_UP_SECONDS, SECONDS = 4.5, 3.0
REQUEST_SECONDS = 0.004
ORGANISATION = "acme-corp"


class CountingTable(MemoryTable):
    """A table that counts the writes to the buckets of each entity."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: Counter[str] = Counter()

    def execute(self, operation: Operation[Any]) -> Any:
        if isinstance(operation, Update | Put):
            pk = operation.key.pk if isinstance(operation, Update) else str(operation.item["PK"])
            self.writes[pk.partition("/BUCKET#")[2].partition("#")[0]] += 1
        return super().execute(operation)


@dataclass(frozen=True, slots=True)
class Organised:
    """A row: what the organisation's limit is, and what that costs."""

    PAGE: ClassVar[Path] = DOCS / "benchmarks.md"
    HEAD: ClassVar[tuple[str, ...]] = (
        *("limit of the organisation", "calls admitted", "refused", "writes to its bucket, per call"),
        *("writes to the keys' buckets, per call", "shards at the end"),
    )
    RULE: ClassVar[tuple[str, ...]] = ("---", *("---:" for _ in range(5)))
    block: ClassVar[str] = ""
    missed: ClassVar[bool] = False

    what: str
    admitted: int
    refused: int
    above: int
    below: int
    shards: int

    def cells(self) -> tuple[str, ...]:
        """What stands in its columns."""
        calls = self.admitted + self.refused
        per_call = (f"{writes / calls:.3f}" for writes in (self.above, self.below))
        return self.what, f"{self.admitted:,}", f"{self.refused:,}", *per_call, str(self.shards)


def measure() -> list[Organised]:
    """The rows: with room, without, and with room prefetched."""
    return [
        virtual.run(_calls(what, Limit.per_second("rps", rate, burst=4 * rate, prefetch=prefetch)))
        for what, rate, prefetch in (
            ("800 a second", 800, 0.0),
            ("200 a second", 200, 0.0),
            ("800 a second, `prefetch` 1 s", 800, 1.0),
        )
    ]


async def _calls(what: str, limit: Limit) -> Organised:
    """Calls of one token come by chance, each of a key and at a process by chance."""
    chance, table, options = random.Random(1), CountingTable(), Options(clock=virtual.VirtualClock())
    repositories = [await Repository.over(virtual.Distant(table, REQUEST_SECONDS), options) for _ in range(PROCESSES)]
    limiters = [RateLimiter(repository) for repository in repositories]
    await _prepare(repositories[0], limit)
    answers: Counter[str] = Counter()

    async def call() -> None:
        key = f"key-{chance.randrange(KEYS)}"
        try:
            async with limiters[chance.randrange(PROCESSES)].acquire(key, "gpt-4", {"rps": 1}):
                answers["admitted"] += 1
        except RateLimitExceeded:
            answers["refused"] += 1

    await _offer(call, chance, WARM_UP_SECONDS)
    answers.clear()
    table.writes.clear()
    await _offer(call, chance, SECONDS)
    above = table.writes.pop(ORGANISATION)
    bucket = await repositories[0].get_bucket(ORGANISATION, "gpt-4")
    for repository in repositories:
        await repository.close()
    below = sum(writes for entity, writes in table.writes.items() if entity)
    shards = 0 if bucket is None else bucket.shard_count
    return Organised(what, answers["admitted"], answers["refused"], above, below, shards)


async def _offer(call: Any, chance: random.Random, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    until, tasks = loop.time() + seconds, []
    while loop.time() < until:
        tasks.append(asyncio.create_task(call()))
        await asyncio.sleep(chance.expovariate(CALLS_PER_SECOND))
    await asyncio.gather(*tasks)


async def _prepare(repository: Repository, limit: Limit) -> None:
    await repository.set_resource_defaults("gpt-4", [Limit.per_second("rps", 100)])
    await repository.create_entity(ORGANISATION)
    await repository.set_limits(ORGANISATION, [limit], "gpt-4")
    for number in range(KEYS):
        await repository.create_entity(f"key-{number}", parent_ids=[ORGANISATION], cascade=True)
