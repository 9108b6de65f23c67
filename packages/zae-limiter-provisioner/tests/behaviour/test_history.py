"""Each apply that changes something is kept: who, from where, which manifest, and what came of it."""

import base64
import zlib
from typing import Any

import pytest
from attrs import evolve

from support.provisioner.provisions import EVERY_LEVEL, Killed, World, entities, limits, manifest
from zae_limiter.flows.records import provisioner_state
from zae_limiter.operations.errors import NotApplied
from zae_limiter.operations.values import Put, Query
from zae_limiter.schema import provisioner as schema
from zae_limiter_manifest import ApplyEntry, LimitsManifest, compress

AFTER = manifest(resources={"gpt-4": limits(51)})


def history(world: World) -> tuple[ApplyEntry, ...]:
    found = world.ask("history").history
    assert found is not None
    return found


def shown(world: World, serial: int) -> LimitsManifest:
    answer = world.ask("show", serial=serial)
    assert answer.history is not None
    assert [entry.serial for entry in answer.history] == [serial]
    assert answer.manifest
    return answer.manifest


def test_each_apply_is_kept_with_its_author_its_counts_and_its_manifest() -> None:
    world = World()
    world.apply(EVERY_LEVEL, principal="ann", source="9f3c2e1")
    world.clock.advance(60)
    last = world.apply(AFTER, principal="bob")
    assert last.plan
    new, old = history(world)
    assert new.serial == last.plan.serial
    assert (old.principal, old.source, old.created, old.updated, old.deleted) == ("ann", "9f3c2e1", 4, 0, 0)
    assert (new.principal, new.source, new.created, new.updated, new.deleted) == ("bob", None, 0, 1, 3)
    assert (old.outcome, old.owner, old.manifest_hash) == ("applied", "cli", EVERY_LEVEL.canonical_hash())
    assert new.at > old.at
    assert shown(world, old.serial) == EVERY_LEVEL
    assert shown(world, new.serial) == AFTER


def test_back_to_an_earlier_apply_is_an_apply_of_its_manifest() -> None:
    world = World()
    world.apply(EVERY_LEVEL)
    world.apply(AFTER)
    world.apply(shown(world, history(world)[-1].serial), source="rollback to 2")
    assert world.live() == EVERY_LEVEL
    assert [entry.source for entry in history(world)] == ["rollback to 2", None, None]


def test_an_apply_that_changes_nothing_is_kept_where_the_state_changes() -> None:
    world = World()
    world.apply(EVERY_LEVEL)
    world.apply(EVERY_LEVEL)
    assert len(history(world)) == 1
    world = World()
    world.apply(manifest())  # nothing to change, and a hash to remember
    (entry,) = history(world)
    assert (entry.created, entry.outcome) == (0, "applied")


def test_what_fails_or_is_left_makes_an_apply_partial() -> None:
    world = World()
    many = manifest(entities=entities(500))
    world.apply_run(many, listed_bytes=1).run()
    (entry,) = history(world)
    assert (entry.created, entry.left, entry.outcome) == (200, 300, "partial")


def test_only_the_last_applies_are_kept_and_nothing_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provisioner_state, "APPLIES_KEPT", 3)
    monkeypatch.setattr(schema, "PART_BYTES", 50)
    world = World()
    for capacity in range(1, 7):
        world.apply(manifest(resources={"gpt-4": limits(capacity)}))
    kept = history(world)
    assert len(kept) == 3
    assert [shown(world, entry.serial).resources["gpt-4"].limits["rpm"].capacity for entry in kept] == [6, 5, 4]
    keys = [item["SK"] for item in world.items() if item["PK"].endswith("/APPLIES#")]
    assert {int(sk.split("#")[2]) for sk in keys} == {entry.serial for entry in kept}


def test_a_manifest_larger_than_an_item_comes_back_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "PART_BYTES", 300)
    world = World()
    large = manifest(entities=entities(300))
    world.apply(large)
    assert shown(world, history(world)[0].serial) == large
    parts = [item for item in world.items() if item["SK"].startswith("#MANIFEST#")]
    assert len(parts) > 3


def test_an_apply_that_was_killed_says_that_it_has_not_ended_and_keeps_its_manifest() -> None:
    world = World()
    with pytest.raises(Killed):
        world.ask("apply", EVERY_LEVEL, store=world.store(5, applied=False))
    (entry,) = history(world)
    assert entry.outcome == "not ended"
    assert shown(world, entry.serial) == EVERY_LEVEL
    world.clock.advance(906)
    world.apply(AFTER)
    assert [entry.outcome for entry in history(world)] == ["applied", "not ended"]


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(12))
def test_killed_at_any_write_each_change_has_its_apply_in_the_history(at: int, *, applied: bool) -> None:
    world = World()
    world.apply(EVERY_LEVEL)
    store = world.store(at, applied=applied)
    try:
        world.ask("apply", AFTER, store=store)
    except Killed:
        pass
    else:
        assert at >= len(store.written)
    entries = history(world)
    if world.live() != EVERY_LEVEL:
        assert shown(world, entries[0].serial) == AFTER
    world.clock.advance(906)
    world.apply(AFTER)
    serials = [entry.serial for entry in history(world)]
    assert serials == sorted(set(serials), reverse=True)
    assert all(shown(world, serial) in (EVERY_LEVEL, AFTER) for serial in serials)


def test_the_outcome_that_cannot_be_kept_costs_no_change() -> None:
    world = World()
    store = world.store()
    records: list[Any] = []

    def fault(operation: object) -> None:
        if isinstance(operation, Put) and operation.item["SK"].startswith("#APPLY#"):
            records.append(operation)
            if len(records) > 1:
                raise NotApplied("away")

    store.fault = fault
    done = world.ask("apply", EVERY_LEVEL, store=store)
    assert done.status == "applied"
    assert (world.live(), history(world)[0].outcome) == (EVERY_LEVEL, "not ended")


def test_an_apply_that_cannot_be_kept_changes_nothing_and_frees_the_lock() -> None:
    world = World()
    store = world.store()

    def fault(operation: object) -> None:
        if isinstance(operation, Put) and operation.item["SK"].startswith("#MANIFEST#"):
            raise NotApplied("away")

    store.fault = fault
    assert world.ask("apply", EVERY_LEVEL, store=store).errors[0].code == "table_failed"
    assert world.live() == manifest()
    assert world.ask("state").state.lock is None  # type: ignore[union-attr]


EMPTY_LIST = base64.b64encode(zlib.compress(b"[]")).decode()


@pytest.mark.parametrize("content", ["x", "eJw=", compress(EVERY_LEVEL)[:-8], EMPTY_LIST])
def test_a_manifest_that_cannot_be_read_is_refused(content: str) -> None:
    world = World()
    world.apply(EVERY_LEVEL)
    (part,) = [item for item in world.items() if item["SK"].startswith("#MANIFEST#")]
    world.memory.execute(Put({**part, "content": content}))
    (failure,) = world.ask("show", serial=2).errors
    assert failure.code == "unreadable_apply"
    assert failure.message.startswith("this release cannot read the manifest of the apply 2: ")


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        (evolve(EVERY_LEVEL, namespace="victim"), "is of the namespace victim"),
        (AFTER, "has another hash than the one that was kept"),
    ],
)
def test_a_manifest_that_was_put_in_the_place_of_the_kept_one_is_refused(other: LimitsManifest, problem: str) -> None:
    world = World()
    world.apply(EVERY_LEVEL)
    items = world.memory.execute(Query(f"{world.repository().namespace_id}/APPLIES#")).items
    kept = {item["SK"].split("#")[1]: item for item in items}
    world.memory.execute(Put({**kept["MANIFEST"], "content": compress(other)}))
    if other.namespace == "victim":  # whoever can write one of the two can write both
        world.memory.execute(Put({**kept["APPLY"], "manifest_hash": other.canonical_hash()}))
    (failure,) = world.ask("show", serial=2).errors
    told = f"the manifest of the apply 2 {problem}: its items were changed; choose another serial"
    assert (failure.code, failure.message) == ("unreadable_apply", told)


def test_an_apply_of_targets_says_which() -> None:
    world = World()
    world.apply(EVERY_LEVEL, targets=("resource *",))
    assert history(world)[0].targets == ("resource *",)


def test_an_apply_that_is_not_kept_is_refused_with_the_way_out() -> None:
    world = World()
    world.apply(EVERY_LEVEL)
    (failure,) = world.ask("show", serial=77).errors
    assert (failure.code, "`limits status` lists all" in failure.message) == ("no_such_apply", True)


def test_two_operators_and_a_rollback_at_once_leave_one_of_the_three_and_a_history_of_it() -> None:
    world = World()
    world.apply(EVERY_LEVEL)
    world.apply(AFTER)
    other = manifest(resources={"gpt-4": limits(7)})
    old = shown(world, history(world)[-1].serial)
    plan = world.ask("plan", old).plan
    assert plan
    world.apply(other)  # the second operator, between the plan of the rollback and its apply
    refused = world.ask("apply", old, expected_serial=plan.serial, expected_plan=plan.changes_hash())
    assert [failure.code for failure in refused.errors] == ["stale"]
    assert world.live() == other
    assert shown(world, history(world)[0].serial) == other


def test_what_a_purge_or_a_copy_finds_of_the_history_is_of_the_namespace() -> None:
    world = World()
    world.apply(EVERY_LEVEL)
    repository = world.repository()
    kept = [item for item in world.items() if item["PK"].endswith("/APPLIES#")]
    assert {item["GSI4PK"] for item in kept} == {repository.namespace_id}
    assert len(kept) == 2
