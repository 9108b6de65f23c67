"""Records of entities are made, changed and removed many at a time, and the tree holds throughout; in both variants."""

from dataclasses import replace
from typing import Any

import pytest

from support.core.worlds import World
from zae_limiter import (
    EntityHasChildrenError,
    EntityNotFoundError,
    Limit,
    Options,
    RateLimitExceeded,
    SyncRepository,
    ValidationError,
)
from zae_limiter.engines.memory.store import SyncMemoryStore
from zae_limiter.flows.records import managed_entities
from zae_limiter.operations.values import Operation, Transact
from zae_limiter.values.provisioner import StoredEntity

TOP = StoredEntity(name="Acme", metadata={"seats": 5}, fingerprint="f")
CHILD = StoredEntity("acme", cascade=True, fingerprint="g")


async def test_what_is_put_is_got_and_is_what_its_users_see(world: World) -> None:
    limiter, _ = process = await world.process()
    assert await process.repository.put_entity_records({"acme": TOP, "key-1": CHILD, "key-2": CHILD}) == {}
    found = await process.repository.get_entity_records(["key-1", "acme", "none", "acme"])
    assert found == {"acme": replace(TOP, children=2), "key-1": CHILD}
    assert await process.repository.list_entity_ids() == ["acme", "key-1", "key-2"]
    entity: Any = await limiter.get_entity("key-1")
    assert (entity.parent_id, entity.cascade, entity.version) == ("acme", True, 1)
    assert [each.entity_id for each in await limiter.get_children("acme")] == ["key-1", "key-2"]


async def test_what_is_as_wanted_is_left_alone(world: World) -> None:
    limiter = (await world.process()).limiter
    repository = limiter.repository
    await repository.put_entity_records({"acme": TOP, "key-1": CHILD})
    assert await repository.put_entity_records({"acme": TOP, "key-1": CHILD, "none": None}) == {}
    found: Any = [await limiter.get_entity(each) for each in ("acme", "key-1")]
    assert [each.version for each in found] == [1, 1]
    await repository.put_entity_records({"acme": replace(TOP, metadata={"seats": 5.0}), "key-1": None})
    assert (await repository.get_entity_records(["acme"]))["acme"].children == 0


async def test_a_change_by_hand_leaves_the_fingerprint(world: World) -> None:
    limiter = (await world.process()).limiter
    repository = limiter.repository
    await repository.put_entity_records({"acme": TOP})
    await limiter.update_entity("acme", name=None)
    assert await repository.get_entity_records(["acme"]) == {"acme": replace(TOP, name=None)}
    assert await repository.put_entity_records({"acme": replace(TOP, fingerprint=None)}) == {}
    assert await repository.get_entity_records(["acme"]) == {"acme": replace(TOP, fingerprint=None)}


async def test_each_mistake_is_of_its_entity_alone(world: World) -> None:
    repository = (await world.process()).repository
    await repository.put_entity_records({"acme": TOP, "key-1": CHILD, "alone": StoredEntity()})
    failed = await repository.put_entity_records(
        {
            "acme": None,
            "a": StoredEntity("nobody"),
            "b": StoredEntity("key-1"),
            "alone": StoredEntity("acme"),
            "key-2": CHILD,
        }
    )
    assert {entity: type(error) for entity, error in failed.items()} == {
        "acme": EntityHasChildrenError,
        "a": EntityNotFoundError,
        "b": ValidationError,
    }
    assert (await repository.get_entity_records(["acme"]))["acme"].children == 3
    (problem,) = (await repository.put_entity_records({"acme": StoredEntity("nobody")})).values()
    assert isinstance(problem, EntityNotFoundError)
    await repository.put_entity_records({"x": StoredEntity()})
    (problem,) = (await repository.put_entity_records({"acme": StoredEntity("x")})).values()
    assert "the entity has children itself, 3" in str(problem)


async def test_changes_that_touch_one_record_are_made_one_after_the_other(world: World) -> None:
    repository = (await world.process()).repository
    wanted = {"p": StoredEntity(), "a": StoredEntity("p"), "q": StoredEntity(), "b": StoredEntity("p")}
    assert await repository.put_entity_records(wanted) == {}
    moved = {"a": StoredEntity("q"), "b": StoredEntity("q"), "p": StoredEntity("q")}
    assert await repository.put_entity_records(moved) == {}
    assert await repository.get_entity_records(["p", "q"]) == {"p": StoredEntity("q"), "q": StoredEntity(children=3)}
    assert await repository.put_entity_records({"a": None, "b": None, "p": None, "q": None}) == {}
    assert await repository.list_entity_ids() == []


async def test_an_acquire_takes_from_the_new_parent(world: World) -> None:
    limiter = (await world.process()).limiter
    repository = limiter.repository
    await repository.put_entity_records(
        {"poor": StoredEntity(), "rich": StoredEntity(), "key": StoredEntity("rich", True)}
    )
    await limiter.set_limits("poor", [Limit.per_minute("rpm", 0)])
    await limiter.set_limits("rich", [Limit.per_minute("rpm", 5)])
    await limiter.set_limits("key", [Limit.per_minute("rpm", 5)])
    async with limiter.acquire("key", "r", {"rpm": 1}):
        pass
    await repository.put_entity_records({"key": StoredEntity("poor", True)})
    with pytest.raises(RateLimitExceeded):
        async with limiter.acquire("key", "r", {"rpm": 1}):
            pass


async def test_a_race_with_a_hand_is_won_by_reading_again(world: World) -> None:
    process = await world.process()
    await process.repository.put_entity_records({"acme": TOP})
    others = SyncRepository.over(SyncMemoryStore(world.table), Options(clock=world.clock))
    answer, raced = process.wire.answer, list[int]()

    def hand(operation: Operation[Any]) -> Any:
        if isinstance(operation, Transact) and len(raced) < 3:
            raced.append(1)
            others.update_entity("acme", name=f"by hand {len(raced)}")
            others.create_entity(f"late-{len(raced)}", parent_id="acme")
        return answer(operation)

    process.wire.answer = hand  # type: ignore[method-assign]
    assert await process.repository.put_entity_records({"acme": replace(TOP, name="new"), "key-1": CHILD}) == {}
    assert len(raced) == 3
    found = await process.repository.get_entity_records(["acme", "key-1"])
    assert found == {"acme": replace(TOP, name="new", children=4), "key-1": CHILD}


async def test_many_entities_take_a_transaction_for_each_twenty_five(world: World) -> None:
    repository = (await world.process()).repository
    wanted = {"acme": TOP, **{f"key-{number:03}": CHILD for number in range(60)}}
    assert managed_entities.CHANGES_PER_TRANSACTION == 25
    assert await repository.put_entity_records(wanted) == {}
    assert (await repository.get_entity_records(["acme"]))["acme"].children == 60
    gone = dict.fromkeys(reversed(wanted))
    assert await repository.put_entity_records(gone) == {}
    assert await repository.list_entity_ids() == []


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
        await repository.put_entity_records({"good": TOP, **records} if isinstance(records, dict) else records)
    assert await repository.list_entity_ids() == []
    for bad in (["e "], "e", 5, [None]):
        with pytest.raises(ValidationError):
            await repository.get_entity_records(bad)  # type: ignore[arg-type]


def test_a_record_is_valid_by_construction() -> None:
    for bad in ({"cascade": True}, {"cascade": 1}, {"parent_id": " "}, {"fingerprint": ""}):
        with pytest.raises(ValidationError):
            StoredEntity(**bad)
