"""Entities change and go, and keep their children's counts; in both variants."""

import pickle
from typing import Any

import pytest

from support.core.worlds import World, passes, take
from zae_limiter import EntityNotFoundError, Limit, RateLimiterUnavailable, ValidationError
from zae_limiter.exceptions import EntityError, EntityHasChildrenError, StaleEntityError
from zae_limiter.operations.errors import OutcomeUnknown, Reason, TransactionCancelled
from zae_limiter.operations.values import Query, Transact

RPM = Limit.per_minute("rpm", 60)


async def test_an_update_changes_what_is_given_and_nothing_else(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.create_entity("p")
    made = await limiter.create_entity("e", "A key", "p", cascade=True, metadata={"team": "blue"})
    renamed = await limiter.repository.update_entity("e", name="Another")
    assert (renamed.name, renamed.parent_id, renamed.cascade) == ("Another", "p", True)
    assert (renamed.metadata, renamed.created_at, renamed.version) == ({"team": "blue"}, made.created_at, 2)
    nameless = await limiter.repository.update_entity("e", name=None, metadata={"cost": "7"})
    assert (nameless.name, nameless.metadata, nameless.version) == (None, {"cost": "7"}, 3)
    uncontended = await limiter.repository.update_entity("e", parent_id=None, cascade=False, metadata=None)
    assert (uncontended.parent_id, uncontended.cascade, uncontended.metadata) == (None, False, {})
    assert await limiter.get_entity("e") == uncontended


async def test_an_update_that_changes_nothing_writes_nothing(world: World) -> None:
    limiter, wire = await world.process()
    made = await limiter.create_entity("e", "A key")
    wire.sent()
    assert await limiter.repository.update_entity("e", name="A key", parent_id=None, cascade=False) == made
    assert await limiter.repository.update_entity("e") == made
    assert wire.sent() == ["BatchGet", "BatchGet"]


async def test_children_follow_their_parent(world: World) -> None:
    limiter, _ = await world.process()
    for entity in ("p", "q", "e"):
        await limiter.create_entity(entity)

    async def children() -> dict[str, list[str]]:
        return {p: [child.entity_id for child in await limiter.get_children(p)] for p in ("p", "q")}

    await limiter.repository.update_entity("e", parent_id="p")
    assert await children() == {"p": ["e"], "q": []}
    await limiter.repository.update_entity("e", parent_id="q")
    assert await children() == {"p": [], "q": ["e"]}
    await limiter.repository.update_entity("p", parent_id="q")
    assert await children() == {"p": [], "q": ["e", "p"]}
    for child in ("e", "p"):
        await limiter.repository.update_entity(child, parent_id=None)
    assert await children() == {"p": [], "q": []}
    await limiter.repository.update_entity("q", parent_id="p")
    assert await children() == {"p": ["q"], "q": []}


async def test_an_update_asks_for_a_parent_that_exists_and_is_another(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.create_entity("top")
    with pytest.raises(ValidationError, match="own parent"):
        await limiter.repository.update_entity("top", parent_id="top")
    with pytest.raises(EntityNotFoundError, match="'nobody'"):
        await limiter.repository.update_entity("top", parent_id="nobody")
    with pytest.raises(EntityNotFoundError, match="'never'"):
        await limiter.repository.update_entity("never", name="x")
    assert (await limiter.get_entity("top")).version == 1  # type: ignore[union-attr]


async def test_cascade_needs_a_parent(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.create_entity("p")
    await limiter.create_entity("e")
    with pytest.raises(ValidationError, match="needs a parent_id"):
        await limiter.repository.update_entity("e", cascade=True)
    await limiter.repository.update_entity("e", parent_id="p", cascade=True)
    with pytest.raises(ValidationError, match="needs a parent_id"):
        await limiter.repository.update_entity("e", parent_id=None)


@pytest.mark.parametrize(
    "given",
    [
        {"name": 7},
        {"parent_id": "a b"},
        {"parent_id": "e"},
        {"parent_ids": "p"},
        {"parent_ids": 7},
        {"parent_ids": ["p", "a b"]},
        {"parent_ids": ["p", "p"]},
        {"parent_ids": ["p", None]},
        {"parent_ids": ["p", "e"]},
        {"parent_ids": ["1", "2", "3", "4", "5"]},
        {"parent_ids": ["p"], "parent_id": "q"},
        {"parent_ids": ["p"], "parent_id": None},
        {"cascade": True, "parent_ids": []},
        {"cascade": 1},
        {"cascade": True, "parent_id": None},
        {"metadata": {"a": b"1"}},
        {"metadata": "ab"},
        {"principal": ""},
        {"expected_version": 0},
        {"expected_version": True},
        {"expected_version": "1"},
    ],
)
async def test_bad_input_is_refused_before_any_request(world: World, given: dict[str, Any]) -> None:
    limiter, wire = await world.process()
    with pytest.raises(ValidationError):
        await limiter.repository.update_entity("e", **given)
    with pytest.raises(ValidationError):
        await limiter.delete_entity("e ")
    assert wire.sent() == []


async def test_a_lost_race_is_decided_again_from_what_the_other_wrote(world: World) -> None:
    here, wire = await world.process()
    there, _ = await world.process()
    await here.create_entity("e", "first")
    wire.break_once(TransactionCancelled((Reason("ConditionalCheckFailed"), Reason(None))), on=Transact)
    await there.repository.update_entity("e", metadata={"by": "the other"})
    after = await here.repository.update_entity("e", name="second")
    assert (after.name, after.metadata, after.version) == ("second", {"by": "the other"}, 3)


async def test_an_update_whose_answer_was_lost_is_applied_once(world: World) -> None:
    limiter, wire = await world.process()
    await limiter.create_entity("p")
    await limiter.create_entity("e")
    wire.break_once(OutcomeUnknown("lost"), on=Transact, applied=True)
    assert (await limiter.repository.update_entity("e", parent_id="p")).version == 2
    with pytest.raises(EntityHasChildrenError, match="children, 1"):
        await limiter.delete_entity("p")


async def test_an_update_of_the_expected_version_is_made(world: World) -> None:
    limiter, _ = await world.process()
    made = await limiter.create_entity("e")
    renamed = await limiter.repository.update_entity("e", name="x", expected_version=made.version)
    assert (renamed.name, renamed.version) == ("x", 2)
    assert await limiter.repository.update_entity("e", name="x", expected_version=2) == renamed


@pytest.mark.parametrize("given", [{"name": "second"}, {"name": "first"}, {}, {"parent_id": "nobody"}], ids=str)
async def test_an_update_of_another_version_says_which_one_is_there_and_changes_nothing(
    world: World, given: dict[str, Any]
) -> None:
    limiter, wire = await world.process()
    await limiter.create_entity("e")
    there = await limiter.repository.update_entity("e", name="first")
    wire.sent()
    with pytest.raises(StaleEntityError) as caught:
        await limiter.repository.update_entity("e", **given, expected_version=1)
    error = caught.value
    assert (error.entity_id, error.expected_version, error.version) == ("e", 1, 2)
    assert str(error) == "entity 'e' has version 2, not 1: read it again"
    assert wire.sent() == ["BatchGet"]
    assert await limiter.get_entity("e") == there


async def test_of_two_updates_of_one_version_the_second_is_refused_even_if_both_have_read_it(world: World) -> None:
    here, wire = await world.process()
    there, _ = await world.process()
    await here.create_entity("e", "first")
    wire.break_once(TransactionCancelled((Reason("ConditionalCheckFailed"), Reason(None))), on=Transact)
    await there.repository.update_entity("e", name="theirs", expected_version=1)
    with pytest.raises(StaleEntityError):
        await here.repository.update_entity("e", name="ours", expected_version=1)
    assert await here.get_entity("e") == await there.get_entity("e")


async def test_a_versioned_update_whose_answer_was_lost_succeeds(world: World) -> None:
    limiter, wire = await world.process()
    await limiter.create_entity("e")
    wire.break_once(OutcomeUnknown("lost"), on=Transact, applied=True)
    assert (await limiter.repository.update_entity("e", name="x", expected_version=1)).version == 2


async def test_acquires_follow_a_new_parent_at_once_here_and_elsewhere_within_a_cache_life(world: World) -> None:
    here, elsewhere = [(await world.process(default_limits=[RPM])).limiter for _ in range(2)]
    for parent in ("p", "q"):
        await here.create_entity(parent)
    await here.create_entity("e", parent_id="p", cascade=True)
    for limiter in (here, elsewhere):
        await take(limiter, "e", "r", rpm=1)
    await here.repository.update_entity("e", parent_id="q")
    await take(here, "e", "r", rpm=1)
    assert [await here.available(parent, "r") for parent in ("p", "q")] == [{"rpm": 58}, {"rpm": 59}]
    world.clock.advance(seconds=61)
    await take(elsewhere, "e", "r", rpm=1)
    assert [await here.available(parent, "r") for parent in ("p", "q")] == [{"rpm": 60}, {"rpm": 59}]
    await here.repository.update_entity("e", cascade=False)
    await take(here, "e", "r", rpm=1)
    assert await here.available("q", "r") == {"rpm": 59}


async def test_an_entity_goes_with_its_limits_and_its_buckets_and_nobody_elses(world: World) -> None:
    limiter, wire = await world.process(default_limits=[RPM])
    for entity in ("e", "e-2"):
        await limiter.create_entity(entity)
        await limiter.set_limits(entity, [RPM])
        for resource in ("r", "s/1"):
            await limiter.set_limits(entity, [RPM], resource)
            await take(limiter, entity, resource, rpm=50)
    await limiter.delete_entity("e")
    assert await limiter.get_entity("e") is None
    ns = limiter.repository.namespace_id
    left = [(item["PK"], item["SK"]) for item in world.table.execute(Query(ns, index="GSI4")).items]
    assert {pk for pk, _ in left if pk.endswith("#e") or "#e#" in pk} == {f"{ns}/AUDIT#e"}
    assert len([pk for pk, sk in left if "e-2" in pk and not sk.startswith("#AUDIT")]) == 6
    assert await limiter.get_limits("e", "r") == []
    assert await limiter.available("e-2", "r") == {"rpm": 10}
    assert await passes(limiter, "e", "r", rpm=60)  # an entity that has no record has a bucket of its own all the same
    await limiter.delete_entity("e")
    assert world.bucket_of(limiter, "e", "r") is None
    wire.sent()
    with pytest.raises(EntityNotFoundError):
        await limiter.delete_entity("e")
    assert wire.sent() == ["Get", "Query", "Query"]


async def test_a_parent_stays_as_long_as_it_has_children(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.create_entity("p")
    for child in ("c-1", "c-2"):
        await limiter.create_entity(child, parent_id="p")
    await limiter.set_limits("p", [RPM])
    with pytest.raises(EntityHasChildrenError, match="'p' has children, 2") as caught:
        await limiter.delete_entity("p")
    assert isinstance(caught.value, EntityError)
    assert pickle.loads(pickle.dumps(caught.value)).children == 2
    assert await limiter.get_limits("p") == [RPM]
    await limiter.delete_entity("c-1")
    await limiter.repository.update_entity("c-2", parent_id=None)
    await limiter.delete_entity("p")
    assert (await limiter.get_entity("p"), await limiter.get_limits("p")) == (None, [])


async def test_an_entity_with_more_configs_than_a_transaction_holds_goes_whole(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.create_entity("e")
    places = [("e", f"r-{number:03d}") for number in range(130)]
    await limiter.repository.set_many_limits({place: [RPM] for place in places})
    await limiter.delete_entity("e")
    assert await limiter.repository.list_resources_with_entity_configs() == []
    events = (await limiter.repository.get_audit_events("e", limit=1000)).events
    gone = [event for event in events if event.action == "entity_deleted"]
    assert len((gone[0].before or {})["configs"]) == 90
    assert len([event for event in events if event.action == "limits_deleted"]) == 40
    assert len({event.event_id for event in events}) == 130 + 1 + 1 + 40


async def test_a_store_that_is_away_is_unavailable(world: World) -> None:
    limiter, wire = await world.process()
    wire.break_down(OutcomeUnknown("gone"))
    for change in (
        limiter.repository.update_entity("e", name="x"),
        limiter.delete_entity("e"),
        limiter.create_entity("e"),
    ):
        with pytest.raises(RateLimiterUnavailable):
            await change
