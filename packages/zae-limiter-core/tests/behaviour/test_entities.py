"""Entities are created once, under parents that exist; in both variants."""

import pytest

from support.core.worlds import World, passes, take
from zae_limiter import EntityNotFoundError, Limit, ValidationError
from zae_limiter.exceptions import EntityExistsError

RPM = Limit.per_minute("rpm", 60)


async def test_an_unknown_parent_is_not_found_and_nothing_is_created(world: World) -> None:
    limiter, _ = await world.process()
    with pytest.raises(EntityNotFoundError, match="'nobody'"):
        await limiter.create_entity("e", parent_id="nobody", cascade=True)
    assert await limiter.get_entity("e") is None


async def test_nobody_is_their_own_parent(world: World) -> None:
    limiter, _ = await world.process()
    with pytest.raises(ValidationError, match="own parent"):
        await limiter.create_entity("e", parent_id="e")


async def test_an_entity_is_created_once_and_comes_back_as_it_was(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.create_entity("p")
    made = await limiter.create_entity("e", "A key", "p", cascade=True, metadata={"team": "blue"})
    assert await limiter.get_entity("e") == made
    assert (made.name, made.parent_id, made.cascade, made.metadata) == ("A key", "p", True, {"team": "blue"})
    assert made.created_at == "2023-11-14T22:13:20.000Z"
    for parent in (None, "p"):
        with pytest.raises(EntityExistsError):
            await limiter.create_entity("e", parent_id=parent)
    assert await limiter.get_entity("e") == made


async def test_children_are_listed_by_id(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.create_entity("p")
    for child in ("c-2", "c-1", "c-3"):
        await limiter.create_entity(child, parent_id="p")
    assert [child.entity_id for child in await limiter.get_children("p")] == ["c-1", "c-2", "c-3"]
    assert await limiter.get_children("c-1") == []
    assert await limiter.get_entity("never") is None


async def test_an_acquire_needs_no_record_of_the_entity(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    assert await passes(limiter, "never-created", "r", rpm=1)


async def test_an_entity_that_is_created_after_it_was_used_cascades_at_once_here_and_elsewhere_within_a_cache_life(
    world: World,
) -> None:
    here, elsewhere = [await world.process(default_limits=[RPM]) for _ in range(2)]
    for process in (here, elsewhere):
        await take(process.limiter, "e", "r", rpm=1)
    await here.repository.create_entity("project")
    await here.repository.create_entity("e", parent_id="project", cascade=True)
    await take(here.limiter, "e", "r", rpm=1)
    assert await here.limiter.available("project", "r") == {"rpm": 59}
    world.clock.advance(seconds=61)
    await take(elsewhere.limiter, "e", "r", rpm=1)
    assert await here.limiter.available("project", "r") == {"rpm": 59}
