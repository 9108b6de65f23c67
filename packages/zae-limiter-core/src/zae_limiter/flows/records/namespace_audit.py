"""Read the audit events of a whole namespace since an instant, newest first.

GSI4 has them by time, so a page reads the rows of its own events and no others; their items are read by key. A filter
by principal or kind reads on until it has found enough, or has come to the instant.

Events that were written before GSI4 had the time are there by subject, until they expire. They cannot be read by time:
each page reads all their rows, some fifty for a read unit, and memory holds the newest ``MOST_ROWS`` of them. Where
there are none, that is one query that finds nothing.
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, NamedTuple

from ...exceptions import ValidationError
from ...operations.values import Item, Key, Page, Query
from ...schema import keys
from ...schema.attributes import GSI4PK, GSI4SK, PK, SK
from ...schema.audit import read_listed_event
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


class _BySubject(NamedTuple):
    """Rows, newest first; a page ends at ``since``, and ``next`` begins the one behind it where rows are left out."""

    rows: list[_Row]
    since: str
    next: str | None


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
    by_subject = yield from _rows_by_subject(rows, asked.since, start)
    rest = by_subject.rows
    since = by_subject.since
    query: Query | None = _by_time(ns, start)
    while query is not None and len(events) <= limit:
        number = KEYS_PER_READ if asked.filters else limit + 1 - len(events)
        page: Page = yield from with_retries(replace(query, limit=number))
        part = [row for row in rows.read(page.items, _row_by_time) if start is None or row.event_id < start]
        late = [row for row in part if row.event_id >= since]
        query = None if page.next is None or len(late) < len(part) else replace(query, start=page.next)
        now = [row for row in rest if query is None or (late and row > late[-1])]
        rest = rest[len(now) :]
        for keys_of_a_read in _parts(sorted([*late, *now], reverse=True)):
            if len(events) > limit:
                break
            found = yield from read_all([row.key for row in keys_of_a_read])
            present = [found[row.key] for row in keys_of_a_read if row.key in found]
            events += filter(asked.matches, rows.read(present, read_listed_event))
    yield from report(rows)
    if len(events) > limit:
        return AuditPage(tuple(events[:limit]), events[limit - 1].event_id)
    return AuditPage(tuple(events), by_subject.next)


def _by_time(ns: str, start: str | None) -> Query:
    """Return the query of all rows before the event ``start``, which itself may be among them; newest first."""
    query = Query(keys.gsi4_pk(ns), "GSI4", begins_with=keys.INDEX_AUDIT_PREFIX, descending=True)
    if start is None:
        return query
    any_subject = {PK: keys.pk_audit(ns, keys.audit_system()), SK: keys.sk_audit(start)}
    return replace(query, start={**any_subject, GSI4PK: keys.gsi4_pk(ns), GSI4SK: keys.gsi4_sk_audit(start)})


def _rows_by_subject(rows: IndexRows, since: str, start: str | None) -> Flow[_BySubject]:
    """Return the rows that GSI4 has by subject, of events from an instant on and before the event ``start``."""
    ns = rows.namespace_id
    query: Query | None = Query(keys.gsi4_pk(ns), "GSI4", begins_with=keys.pk_audit_of_namespace(ns))
    late, is_cut = list[_Row](), False
    while query is not None:
        page: Page = yield from with_retries(query)
        found = rows.read(page.items, _row_by_subject)
        late += [row for row in found if row.event_id >= since and (start is None or row.event_id < start)]
        if len(late) > MOST_ROWS:
            late, is_cut = heapq.nlargest(MOST_ROWS, late), True
        query = None if page.next is None else replace(query, start=page.next)
    late.sort(reverse=True)
    return _BySubject(late, late[-1].event_id, late[-1].event_id) if is_cut else _BySubject(late, since, None)


def _row_by_time(item: Item) -> _Row:
    """Return the event of a row. Raises ``ValueError`` for any other row."""
    return _row(item, lambda event_id, _: keys.gsi4_sk_audit(event_id))


def _row_by_subject(item: Item) -> _Row:
    """Return the event of a row. Raises ``ValueError`` for any other row."""
    return _row(item, lambda _, pk: pk)


def _row(item: Item, sort_key: Callable[[str, str], str]) -> _Row:
    key = key_of(item)
    keys.parse_audit_pk(key.pk)
    event_id = key.sk.removeprefix(keys.AUDIT_PREFIX)
    if not key.sk.startswith(keys.AUDIT_PREFIX) or item[GSI4SK] != sort_key(event_id, key.pk):
        raise ValueError("not as an audit event")
    return _Row(event_id, key)


def _parts(rows: list[_Row]) -> Iterator[list[_Row]]:
    return (rows[first : first + KEYS_PER_READ] for first in range(0, len(rows), KEYS_PER_READ))
