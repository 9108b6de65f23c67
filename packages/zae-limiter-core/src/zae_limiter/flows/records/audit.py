"""Write an audit event along with a change, and read audit events."""

from collections.abc import Mapping
from typing import Any

from ...operations.values import Page, Put, Query
from ...schema import keys
from ...schema.attributes import PK, SK
from ...schema.audit import audit_item, check_subject, read_listed_event
from ...values.audit import AuditAction, AuditEvent, AuditPage, Cause
from ..index_rows import IndexRows, report
from ..process.namespace_state import NamespaceState
from ..retry import with_retries
from ..steps import Flow
from ..validation import validate_page

Plain = Mapping[str, Any]


def event(
    namespace_state: NamespaceState,
    cause: Cause,
    action: AuditAction,
    entity_id: str,
    *,
    before: Plain | None,
    after: Plain | None,
    resource: str | None = None,
    number: int = 0,
) -> Put:
    """Return the put of a change's audit event, for the transaction of the change, which has the time of this attempt.

    ``number`` distinguishes the changes of one cause.
    """
    cause = cause.again(namespace_state.now())
    record = AuditEvent(
        event_id=cause.event_id(number),
        entity_id=entity_id,
        action=action,
        principal=cause.principal,
        at=cause.at,
        resource=resource,
        before=before,
        after=after,
    )
    return Put(audit_item(namespace_state.namespace_id, record, expires_at=cause.expires_at))


def get_events(namespace_state: NamespaceState, entity_id: str, *, limit: int, start: str | None) -> Flow[AuditPage]:
    """Return up to ``limit`` events of a subject after the event ``start``, newest first. Raises
    ``ValidationError``.
    """
    validate_page(limit, start)
    pk = keys.pk_audit(namespace_state.namespace_id, check_subject("entity_id", entity_id))
    behind: Mapping[str, str] | None = None if start is None else {PK: pk, SK: keys.sk_audit(start)}
    rows, events = IndexRows(namespace_state.namespace_id), list[AuditEvent]()
    while len(events) < limit:
        query = Query(pk, begins_with=keys.AUDIT_PREFIX, limit=limit - len(events), descending=True, start=behind)
        page: Page = yield from with_retries(query)
        events += rows.read(page.items, read_listed_event)
        behind = page.next
        if behind is None:
            break
    yield from report(rows)
    return AuditPage(tuple(events), events[-1].event_id if behind is not None and events else None)
