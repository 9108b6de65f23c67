"""Handle CloudFormation events: Create, Update, Delete.

``stack_events`` has the form of events and replies, ``reply_channel`` sends a reply.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from zae_limiter import SyncRepository, ZAELimiterError
from zae_limiter.maintenance import SyncMaintenance
from zae_limiter_manifest import Answer, LimitsManifest, ManifestError, Plan, StackProperties
from zae_limiter_manifest.problems import shortened
from zae_limiter_manifest.render.words import counted, mode_changes, share_line

from .apply import AlreadyHandled, ApplyRun
from .apply_options import ApplyOptions
from .bounds import Beyond, check_bounds
from .deadline import Deadline
from .delegated import alias_in, check_namespaces
from .live_state import LiveState
from .planning import make_plan
from .refusals import Refused
from .reply_channel import ReplyChannel
from .response_url import check_response_url
from .stack_events import Reply, StackEvent
from .table import Table, table_of_environment
from .warned import LISTED, LOGGED, first, warnings_of

logger = logging.getLogger(__name__)

NO_TIME: Final = "the Lambda ran out of time"
LISTED_MODES: Final = 10
LONGEST_FAILURE: Final = 150  # of each listed one, so that what changed nevertheless has room in the reason
LONGEST_WARNING: Final = 200
GOES_ON: Final = "the changes made so far are kept; repeat the same update to go on from there"


def is_stack_event(event: object) -> bool:
    """Return whether CloudFormation sent the event."""
    return isinstance(event, Mapping) and "RequestType" in event


def on_stack_event(event: Mapping[str, Any], context: object) -> dict[str, Any]:
    """Handle an event and send the reply to its ResponseURL. Raises only if no reply could be sent.

    An event whose ResponseURL is not CloudFormation's is refused: nothing is done, and nothing is sent.
    """
    try:
        url = check_response_url(event.get("ResponseURL"))
    except Refused as refused:
        logger.error("an event was refused: %s", refused)
        return {"status": "FAILED", "reason": str(refused)}
    stack_event = StackEvent.of(event)
    late = partial(_out_of_time_body, stack_event)
    channel = ReplyChannel(url, Deadline.of(context), late)
    reply = _guarded(stack_event, lambda: handle(table_of_environment(), stack_event, context))
    logger.info("an event", extra={"fields": {"event": stack_event.event_id, "ok": reply.ok, "reason": reply.reason}})
    channel.send(reply.body(stack_event))
    return {"status": "SUCCESS" if reply.ok else "FAILED", "reason": reply.reason}


def _guarded(event: StackEvent, work: Callable[[], Reply]) -> Reply:
    """Return the reply that ``work`` makes, or a failure reply with the reason why it made none."""
    try:
        return work()
    except ManifestError as error:
        return _failed(event, "; ".join(f"{each.path}: {each.message}" for each in error.problems))
    except (Refused, ZAELimiterError) as error:
        return _failed(event, str(error))
    except Exception as error:
        logger.exception("the event failed")
        return _failed(event, f"{type(error).__name__}: {error}; see the Lambda's log")


def handle(table: Table, event: StackEvent, context: object = None) -> Reply:
    """Carry out an event. Raises ``Refused``, ``ManifestError`` and errors of the table."""
    if problem := event.problem:
        raise Refused("bad_request", problem)
    if event.request_type == "Delete":
        return _delete(table, event, context)
    check_namespaces(context, event.namespace_named, event.namespace_to_empty)
    return _apply(table, event, Deadline.of(context, table.now_ms), alias_in(context))


def _apply(table: Table, event: StackEvent, deadline: Deadline, alias: str | None) -> Reply:
    properties = StackProperties.from_dict(event.properties)
    manifest = properties.manifest
    options = _apply_options(event, deadline, take_over=properties.take_over)
    options = replace(options, alias=alias, share=properties.share)
    try:
        check_bounds(table, manifest, alias)
    except Beyond:  # the bounds may be newer than the limits to which an update is rolled back
        unchanged = _unchanged(table, manifest, options)
        if unchanged is None:
            raise
        options = replace(options, expected_plan=unchanged)
    reply = _with_ignored(_apply_manifest(table, event, manifest, options, deadline), properties.ignored)
    return _with_warnings(reply, warnings_of(manifest)) if reply.ok else reply


def _unchanged(table: Table, manifest: LimitsManifest, options: ApplyOptions) -> str | None:
    """Return the hash of the plan of what is applied already; ``None`` if the manifest would change anything."""
    repository = table.find(manifest.namespace)
    if repository is None:
        return None
    live = LiveState.at(SyncMaintenance(repository), manifest.managed_set())
    plan = make_plan(manifest, live, repository, owner=options.owner, take_over=options.take_over, share=options.share)
    return None if plan.changes else plan.changes_hash()


def _apply_manifest(
    table: Table, event: StackEvent, manifest: LimitsManifest, options: ApplyOptions, deadline: Deadline
) -> Reply:
    if not event.moves_to(manifest.namespace):
        return _run(event, ApplyRun(table.register(manifest.namespace), manifest, options, deadline))
    half = deadline.halfway()
    moved = _guarded(event, lambda: _run(event, ApplyRun(table.register(manifest.namespace), manifest, options, half)))
    return moved if moved.ok else _undo_move(table, event, moved, deadline)


def _with_ignored(reply: Reply, ignored: Sequence[str]) -> Reply:
    """Return the reply, which says what was ignored."""
    if not ignored:
        return reply
    note = f"ignored, remove from the template: {', '.join(ignored)}"
    return replace(reply, reason="; ".join(filter(None, (reply.reason, note))))


def _with_warnings(reply: Reply, warnings: Sequence[str]) -> Reply:
    """Return the reply with the first warnings in its reason; the log gets more of them."""
    for each in first(warnings, LOGGED):
        logger.warning("the limits were applied, with a warning: %s", each)
    told = "; ".join(shortened(each, LONGEST_WARNING) for each in first(warnings, LISTED))
    return replace(reply, reason="; ".join(filter(None, (reply.reason, told and f"warning: {told}"))))


def _undo_move(table: Table, event: StackEvent, failed: Reply, deadline: Deadline) -> Reply:
    """Empty the new namespace after a failed move.

    CloudFormation keeps the old physical id then, and never asks to delete items of the new namespace.
    """
    namespace = str(event.namespace_named)
    emptied = _guarded(event, lambda: _empty_repeated(table, event, namespace, deadline))
    problem = "" if emptied.ok else f"{namespace} could not be emptied again: {emptied.reason}"
    return _failed(event, "; ".join(filter(None, (problem, failed.reason))))


def _empty_repeated(table: Table, event: StackEvent, namespace: str, deadline: Deadline) -> Reply:
    repository = _find_owned(table, event, namespace)
    if repository is None:
        return _done(event, f"this resource manages nothing in {namespace}")
    if SyncMaintenance(repository).get_provisioner_state().applied_hash:
        # A rollback to this namespace: its limits from before the update are in use.
        raise Refused("applied_before", "this resource managed it before the update, and keeps it")
    options = replace(_apply_options(event, deadline), event_id=None)
    return _run(event, ApplyRun(repository, LimitsManifest(namespace), options, deadline))


def _delete(table: Table, event: StackEvent, context: object) -> Reply:
    """Delete all items that this resource manages; items of another owner, or of none, stay."""
    namespace, deadline, alias = event.namespace_to_empty, Deadline.of(context, table.now_ms), alias_in(context)
    try:
        check_namespaces(context, namespace)
    except Refused as refused:  # a Create that was refused for this reason is rolled back
        return _done(event, f"this resource manages nothing there: {refused}")
    repository = _find_owned(table, event, namespace) if namespace else None
    if namespace is None or repository is None:
        return _done(event, f"this resource manages nothing in {namespace or 'the namespace of this event'}")
    options = replace(_apply_options(event, deadline), alias=alias)
    try:
        return _run(event, ApplyRun(repository, LimitsManifest(namespace), options, deadline))
    except Refused as refused:
        if refused.code == "not_owner":  # somebody has just taken it over
            return _done(event, str(refused))
        raise


def _find_owned(table: Table, event: StackEvent, namespace: str) -> SyncRepository | None:
    """Return the namespace, if it exists and this resource manages it.

    A resource whose last event was an Update has given CloudFormation its physical id: an event that brings an invented
    one is not CloudFormation's.
    """
    try:
        repository = table.find(namespace)
    except Refused:  # the namespace was deleted, with everything in it
        return None
    if repository is None:
        return None
    state = SyncMaintenance(repository).get_provisioner_state()
    has_told_id = bool(state.handled) and state.handled[-1].event_id.startswith("Update ")
    is_owner = state.owner == event.owner and (event.has_own_id or not has_told_id)
    return repository if is_owner else None


def _run(event: StackEvent, apply_run: ApplyRun) -> Reply:
    try:
        return _reply_to(event, apply_run.run())
    except AlreadyHandled as before:
        return _repeated(event, apply_run.manifest, before)


def _apply_options(event: StackEvent, deadline: Deadline, *, take_over: bool = False) -> ApplyOptions:
    return ApplyOptions(
        owner=event.owner,
        take_over=take_over,
        principal=event.owner[-100:],
        lock_timeout=round(deadline.seconds_left),
        event_id=event.event_id,
    )


def _reply_to(event: StackEvent, answer: Answer) -> Reply:
    plan = answer.plan
    if answer.remaining or answer.errors or plan is None:
        kept = None if plan is None or event.moves_to(plan.namespace) else plan
        return _failed(event, "; ".join([*_reasons(answer), *_kept_changes(kept, answer)]))
    counts = {"Created": plan.created, "Updated": plan.updated, "Deleted": plan.deleted}
    data = _data(plan.namespace, counts, serial=plan.serial, manifest_hash=plan.manifest_hash)
    reason = "; ".join(filter(None, (_modes(plan), share_line(plan))))
    return Reply(True, event.physical_id_of(plan.namespace), reason, data)


def _kept_changes(plan: Plan | None, answer: Answer) -> list[str]:
    """Return what a failed event leaves changed; ``plan`` has the changes made, ``None`` if they are undone."""
    if plan is None:
        return []
    modes = _modes(plan)
    return [*([f"changed nevertheless: {modes}"] if modes else []), *([GOES_ON] if answer.remaining else [])]


def _modes(plan: Plan) -> str:
    """Return the limits that refuse from now on, or no longer: the first few, and how many more there are."""
    found = mode_changes(plan)
    more = [f"{len(found) - LISTED_MODES} more"] if len(found) > LISTED_MODES else []
    return "; ".join([*found[:LISTED_MODES], *more])


def _reasons(answer: Answer) -> list[str]:
    """Return the number of changes left with the reason, and the first failures; only the table or the time stops an
    apply.
    """
    stopped = "" if any(each.code == "table_failed" for each in answer.errors) else f": {NO_TIME}"
    left = [f"{counted(answer.remaining, 'change')} left{stopped}"] if answer.remaining else []
    failed = [f"{each.address or 'all'}: {shortened(each.message, LONGEST_FAILURE)}" for each in answer.errors[:5]]
    more = [f"{len(answer.errors)} failed in all"] if len(answer.errors) > len(failed) else []
    return [*left, *more, *failed]


def _data(namespace: str, counts: Mapping[str, int], *, serial: int, manifest_hash: str | None) -> dict[str, Any]:
    """Return the attributes for `Fn::GetAtt`."""
    return {"Namespace": namespace, **counts, "Serial": serial, "ManifestHash": manifest_hash}


def _repeated(event: StackEvent, manifest: LimitsManifest, before: AlreadyHandled) -> Reply:
    """Repeat the reply to a handled event, because the first one may be lost; the counts are not known any more."""
    if not before.event.ok:
        return _failed(event, "this event was handled before, and failed")
    counts = {"Created": 0, "Updated": 0, "Deleted": 0}
    data = _data(manifest.namespace, counts, serial=before.serial, manifest_hash=manifest.canonical_hash())
    reason = "this event was handled before, and was carried out"
    return Reply(True, event.physical_id_of(manifest.namespace), reason, data)


def _out_of_time_body(event: StackEvent) -> bytes:
    moves = event.namespace_named and event.moves_to(event.namespace_named)
    rest = f"{event.namespace_named} may contain some of the changes" if moves else GOES_ON
    return _failed(event, f"{NO_TIME}; {rest}").body(event)


def _done(event: StackEvent, reason: str) -> Reply:
    return Reply(True, event.physical_id or event.physical_id_of("none"), reason)


def _failed(event: StackEvent, reason: str) -> Reply:
    """Return a failure reply. The physical id stays; a resource under creation gets the id that it would have had."""
    return Reply(False, event.physical_id or event.physical_id_of(event.namespace_named or "none"), reason)
