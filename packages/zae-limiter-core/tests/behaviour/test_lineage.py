"""Who may be above whom: several parents, many levels, no circles, at most eight buckets; in both variants."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from support.core.owners import maintenance_of
from support.core.turns import TurningStore
from support.core.worlds import World
from zae_limiter import Entity, EntityNotFoundError, Options, Repository, ValidationError
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.exceptions import EntityExistsError, EntityHasChildrenError
from zae_limiter.operations.values import Operation, Query
from zae_limiter.schema import keys


async def grow(limiter: Any, tree: dict[str, tuple[str, ...]]) -> None:
    for entity_id, parents in tree.items():
        await limiter.create_entity(entity_id, parent_ids=parents, cascade=bool(parents))


def ids(entities: list[Entity]) -> list[str]:
    return [each.entity_id for each in entities]


DIAMOND = {"org": (), "user": ("org",), "team": ("org",), "key": ("user", "team")}


async def test_an_entity_has_its_parents_in_order_and_comes_back_as_it_was(world: World) -> None:
    limiter, _ = await world.process()
    await grow(limiter, {"user": (), "team": ()})
    made = await limiter.create_entity("key", parent_ids=("user", "team"), cascade=True)
    assert (made.parent_id, made.parent_ids) == ("user", ("user", "team"))
    assert await limiter.get_entity("key") == made
    assert await limiter.create_entity("key", parent_ids=["team"], exist_ok=True) == made
    with pytest.raises(EntityExistsError):
        await limiter.create_entity("key", parent_ids=["user", "team"])
    alone = await limiter.create_entity("alone", parent_ids=[])
    assert (alone.parent_id, alone.parent_ids) == (None, ())
    one = await limiter.create_entity("one", parent_ids=["user"])
    assert one.parent_ids == (await limiter.create_entity("two", parent_id="user")).parent_ids


async def test_children_are_listed_by_each_of_their_parents_and_ancestors_nearest_first(world: World) -> None:
    limiter, _ = await world.process()
    await grow(limiter, {"world": (), **DIAMOND, "lone": ("team",)})
    await limiter.repository.update_entity("org", parent_id="world")
    assert {each: ids(await limiter.get_children(each)) for each in ("world", "org", "user", "team", "key")} == {
        "world": ["org"],
        "org": ["team", "user"],
        "user": ["key"],
        "team": ["key", "lone"],
        "key": [],
    }
    assert ids(await limiter.repository.get_ancestors("key")) == ["user", "team", "org", "world"]
    assert await limiter.repository.get_ancestors("world") == []
    with pytest.raises(EntityNotFoundError, match="'nobody'"):
        await limiter.repository.get_ancestors("nobody")


async def test_a_move_leaves_no_link_behind(world: World) -> None:
    limiter, _ = await world.process()
    await grow(limiter, {**dict.fromkeys("abcd", ()), "key": ("a", "b", "c")})
    for parents in (["b", "d"], ["d", "b"], ["a"], [], ["c", "a", "b", "d"], ["d"]):
        moved = await limiter.repository.update_entity("key", parent_ids=parents, cascade=False)
        assert moved.parent_ids == tuple(parents)
        assert await limiter.get_entity("key") == moved
        assert {each: ids(await limiter.get_children(each)) for each in "abcd"} == {
            each: ["key"] if each in parents else [] for each in "abcd"
        }
    await limiter.delete_entity("key")
    for each in "abcd":  # nobody counts a child any more
        await limiter.delete_entity(each)
    ns = limiter.repository.namespace_id
    for each in ("key", *"abcd"):
        assert world.table.execute(Query(keys.pk_entity(ns, each))).items == []


async def test_circles_are_refused_wherever_they_close(world: World) -> None:
    limiter, _ = await world.process()
    await grow(limiter, DIAMOND)
    for entity_id, parents in (("org", ["key"]), ("org", ["team"]), ("team", ["key"]), ("user", ["team", "key"])):
        with pytest.raises(ValidationError, match="no entity can be above itself"):
            await limiter.repository.update_entity(entity_id, parent_ids=parents)
    assert ids(await limiter.repository.get_ancestors("key")) == ["user", "team", "org"]
    await limiter.repository.update_entity("user", parent_id="team")  # deeper, and no circle
    assert ids(await limiter.repository.get_ancestors("key")) == ["user", "team", "org"]


async def test_a_parent_is_deleted_after_its_last_child(world: World) -> None:
    limiter, _ = await world.process()
    await grow(limiter, DIAMOND)
    for each in ("org", "user", "team"):
        with pytest.raises(EntityHasChildrenError):
            await limiter.delete_entity(each)
    for each in ("key", "user", "team", "org"):
        await limiter.delete_entity(each)


async def test_at_most_seven_are_above_one_also_after_a_move_of_somebody_above(world: World) -> None:
    limiter, _ = await world.process()
    await grow(limiter, {"a0": (), **{f"a{n}": (f"a{n - 1}",) for n in range(1, 7)}})
    await grow(limiter, {"b0": (), "b1": ("b0",), "b2": ("b1",), "c": ("a3", "b1")})
    with pytest.raises(ValidationError, match=r"x would have .* above it: at most 7 entities can be"):
        await limiter.create_entity("x", parent_ids=["a6", "b1"])
    with pytest.raises(ValidationError, match=r"b1 would have b0, a6, .* above it"):
        await limiter.repository.update_entity("b0", parent_id="a6")
    assert ids(await limiter.repository.get_ancestors("b2")) == ["b1", "b0"]
    await limiter.repository.update_entity("b0", parent_id="a3")
    assert ids(await limiter.repository.get_ancestors("c")) == ["a3", "b1", "a2", "b0", "a1", "a0"]


async def test_unknown_parents_are_named_and_nothing_is_created(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.create_entity("p")
    with pytest.raises(EntityNotFoundError, match="'nobody'"):
        await limiter.create_entity("e", parent_ids=["p", "nobody"])
    assert await limiter.get_entity("e") is None
    assert await limiter.get_children("p") == []
    await limiter.create_entity("e")
    with pytest.raises(EntityNotFoundError, match="'nobody'"):
        await limiter.repository.update_entity("e", parent_ids=["nobody", "p"])


async def test_each_change_is_audited_with_all_parents(world: World) -> None:
    limiter, _ = await world.process()
    await grow(limiter, DIAMOND)
    await limiter.repository.update_entity("key", parent_ids=["team"], principal="ann")
    await limiter.delete_entity("key", principal="bob")
    deleted, moved, created = (await limiter.repository.get_audit_events("key")).events
    assert created.after is not None
    assert (created.after["parent_id"], created.after["parent_ids"]) == ("user", ["user", "team"])
    assert moved.before is not None
    assert moved.after is not None
    assert (moved.principal, moved.before["parent_ids"], moved.after["parent_id"]) == ("ann", ["user", "team"], "team")
    assert "parent_ids" not in moved.after
    assert deleted.before is not None
    assert deleted.before["parent_id"] == "team"


async def test_an_entity_with_one_parent_is_stored_as_ever(world: World) -> None:
    limiter, wire = await world.process()
    await limiter.create_entity("p")
    wire.sent()
    await limiter.create_entity("e", parent_id="p", cascade=True)
    assert wire.sent() == ["Transact"]
    [item] = world.table.execute(Query(keys.pk_entity(limiter.repository.namespace_id, "e"))).items
    assert (item["parent_id"], item["cascade"]) == ("p", True)
    assert {"parent_ids", "ancestor_ids"}.isdisjoint(item)


async def test_a_purge_takes_links_along(world: World) -> None:
    limiter, _ = await world.process()
    await grow(limiter, DIAMOND)
    repository = limiter.repository
    namespace_id = repository.namespace_id
    await repository.register_namespace("other")
    await repository.delete_namespace("default")
    await maintenance_of(repository).purge_namespace(namespace_id)
    assert world.table.execute(Query(keys.pk_entity(namespace_id, "key"))).items == []


class BeforeChildren(TurningStore):
    """Access to a table that lets something happen before its first read of an entity's children."""

    def __init__(self, table: MemoryTable) -> None:
        super().__init__(table, lambda: 0)
        self.happening: Callable[[], Awaitable[object]] | None = None

    async def perform(self, operation: Operation[Any]) -> Any:
        if isinstance(operation, Query) and operation.index == "GSI1" and self.happening is not None:
            happening, self.happening = self.happening, None
            await happening()
        return await super().perform(operation)


async def test_a_parent_that_moves_below_while_those_below_are_read_closes_no_circle() -> None:
    table = MemoryTable()
    store = BeforeChildren(table)
    mover, other = (
        await Repository.over(store, Options()),
        await Repository.over(TurningStore(table, lambda: 0), Options()),
    )
    await grow(mover, {"project": (), "team": ("project",), "org": ()})
    store.happening = lambda: other.update_entity("org", parent_ids=["team"])
    with pytest.raises(ValidationError, match="no entity can be above itself"):
        await mover.update_entity("project", parent_ids=["org"])
    moved = await mover.get_entity("project")
    assert moved is not None
    assert moved.parent_ids == ()


@pytest.mark.parametrize("seed", range(20))
async def test_moves_at_the_same_time_close_no_circle(seed: int) -> None:
    rng = Random(seed)
    table = MemoryTable()
    repositories = [await Repository.over(TurningStore(table, lambda: rng.randint(0, 3)), Options()) for _ in range(3)]
    first = repositories[0]
    await grow(first, {**{f"e{n}": () for n in range(5)}, **{f"k{n}": (f"e{n}",) for n in range(5)}})

    async def move(repository: Repository) -> None:
        for _ in range(6):
            entity, *parents = rng.sample([f"e{n}" for n in range(5)], rng.randint(1, 3))
            with suppress(ValidationError):  # of a circle
                await repository.update_entity(entity, parent_ids=parents)

    await asyncio.gather(*map(move, repositories))
    found = {f"e{n}": await first.get_entity(f"e{n}") for n in range(5)}
    above = {each: set(entity.parent_ids) for each, entity in found.items() if entity is not None}
    while above:  # whoever has nobody above goes, until nobody is left
        tops = [each for each, parents in above.items() if not parents & above.keys()]
        assert tops, f"a circle: {above}"
        for each in tops:
            del above[each]
    for each, entity in found.items():
        assert entity is not None
        children = [other for other, of in found.items() if of is not None and each in of.parent_ids]
        assert sorted(child for child in ids(await first.get_children(each)) if child[0] == "e") == sorted(children)
    for repository in repositories:
        await repository.close()
