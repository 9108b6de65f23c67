"""What a process changes itself, while it reads limits and behind that; in both variants."""

import asyncio
from typing import Any

import pytest

from support.core.wires import Wire, WireStore
from support.core.worlds import Process, World, passes, take, until
from zae_limiter import Limit, Options, RateLimiter, Repository
from zae_limiter.operations.values import BatchGet, Operation

RPM = Limit.per_minute("rpm", 60)
LOWERED = Limit.per_minute("rpm", 30)


async def read_beside(process: Process, changes: Any) -> asyncio.Task[None]:
    """A first acquire, while ``changes`` are made before each of its reads is answered."""
    process.wire.hold_answers(BatchGet)
    task = asyncio.create_task(take(process.limiter, "e", "r", rpm=1))
    await until(lambda: process.wire.in_flight == 1)
    await changes()
    process.wire.let_go()
    return task


async def test_a_change_of_another_entity_has_nothing_read_again(world: World) -> None:
    process = await world.process()
    await process.limiter.set_resource_defaults("r", [RPM])

    async def changes() -> None:
        await process.limiter.set_resource_defaults("another-resource", [RPM])
        await process.limiter.create_entity("new")

    process.wire.sent()
    await (await read_beside(process, changes))
    assert process.wire.sent().count("BatchGet") == 1


async def test_a_change_of_another_entity_leaves_what_is_known_of_a_bucket_known(world: World) -> None:
    limiter, wire = await world.process()
    await limiter.set_resource_defaults("r", [RPM])
    await take(limiter, "e", "r", rpm=1)
    await limiter.set_limits("other", [RPM], "r")
    wire.sent()
    before = limiter.repository.get_cache_stats()
    for _ in range(3):
        await take(limiter, "e", "r", rpm=1)
    assert wire.sent() == ["Update"] * 3
    after = limiter.repository.get_cache_stats()
    assert (after.hits - before.hits, after.misses - before.misses) == (3, 0)


@pytest.mark.parametrize("bulk", [False, True], ids=["one-by-one", "many-at-once"])
async def test_many_changes_are_seen_each_by_whom_it_concerns(world: World, *, bulk: bool) -> None:
    limiter, _ = await world.process()
    await limiter.set_resource_defaults("r", [RPM])
    for entity in ("e", "f"):
        await take(limiter, entity, "r", rpm=1)
    places = {(f"other-{number}", "r"): [RPM] for number in range(50)} | {("e", "r"): [LOWERED]}
    if bulk:
        await limiter.repository.set_many_limits(places)
    else:
        for (entity, resource), limits in places.items():
            await limiter.set_limits(entity, limits, resource)
    assert not await passes(limiter, "e", "r", rpm=31)
    assert await passes(limiter, "f", "r", rpm=31)


async def test_cold_acquires_end_though_twenty_others_set_limits_without_end(async_world: World) -> None:
    repository = await Repository.over(Distant(Wire(async_world.table)), Options(clock=async_world.clock))
    limiter = RateLimiter(repository)
    await limiter.set_resource_defaults("r", [RPM])
    settings = [asyncio.create_task(set_for_ever(limiter, number)) for number in range(20)]
    try:
        await asyncio.sleep(0.05)
        async with asyncio.timeout(60):
            await asyncio.gather(*(take(limiter, f"cold-{number}", "r", rpm=1) for number in range(3)))
        assert not any(task.done() for task in settings)
    finally:
        for task in settings:
            task.cancel()
        await asyncio.gather(*settings, return_exceptions=True)


class Distant(WireStore):
    """A wire whose answers take a moment, of reads a longer one."""

    async def perform(self, operation: Operation[Any]) -> Any:
        answer = await super().perform(operation)
        await asyncio.sleep(0.01 if isinstance(operation, BatchGet) else 0.001)
        return answer


async def set_for_ever(limiter: RateLimiter, number: int) -> None:
    while True:
        for capacity in (60, 61):
            await limiter.set_limits(f"entity-{number}", [Limit.per_minute("rpm", capacity)], "r")


async def test_an_acquire_ends_though_its_own_limits_change_during_every_read(async_world: World) -> None:
    store = Changing(Wire(async_world.table))
    limiter = store.limiter = RateLimiter(await Repository.over(store, Options(clock=async_world.clock)))
    await limiter.set_limits("e", [RPM], "r")
    store.wire.sent()
    store.changing = False
    async with asyncio.timeout(60):
        await take(limiter, "e", "r", rpm=1)
        assert 1 <= store.wire.sent().count("BatchGet") <= 10
        store.changing = True
        await take(limiter, "e", "r", rpm=1)
    assert store.wire.sent().count("BatchGet") > 0  # what was read while it changed is read again


class Changing(WireStore):
    """A wire on which the process changes the limits of an entity behind each of its reads, unless it is changing."""

    limiter: RateLimiter
    changes, changing = 0, True

    async def perform(self, operation: Operation[Any]) -> Any:
        answer = await super().perform(operation)
        if isinstance(operation, BatchGet) and not self.changing:
            self.changes, self.changing = self.changes + 1, True
            await self.limiter.set_limits("e", [Limit.per_minute("rpm", 60 + self.changes)], "r")
            self.changing = False
        return answer


@pytest.mark.parametrize("level", ["entity", "entity's default", "resource", "system"])
async def test_a_change_of_any_level_is_seen(async_world: World, level: str) -> None:
    limiter, _ = await async_world.process()
    await limiter.set_system_defaults([RPM])
    await take(limiter, "e", "r", rpm=1)
    if level == "system":
        await limiter.set_system_defaults([LOWERED])
    elif level == "resource":
        await limiter.set_resource_defaults("r", [LOWERED])
    else:
        await limiter.set_limits("e", [LOWERED], "r" if level == "entity" else "_default_")
    assert not await passes(limiter, "e", "r", rpm=31)


async def test_what_was_read_across_an_invalidation_is_not_remembered(async_world: World) -> None:
    process = await async_world.process()
    admin = await async_world.process()
    await admin.limiter.set_resource_defaults("r", [RPM])

    async def changes() -> None:
        await admin.limiter.set_resource_defaults("r", [LOWERED])
        await process.repository.invalidate_config_cache()

    await (await read_beside(process, changes))
    assert not await passes(process.limiter, "e", "r", rpm=31)


async def test_nothing_old_passes_for_new_behind_many_changes(async_world: World) -> None:
    limiter, _ = await async_world.process()
    await limiter.set_resource_defaults("r", [RPM])
    await take(limiter, "e", "r", rpm=1)
    await limiter.set_resource_defaults("r", [LOWERED])
    await limiter.repository.set_many_limits({(f"other-{number}", "r"): [RPM] for number in range(1_100)})
    assert not await passes(limiter, "e", "r", rpm=31)
