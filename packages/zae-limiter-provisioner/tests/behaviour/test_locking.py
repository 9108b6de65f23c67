from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from support.provisioner.provisions import EVERY_LEVEL, World, limits, manifest
from zae_limiter.maintenance import ProvisionerLock, SyncMaintenance, note_progress, run
from zae_limiter.operations.errors import NotApplied
from zae_limiter.operations.values import Operation, Transact
from zae_limiter.values.provisioner import ApplyProgress
from zae_limiter_manifest import ApplyUnderWay, LimitsManifest, Request
from zae_limiter_provisioner.actions import perform
from zae_limiter_provisioner.planning import iso_time
from zae_limiter_provisioner.table import Table

OTHER = manifest(resources={"gpt-4": limits(1)}, entities={"user-3": {"resources": {"gpt-4": limits(3)}}})


def hold(world: World, *, seconds: float = 100) -> None:
    """Somebody is applying."""
    repository = world.repository()
    state = SyncMaintenance(repository).get_provisioner_state()
    lock = ProvisionerLock("abc", "cli (bob)", world.clock.now_ms() + round(seconds * 1000))
    SyncMaintenance(repository).put_provisioner_state(replace(state, lock=lock), expected_serial=state.serial)


@pytest.mark.parametrize("wanted", [EVERY_LEVEL, OTHER], ids=["without changes", "with changes"])
def test_an_apply_is_refused_while_another_holds_the_lock(world: World, wanted: LimitsManifest) -> None:
    world.apply(EVERY_LEVEL)
    hold(world)
    (failure,) = world.ask("apply", wanted).errors
    assert failure.code == "locked"
    assert failure.message.startswith("cli (bob) is applying, until 20")
    assert failure.message.endswith("zae-limiter limits unlock --name stack --namespace tenant-alpha abc")


def test_the_way_out_of_a_lock_in_a_file_names_the_file(world: World) -> None:
    hold(world)
    table = Table(world.store(), "sqlite:////srv/limits.db", clock=world.clock)
    (failure,) = perform(table, Request.of("apply", EVERY_LEVEL)).errors
    assert failure.message.endswith("unlock --store sqlite:////srv/limits.db --namespace tenant-alpha abc")


def test_an_interrupted_apply_frees_its_lock(world: World) -> None:
    def interrupt(operation: Operation[Any]) -> None:
        if isinstance(operation, Transact):
            raise KeyboardInterrupt

    store = world.store()
    world.repository()
    store.fault = interrupt
    with pytest.raises(KeyboardInterrupt):
        world.ask("apply", EVERY_LEVEL, store=store)
    assert (state := world.ask("state").state)
    assert state.lock is None
    world.apply(EVERY_LEVEL)


@pytest.mark.parametrize("action", ["plan", "diff"])
def test_what_is_read_during_another_apply_says_so_without_another_read(world: World, action: str) -> None:
    world.apply(OTHER)

    def read() -> tuple[ApplyUnderWay | None, str, int]:
        store = world.store()
        plan = world.ask(action, EVERY_LEVEL, store=store).plan
        assert plan
        return plan.under_way, plan.changes_hash(), len(store.seen)

    nobody, same, reads = read()
    assert nobody is None
    began_ms = world.clock.now_ms()
    hold(world, seconds=100)
    until = iso_time(began_ms + 100_000)
    assert read() == (ApplyUnderWay("cli (bob)", until), same, reads)
    repository = world.repository()
    serial = SyncMaintenance(repository).get_provisioner_state().serial
    progress = ApplyProgress(1, 5, began_ms, began_ms + 3_000)
    run(repository, note_progress(repository.namespace_state, progress, expected_serial=serial))
    assert read() == (ApplyUnderWay("cli (bob)", until, iso_time(began_ms)), same, reads)
    world.clock.advance(100)  # its lock has expired: it was killed
    assert read() == (None, same, reads)


def test_an_apply_never_says_that_another_is_under_way(world: World) -> None:
    hold(world, seconds=0)
    assert world.apply(EVERY_LEVEL).plan.under_way is None  # type: ignore[union-attr]


def test_reading_goes_on_while_somebody_applies(world: World) -> None:
    hold(world)
    assert world.ask("plan", EVERY_LEVEL).status == "planned"
    state = world.ask("state").state
    assert state
    assert state.lock
    assert (state.lock.lock_id, state.lock.owner) == ("abc", "cli (bob)")


def test_a_lock_that_has_expired_holds_nobody_up(world: World) -> None:
    hold(world, seconds=3)
    world.clock.advance(3)
    world.apply(EVERY_LEVEL)


def test_a_lock_is_freed_by_its_id_alone(world: World) -> None:
    world.repository()
    assert world.ask("unlock", lock_id="abc").errors[0].code == "not_locked"
    hold(world)
    refused = world.ask("unlock", lock_id="other")
    assert (refused.errors[0].code, "cli (bob)" in refused.errors[0].message) == ("other_lock", True)
    freed = world.ask("unlock", lock_id="abc").state
    assert freed
    assert freed.lock is None
    assert world.ask("unlock", lock_id="abc").errors[0].code == "not_locked"
    world.apply(EVERY_LEVEL)


@pytest.mark.parametrize("count", [2, 6])
def test_of_applies_at_once_all_end_and_the_state_is_that_of_one(world: World, count: int) -> None:
    world.apply(EVERY_LEVEL)
    wanted = [OTHER if number % 2 else EVERY_LEVEL for number in range(count)]
    with ThreadPoolExecutor(count) as threads:
        answers = list(threads.map(lambda each: world.ask("apply", each, lock_timeout=30), wanted))
    assert [answer.status for answer in answers] == ["applied"] * count
    live, state = world.live(), world.ask("state").state
    assert live in (EVERY_LEVEL, OTHER)
    assert state
    assert (state.managed, state.applied_hash) == (live.managed_set(), live.canonical_hash())


def test_an_apply_that_fails_lets_go_of_its_lock(world: World) -> None:
    store = world.store()

    def fault(_: object) -> None:
        if len(store.written) == 7:  # registration, intention, history (two), changes, history, outcome
            store.fault = lambda _: None
            raise NotApplied("away")

    store.fault = fault
    done = world.ask("apply", EVERY_LEVEL, store=store)
    assert (done.status, done.errors[0].code) == ("partial", "table_failed")
    assert done.plan is not None
    assert done.plan.created == 4
    assert world.live() == EVERY_LEVEL
    assert world.ask("state").state.lock is None  # type: ignore[union-attr]
    world.apply(EVERY_LEVEL)


def test_an_apply_that_could_not_take_the_lock_says_why(world: World) -> None:
    store = world.store()

    def fault(_: object) -> None:
        if len(store.written) == 2:  # the registration, the intention
            raise NotApplied("AccessDenied")

    store.fault = fault
    (failure,) = world.ask("apply", EVERY_LEVEL, store=store).errors
    assert (failure.code, "AccessDenied" in failure.message) == ("table_failed", True)


def test_an_apply_whose_lock_was_freed_under_way_says_so_and_spoils_no_state(world: World) -> None:
    store = world.store()

    def fault(_: object) -> None:
        if len(store.written) == 3:  # the registration, the intention, the first change
            store.fault = lambda _: None
            lock = world.ask("state").state.lock  # type: ignore[union-attr]
            assert lock
            world.ask("unlock", lock_id=lock.lock_id)
            world.apply(OTHER)

    store.fault = fault
    done = world.ask("apply", EVERY_LEVEL, store=store)
    assert (done.status, done.errors[-1].code) == ("partial", "lock_lost")
    assert world.ask("state").state.applied_hash == OTHER.canonical_hash()  # type: ignore[union-attr]
    world.apply(OTHER)
    assert OTHER.managed_set() == world.ask("state").state.managed  # type: ignore[union-attr]


def test_who_claims_much_is_audited_as_far_as_there_is_room(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "f" * 64)
    world.ask("apply", EVERY_LEVEL, principal="a" * 100, source="b" * 100)
    (event, *_) = world.repository().get_audit_events("$SYSTEM").events
    assert event.principal is not None
    assert (len(event.principal), event.principal[:64]) == (256, "f" * 64)
