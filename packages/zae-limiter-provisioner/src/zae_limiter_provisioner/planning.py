"""The actions that write nothing: plan, diff, export, state. A plan treats a missing namespace as empty."""

from collections.abc import Collection
from datetime import UTC, datetime

from attrs import evolve

from zae_limiter import SyncRepository
from zae_limiter.maintenance import ProvisionerState, SyncMaintenance, peek_state, run
from zae_limiter_manifest import (
    CLI,
    Answer,
    ApplyUnderWay,
    Decl,
    LimitsManifest,
    LockReport,
    OwnerError,
    Plan,
    ProgressReport,
    RecordDecl,
    ShareError,
    StateReport,
    compute_diff,
    settled_share,
    taken_from,
)

from .conversion import address_set
from .live_state import LiveState
from .refusals import Refused
from .tier_reach import with_reach
from .tree_guard import refuse_broken_tree


def make_plan(
    manifest: LimitsManifest,
    live: LiveState,
    repository: SyncRepository | None,
    *,
    owner: str = CLI,
    take_over: bool = False,
    targets: tuple[str, ...] = (),
    share: str | None = None,
) -> Plan:
    """Return the changes that an apply would make. Raises ``Refused`` if another owner has the namespace, if they would
    break the tree of entities, or if a limit is too small for its share.
    """
    try:
        previous_owner = taken_from(live.state.owner, owner, take_over=take_over)
    except OwnerError as error:
        raise Refused("not_owner", str(error)) from error
    plan = evolve(_diff(manifest, live, share), taken_from=previous_owner).narrowed(targets)
    refuse_broken_tree(plan, live.items, repository)
    return with_reach(plan, repository)


def _diff(manifest: LimitsManifest, live: LiveState, share: str | None) -> Plan:
    """Return the difference to the region's share of a manifest: ``share``, ``None`` for that of the last apply."""
    try:
        return compute_diff(
            manifest,
            live.items,
            managed=live.managed,
            serial=live.state.serial,
            overrides=live.overrides,
            share=share_after(share, live.state),
            share_before=live.state.share,
        )
    except ShareError as error:
        raise Refused("indivisible", str(error)) from error


def share_after(asked: str | None, state: ProvisionerState) -> str | None:
    """Return the share that holds after an apply, ``None`` for the whole. Who asks for none changes none: an apply in a
    region that has 60 % never makes it 100 % by the way. Raises ``Refused`` if the recorded one is none.
    """
    try:
        return settled_share(asked, state.share)
    except ValueError as error:
        raise Refused("unreadable_state", f"the recorded share of this region: {error}; apply with a share") from error


def answer_plan(
    repository: SyncRepository | None,
    manifest: LimitsManifest,
    *,
    take_over: bool,
    targets: tuple[str, ...] = (),
    share: str | None = None,
) -> Answer:
    """Return the plan of a manifest, for the command line, with the overrides in force at any address, and another
    apply that is under way.
    """
    declared = manifest.managed_set()
    live = LiveState.with_all_overrides(SyncMaintenance(repository), declared) if repository else LiveState.empty()
    plan = make_plan(manifest, live, repository, take_over=take_over, targets=targets, share=share)
    return Answer.planned(evolve(plan, under_way=_under_way(live.state, repository)))


def answer_diff(repository: SyncRepository | None, manifest: LimitsManifest, *, share: str | None = None) -> Answer:
    """Return the difference between live and declared limits, whatever owns the namespace; unmanaged items are
    counted.
    """
    declared = manifest.managed_set()
    live = LiveState.everywhere(SyncMaintenance(repository), declared) if repository else LiveState.empty()
    plan = _diff(manifest, live, share)
    return Answer.planned(evolve(plan, under_way=_under_way(live.state, repository)))


def _under_way(state: ProvisionerState, repository: SyncRepository | None) -> ApplyUnderWay | None:
    """Return the apply that held the lock when the state was read; ``None`` if none did, or no longer."""
    lock, progress = state.lock, state.progress
    if lock is None or repository is None or lock.expires_at_ms <= repository.namespace_state.now():
        return None
    began_at = None if progress is None else iso_time(progress.began_at_ms)
    return ApplyUnderWay(lock.owner, iso_time(lock.expires_at_ms), began_at)


def answer_export(repository: SyncRepository) -> Answer:
    """Return all live limits and entities, as a manifest. Beside it, in the plan, are the overrides in force."""
    live = LiveState.everywhere(SyncMaintenance(repository))
    tiers = {at.tier for at in live.items}
    declared = {at: _without_lost_tier(item.decl, tiers) for at, item in live.items.items()}
    manifest = LimitsManifest.of(repository.name, declared)
    plan = _header(repository.name, live.state, manifest_hash=manifest.canonical_hash())
    return Answer("planned", evolve(plan, overrides=tuple(live.overrides)), manifest=manifest)


def _without_lost_tier(decl: Decl, tiers: Collection[str | None]) -> Decl:
    """Return the declaration, without a tier that has no limits: no manifest may name it."""
    return evolve(decl, tier=None) if isinstance(decl, RecordDecl) and decl.tier not in tiers else decl


def answer_state(repository: SyncRepository, state: ProvisionerState | None = None) -> Answer:
    """Return the managed items, their owner, and the apply under way; without ``state``, read that."""
    state = state or SyncMaintenance(repository).get_provisioner_state()
    return Answer("planned", _header(repository.name, state, manifest_hash=state.applied_hash), state=_report(state))


def answer_watch(repository: SyncRepository) -> Answer:
    """Return the apply under way, its lock and its progress, without what is managed if that is much."""
    return answer_state(repository, run(repository, peek_state(repository.namespace_state)))


def iso_time(at_ms: int) -> str:
    """Return an instant (epoch milliseconds) as ISO 8601 text in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def answer_header(repository: SyncRepository) -> Plan:
    """Return the plan of an answer that plans nothing: the serial and the hash of the last apply."""
    state = SyncMaintenance(repository).get_provisioner_state()
    return _header(repository.name, state, manifest_hash=state.applied_hash)


def _header(namespace: str, state: ProvisionerState, *, manifest_hash: str | None) -> Plan:
    managed = len(address_set(state, "managed"))
    share = state.share
    return Plan(
        namespace, serial=state.serial, manifest_hash=manifest_hash, managed=managed, share=share, share_before=share
    )


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
        share=state.share,
    )
