"""Read the audit events of a whole namespace since an instant.

Events are stored by subject, and no index sorts them by time: GSI4 has their keys by subject. An index by time would be
one hot partition for each namespace, and one more write with each change for ever, for a question that is asked now and
then. But a key has the event's instant. So this reads the keys of all events that the namespace keeps, some fifty for a
read unit, and only those items whose keys are late enough. Memory holds the newest ``MOST_ROWS`` of these keys: a page
ends where they end, however few of their events were asked for.
"""

import heapq
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, NamedTuple

from ...exceptions import ValidationError
from ...operations.values import Item, Key, Page, Query
from ...schema import keys
from ...schema.attributes import GSI4SK
from ...schema.audit import read_audit_event
from ...values.audit import AUDIT_KINDS, AuditEvent, AuditKind, AuditPage, iso_instant, kind_of
from ...values.naming import check_principal
from ..index_rows import IndexRows, report
from ..process.namespace_state import NamespaceState
from ..retry import KEYS_PER_READ, key_of, read_all, with_retries
from ..steps import Flow
from ..validation import validate_page

MOST_ROWS: Final = 10_000


class Asked(NamedTuple):
    """Which events are wanted: from this instant on (ISO time), of this principal, of this kind."""

    since: str
    principal: str | None
    kind: AuditKind | None

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
    late, is_cut = yield from _late_rows(rows, asked.since, start)
    more = False
    for part in _parts(late):
        found = yield from read_all([row.key for row in part])
        present = [found[row.key] for row in part if row.key in found]
        events += filter(asked.matches, rows.read(present, lambda item: _event(ns, item)))
        if more := len(events) > limit:
            break
    yield from report(rows)
    events = events[:limit]
    if more:
        return AuditPage(tuple(events), events[-1].event_id)
    return AuditPage(tuple(events), late[-1].event_id if is_cut else None)


def _late_rows(rows: IndexRows, since: str, start: str | None) -> Flow[tuple[list[_Row], bool]]:
    """Return the rows of events from an instant on, and before the event ``start``, newest first; and whether older
    ones of them are left out.
    """
    ns = rows.namespace_id
    query: Query | None = Query(keys.gsi4_pk(ns), "GSI4", begins_with=keys.pk_audit_of_namespace(ns))
    late, is_cut = list[_Row](), False
    while query is not None:
        page: Page = yield from with_retries(query)
        found = rows.read(page.items, _row)
        late += [row for row in found if row.event_id >= since and (start is None or row.event_id < start)]
        if len(late) > MOST_ROWS:
            late, is_cut = heapq.nlargest(MOST_ROWS, late), True
        query = None if page.next is None else replace(query, start=page.next)
    return sorted(late, reverse=True), is_cut


def _row(item: Item) -> _Row:
    """Return the event of a row. Raises ``ValueError`` for any other row."""
    key = key_of(item)
    keys.parse_audit_pk(key.pk)
    if item[GSI4SK] != key.pk or not key.sk.startswith(keys.AUDIT_PREFIX):
        raise ValueError("not as an audit event")
    return _Row(key.sk.removeprefix(keys.AUDIT_PREFIX), key)


def _event(ns: str, item: Item) -> AuditEvent:
    """Return the event of an item. Raises ``ValueError`` if its key is that of another one."""
    event = read_audit_event(item)
    if key_of(item) != Key(keys.pk_audit(ns, event.entity_id), keys.sk_audit(event.event_id)):
        raise ValueError("not as the event of its key")
    return event


def _parts(rows: list[_Row]) -> Iterator[list[_Row]]:
    return (rows[first : first + KEYS_PER_READ] for first in range(0, len(rows), KEYS_PER_READ))
