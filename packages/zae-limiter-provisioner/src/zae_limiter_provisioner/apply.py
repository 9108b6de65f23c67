"""Apply a manifest to a namespace: plan, take the lock and store the intent, write, store the result.

The order ensures that a crash at any point leaves no orphaned item. ``writing`` writes the items.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from attrs import evolve

from zae_limiter import SyncRepository, ZAELimiterError
from zae_limiter.exceptions import StaleStateError
from zae_limiter.maintenance import HandledEvent, ProvisionerLock, ProvisionerState, SyncMaintenance
from zae_limiter_manifest import Address, Answer, Failure, LimitsManifest, ManagedSet, Plan, managed_after

from .apply_options import ApplyOptions
from .checkpoints import Checkpoint
from .conversion import with_sets
from .deadline import Deadline
from .history import KeptApply
from .live_state import LiveState
from .locking import new_lock, unlock, wait_for_lock
from .ordering import write_order
from .planning import iso_time, make_plan, share_after
from .refusals import Refused, failed_answer
from .writing import WriteOutcome, write_changes


class AlreadyHandled(Exception):
    """The event was handled before; ``serial`` is the serial of the current state."""

    def __init__(self, event: HandledEvent, serial: int) -> None:
        super().__init__(event, serial)
        self.event = event
        self.serial = serial


@dataclass(frozen=True, slots=True)
class ApplyRun:
    """One apply of a manifest to an open namespace, within a deadline.

    ``listed_bytes`` bounds the size of the list of changes in the answer; further changes are left for the next apply.
    """

    repository: SyncRepository
    manifest: LimitsManifest
    options: ApplyOptions
    deadline: Deadline
    sleep: Callable[[float], None] = time.sleep
    listed_bytes: int | None = None

    def run(self) -> Answer:
        """Apply, and report the changes made, failed and left. Raises ``Refused``, ``AlreadyHandled``, table errors."""
        maintenance = SyncMaintenance(self.repository)
        while True:
            state = wait_for_lock(maintenance, self.options, self.deadline, self.sleep)
            if event := self.options.handled_in(state):
                raise AlreadyHandled(event, state.serial)
            live = LiveState.at(maintenance, self.manifest.managed_set(), state=state)
            plan = make_plan(
                self.manifest,
                live,
                self.repository,
                owner=self.options.owner,
                take_over=self.options.take_over,
                targets=self.options.targets,
                share=self.options.share,
            )
            self.options.check(plan)
            try:
                if plan.changes:
                    return self._carry_out(maintenance, plan, live)
                return self._store_state(maintenance, plan, live)
            except StaleStateError as error:
                # Another apply was faster, and nothing was written yet: read again, and wait for it.
                if self.deadline.is_near:
                    raise Refused("stale", str(error)) from error

    def _store_state(self, maintenance: SyncMaintenance, plan: Plan, live: LiveState) -> Answer:
        """Store the state of an apply without changes; only the time of the apply if the state is equal already."""
        before = live.state
        after = self._final_state(before, live.managed, WriteOutcome())
        if before.serial and replace(after, last_applied=before.last_applied) == before:
            maintenance.note_applied(expected_serial=before.serial)
            return Answer.applied(_made(plan))
        stored = maintenance.put_provisioner_state(after, expected_serial=before.serial)
        self._kept(stored.serial).end(WriteOutcome())
        return Answer.applied(_made(plan, serial=stored.serial))

    def _carry_out(self, maintenance: SyncMaintenance, plan: Plan, live: LiveState) -> Answer:
        lock = new_lock(self.options, self.deadline)
        try:
            return self._carry_out_under(maintenance, lock, plan, live)
        except StaleStateError:
            raise  # the stored lock is not ours
        except BaseException:  # also Ctrl-C, in the process of a command
            self._release_lock(maintenance, lock)
            raise

    def _release_lock(self, maintenance: SyncMaintenance, lock: ProvisionerLock) -> None:
        with suppress(ZAELimiterError, Refused):  # it may not be stored, and it expires by itself, too
            unlock(maintenance, lock.lock_id)

    def _carry_out_under(
        self, maintenance: SyncMaintenance, lock: ProvisionerLock, plan: Plan, live: LiveState
    ) -> Answer:
        locked = maintenance.put_provisioner_state(self._state_with_intent(live, lock), expected_serial=plan.serial)
        kept = self._kept(locked.serial + 1)
        outcome = write_changes(
            maintenance,
            write_order(plan.changes, live.items),
            self.deadline,
            principal=self.options.audited_as(),
            listed_bytes=self.listed_bytes,
            most_at_once=self.options.changes_per_second,
            goes_on=self._checkpoint(locked, plan).pass_after,
        )
        kept.end(outcome)
        final = self._final_state(locked, live.managed, outcome)
        try:
            serial = maintenance.put_provisioner_state(final, expected_serial=locked.serial).serial
        except StaleStateError as error:
            message = f"somebody else has taken the lock meanwhile, apply again: {error}"
            outcome.failures.append(Failure("lock_lost", message))
            serial = error.serial
        except ZAELimiterError as error:
            if not outcome.made:
                raise
            message = f"changes were made, but the state could not be stored, apply again: {error}"
            outcome.failures.append(Failure("table_failed", message))
            serial = locked.serial
            self._release_lock(maintenance, lock)
        made = _made(plan, changes=tuple(outcome.made), serial=serial)
        return Answer.applied(made, errors=outcome.failures, remaining=len(outcome.left))

    def _state_with_intent(self, live: LiveState, lock: ProvisionerLock) -> ProvisionerState:
        """Return the state with the lock, the managed items and those that the apply intends to manage besides.

        It is stored in one write, conditional on the serial of the plan. The hash stays the owner's: a hash means that
        this owner has once applied a manifest completely.
        """
        before = live.state
        return with_sets(
            before,
            managed=live.managed,
            intended=self._new(self.manifest.managed_set(live.managed), live.managed),
            lock=lock,
            owner=before.owner or self.options.owner,
            applied_hash=before.applied_hash if before.owner else None,
            share=share_after(self.options.share, before),
        )

    def _final_state(self, state: ProvisionerState, managed: ManagedSet, outcome: WriteOutcome) -> ProvisionerState:
        """Return the state after the writes: the managed items, and those that may have been written although the write
        failed.

        The owner changes only when everything is done.
        """
        undone, declared = outcome.undone, self.manifest.managed_set(managed)
        out_of_reach = {at for at in (*managed, *declared) if not self.options.reaches(at)}
        complete = not undone and not outcome.failures and not self.options.targets
        after = managed_after(declared, managed, undone | out_of_reach)
        owner = self.options.owner if complete else state.owner
        return with_sets(
            state,
            managed=after,
            intended=[at for at in self._new(declared, managed) if at in undone],
            lock=None,
            owner=owner if after or not complete else None,
            last_applied=iso_time(self.deadline.now_ms()) if outcome.made or complete else state.last_applied,
            applied_hash=self.manifest.canonical_hash() if complete else state.applied_hash,
            handled=self.options.handled_with(state, ok=complete),
            share=share_after(self.options.share, state),
        )

    def _kept(self, serial: int) -> KeptApply:
        at_ms = self.deadline.now_ms()
        return KeptApply.begin(self.repository, self.manifest, self.options, serial=serial, at_ms=at_ms)

    def _checkpoint(self, locked: ProvisionerState, plan: Plan) -> Checkpoint:
        return Checkpoint(
            self.repository,
            locked.serial,
            len(plan.changes),
            self.deadline.now_ms(),
            self.deadline,
            self.sleep,
            self.options.changes_per_second,
        )

    def _new(self, declared: ManagedSet, managed: ManagedSet) -> list[Address]:
        return [address for address in filter(self.options.reaches, declared) if address not in managed]


def _made(plan: Plan, **changes: Any) -> Plan:
    """Return the plan with the changes made, without lists that may be too long for an answer."""
    return evolve(plan, forgotten=(), overrides=(), **changes)


def apply_manifest(repository: SyncRepository, manifest: LimitsManifest) -> dict[str, object]:
    """Apply a manifest to its namespace, in the table of ``repository``, and return the Lambda's answer, as plain
    values.

    A missing namespace is registered. Raises `ZAELimiterError` if the table cannot be read.
    """
    if repository.name != manifest.namespace:
        repository = repository.namespace(manifest.namespace)
    deadline = Deadline.of(None, repository.namespace_state.now)
    try:
        return ApplyRun(repository, manifest, ApplyOptions(), deadline).run().to_dict()
    except Refused as refused:
        return failed_answer(refused, manifest.namespace).to_dict()
