"""Histories of processes whose table goes away and comes back as it was a while ago, drawn at random."""

import logging
from collections import Counter
from contextlib import AsyncExitStack, suppress
from random import Random

import pytest

from support.core.shards import split
from support.core.worlds import Process, World, until
from support.core.worlds import take as one
from zae_limiter import Limit, RateLimitExceeded
from zae_limiter.operations.errors import TableMissing
from zae_limiter.operations.values import Delete, Item, Key, Put, Scan

CAPACITY = 600  # a minute
PREFETCH_SECONDS = 1
HISTORIES = 3
PLACES = ("ann", "bob")


class History:
    """Three processes on two children of a parent; ``taken`` has what was admitted since the restore, less what came
    back, by entity; ``open`` what leases of before had that were not yet given back.
    """

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.rng = world, Random(seed)
        self.processes: list[Process] = []
        self.taken, self.open = Counter[str](), Counter[str]()
        self.restored = False

    async def begin(self) -> None:
        prefetch = self.rng.choice((0, PREFETCH_SECONDS))
        for _ in range(3):
            self.processes.append(await self.world.process())
        limiter = self.processes[0].limiter
        await limiter.create_entity("org")
        for entity in PLACES:
            await limiter.create_entity(entity, parent_id="org", cascade=True)
        await limiter.set_resource_defaults("api", [Limit.per_minute("rpm", CAPACITY, prefetch=prefetch)])

    async def live(self, steps: int) -> None:
        """Acquire, settle, give back, split, let time pass."""
        for _ in range(steps):
            limiter = self.rng.choice(self.processes).limiter
            entity, amount = self.rng.choice(PLACES), self.rng.choice((1, 1, 5, 40))
            if self.rng.random() < 0.02:
                split(self.world, limiter, self.rng.choice((*PLACES, "org")), "api")
            try:
                async with limiter.acquire(entity, "api", {"rpm": amount}) as lease:
                    back = self.rng.randint(0, amount) if self.rng.random() < 0.3 else 0
                    await lease.release(rpm=back)
                if self.restored:
                    self.taken.update({entity: amount - back, "org": amount - back})
            except RateLimitExceeded:
                pass
            self.world.clock.advance(self.rng.choice((0.0, 0.02, 0.1, 1.0)))

    async def restore(self, kept: list[Item]) -> None:
        """Take the table away from all, under leases that are open, and bring the older one back."""
        async with AsyncExitStack() as stack:
            for process in self.processes:
                entity = self.rng.choice(PLACES)
                lease = process.limiter.acquire(entity, "api", {"rpm": 10}, on_unavailable="allow")
                try:
                    await stack.enter_async_context(lease)
                except RateLimitExceeded:
                    continue
                self.open.update({entity: 10, "org": 10})
            for process in self.processes:
                process.wire.break_down(TableMissing("Requested resource not found"))
                for _ in range(4):
                    entity = self.rng.choice(PLACES)
                    with suppress(RateLimitExceeded):  # by what the process saw last
                        async with process.limiter.acquire(entity, "api", {"rpm": 1}, on_unavailable="allow"):
                            self.world.clock.advance(0.1)
            for item in self.world.table.execute(Scan(10_000)).items:
                self.world.table.execute(Delete(Key(item["PK"], item["SK"])))
            for item in kept:
                self.world.table.execute(Put(item))
            for process in self.processes:
                process.wire.repair()
                stats = process.repository.get_store_stats
                await until(lambda stats=stats: stats().breaker == "closed")  # type: ignore[misc]
            self.restored = True


@pytest.mark.parametrize("seed", range(HISTORIES))
async def test_nobody_trips_over_a_restore_and_its_bound_holds(
    world: World, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "zae_limiter")
    history = History(world, seed)
    await history.begin()
    await history.live(history.rng.randint(5, 60))
    kept = [*world.table.execute(Scan(10_000)).items]
    await history.live(history.rng.randint(5, 60))
    await history.restore(kept)
    begun = world.clock.now_ms()
    await history.live(150)
    minted = CAPACITY * (world.clock.now_ms() - begun) / 60_000
    prefetch = len(history.processes) * PREFETCH_SECONDS * CAPACITY / 60
    for entity in (*PLACES, "org"):
        assert history.taken[entity] <= CAPACITY + minted + prefetch + history.open[entity], entity
    world.clock.advance(120)
    for entity in PLACES:
        await one(history.processes[0].limiter, entity, "api", rpm=CAPACITY // 4)
