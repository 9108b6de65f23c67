"""A long apply stores how far it is, keeps its pace, and stops when it is asked to."""

from collections.abc import Callable

import pytest

from support.provisioner.provisions import NAMESPACE, World, entities, manifest
from zae_limiter.maintenance import ProvisionerLock, ProvisionerState, SyncMaintenance
from zae_limiter_manifest import Answer, Request, StateReport
from zae_limiter_provisioner.actions import read
from zae_limiter_provisioner.apply_options import ApplyOptions
from zae_limiter_provisioner.locking import unlock

MANY = manifest(entities=entities(1_000))


class Interrupted:
    """An apply in a world in which each batch takes two seconds, and something happens after one."""

    def __init__(self, after: Callable[[World, int], None] = lambda *_: None) -> None:
        self.world = World()
        self.states: list[StateReport] = []
        self.after = after

    def run(self) -> Answer:
        store = self.world.store()
        written = 0

        def fault(operation: object) -> None:
            nonlocal written
            if type(operation).__name__ == "Transact":
                written += 1
                if written % 8 == 0:
                    self.world.clock.advance(2)
                    self.after(self.world, written // 8)
            state = self.world.ask("watch").state
            if state and state.progress and (not self.states or state != self.states[-1]):
                self.states.append(state)

        store.fault = fault
        return self.world.apply_run(MANY, store, options=ApplyOptions()).run()


def test_the_progress_of_an_apply_can_be_watched_and_is_gone_when_it_ends() -> None:
    apply = Interrupted()
    apply.run()
    told = [(state.progress.done, state.progress.total) for state in apply.states if state.progress]
    assert told == [(200, 1000), (400, 1000), (600, 1000), (800, 1000)]
    rates = [state.progress.rate for state in apply.states if state.progress]
    assert rates == [100.0] * 4
    state = apply.world.ask("watch").state
    assert state
    assert (state.progress, state.stop, state.lock) == (None, None, None)


def test_a_stop_ends_an_apply_at_its_next_checkpoint_and_what_is_made_is_managed() -> None:
    def stop(world: World, batch: int) -> None:
        if batch == 2:
            world.ask("stop", principal="bob")

    apply = Interrupted(stop)
    answer = apply.run()
    assert [failure.code for failure in answer.errors] == ["stopped"]
    assert answer.errors[0].message.startswith("bob has stopped the apply: 600 changes are left")
    assert answer.remaining == 600
    state = apply.world.ask("state").state
    assert state
    assert (len(list(state.managed)), state.lock, state.stop) == (400, None, None)
    assert len(list(apply.world.live().managed_set())) == 400
    (entry,) = apply.world.ask("history").history or ()
    assert (entry.outcome, entry.created, entry.left) == ("partial", 400, 600)
    apply.world.apply(MANY)
    assert apply.world.live() == MANY


def test_an_apply_whose_lock_was_freed_ends_at_its_next_checkpoint() -> None:
    def free(world: World, batch: int) -> None:
        if batch == 2:
            lock = SyncMaintenance(world.repository()).get_provisioner_state().lock
            assert lock
            unlock(SyncMaintenance(world.repository()), lock.lock_id)

    apply = Interrupted(free)
    answer = apply.run()
    assert [failure.code for failure in answer.errors] == ["lock_lost"]
    assert len(list(apply.world.live().managed_set())) == 400
    apply.world.apply(MANY)
    assert apply.world.live() == MANY


@pytest.mark.parametrize("rate", [1, 50, 333])
def test_an_apply_keeps_its_pace(rate: int) -> None:
    world = World()
    began = world.clock.now_ms()
    wanted = manifest(entities=entities(3 * rate))
    world.apply_run(wanted, options=ApplyOptions(changes_per_second=rate)).run()
    assert 1.3 <= (world.clock.now_ms() - began) / 1000 <= 3
    assert world.live() == wanted


def test_a_pace_that_is_too_slow_for_the_deadline_leaves_the_rest() -> None:
    world = World()
    options = ApplyOptions(changes_per_second=10)
    answer = world.apply_run(MANY, options=options, deadline=world.deadline(50)).run()
    assert 500 <= answer.remaining <= 610  # a fifth of the time is kept for the end


def test_a_short_apply_has_no_checkpoint() -> None:
    world = World()
    store = world.store()
    world.apply_run(manifest(entities=entities(200)), store).run()
    updates = [each for each in store.written if type(each).__name__ == "Update"]
    assert updates == []


def test_the_apply_of_a_killed_process_cannot_be_stopped_and_the_planner_stops_none() -> None:
    world = World()
    repository = world.repository()
    lock = ProvisionerLock("0123", "cli (ann)", world.clock.now_ms() + 5_000)
    SyncMaintenance(repository).put_provisioner_state(ProvisionerState(lock=lock), expected_serial=0)
    asked = Request("stop", NAMESPACE, principal="bob")
    assert [failure.code for failure in read(world.table(), asked).errors] == ["read_only"]
    world.clock.advance(5)
    (failure,) = world.ask("stop", principal="bob").errors
    assert failure.message.startswith("no apply is under way: the lock of cli (ann) expired at ")
    assert SyncMaintenance(repository).get_provisioner_state().stop is None


def test_nobody_can_stop_what_does_not_run() -> None:
    world = World()
    world.apply(manifest(entities=entities(1)))
    (failure,) = world.ask("stop", principal="bob").errors
    assert (failure.code, failure.message) == ("not_locked", "no apply is under way")
