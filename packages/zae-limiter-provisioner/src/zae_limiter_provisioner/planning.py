"""What is asked without changing anything: plan, diff, export, state.

Lives here: reading, comparing, answering. Never: a write. A plan takes a namespace that is not there as empty.
"""

from datetime import UTC, datetime

from zae_limiter import ProvisionerState, SyncRepository
from zae_limiter_manifest import (
    CLI,
    Answer,
    LimitsManifest,
    LockReport,
    OwnerError,
    Plan,
    StateReport,
    compute_diff,
    taken_from,
)

from .finding import Found
from .places import set_in
from .refusals import Refused


def make_plan(manifest: LimitsManifest, found: Found, *, owner: str = CLI, take_over: bool = False) -> Plan:
    """What would change. Raises ``Refused`` where the namespace is another owner's."""
    try:
        loser = taken_from(found.state.owner, owner, take_over=take_over)
    except OwnerError as error:
        raise Refused("not_owner", str(error)) from error
    return compute_diff(manifest, found.live, managed=found.managed, serial=found.state.serial, taken_from=loser)


def answer_plan(repository: SyncRepository | None, manifest: LimitsManifest, *, take_over: bool) -> Answer:
    """The plan of a manifest, for the command line."""
    return Answer.planned(make_plan(manifest, _found(repository, manifest), take_over=take_over))


def answer_diff(repository: SyncRepository | None, manifest: LimitsManifest) -> Answer:
    """How live and declared differ, whoever owns the namespace; what is there besides is counted."""
    declared = manifest.managed_set()
    found = Found.everywhere(repository, declared) if repository else Found.nothing()
    return Answer.planned(compute_diff(manifest, found.live, managed=found.managed, serial=found.state.serial))


def answer_export(repository: SyncRepository) -> Answer:
    """All live limits, as a manifest."""
    found = Found.everywhere(repository)
    manifest = LimitsManifest.of(repository.name, {address: item.decl for address, item in found.live.items()})
    plan = _header(repository.name, found.state, manifest_hash=manifest.canonical_hash())
    return Answer("planned", plan, manifest=manifest)


def answer_state(repository: SyncRepository) -> Answer:
    """What is managed, whose it is, who applies just now."""
    state = repository.get_provisioner_state()
    return Answer("planned", _header(repository.name, state, manifest_hash=state.applied_hash), state=_report(state))


def iso_time(at_ms: int) -> str:
    """An instant in UTC, as people read it."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _found(repository: SyncRepository | None, manifest: LimitsManifest) -> Found:
    return Found.at(repository, manifest.managed_set()) if repository else Found.nothing()


def _header(namespace: str, state: ProvisionerState, *, manifest_hash: str | None) -> Plan:
    managed = len(set_in(state, "managed"))
    return Plan(namespace, serial=state.serial, manifest_hash=manifest_hash, managed=managed)


def _report(state: ProvisionerState) -> StateReport:
    lock = state.lock
    return StateReport(
        set_in(state, "managed"),
        state.serial,
        owner=state.owner,
        last_applied=state.last_applied,
        applied_hash=state.applied_hash,
        lock=None if lock is None else LockReport(lock.lock_id, lock.owner, iso_time(lock.expires_at_ms)),
    )
