"""Which limits hold, for how long they are remembered, and what it costs to know them; in both variants."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from support.core.worlds import World, passes, take, until
from zae_limiter import Limit
from zae_limiter.values.limits import ConfigSource

ENTITY, ENTITY_DEFAULT, RESOURCE, SYSTEM, DEFAULT = (Limit.per_minute("rpm", n) for n in (5, 4, 3, 2, 1))


async def test_the_strongest_level_that_has_limits_holds(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DEFAULT])
    seen: list[tuple[int, ConfigSource | None]] = []

    async def look() -> None:
        limits, _, source = await limiter.repository.resolve_limits("e", "r")
        seen.append((limits[0].capacity if limits else 0, source))
        assert await limiter.available("e", "r") == {"rpm": limits[0].capacity if limits else 1}

    await look()
    await limiter.set_system_defaults([SYSTEM])
    await look()
    await limiter.set_resource_defaults("r", [RESOURCE])
    await look()
    await limiter.set_limits("e", [ENTITY_DEFAULT])
    await look()
    await limiter.set_limits("e", [ENTITY], "r")
    await look()
    await limiter.delete_limits("e")
    await look()
    await limiter.delete_limits("e", "r")
    await look()
    await limiter.delete_resource_defaults("r")
    await look()
    await limiter.delete_system_defaults()
    await look()
    assert seen == [
        (0, None),
        (2, "system"),
        (3, "resource"),
        (4, "entity_default"),
        (5, "entity"),
        (5, "entity"),
        (3, "resource"),
        (2, "system"),
        (0, None),
    ]


async def test_a_level_wins_as_a_whole(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_system_defaults([SYSTEM, Limit.per_minute("tpm", 100)])
    await limiter.set_resource_defaults("r", [RESOURCE])
    assert await limiter.available("e", "r") == {"rpm": 3}
    assert await limiter.available("e", "other") == {"rpm": 2, "tpm": 100}


async def test_limits_hold_for_the_entity_and_the_resource_that_they_are_set_for(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_system_defaults([SYSTEM])
    await limiter.set_limits("e", [ENTITY], "r")
    await limiter.set_limits("all", [ENTITY_DEFAULT])
    found = [await limiter.available(entity, resource) for entity in ("e", "all", "x") for resource in ("r", "other")]
    assert [each["rpm"] for each in found] == [5, 2, 4, 4, 2, 2]


async def test_what_is_set_is_read_back_and_replaced_as_a_whole(world: World) -> None:
    limiter, _ = await world.process()
    both = [Limit.custom("rpm", 5, burst=9, refill_amount=2, refill_period=7), Limit.per_day("tpm", 100)]
    await limiter.set_limits("e", both, "r")
    await limiter.set_resource_defaults("r", both)
    await limiter.set_system_defaults(both, "allow")
    assert await limiter.get_limits("e", "r") == await limiter.get_resource_defaults("r") == both
    assert await limiter.get_system_defaults() == (both, "allow")
    await limiter.set_limits("e", [ENTITY], "r")
    await limiter.set_resource_defaults("r", [RESOURCE])
    await limiter.set_system_defaults([SYSTEM])
    assert (await limiter.get_limits("e", "r"), await limiter.get_resource_defaults("r")) == ([ENTITY], [RESOURCE])
    assert await limiter.get_system_defaults() == ([SYSTEM], "allow")  # stays where it is not given


async def test_what_is_not_set_is_empty_and_deleting_it_is_no_error(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.delete_limits("e")
    await limiter.delete_resource_defaults("r")
    await limiter.delete_system_defaults()
    assert (await limiter.get_limits("e"), await limiter.get_resource_defaults("r")) == ([], [])
    assert await limiter.get_system_defaults() == ([], None)


async def test_namespaces_share_no_limits(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_system_defaults([SYSTEM])
    other = await limiter.repository.namespace("other")
    assert (other.name, await other.get_system_defaults()) == ("other", ([], None))
    assert other.namespace_id != limiter.repository.namespace_id
    again = await limiter.repository.namespace("other")
    assert again.namespace_id == other.namespace_id


# the cache


async def test_limits_that_were_read_hold_for_a_minute_even_their_absence(world: World) -> None:
    limiter, wire = await world.process(default_limits=[DEFAULT])
    await take(limiter, "e", "r", rpm=1)
    wire.sent()
    world.clock.advance(seconds=60)
    await take(limiter, "e", "r", rpm=1)
    assert wire.sent() == ["Update"]
    world.clock.advance(ms=1)
    await take(limiter, "e", "r", rpm=0)
    assert "BatchGet" in wire.sent()


async def test_an_expired_config_is_read_beside_the_write_in_one_step(world: World) -> None:
    limiter, wire = await world.process()
    await limiter.set_system_defaults([SYSTEM])
    await take(limiter, "e", "r", rpm=1)
    wire.sent()
    world.clock.advance(seconds=61)
    wire.hold()
    task = asyncio.create_task(take(limiter, "e", "r", rpm=1))
    await until(lambda: wire.in_flight == 2)
    assert sorted(type(operation).__name__ for operation in wire.seen) == ["BatchGet", "Update"]
    wire.let_go()
    await task
    assert len(wire.sent()) == 2


async def test_an_expired_config_is_read_once_however_many_ask(world: World) -> None:
    limiter, wire = await world.process()
    await limiter.set_system_defaults([Limit.per_minute("rpm", 1000)])
    await take(limiter, "e", "r", rpm=1)
    world.clock.advance(seconds=61)
    wire.sent()
    wire.hold()
    tasks = [asyncio.create_task(take(limiter, "e", "r", rpm=1)) for _ in range(20)]
    await until(lambda: wire.in_flight == 2)
    await asyncio.sleep(0.02)
    wire.let_go()
    await asyncio.gather(*tasks)
    assert wire.sent().count("BatchGet") == 1


async def test_without_a_cache_life_limits_are_read_with_every_acquire(world: World) -> None:
    limiter, wire = await world.process(config_cache_ttl=0)
    await limiter.set_system_defaults([SYSTEM])
    await take(limiter, "e", "r", rpm=1)
    for _ in range(2):
        world.clock.advance(ms=1)
        wire.sent()
        await take(limiter, "e", "r", rpm=0)
        assert "BatchGet" in wire.sent()


async def test_what_is_shared_by_many_entities_is_read_once(world: World) -> None:
    limiter, wire = await world.process()
    await limiter.set_system_defaults([SYSTEM])
    await take(limiter, "e-1", "r", rpm=1)
    wire.seen.clear()
    await take(limiter, "e-2", "r", rpm=1)
    asked = [key.pk for operation in wire.seen for key in getattr(operation, "keys", ())]
    assert not [pk for pk in asked if "SYSTEM" in pk or "RESOURCE" in pk]
    assert [pk for pk in asked if "e-2" in pk]


async def test_statistics_count_hits_and_misses(world: World) -> None:
    limiter, _ = await world.process(config_cache_ttl=30)
    repository = limiter.repository
    assert repository.get_cache_stats().ttl_seconds == 30
    await limiter.set_system_defaults([Limit.per_minute("rpm", 100)])
    before = repository.get_cache_stats()
    await take(limiter, "e", "r", rpm=1)
    first = repository.get_cache_stats()
    assert (first.misses > before.misses, first.hits, first.entries > 0) == (True, before.hits, True)
    for _ in range(5):
        await take(limiter, "e", "r", rpm=1)
    after = repository.get_cache_stats()
    assert (after.hits - first.hits, after.misses - first.misses) == (5, 0)


async def test_invalidate_has_everything_read_again(world: World) -> None:
    here, wire = await world.process()
    elsewhere, _ = await world.process()
    await here.set_system_defaults([SYSTEM])
    await take(here, "e", "r", rpm=2)
    await elsewhere.set_system_defaults([Limit.per_minute("rpm", 100)])
    assert not await passes(here, "e", "r", rpm=3)
    await here.repository.invalidate_config_cache()
    assert here.repository.get_cache_stats().entries == 0
    wire.sent()
    assert (await here.repository.resolve_limits("e", "r"))[0] == [Limit.per_minute("rpm", 100)]
    assert wire.sent() == ["BatchGet"]


@pytest.mark.parametrize("level", ["system", "resource", "entity", "entity_default"])
async def test_a_process_obeys_its_own_changes_at_once(world: World, level: str) -> None:
    limiter, _ = await world.process(default_limits=[DEFAULT])
    await take(limiter, "e", "r", rpm=0)
    change: dict[str, Callable[[], Awaitable[object]]] = {
        "system": lambda: limiter.set_system_defaults([ENTITY]),
        "resource": lambda: limiter.set_resource_defaults("r", [ENTITY]),
        "entity": lambda: limiter.set_limits("e", [ENTITY], "r"),
        "entity_default": lambda: limiter.set_limits("e", [ENTITY]),
    }
    await change[level]()
    assert await passes(limiter, "e", "r", rpm=5)


@pytest.mark.long
async def test_memory_of_known_buckets_is_bounded(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DEFAULT], buckets_remembered=10)
    requests = []
    for number in range(2000):
        assert await passes(limiter, f"e-{number}", "r", rpm=1)
        requests.append(limiter.repository.get_cache_stats().entries)
    assert len(limiter.repository.namespace_state.cached_shards) == 10
    assert requests[-1] == requests[-200] == max(requests)
    for number in range(20):  # what was forgotten is read again
        assert not await passes(limiter, f"e-{number}", "r", rpm=1)
