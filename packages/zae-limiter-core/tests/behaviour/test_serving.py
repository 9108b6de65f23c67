"""What a process changes itself, while it reads limits and behind that; in both variants."""

import asyncio
from typing import Any

import pytest

from support.core.wires import Wire, WireStore
from support.core.worlds import Process, World, passes, take, until
from zae_limiter import Limit, Options, RateLimiter, Repository
from zae_limiter.flows.bucket.serving import READS
from zae_limiter.flows.process.config_cache import ConfigCache, config_keys
from zae_limiter.operations.values import BatchGet, Key, Operation

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
        await limiter.set_many_limits(places)
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
    process = await async_world.process()
    limiter, wire, table = process.limiter, process.wire, async_world.table
    await limiter.set_limits("e", [RPM], "r")
    namespace_state = limiter.repository.namespace_state
    key = config_keys(namespace_state.namespace_id, "e", "r").entity
    wire.table = Meddler(table, lambda: namespace_state.configs.forget(key))  # type: ignore[assignment]
    wire.sent()
    async with asyncio.timeout(60):
        await take(limiter, "e", "r", rpm=1)
        assert wire.sent().count("BatchGet") == READS
        await take(limiter, "e", "r", rpm=1)
    assert wire.sent().count("BatchGet") > 0  # what was read while it changed is read again


class Meddler:
    """A table that has a config changed during every read."""

    def __init__(self, table: Any, meddle: Any) -> None:
        self._table = table
        self._meddle = meddle

    def execute(self, operation: Any) -> Any:
        answer = self._table.execute(operation)
        if isinstance(operation, BatchGet):
            self._meddle()
        return answer


# The cache alone


def known(configs: ConfigCache, *, now_ms: int = 1000) -> Any:
    """What was put together of five records that were read."""
    generation, wanted = configs.generation, configs.stale_keys("e", "r", now_ms)
    read = configs.learn(wanted, {}, now_ms, generation)
    return configs.resolve("e", "r", read, now_ms=now_ms, generation=generation)


def configs_of(size: int = 10) -> ConfigCache:
    return ConfigCache("ns", ttl_ms=60_000, size=size)


@pytest.mark.parametrize("level", range(5))
def test_a_change_of_any_level_is_seen(level: int) -> None:
    configs = configs_of()
    resolved = known(configs)
    configs.forget(Key("some", "other"))
    assert configs.is_current(resolved, "e", "r")
    key = config_keys("ns", "e", "r")[level]
    assert key is not None
    configs.forget(key)
    assert not configs.is_current(resolved, "e", "r")
    assert configs.is_current(known(configs), "e", "r")


def test_what_changed_while_it_was_read_is_not_remembered() -> None:
    configs = configs_of()
    generation, wanted = configs.generation, configs.stale_keys("e", "r", 1000)
    configs.forget(wanted[0])
    configs.learn(wanted, {}, 1000, generation)
    assert configs.stale_keys("e", "r", 1000) == [wanted[0]]


def test_what_was_read_across_an_invalidation_is_not_remembered() -> None:
    configs = configs_of()
    generation, wanted = configs.generation, configs.stale_keys("e", "r", 1000)
    configs.invalidate()
    read = configs.learn(wanted, {}, 1000, generation)
    assert configs.stale_keys("e", "r", 1000) == wanted
    resolved = configs.resolve("e", "r", read, now_ms=1000, generation=generation)
    assert resolved is not None
    assert not configs.is_current(resolved, "e", "r")


def test_memory_of_changes_is_bounded_and_nothing_old_passes_for_new() -> None:
    configs = configs_of()
    resolved = known(configs)
    configs.forget(config_keys("ns", "e", "r").system)
    for number in range(10_000):
        configs.forget(Key("other", str(number)))
    assert len(configs._changed) <= 1000
    assert not configs.is_current(resolved, "e", "r")
    assert configs.is_current(known(configs), "e", "r")
