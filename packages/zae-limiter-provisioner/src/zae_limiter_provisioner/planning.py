"""The actions that write nothing: plan, diff, export, state. A plan treats a missing namespace as empty."""

from datetime import UTC, datetime

from attrs import evolve

from zae_limiter import ProvisionerState, SyncRepository
from zae_limiter.maintenance import peek_state, run
from zae_limiter_manifest import (
    CLI,
    Address,
    Answer,
    LimitsManifest,
    LockReport,
    OwnerError,
    Plan,
    ProgressReport,
    RecordDecl,
    StateReport,
    compute_diff,
    taken_from,
)

from .conversion import address_set
from .live_state import LiveState
from .ordering import refuse_orphans
from .refusals import Refused


def make_plan(manifest: LimitsManifest, live: LiveState, *, owner: str = CLI, take_over: bool = False) -> Plan:
    """Return the changes that an apply would make. Raises ``Refused`` if another owner has the namespace."""
    try:
        previous_owner = taken_from(live.state.owner, owner, take_over=take_over)
    except OwnerError as error:
        raise Refused("not_owner", str(error)) from error
    plan = compute_diff(
        manifest,
        live.items,
        managed=live.managed,
        serial=live.state.serial,
        taken_from=previous_owner,
        overrides=live.overrides,
    )
    refuse_orphans(plan, live.items)
    return plan


def answer_plan(
    repository: SyncRepository | None, manifest: LimitsManifest, *, take_over: bool, targets: tuple[str, ...] = ()
) -> Answer:
    """Return the plan of a manifest, for the command line, with the overrides in force at any address."""
    declared = manifest.managed_set()
    live = LiveState.with_all_overrides(repository, declared) if repository else LiveState.empty()
    return Answer.planned(make_plan(manifest, live, take_over=take_over).narrowed(targets))


def answer_diff(repository: SyncRepository | None, manifest: LimitsManifest) -> Answer:
    """Return the difference between live and declared limits, whoever owns the namespace; unmanaged items are
    counted.
    """
    declared = manifest.managed_set()
    live = LiveState.everywhere(repository, declared) if repository else LiveState.empty()
    plan = compute_diff(manifest, live.items, managed=live.managed, serial=live.state.serial, overrides=live.overrides)
    return Answer.planned(plan)


def answer_export(repository: SyncRepository) -> Answer:
    """Return all live limits, as a manifest. Beside it, in the plan, are the overrides in force, and as unmanaged the
    entities whose place in the tree no manifest can have: several parents, or a parent that has a parent.
    """
    live = LiveState.everywhere(repository)
    records = {at.entity: item.decl.parent for at, item in live.items.items() if isinstance(item.decl, RecordDecl)}
    kept = {entity for entity, parent in records.items() if parent is None or records.get(parent, parent) is None}
    declared = {at: item.decl for at, item in live.items.items() if not at.is_record or at.entity in kept}
    left_out = tuple(Address(None, each) for each in repository.list_entity_ids() if each not in kept)
    manifest = LimitsManifest.of(repository.name, declared)
    plan = _header(repository.name, live.state, manifest_hash=manifest.canonical_hash())
    return Answer("planned", evolve(plan, overrides=tuple(live.overrides), unmanaged=left_out), manifest=manifest)


def answer_state(repository: SyncRepository, state: ProvisionerState | None = None) -> Answer:
    """Return the managed items, their owner, and the apply under way; without ``state``, read that."""
    state = state or repository.get_provisioner_state()
    return Answer("planned", _header(repository.name, state, manifest_hash=state.applied_hash), state=_report(state))


def answer_watch(repository: SyncRepository) -> Answer:
    """Return the apply under way, its lock and its progress, without what is managed if that is much."""
    return answer_state(repository, run(repository, peek_state(repository.namespace_state)))


def iso_time(at_ms: int) -> str:
    """Return an instant (epoch milliseconds) as ISO 8601 text in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def answer_header(repository: SyncRepository) -> Plan:
    """Return the plan of an answer that plans nothing: the serial and the hash of the last apply."""
    state = repository.get_provisioner_state()
    return _header(repository.name, state, manifest_hash=state.applied_hash)


def _header(namespace: str, state: ProvisionerState, *, manifest_hash: str | None) -> Plan:
    managed = len(address_set(state, "managed"))
    return Plan(namespace, serial=state.serial, manifest_hash=manifest_hash, managed=managed)


def _report(state: ProvisionerState) -> StateReport:
    lock, progress = state.lock, state.progress
    return StateReport(
        address_set(state, "managed"),
        state.serial,
        owner=state.owner,
        last_applied=state.last_applied,
        applied_hash=state.applied_hash,
        lock=None if lock is None else LockReport(lock.lock_id, lock.owner, iso_time(lock.expires_at_ms)),
        progress=None
        if progress is None
        else ProgressReport(progress.done, progress.total, (progress.at_ms - progress.began_at_ms) / 1000),
        stop=state.stop,
    )
