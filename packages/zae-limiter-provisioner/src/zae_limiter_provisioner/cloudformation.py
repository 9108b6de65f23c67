"""What is done about an event of CloudFormation.

Lives here: Create, Update, Delete. Never: the form of an event and a reply (stack_events), the sending (replying).
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from zae_limiter import SyncRepository, ZAELimiterError
from zae_limiter_manifest import Answer, LimitsManifest, ManifestError, StackProperties

from .applying import Applying, HandledBefore
from .asking import Asking
from .deadline import Deadline
from .refusals import Refused
from .replying import Line
from .stack_events import Reply, StackEvent
from .table import Table, table_of_environment

logger = logging.getLogger(__name__)

NO_TIME: Final = "the Lambda's time was not enough"
GOES_ON: Final = "what was done is kept, and the same update again goes on from there"


def is_stack_event(event: object) -> bool:
    """Whether CloudFormation sent it."""
    return isinstance(event, Mapping) and "RequestType" in event and "ResponseURL" in event


def on_stack_event(event: Mapping[str, Any], context: object) -> dict[str, Any]:
    """The reply that was sent to the event's ResponseURL; raises only where none could be sent."""
    asked = StackEvent.of(event)
    line = Line(str(event["ResponseURL"]), Deadline.of(context), lambda: _late(asked).body(asked))
    reply = _guarded(asked, lambda: handle(table_of_environment(), asked, context))
    logger.info("an event", extra={"fields": {"event": asked.event_id, "ok": reply.ok, "reason": reply.reason}})
    line.send(reply.body(asked))
    return {"status": "SUCCESS" if reply.ok else "FAILED", "reason": reply.reason}


def _guarded(event: StackEvent, work: Callable[[], Reply]) -> Reply:
    """The reply that the work makes, or one that says why it made none."""
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
    """The reply to an event that was carried out. Raises ``Refused``, ``ManifestError`` and errors of the table."""
    deadline = Deadline.of(context, table.now_ms)
    match event.request_type:
        case "Create" | "Update":
            return _apply(table, event, deadline)
        case "Delete":
            return _delete(table, event, deadline)
    raise Refused("bad_request", f"there is no RequestType {event.request_type!r}")


def _apply(table: Table, event: StackEvent, deadline: Deadline) -> Reply:
    properties = StackProperties.from_dict(event.properties)
    manifest = properties.manifest
    asking = _asking(event, deadline, take_over=properties.take_over)
    if not event.moves_to(manifest.namespace):
        return _run(event, Applying(table.register(manifest.namespace), manifest, asking, deadline))
    half = deadline.halfway()
    moved = _guarded(event, lambda: _run(event, Applying(table.register(manifest.namespace), manifest, asking, half)))
    return moved if moved.ok else _taken_back(table, event, moved, deadline)


def _taken_back(table: Table, event: StackEvent, failed: Reply, deadline: Deadline) -> Reply:
    """CloudFormation keeps the old physical id then, and never asks to delete what came to the new namespace."""
    namespace = str(event.namespace_named)
    emptied = _guarded(event, lambda: _empty_again(table, event, namespace, deadline))
    told = "" if emptied.ok else f"{namespace} is not emptied again: {emptied.reason}"
    return _failed(event, "; ".join(filter(None, (told, failed.reason))))


def _empty_again(table: Table, event: StackEvent, namespace: str, deadline: Deadline) -> Reply:
    repository = _find_owned(table, event, namespace)
    if repository is None:
        return _done(event, f"nothing in {namespace} is managed by this resource")
    if repository.get_provisioner_state().applied_hash:
        # A rollback to it: what stood there before this update is in use.
        raise Refused("applied_before", "this resource had it before the update, and goes on having it")
    asking = replace(_asking(event, deadline), event_id=None)
    return _run(event, Applying(repository, LimitsManifest(namespace), asking, deadline))


def _delete(table: Table, event: StackEvent, deadline: Deadline) -> Reply:
    """All that is managed goes, unless it is managed by another owner, or by nobody."""
    namespace = event.namespace_to_empty
    repository = _find_owned(table, event, namespace) if namespace else None
    if namespace is None or repository is None:
        return _done(event, f"nothing in {namespace} is managed by this resource")
    try:
        return _run(event, Applying(repository, LimitsManifest(namespace), _asking(event, deadline), deadline))
    except Refused as refused:
        if refused.code == "not_owner":  # somebody has taken it over this moment
            return _done(event, str(refused))
        raise


def _find_owned(table: Table, event: StackEvent, namespace: str) -> SyncRepository | None:
    """The namespace, where it is there and this resource manages it."""
    try:
        repository = table.find(namespace)
    except Refused:  # it was deleted, with all that is in it
        return None
    return repository if repository and repository.get_provisioner_state().owner == event.owner else None


def _run(event: StackEvent, applying: Applying) -> Reply:
    try:
        return _reply_to(event, applying.run())
    except HandledBefore as before:
        return _again(event, applying.manifest, before)


def _asking(event: StackEvent, deadline: Deadline, *, take_over: bool = False) -> Asking:
    return Asking(
        owner=event.owner,
        take_over=take_over,
        principal=event.owner[-100:],
        lock_timeout=round(deadline.seconds_left),
        event_id=event.event_id,
    )


def _reply_to(event: StackEvent, answer: Answer) -> Reply:
    plan = answer.plan
    if answer.remaining or answer.errors or plan is None:
        kept = bool(answer.remaining) and not (plan and event.moves_to(plan.namespace))
        return _failed(event, "; ".join([*_reasons(answer), *([GOES_ON] if kept else [])]))
    counts = {"Created": plan.created, "Updated": plan.updated, "Deleted": plan.deleted}
    data = _data(plan.namespace, counts, serial=plan.serial, manifest_hash=plan.manifest_hash)
    return Reply(True, event.physical_id_of(plan.namespace), data=data)


def _reasons(answer: Answer) -> list[str]:
    """What is left and why, and some of what failed. The table or the time: nothing else stops an apply of a stack."""
    stopped = "" if any(each.code == "table_failed" for each in answer.errors) else f": {NO_TIME}"
    left = [f"{answer.remaining} changes are left{stopped}"] if answer.remaining else []
    failed = [f"{each.address or 'all'}: {each.message}" for each in answer.errors[:5]]
    more = [f"{len(answer.errors)} failed in all"] if len(answer.errors) > len(failed) else []
    return [*left, *more, *failed]


def _data(namespace: str, counts: Mapping[str, int], *, serial: int, manifest_hash: str | None) -> dict[str, Any]:
    """What `Fn::GetAtt` gives."""
    return {"Namespace": namespace, **counts, "Serial": serial, "ManifestHash": manifest_hash}


def _again(event: StackEvent, manifest: LimitsManifest, before: HandledBefore) -> Reply:
    """What was replied the first time, which may have got lost; how much was changed then is not known any more."""
    if not before.event.ok:
        return _failed(event, "this event has come before, and failed")
    counts = {"Created": 0, "Updated": 0, "Deleted": 0}
    data = _data(manifest.namespace, counts, serial=before.serial, manifest_hash=manifest.canonical_hash())
    reason = "this event has come before, and was carried out"
    return Reply(True, event.physical_id_of(manifest.namespace), reason, data)


def _late(event: StackEvent) -> Reply:
    moves = event.namespace_named and event.moves_to(event.namespace_named)
    return _failed(
        event, f"{NO_TIME}; {event.namespace_named} may have some of it" if moves else f"{NO_TIME}; {GOES_ON}"
    )


def _done(event: StackEvent, reason: str) -> Reply:
    return Reply(True, event.physical_id or event.physical_id_of("none"), reason)


def _failed(event: StackEvent, reason: str) -> Reply:
    """The physical id stays; one that is being created gets the one that it would have had."""
    return Reply(False, event.physical_id or event.physical_id_of(event.namespace_named or "none"), reason)
