"""Bringing a namespace to its manifest: plan, take the lock and note what is intended, write, note what became of it.

Lives here: that order, in which a crash at any point leaves nothing orphaned. Never: how items are written (writing).
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from attrs import evolve

from zae_limiter import (
    HandledEvent,
    ProvisionerLock,
    ProvisionerState,
    StaleStateError,
    SyncRepository,
    ZAELimiterError,
)
from zae_limiter_manifest import Address, Answer, Failure, LimitsManifest, ManagedSet, Plan, managed_after

from .asking import Asking
from .deadline import Deadline
from .finding import Found
from .locking import new_lock, unlock, wait_for_lock
from .places import with_sets
from .planning import iso_time, make_plan
from .refusals import Refused, failed_answer
from .writing import Outcome, write_changes


class HandledBefore(Exception):
    """The event has come before, and was dealt with; ``serial`` is that of the state now."""

    def __init__(self, event: HandledEvent, serial: int) -> None:
        super().__init__(event, serial)
        self.event = event
        self.serial = serial


@dataclass(frozen=True, slots=True)
class Applying:
    """An apply of a manifest to the namespace that is open, by somebody, in the time there is.

    ``listed_bytes`` is how long the list of what it changes may get; the rest is left for the next.
    """

    repository: SyncRepository
    manifest: LimitsManifest
    asking: Asking
    deadline: Deadline
    sleep: Callable[[float], None] = time.sleep
    listed_bytes: int | None = None

    def run(self) -> Answer:
        """What was made, what failed, what is left. Raises ``Refused``, ``HandledBefore`` and errors of the table."""
        while True:
            state = wait_for_lock(self.repository, self.asking, self.deadline, self.sleep)
            if event := self.asking.handled_in(state):
                raise HandledBefore(event, state.serial)
            found = Found.at(self.repository, self.manifest.managed_set(), state=state)
            plan = make_plan(self.manifest, found, owner=self.asking.owner, take_over=self.asking.take_over)
            self.asking.check(plan)
            try:
                return self._carry_out(plan, found) if plan.changes else self._settle(plan, found)
            except StaleStateError as error:
                # Somebody was faster, and nothing was written yet: look again, and wait for them.
                if self.deadline.is_near:
                    raise Refused("stale", str(error)) from error

    def _settle(self, plan: Plan, found: Found) -> Answer:
        """Nothing has to change but the state, and where that says so already, only when it was last applied."""
        before = found.state
        after = self._final(before, found.managed, Outcome())
        if before.serial and replace(after, last_applied=before.last_applied) == before:
            self.repository.note_applied(expected_serial=before.serial)
            return Answer.applied(_made(plan))
        stored = self.repository.put_provisioner_state(after, expected_serial=before.serial)
        return Answer.applied(_made(plan, serial=stored.serial))

    def _carry_out(self, plan: Plan, found: Found) -> Answer:
        lock = new_lock(self.asking, self.deadline)
        try:
            return self._carry_out_under(lock, plan, found)
        except StaleStateError:
            raise  # it is not our lock that is there
        except Exception:
            self._let_go(lock)
            raise

    def _let_go(self, lock: ProvisionerLock) -> None:
        with suppress(ZAELimiterError, Refused):  # it may never have been taken, and it ends by itself, too
            unlock(self.repository, lock.lock_id)

    def _carry_out_under(self, lock: ProvisionerLock, plan: Plan, found: Found) -> Answer:
        locked = self.repository.put_provisioner_state(self._intending(found, lock), expected_serial=plan.serial)
        outcome = write_changes(
            self.repository,
            plan.changes,
            self.deadline,
            principal=self.asking.audited_as(),
            listed_bytes=self.listed_bytes,
        )
        final = self._final(locked, found.managed, outcome)
        try:
            serial = self.repository.put_provisioner_state(final, expected_serial=locked.serial).serial
        except StaleStateError as error:
            message = f"somebody else has taken the lock meanwhile, apply again: {error}"
            outcome.failures.append(Failure("lock_lost", message))
            serial = error.serial
        except ZAELimiterError as error:
            if not outcome.made:
                raise
            message = f"what was done could not be noted, apply again: {error}"
            outcome.failures.append(Failure("table_failed", message))
            serial = locked.serial
            self._let_go(lock)
        made = _made(plan, changes=tuple(outcome.made), serial=serial)
        return Answer.applied(made, errors=outcome.failures, remaining=len(outcome.left))

    def _intending(self, found: Found, lock: ProvisionerLock) -> ProvisionerState:
        """Old and new together, and the lock: in one write, whose serial is the one that was planned against.

        The hash stays the owner's: where it is there, this owner has once applied all of a manifest.
        """
        before = found.state
        return with_sets(
            before,
            managed=found.managed,
            intended=self._new(found.managed),
            lock=lock,
            owner=before.owner or self.asking.owner,
            applied_hash=before.applied_hash if before.owner else None,
        )

    def _final(self, state: ProvisionerState, managed: ManagedSet, outcome: Outcome) -> ProvisionerState:
        """What is managed now, and what may have been written all the same. An owner is replaced when all is done."""
        undone = outcome.undone
        complete = not undone and not outcome.failures
        after = managed_after(self.manifest.managed_set(), managed, undone)
        owner = self.asking.owner if complete else state.owner
        return with_sets(
            state,
            managed=after,
            intended=[address for address in self._new(managed) if address in undone],
            lock=None,
            owner=owner if after or not complete else None,
            last_applied=iso_time(self.deadline.now_ms()) if outcome.made or complete else state.last_applied,
            applied_hash=self.manifest.canonical_hash() if complete else state.applied_hash,
            handled=self.asking.handled_with(state, ok=complete),
        )

    def _new(self, managed: ManagedSet) -> list[Address]:
        return [address for address in self.manifest.managed_set() if address not in managed]


def _made(plan: Plan, **changes: Any) -> Plan:
    """What was done of a plan, without what was gone already: that list may be too long for an answer."""
    return evolve(plan, forgotten=(), **changes)


def apply_manifest(repository: SyncRepository, manifest: LimitsManifest) -> dict[str, object]:
    """Bring the manifest's namespace, in the table of ``repository``, to what the manifest declares.

    The namespace is registered where it is missing. The answer is that of the Lambda, as plain values; raises
    `ZAELimiterError` where the table cannot be read.
    """
    if repository.name != manifest.namespace:
        repository = repository.namespace(manifest.namespace)
    deadline = Deadline.of(None, repository.namespace_state.now)
    try:
        return Applying(repository, manifest, Asking(), deadline).run().to_dict()
    except Refused as refused:
        return failed_answer(refused, manifest.namespace).to_dict()
