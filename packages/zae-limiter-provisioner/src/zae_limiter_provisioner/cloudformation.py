"""What is done about an event of CloudFormation.

Lives here: Create, Update, Delete. Never: the form of an event and a reply (stack_events), the sending (replying).
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

from zae_limiter import ZAELimiterError
from zae_limiter_manifest import Answer, LimitsManifest, ManifestError, StackProperties

from .applying import Applying, HandledBefore
from .asking import Asking
from .deadline import Deadline
from .refusals import Refused
from .replying import Line
from .stack_events import Reply, StackEvent
from .table import Table, table_of_environment

logger = logging.getLogger(__name__)

NO_TIME: Final = "the Lambda's time was not enough; what was done is kept, and the same update again goes on from there"


def is_stack_event(event: object) -> bool:
    """Whether CloudFormation sent it."""
    return isinstance(event, Mapping) and "RequestType" in event and "ResponseURL" in event


def on_stack_event(event: Mapping[str, Any], context: object) -> dict[str, Any]:
    """The reply that was sent to the event's ResponseURL; raises only where none could be sent."""
    asked = StackEvent.of(event)
    line = Line(str(event["ResponseURL"]), Deadline.of(context), lambda: _failed(asked, NO_TIME).body(asked))
    reply = _reply(asked, context)
    logger.info("an event", extra={"fields": {"event": asked.event_id, "ok": reply.ok, "reason": reply.reason}})
    line.send(reply.body(asked))
    return {"status": "SUCCESS" if reply.ok else "FAILED", "reason": reply.reason}


def _reply(event: StackEvent, context: object) -> Reply:
    try:
        return handle(table_of_environment(), event, context)
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
    asking = _asking(event, deadline, take_over=properties.take_over)
    repository = table.register(properties.manifest.namespace)
    try:
        answer = Applying(repository, properties.manifest, asking, deadline).run()
    except HandledBefore as before:
        return _again(event, properties.manifest.namespace, before)
    return _reply_to(event, properties.manifest.namespace, answer)


def _delete(table: Table, event: StackEvent, deadline: Deadline) -> Reply:
    """All that is managed goes, unless it is managed by another owner, or by nobody."""
    namespace = event.namespace_to_empty
    repository = table.find(namespace) if namespace else None
    owner = repository.get_provisioner_state().owner if repository else None
    if namespace is None or repository is None or owner != event.owner:
        return _done(event, f"nothing in {namespace} is managed by this resource")
    asking = _asking(event, deadline)
    try:
        answer = Applying(repository, LimitsManifest(namespace), asking, deadline).run()
    except HandledBefore as before:
        return _again(event, namespace, before)
    except Refused as refused:
        if refused.code == "not_owner":  # somebody has taken it over this moment
            return _done(event, str(refused))
        raise
    return _reply_to(event, namespace, answer)


def _asking(event: StackEvent, deadline: Deadline, *, take_over: bool = False) -> Asking:
    return Asking(
        owner=event.owner,
        take_over=take_over,
        principal=event.owner[-100:],
        lock_timeout=round(deadline.seconds_left),
        event_id=event.event_id,
    )


def _reply_to(event: StackEvent, namespace: str, answer: Answer) -> Reply:
    plan = answer.plan
    if answer.remaining or answer.errors or plan is None:
        left = [f"{answer.remaining} changes are left: {NO_TIME}"] if answer.remaining else []
        failed = [f"{each.address or 'all'}: {each.message}" for each in answer.errors[:5]]
        more = [f"{len(answer.errors)} failed in all"] if len(answer.errors) > len(failed) else []
        return _failed(event, "; ".join([*left, *failed, *more]))
    data = {
        "Namespace": namespace,
        "Created": plan.created,
        "Updated": plan.updated,
        "Deleted": plan.deleted,
        "Serial": plan.serial,
        "ManifestHash": plan.manifest_hash,
    }
    return Reply(True, event.physical_id_of(namespace), data=data)


def _again(event: StackEvent, namespace: str, before: HandledBefore) -> Reply:
    """What was replied the first time; CloudFormation listens to that one alone."""
    if not before.event.ok:
        return _failed(event, "this event has come before, and failed")
    return Reply(True, event.physical_id_of(namespace), "this event has come before, and was carried out")


def _done(event: StackEvent, reason: str) -> Reply:
    return Reply(True, event.physical_id or event.physical_id_of("none"), reason)


def _failed(event: StackEvent, reason: str) -> Reply:
    """The physical id stays; one that is being created gets the one that it would have had."""
    return Reply(False, event.physical_id or event.physical_id_of(event.namespace_named or "none"), reason)
