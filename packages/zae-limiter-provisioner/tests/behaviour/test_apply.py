import hashlib
import json
from typing import Any

import pytest

from support.provisioner.provisions import EVERY_LEVEL, NAMESPACE, World, entities, limits, manifest, rpm
from zae_limiter import SyncRepository
from zae_limiter.operations.errors import NotApplied, Reason, TransactionCancelled, Unreachable
from zae_limiter.operations.values import Operation, Put, Transact, Update
from zae_limiter_manifest import Address, LimitsManifest, packing
from zae_limiter_provisioner import actions, writing
from zae_limiter_provisioner.apply import apply_manifest

GPT_4 = Address("gpt-4")


def test_every_level_that_is_declared_is_written_and_what_is_managed_is_noted(world: World) -> None:
    done = world.apply(EVERY_LEVEL)
    assert done.plan
    assert (done.plan.created, done.plan.updated, done.plan.deleted) == (4, 0, 0)
    assert world.live() == EVERY_LEVEL
    state = world.ask("state").state
    assert state
    assert state.managed == EVERY_LEVEL.managed_set()
    assert (state.owner, state.applied_hash, state.lock) == ("cli", EVERY_LEVEL.canonical_hash(), None)
    assert state.serial == done.plan.serial > 0


def test_applying_it_again_is_one_conditional_update_and_no_lock(world: World) -> None:
    first = world.apply(EVERY_LEVEL)
    world.clock.advance(60)
    store = world.store()
    again = world.apply(EVERY_LEVEL, store=store)
    (only,) = store.written
    assert isinstance(only, Update)
    assert only.when.equals == {"serial": again.plan.serial}  # type: ignore[union-attr]
    assert list(only.set) == ["last_applied"]
    assert (again.plan.changes, again.plan.serial) == ((), first.plan.serial)  # type: ignore[union-attr]


def test_what_is_no_longer_declared_is_deleted_if_it_was_managed(world: World) -> None:
    world.repository().set_resource_defaults("by-hand", rpm(7))
    world.apply(EVERY_LEVEL)
    done = world.apply(manifest(resources={"gpt-4": limits(50)}))
    assert done.plan
    assert done.plan.deleted == 3
    assert world.live() == manifest(resources={"gpt-4": limits(50), "by-hand": limits(7)})


def test_one_capacity_that_changes_is_one_change(world: World) -> None:
    world.apply(EVERY_LEVEL)
    raised = EVERY_LEVEL.to_dict()
    raised["resources"]["gpt-4"] = limits(60)
    done = world.apply(LimitsManifest.from_dict(raised))
    assert done.plan
    (change,) = done.plan.changes
    assert [tuple(each) for each in change.fields()] == [("rpm", "capacity", 50, 60)]


def test_what_the_system_no_longer_says_of_a_table_that_is_away_is_taken_back(world: World) -> None:
    world.apply(EVERY_LEVEL)
    world.apply(manifest(system=limits(100)))
    assert world.repository().get_system_defaults() == (rpm(100), None)


def test_a_change_and_a_deletion_by_hand_are_drift_and_are_repaired(world: World) -> None:
    world.apply(EVERY_LEVEL)
    world.repository().set_limits("user-1", rpm(9), "gpt-4")
    world.repository().delete_resource_defaults("gpt-4")
    drift = world.ask("diff", EVERY_LEVEL).plan
    assert drift
    assert [(each.address, each.action) for each in drift.drifted] == [
        (GPT_4, "create"),
        (Address("gpt-4", "user-1"), "update"),
    ]
    world.apply(EVERY_LEVEL)
    assert world.live() == EVERY_LEVEL
    assert world.ask("diff", EVERY_LEVEL).plan.changes == ()  # type: ignore[union-attr]


def by_hand_and_back(world: World) -> None:
    world.repository().set_limits("user-1", rpm(9), "gpt-4")
    world.repository().set_limits("user-1", rpm(20), "gpt-4")


@pytest.mark.parametrize(
    "hand", [lambda world: world.repository().set_limits("user-1", rpm(20), "gpt-4"), by_hand_and_back]
)
def test_limits_set_by_hand_to_what_was_applied_are_no_drift(world: World, hand: Any) -> None:
    world.apply(EVERY_LEVEL)
    hand(world)
    raised = EVERY_LEVEL.to_dict()
    raised["entities"]["user-1"]["resources"]["gpt-4"] = limits(21)
    plan = world.ask("diff", LimitsManifest.from_dict(raised)).plan
    assert plan
    assert [(change.address, change.drift) for change in plan.changes] == [(Address("gpt-4", "user-1"), False)]


def last_applied(world: World) -> str | None:
    return world.ask("state").state.last_applied  # type: ignore[union-attr]


def test_an_apply_of_which_all_failed_was_none(world: World) -> None:
    first = manifest(resources={"gpt-4": limits(50)})
    store = world.store()
    store.fault = refuse("RESOURCE#gpt-4")  # type: ignore[assignment]
    assert world.ask("apply", first, store=store).status == "failed"
    assert last_applied(world) is None
    world.apply(first)
    at = last_applied(world)
    world.clock.advance(60)
    changed = manifest(resources={"gpt-4": limits(51)})
    assert world.ask("apply", changed, store=store).status == "failed"
    assert last_applied(world) == at
    both = manifest(resources={"gpt-4": limits(51), "gpt-5": limits(5)})
    assert world.ask("apply", both, store=store).status == "partial"
    assert last_applied(world) != at


def test_what_stands_there_already_is_adopted_and_owned_from_then_on(world: World) -> None:
    world.repository().set_resource_defaults("gpt-4", rpm(50))
    wanted = manifest(resources={"gpt-4": limits(50)})
    done = world.apply(wanted)
    assert [change.adopted for change in done.plan.changes] == [True]  # type: ignore[union-attr]
    world.apply(manifest())
    assert world.live() == manifest()


def refuse(pk: str) -> object:
    """The table refuses every write to one partition."""

    def fault(operation: Operation[Any]) -> None:
        writes = operation.writes if isinstance(operation, Transact) else ()
        if any(isinstance(write, Put) and write.item["PK"].endswith(pk) for write in writes):
            raise NotApplied("refused")

    return fault


def test_one_item_that_fails_stays_pending_and_the_others_are_made(world: World) -> None:
    store = world.store()
    store.fault = refuse("RESOURCE#gpt-4")  # type: ignore[assignment]
    done = world.ask("apply", EVERY_LEVEL, store=store)
    assert (done.status, done.plan.created) == ("partial", 3)  # type: ignore[union-attr]
    (failure,) = done.errors
    assert (failure.code, failure.address) == ("not_written", GPT_4)
    assert "refused" in failure.message
    assert GPT_4 not in world.ask("state").state.managed  # type: ignore[union-attr]
    pending = world.ask("plan", EVERY_LEVEL).plan
    assert [change.address for change in pending.changes] == [GPT_4]  # type: ignore[union-attr]
    world.apply(EVERY_LEVEL)
    assert world.live() == EVERY_LEVEL


def test_a_table_that_goes_away_between_creates_leaves_the_rest(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "CHANGES_PER_BATCH", 2)
    store, batches = world.store(), list[Operation[Any]]()

    def fault(operation: Operation[Any]) -> None:
        if isinstance(operation, Transact) and "ENTITY#" in str(operation.writes[0]):
            batches.append(operation)
        if len(batches) > 1:
            raise Unreachable("away")

    store.fault = fault
    run = world.apply_run(manifest(entities=entities(8)), store)
    done = run.run()
    assert [error.code for error in done.errors].count("not_written") == 2
    assert "table_failed" in [error.code for error in done.errors]
    assert done.remaining == 4


def test_a_managed_item_whose_deletion_fails_stays_managed(world: World) -> None:
    world.apply(EVERY_LEVEL)
    store = world.store()
    store.fault = refuse("AUDIT#$RESOURCE:gpt-4")  # type: ignore[assignment]
    done = world.ask("apply", manifest(), store=store)
    assert (done.status, done.plan.deleted) == ("partial", 3)  # type: ignore[union-attr]
    state = world.ask("state").state
    assert state
    assert list(state.managed) == [GPT_4]
    assert state.owner == "cli"
    world.apply(manifest())
    assert world.live() == manifest()


def test_what_is_made_at_most_in_one_invocation_leaves_the_rest_to_the_next(world: World) -> None:
    wanted = manifest(entities=entities(500))
    left: list[int] = []
    while not left or left[-1]:
        left.append(world.apply_run(wanted, listed_bytes=40_000).run().remaining)
    assert left == [300, 100, 0]
    assert world.live() == wanted


def test_one_batch_is_made_however_short_the_list_may_be(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "BYTES_PER_BATCH", 1)
    wanted = manifest(entities=entities(3))
    assert [world.apply_run(wanted, listed_bytes=1).run().remaining for _ in range(3)] == [2, 1, 0]


def test_reasons_count_where_items_fail(world: World) -> None:
    store = world.store()
    store.fault = refuse_all
    done = world.apply_run(manifest(entities=entities(500)), store, listed_bytes=100_000).run()
    assert (done.status, len(done.errors), done.remaining) == ("failed", 200, 300)
    assert all(len(failure.message) <= writing.LONGEST_REASON for failure in done.errors)


@pytest.mark.parametrize("failing", [False, True])
def test_the_longest_answer_to_an_apply_is_one_page(
    world: World, monkeypatch: pytest.MonkeyPatch, *, failing: bool
) -> None:
    monkeypatch.setattr(actions, "LISTED_BYTES", actions.LISTED_BYTES // 100)
    monkeypatch.setattr(writing, "BYTES_OF_A_PAGE", writing.BYTES_OF_A_PAGE // 100)
    monkeypatch.setattr(writing, "BYTES_PER_BATCH", writing.BYTES_PER_BATCH // 100)
    names = [f"{hashlib.sha256(str(number).encode()).hexdigest() * 3}" for number in range(200)]
    own = {"limits": {name: {"capacity": 10} for name in ("rpm", "tpm", "rpd", "tpd")}}
    wanted = manifest(entities={name: {"resources": {"gpt-4": own}} for name in names})
    store = world.store()
    if failing:
        store.fault = refuse_all
    done = world.ask("apply", wanted, store=store)
    assert (done.remaining > 0, len(done.errors) > 0) == (True, failing)
    assert packing.next_page(packing.page(done.to_dict(), largest=packing.LARGEST // 100)) is None


def test_a_list_that_is_too_long_for_a_page_is_packed_into_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "BYTES_OF_A_PAGE", 30_000)
    wanted = manifest(entities=entities(500))
    assert len(json.dumps([change.to_dict() for change in world.ask("plan", wanted).plan.changes])) > 60_000  # type: ignore[union-attr]
    done = world.apply_run(wanted, listed_bytes=1_000_000).run()
    assert done.remaining == 0
    assert packing.next_page(packing.page(done.to_dict(), largest=30_000)) is None


def refuse_all(operation: Operation[Any]) -> None:
    """No change of an entity is taken."""
    if isinstance(operation, Transact) and "ENTITY#" in str(operation.writes[0]):
        raise TransactionCancelled((Reason("ValidationError " * 20),) * len(operation.writes))


def test_a_second_page_of_an_apply_is_refused_and_applies_nothing(world: World) -> None:
    assert [each.code for each in world.ask("apply", EVERY_LEVEL, next="x:1").errors] == ["bad_request"]
    assert world.items() == []


def test_an_apply_that_nears_its_end_stops_cleanly(world: World) -> None:
    wanted = manifest(entities=entities(450))
    store = world.store()
    store.fault = lambda operation: world.clock.advance(5 if isinstance(operation, Transact) else 0)
    done = world.apply_run(wanted, store, deadline=world.deadline(60)).run()
    assert (done.status, done.errors) == ("applied", ())
    assert 0 < done.remaining < 450
    assert world.ask("state").state.lock is None  # type: ignore[union-attr]
    world.apply(wanted)
    assert world.live() == wanted


def test_a_table_that_goes_away_for_good_is_told_and_the_lock_ends_by_itself(world: World) -> None:
    store = world.store()

    def fault(_: Operation[Any]) -> None:
        if len(store.written) > 2:  # the registration, the intention
            raise NotApplied("away")

    store.fault = fault
    done = world.ask("apply", EVERY_LEVEL, store=store)
    assert (done.status, done.errors[0].code) == ("failed", "table_failed")
    assert world.ask("apply", EVERY_LEVEL).errors[0].code == "locked"
    world.clock.advance(906)
    world.apply(EVERY_LEVEL)
    assert world.live() == EVERY_LEVEL


def test_who_asked_and_from_where_stands_in_the_audit_events_as_claimed(world: World) -> None:
    world.apply(EVERY_LEVEL, principal="alice", source="9f3c2e1")
    (event,) = world.repository().get_audit_events("$RESOURCE:gpt-4").events
    assert event.principal == "provisioner (claimed: alice, 9f3c2e1)"


@pytest.mark.parametrize("action", ["plan", "diff", "apply", "export", "state"])
def test_a_namespace_that_was_deleted_is_refused_whatever_is_asked(world: World, action: str) -> None:
    world.apply(EVERY_LEVEL)
    world.repository("other").delete_namespace(NAMESPACE)
    wanted = NAMESPACE if action in ("export", "state") else EVERY_LEVEL
    refused = world.ask(action, wanted)
    assert [failure.code for failure in refused.errors] == ["namespace_deleted"]
    assert (refused.status, refused.namespace) == ("failed", NAMESPACE)


def test_the_library_applies_to_the_manifests_namespace_which_is_registered() -> None:
    with SyncRepository.in_memory("another") as repository:
        done = apply_manifest(repository, EVERY_LEVEL)
        assert (done["status"], done["created"]) == ("applied", 4)
        assert repository.get_resource_defaults("gpt-4") == []
        assert repository.namespace(NAMESPACE).get_resource_defaults("gpt-4") == rpm(50)


@pytest.mark.parametrize("count", [1_200])
def test_a_large_namespace_is_read_in_batches_of_a_hundred(world: World, count: int) -> None:
    wanted = manifest(entities=entities(count))
    world.apply(wanted)
    store = world.store()
    world.apply(wanted, store=store)
    names = [type(operation).__name__ for operation in store.seen]
    assert names.count("BatchGet") == 2 + count // 100  # the namespace, the parts of the state
    assert len(names) <= count // 100 + 5
