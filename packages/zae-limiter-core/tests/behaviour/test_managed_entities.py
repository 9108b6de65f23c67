"""Records of entities are made, changed and removed many at a time, and the tree holds throughout; in both variants."""

from dataclasses import replace
from typing import Any

import pytest

from support.core.owners import maintenance_of
from support.core.worlds import World
from zae_limiter import EntityNotFoundError, Limit, Options, RateLimitExceeded, SyncRepository, ValidationError
from zae_limiter.engines.memory.store import SyncMemoryStore
from zae_limiter.exceptions import EntityHasChildrenError
from zae_limiter.flows.records import managed_entities
from zae_limiter.operations.values import Operation, Query, Transact
from zae_limiter.schema import keys
from zae_limiter.values.provisioner import StoredEntity

TOP = StoredEntity(name="Acme", metadata={"seats": 5}, fingerprint="f")
CHILD = StoredEntity("acme", cascade=True, fingerprint="g")


async def test_what_is_put_is_got_and_is_what_its_users_see(world: World) -> None:
    limiter, _ = process = await world.process()
    assert (
        await maintenance_of(process.repository).put_entity_records({"acme": TOP, "key-1": CHILD, "key-2": CHILD}) == {}
    )
    found = await maintenance_of(process.repository).get_entity_records(["key-1", "acme", "none", "acme"])
    assert found == {"acme": replace(TOP, children=2), "key-1": CHILD}
    assert await maintenance_of(process.repository).list_entity_ids() == ["acme", "key-1", "key-2"]
    entity: Any = await limiter.get_entity("key-1")
    assert (entity.parent_id, entity.cascade, entity.version) == ("acme", True, 1)
    assert [each.entity_id for each in await limiter.get_children("acme")] == ["key-1", "key-2"]


async def test_what_is_as_wanted_is_left_alone(world: World) -> None:
    limiter = (await world.process()).limiter
    repository = limiter.repository
    await maintenance_of(repository).put_entity_records({"acme": TOP, "key-1": CHILD})
    assert await maintenance_of(repository).put_entity_records({"acme": TOP, "key-1": CHILD, "none": None}) == {}
    found: Any = [await limiter.get_entity(each) for each in ("acme", "key-1")]
    assert [each.version for each in found] == [1, 1]
    await maintenance_of(repository).put_entity_records({"acme": replace(TOP, metadata={"seats": 5.0}), "key-1": None})
    assert (await maintenance_of(repository).get_entity_records(["acme"]))["acme"].children == 0


async def test_a_change_by_hand_leaves_the_fingerprint(world: World) -> None:
    limiter = (await world.process()).limiter
    repository = limiter.repository
    await maintenance_of(repository).put_entity_records({"acme": TOP})
    await limiter.repository.update_entity("acme", name=None)
    assert await maintenance_of(repository).get_entity_records(["acme"]) == {"acme": replace(TOP, name=None)}
    assert await maintenance_of(repository).put_entity_records({"acme": replace(TOP, fingerprint=None)}) == {}
    assert await maintenance_of(repository).get_entity_records(["acme"]) == {"acme": replace(TOP, fingerprint=None)}


async def test_each_mistake_is_of_its_entity_alone(world: World) -> None:
    repository = (await world.process()).repository
    await maintenance_of(repository).put_entity_records({"acme": TOP, "key-1": CHILD, "alone": StoredEntity()})
    failed = await maintenance_of(repository).put_entity_records(
        {
            "acme": None,
            "a": StoredEntity(parent_ids=("acme", "nobody")),
            "alone": StoredEntity("acme"),
            "key-2": CHILD,
        }
    )
    assert {entity: type(error) for entity, error in failed.items()} == {
        "acme": EntityHasChildrenError,
        "a": EntityNotFoundError,
    }
    assert (await maintenance_of(repository).get_entity_records(["acme"]))["acme"].children == 3
    (problem,) = (await maintenance_of(repository).put_entity_records({"acme": StoredEntity("nobody")})).values()
    assert isinstance(problem, EntityNotFoundError)


async def test_a_tree_has_several_parents_and_depth(world: World) -> None:
    limiter = (await world.process()).limiter
    repository = limiter.repository
    tree = {
        "org": TOP,
        "user": StoredEntity("org", cascade=True),
        "team": StoredEntity("org"),
        "key": StoredEntity(parent_ids=["user", "team"], cascade=True, fingerprint="g"),
    }
    assert await maintenance_of(repository).put_entity_records(tree) == {}
    children = {"org": 2, "user": 1, "team": 1}
    found = await maintenance_of(repository).get_entity_records(list(tree))
    assert found == {each: replace(record, children=children.get(each, 0)) for each, record in tree.items()}
    assert [each.entity_id for each in await limiter.get_children("team")] == ["key"]
    assert [each.entity_id for each in await limiter.repository.get_ancestors("key")] == ["user", "team", "org"]
    assert await maintenance_of(repository).put_entity_records(tree) == {}
    assert {each: getattr(await limiter.get_entity(each), "version", 0) for each in tree} == dict.fromkeys(tree, 1)
    turned = {"key": replace(tree["key"], parent_id=None, parent_ids=("team", "org"))}
    assert await maintenance_of(repository).put_entity_records(turned) == {}
    assert [each.entity_id for each in await limiter.get_children("team")] == ["key"]
    assert [each.entity_id for each in await limiter.get_children("org")] == ["key", "team", "user"]
    assert await limiter.get_children("user") == []
    (event, _) = (await repository.get_audit_events("key")).events
    assert event.after is not None
    assert event.after["parent_ids"] == ["team", "org"]
    assert (
        await maintenance_of(repository).put_entity_records({"key": None, "user": None, "team": None, "org": None})
        == {}
    )
    assert sorted(await maintenance_of(repository).list_entity_ids()) == []
    assert world.table.execute(Query(keys.pk_entity(repository.namespace_id, "key"))).items == []


async def test_an_entity_with_children_moves_and_nobody_gets_above_itself(world: World) -> None:
    limiter = (await world.process()).limiter
    repository = limiter.repository
    chain = {f"e{depth}": StoredEntity(f"e{depth - 1}" if depth else None) for depth in range(8)}
    assert await maintenance_of(repository).put_entity_records(chain) == {}
    assert len(await limiter.repository.get_ancestors("e7")) == 7
    failed = await maintenance_of(repository).put_entity_records(
        {
            "e1": StoredEntity("e6"),
            "low": StoredEntity("e7"),
            "top": StoredEntity(),
            "both": StoredEntity(parent_ids=("e6", "top")),
        }
    )
    assert {each: str(error) for each, error in failed.items()} == {
        "e1": "parent_id 'e6': e2 has e1 as a parent: no entity can be above itself",
        "low": "parent_id 'e7': low would have e7, e6, e5, e4, e3, e2, e1, e0 above it: at most 7 entities can be",
        "both": "parent_ids 'e6, top': both would have e6, top, e5, e4, e3, e2, e1, e0 above it: "
        "at most 7 entities can be",
    }
    assert await maintenance_of(repository).put_entity_records({"e1": StoredEntity(), "e0": StoredEntity("e7")}) == {}
    assert [each.entity_id for each in await limiter.repository.get_ancestors("e0")] == [
        f"e{depth}" for depth in range(7, 0, -1)
    ]


async def test_a_move_meanwhile_closes_no_circle(world: World) -> None:
    process = await world.process()
    await maintenance_of(process.repository).put_entity_records(
        {"a": StoredEntity(), "b": StoredEntity(), "c": StoredEntity("b"), "low": StoredEntity("a")}
    )
    others = SyncRepository.over(SyncMemoryStore(world.table), Options(clock=world.clock))
    answer, raced = process.wire.answer, list[int]()

    def hand(operation: Operation[Any]) -> Any:
        if isinstance(operation, Transact) and not raced:
            raced.append(1)
            others.update_entity("b", parent_id="low")
        return answer(operation)

    process.wire.answer = hand  # type: ignore[method-assign]
    (problem,) = (await maintenance_of(process.repository).put_entity_records({"a": StoredEntity("c")})).values()
    assert isinstance(problem, ValidationError)
    assert "no entity can be above itself" in str(problem)


async def test_a_transaction_stays_within_what_dynamodb_takes(world: World) -> None:
    process = await world.process()
    tops = {f"top-{number:03}": StoredEntity() for number in range(100)}
    sizes, answer = list[int](), process.wire.answer

    def measured(operation: Operation[Any]) -> Any:
        if isinstance(operation, Transact):
            sizes.append(len(operation.writes))
        return answer(operation)

    process.wire.answer = measured  # type: ignore[method-assign]
    names = list(tops)
    below = {f"key-{n}": StoredEntity(parent_ids=[names[(4 * n + m) % 100] for m in range(4)]) for n in range(25)}
    assert await maintenance_of(process.repository).put_entity_records(tops | below) == {}
    assert max(sizes) == 99
    moved = {
        key: replace(each, parent_id=None, parent_ids=names[n : n + 4]) for n, (key, each) in enumerate(below.items())
    }
    assert await maintenance_of(process.repository).put_entity_records(moved) == {}
    assert max(sizes) <= 100


async def test_changes_that_touch_one_record_are_made_one_after_the_other(world: World) -> None:
    repository = (await world.process()).repository
    wanted = {"p": StoredEntity(), "a": StoredEntity("p"), "q": StoredEntity(), "b": StoredEntity("p")}
    assert await maintenance_of(repository).put_entity_records(wanted) == {}
    moved = {"a": StoredEntity("q"), "b": StoredEntity("q"), "p": StoredEntity("q")}
    assert await maintenance_of(repository).put_entity_records(moved) == {}
    assert await maintenance_of(repository).get_entity_records(["p", "q"]) == {
        "p": StoredEntity("q"),
        "q": StoredEntity(children=3),
    }
    assert await maintenance_of(repository).put_entity_records({"a": None, "b": None, "p": None, "q": None}) == {}
    assert await maintenance_of(repository).list_entity_ids() == []


async def test_an_acquire_takes_from_the_new_parent(world: World) -> None:
    limiter = (await world.process()).limiter
    repository = limiter.repository
    await maintenance_of(repository).put_entity_records(
        {"poor": StoredEntity(), "rich": StoredEntity(), "key": StoredEntity("rich", True)}
    )
    await limiter.set_limits("poor", [Limit.per_minute("rpm", 0)])
    await limiter.set_limits("rich", [Limit.per_minute("rpm", 5)])
    await limiter.set_limits("key", [Limit.per_minute("rpm", 5)])
    async with limiter.acquire("key", "r", {"rpm": 1}):
        pass
    await maintenance_of(repository).put_entity_records({"key": StoredEntity("poor", True)})
    with pytest.raises(RateLimitExceeded):
        async with limiter.acquire("key", "r", {"rpm": 1}):
            pass


async def test_a_race_with_a_hand_is_won_by_reading_again(world: World) -> None:
    process = await world.process()
    await maintenance_of(process.repository).put_entity_records({"acme": TOP})
    others = SyncRepository.over(SyncMemoryStore(world.table), Options(clock=world.clock))
    answer, raced = process.wire.answer, list[int]()

    def hand(operation: Operation[Any]) -> Any:
        if isinstance(operation, Transact) and len(raced) < 3:
            raced.append(1)
            others.update_entity("acme", name=f"by hand {len(raced)}")
            others.create_entity(f"late-{len(raced)}", parent_id="acme")
        return answer(operation)

    process.wire.answer = hand  # type: ignore[method-assign]
    assert (
        await maintenance_of(process.repository).put_entity_records({"acme": replace(TOP, name="new"), "key-1": CHILD})
        == {}
    )
    assert len(raced) == 3
    found = await maintenance_of(process.repository).get_entity_records(["acme", "key-1"])
    assert found == {"acme": replace(TOP, name="new", children=4), "key-1": CHILD}


async def test_many_entities_take_a_transaction_for_each_twenty_five(world: World) -> None:
    repository = (await world.process()).repository
    wanted = {"acme": TOP, **{f"key-{number:03}": CHILD for number in range(60)}}
    assert managed_entities.CHANGES_PER_TRANSACTION == 25
    assert await maintenance_of(repository).put_entity_records(wanted) == {}
    assert (await maintenance_of(repository).get_entity_records(["acme"]))["acme"].children == 60
    gone = dict.fromkeys(reversed(wanted))
    assert await maintenance_of(repository).put_entity_records(gone) == {}
    assert await maintenance_of(repository).list_entity_ids() == []


@pytest.mark.parametrize(
    "records",
    [
        [("e", None)],
        {"e ": None},
        {"e": {"name": "x"}},
        {"e": StoredEntity("e")},
        {"e": StoredEntity(name="x" * 257)},
        {"e": StoredEntity(metadata={"": 1})},
        {"e\u0301": None, "\u00e9": None},
    ],
    ids=str,
)
async def test_bad_input_is_refused_before_anything_is_written(world: World, records: Any) -> None:
    repository = (await world.process()).repository
    with pytest.raises(ValidationError):
        await maintenance_of(repository).put_entity_records(
            {"good": TOP, **records} if isinstance(records, dict) else records
        )
    assert await maintenance_of(repository).list_entity_ids() == []
    for bad in (["e "], "e", 5, [None]):
        with pytest.raises(ValidationError):
            await maintenance_of(repository).get_entity_records(bad)  # type: ignore[arg-type]


def test_a_record_is_valid_by_construction() -> None:
    for bad in (
        {"cascade": True},
        {"cascade": 1},
        {"parent_id": " "},
        {"fingerprint": ""},
        {"parent_ids": "ab"},
        {"parent_ids": 5},
        {"parent_ids": ("a", "a")},
        {"parent_ids": list("abcde")},
        {"parent_id": "b", "parent_ids": ("a", "b")},
    ):
        with pytest.raises(ValidationError):
            StoredEntity(**bad)
    assert StoredEntity(parent_ids=["a", "b"]) == StoredEntity("a", parent_ids=("a", "b"))
    assert StoredEntity("a").parent_ids == ("a",)
