"""Write an audit event along with a change, and read the events of a subject, or of a whole namespace, newest first.

GSI4 has those of a namespace by time, so a page reads the rows of its own events and no others; their items are read by
key. A filter by principal or kind reads on until it has found enough, or has come to the instant.

Events that were written before GSI4 had the time are there by subject, until they expire. They cannot be read by time:
each page reads all their rows, some fifty for a read unit, and memory holds the newest ``MOST_ROWS`` of them. Where
there are none, that is one query that finds nothing.
"""

import heapq
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from ...exceptions import ValidationError
from ...operations.values import UNCONDITIONAL, Conditions, Item, Key, Page, Put, Query
from ...runtime.dataclass import replace
from ...runtime.named_tuple import NamedTuple
from ...schema import keys
from ...schema.attributes import GSI4PK, GSI4SK, PK, SK
from ...schema.audit import audit_item, check_subject, read_listed_event
from ...values.audit import AUDIT_KINDS, AuditAction, AuditEvent, AuditKind, AuditPage, Cause, iso_instant, kind_of
from ...values.naming import check_principal
from ..index_rows import IndexRows, report
from ..process.namespace_state import NamespaceState
from ..retry import KEYS_PER_READ, key_of, parts, read_all, with_retries
from ..steps import Flow
from ..validation import validate_page

Plain = Mapping[str, Any]
MOST_ROWS: Final = 10_000


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
    when = Conditions(absent=(PK,)) if cause.once else UNCONDITIONAL
    return Put(audit_item(namespace_state.namespace_id, record, expires_at=cause.expires_at), when)


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


class Asked(NamedTuple):
    """Which events are wanted: from this instant on (ISO time), of this principal, of this kind."""

    since: str
    principal: str | None
    kind: AuditKind | None

    @property
    def filters(self) -> bool:
        """Whether not all events are wanted."""
        return self.principal is not None or self.kind is not None

    def matches(self, event: AuditEvent) -> bool:
        """Return whether an event is of the principal and of the kind."""
        return self.principal in (None, event.principal) and self.kind in (None, kind_of(event.action))


class _Row(NamedTuple):
    event_id: str
    key: Key


def validate_asked(since: datetime, principal: str | None, kind: str | None) -> Asked:
    """Return the checked request. Raises ``ValidationError``."""
    if not isinstance(since, datetime) or since.utcoffset() is None:
        problem = "must be a datetime with a time zone, like datetime.now(UTC) - timedelta(hours=1)"
        raise ValidationError("since", since, problem)
    if principal is not None:
        check_principal("principal", principal)
    known = next((each for each in AUDIT_KINDS if each == kind), None)
    if kind is not None and known is None:
        raise ValidationError("kind", kind, f"must be one of: {', '.join(AUDIT_KINDS)}")
    return Asked(iso_instant(int(since.astimezone(UTC).timestamp() * 1000)), principal, known)


def get_namespace_events(
    namespace_state: NamespaceState, asked: Asked, *, limit: int, start: str | None
) -> Flow[AuditPage]:
    """Return up to ``limit`` events of all subjects before the event ``start``, newest first. Raises
    ``ValidationError``.
    """
    validate_page(limit, start)
    ns = namespace_state.namespace_id
    rows, events = IndexRows(ns), list[AuditEvent]()
    rest, since, cut_at = yield from _rows_by_subject(rows, asked.since, start)
    by_time = partial(_row, lambda event_id, _: keys.gsi4_sk_audit(event_id))
    behind: dict[str, str] | None = None
    if start is not None:  # that event itself may be among the rows: any subject will do
        any_key = {PK: keys.pk_audit(ns, keys.audit_system()), SK: keys.sk_audit(start)}
        behind = {**any_key, GSI4PK: keys.gsi4_pk(ns), GSI4SK: keys.gsi4_sk_audit(start)}
    newest = Query(keys.gsi4_pk(ns), "GSI4", begins_with=keys.INDEX_AUDIT_PREFIX, descending=True, start=behind)
    query: Query | None = newest
    while query is not None and len(events) <= limit:
        number = KEYS_PER_READ if asked.filters else limit + 1 - len(events)
        page: Page = yield from with_retries(replace(query, limit=number))
        part = [row for row in rows.read(page.items, by_time) if start is None or row.event_id < start]
        late = [row for row in part if row.event_id >= since]
        query = None if page.next is None or len(late) < len(part) else replace(query, start=page.next)
        now = [row for row in rest if query is None or (late and row > late[-1])]
        rest = rest[len(now) :]
        for keys_of_a_read in parts(sorted([*late, *now], reverse=True), KEYS_PER_READ):
            if len(events) > limit:
                break
            found = yield from read_all([row.key for row in keys_of_a_read])
            present = [found[row.key] for row in keys_of_a_read if row.key in found]
            events += filter(asked.matches, rows.read(present, read_listed_event))
    yield from report(rows)
    if len(events) > limit:
        return AuditPage(tuple(events[:limit]), events[limit - 1].event_id)
    return AuditPage(tuple(events), cut_at)


def _rows_by_subject(rows: IndexRows, since: str, start: str | None) -> Flow[tuple[list[_Row], str, str | None]]:
    """Return the rows that GSI4 has by subject, of events from an instant on and before the event ``start``, newest
    first; where a page ends by them, and what begins the one behind it, where rows are left out.
    """
    ns = rows.namespace_id
    query: Query | None = Query(keys.gsi4_pk(ns), "GSI4", begins_with=keys.pk_audit_of_namespace(ns))
    late, is_cut = list[_Row](), False
    while query is not None:
        page: Page = yield from with_retries(query)
        found = rows.read(page.items, partial(_row, lambda _, pk: pk))
        late += [row for row in found if row.event_id >= since and (start is None or row.event_id < start)]
        if len(late) > MOST_ROWS:
            late, is_cut = heapq.nlargest(MOST_ROWS, late), True
        query = None if page.next is None else replace(query, start=page.next)
    late.sort(reverse=True)
    return (late, late[-1].event_id, late[-1].event_id) if is_cut else (late, since, None)


def _row(sort_key: Callable[[str, str], str], item: Item) -> _Row:
    """Return the event of a row with this sort key of its id and its partition. Raises ``ValueError`` for any other
    row.
    """
    key = key_of(item)
    keys.parse_audit_pk(key.pk)
    event_id = key.sk.removeprefix(keys.AUDIT_PREFIX)
    if not key.sk.startswith(keys.AUDIT_PREFIX) or item[GSI4SK] != sort_key(event_id, key.pk):
        raise ValueError("not as an audit event")
    return _Row(event_id, key)
