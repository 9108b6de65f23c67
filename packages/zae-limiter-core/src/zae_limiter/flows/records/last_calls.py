"""Find when entities were last called, by their usage.

The problem: nothing is written where a call is but its bucket, and that is gone some time after it; usage stays for two
years, but has a row for each hour. The choice: the rows of an entity are sorted by resource and then by window, so a
query that goes backwards finds the newest window of the last resource, and jumps over its others to the resource before
it. The price is a query for each resource that an entity has used, whatever it used there; and more where its newest
windows have refusals alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from ...operations.errors import StoreError
from ...operations.values import Item, Query
from ...runtime.dataclass import replace
from ...schema import keys
from ...schema.attributes import PK, SK, TOTAL_EVENTS
from ...schema.usage import SnapshotId, read_usage
from ...values.naming import check_identifier
from ...values.usage import WINDOW_SECONDS, UsageSnapshot
from ..index_rows import IndexRows, report
from ..partitions import READS_AT_ONCE
from ..process.namespace_state import NamespaceState
from ..retry import with_retries
from ..steps import Flow, call_all

FIRST: Final = 8  # rows of a resource, the newest of which nearly always has a call
MORE: Final = 100


def get_last_calls(namespace_state: NamespaceState, entity_ids: Sequence[str]) -> Flow[dict[str, UsageSnapshot]]:
    """Return the newest window of each entity with an admitted acquire, of several resources that which ends last;
    leave out entities that have none. Raises ``ValidationError``.
    """
    ns = namespace_state.namespace_id
    rows, newest = IndexRows(ns), dict[str, UsageSnapshot]()
    left = [
        Query(pk, begins_with=keys.USAGE_PREFIX, limit=FIRST, descending=True)
        for pk in (keys.pk_entity(ns, check_identifier("entity_ids", each)) for each in dict.fromkeys(entity_ids))
    ]
    while left:
        asked, left = left[:READS_AT_ONCE], left[READS_AT_ONCE:]
        for query, answer in zip(asked, (yield from call_all(asked)), strict=True):
            page = (yield from with_retries(query)) if isinstance(answer, StoreError) else answer
            for call in _calls(rows, page.items):
                before = newest.get(call.entity_id)
                if before is None or _end(call) > _end(before):
                    newest[call.entity_id] = call
            if page.next is not None:
                left.append(_following(query, page.items, page.next))
    yield from report(rows)
    return newest


def _calls(rows: IndexRows, items: Sequence[Item]) -> Iterable[UsageSnapshot]:
    """Return the newest window of each resource with a call, of rows that go backwards. That of an hour is before that
    of its day.
    """
    newest = dict[str, UsageSnapshot]()
    for each in rows.read(items, _read):
        if each.total_events:
            newest.setdefault(each.resource, each)
    return newest.values()


def _read(item: Item) -> UsageSnapshot:
    SnapshotId.of_row(item)  # which checks it
    return read_usage(item)


def _following(query: Query, items: Sequence[Item], at: Mapping[str, str]) -> Query:
    """Return the query behind a page: from the resource of its last row on, or before it if a call was found there."""
    resource, _ = keys.parse_usage_sk(at[SK])
    prefix = keys.sk_usage(resource, "")
    if any(each[SK].startswith(prefix) and each.get(TOTAL_EVENTS) for each in items):
        return replace(query, start={PK: at[PK], SK: prefix}, limit=FIRST)
    return replace(query, start=at, limit=MORE)


def _end(each: UsageSnapshot) -> datetime:
    return each.window_start + timedelta(seconds=WINDOW_SECONDS[each.window])
