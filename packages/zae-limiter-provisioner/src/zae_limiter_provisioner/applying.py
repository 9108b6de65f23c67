"""Bringing a namespace to its manifest: plan, take the lock and note what is intended, write, note what became of it.

Lives here: that order, in which a crash at any point leaves nothing orphaned. Never: how items are written (writing).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from attrs import evolve

from zae_limiter import HandledEvent, ProvisionerState, StaleStateError, SyncRepository
from zae_limiter_manifest import Address, Answer, Failure, LimitsManifest, ManagedSet, Plan, managed_after

from .asking import Asking
from .deadline import Deadline
from .finding import Found
from .locking import new_lock, wait_for_lock
from .places import with_sets
from .planning import iso_time, make_plan
from .refusals import Refused
from .writing import CHANGES_PER_INVOCATION, Outcome, write_changes


class HandledBefore(Exception):
    """The event has come before, and was dealt with."""

    def __init__(self, event: HandledEvent) -> None:
        super().__init__(event)
        self.event = event


@dataclass(frozen=True, slots=True)
class Applying:
    """An apply of a manifest to the namespace that is open, by somebody, in the time there is."""

    repository: SyncRepository
    manifest: LimitsManifest
    asking: Asking
    deadline: Deadline
    sleep: Callable[[float], None] = time.sleep
    most: int = CHANGES_PER_INVOCATION

    def run(self) -> Answer:
        """What was made, what failed, what is left. Raises ``Refused``, ``HandledBefore`` and errors of the table."""
        while True:
            state = wait_for_lock(self.repository, self.asking, self.deadline, self.sleep)
            if event := self.asking.handled_in(state):
                raise HandledBefore(event)
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
            return Answer.applied(plan)
        stored = self.repository.put_provisioner_state(after, expected_serial=before.serial)
        return Answer.applied(evolve(plan, serial=stored.serial))

    def _carry_out(self, plan: Plan, found: Found) -> Answer:
        locked = self.repository.put_provisioner_state(self._intending(found), expected_serial=plan.serial)
        principal = self.asking.audited_as()
        outcome = write_changes(self.repository, plan.changes, self.deadline, principal=principal, most=self.most)
        final = self._final(locked, found.managed, outcome)
        try:
            serial = self.repository.put_provisioner_state(final, expected_serial=locked.serial).serial
        except StaleStateError as error:
            message = f"somebody else has taken the lock meanwhile, apply again: {error}"
            outcome.failures.append(Failure("lock_lost", message))
            serial = error.serial
        made = evolve(plan, changes=tuple(outcome.made), serial=serial)
        return Answer.applied(made, errors=outcome.failures, remaining=len(outcome.left))

    def _intending(self, found: Found) -> ProvisionerState:
        """Old and new together, and the lock: in one write, whose serial is the one that was planned against."""
        return with_sets(
            found.state,
            managed=found.managed,
            intended=self._new(found.managed),
            lock=new_lock(self.asking, self.deadline),
            owner=found.state.owner or self.asking.owner,
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
            last_applied=iso_time(self.deadline.now_ms()),
            applied_hash=self.manifest.canonical_hash() if complete else state.applied_hash,
            handled=self.asking.handled_with(state, ok=complete),
        )

    def _new(self, managed: ManagedSet) -> list[Address]:
        return [address for address in self.manifest.managed_set() if address not in managed]


def apply_manifest(repository: SyncRepository, manifest: LimitsManifest) -> dict[str, object]:
    """Bring the manifest's namespace, in the table of ``repository``, to what the manifest declares.

    The namespace is registered where it is missing. The answer is that of the Lambda, as plain values; raises
    `ZAELimiterError` where the table cannot be read.
    """
    if repository.name != manifest.namespace:
        repository = repository.namespace(manifest.namespace)
    deadline = Deadline.of(None, repository.scope.now)
    try:
        return Applying(repository, manifest, Asking(), deadline).run().to_dict()
    except Refused as refused:
        return refused.answer().to_dict()
