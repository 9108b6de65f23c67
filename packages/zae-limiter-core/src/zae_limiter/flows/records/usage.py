"""Usage snapshots of an entity, of a resource or of a whole namespace, in pages.

This module has the keys to read and the ends of pages; the aggregator writes snapshots.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final, NamedTuple

from ...exceptions import ValidationError
from ...operations.values import Item, Key, Query
from ...schema import keys
from ...schema.attributes import SK, TOTALS
from ...schema.usage import SnapshotId, is_hourly, read_milli, read_usage
from ...values.naming import check_identifier, check_resource
from ...values.usage import (
    WINDOW_SECONDS,
    Refuser,
    UsagePage,
    UsageSnapshot,
    Window,
    check_instant,
    check_window,
    window_key,
)
from ..index_rows import IndexRows, report
from ..partitions import SortedRows, of_namespace, of_resource
from ..process.namespace_state import NamespaceState
from ..retry import key_of, read_all
from ..steps import Flow
from ..validation import LARGEST_PAGE, validate_page_size

KEYS_OF_A_DAY: Final = 25  # 24 hourly snapshots and the daily one have adjacent keys

_NEXT: Final = re.compile(r"[^#\s]{1,512}(#[^#\s]{1,512}){1,2}")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for usage: of an entity, a resource, both, or a namespace; windows that begin in [start, end)."""

    entity_id: str | None
    resource: str | None
    window: Window
    start: datetime | None
    end: datetime | None

    @property
    def prefix(self) -> str:
        """The beginning of the snapshots' sort keys, up to the part that ``UsagePage.next`` has."""
        return keys.INDEX_USAGE_PREFIX if self.entity_id is None else keys.USAGE_PREFIX

    @property
    def in_order_of_time(self) -> bool:
        """Whether the keys are sorted by window; those of an entity on all resources are sorted by resource first."""
        return self.resource is not None or self.entity_id is None

    def covers(self, window: Window, start: datetime) -> bool:
        """Return whether the request includes a snapshot of this window."""
        after_start = self.start is None or start >= self.start
        return window == self.window and after_start and not self.is_past(start)

    def may_cover(self, row: Item) -> bool:
        """Return whether the row of a snapshot, in the table or in an index, may be of the window, by its sort key."""
        return (self.window == "hourly") == is_hourly(str(row[SK]))

    def is_past(self, start: datetime) -> bool:
        """Return whether the window begins at the end or later."""
        return self.end is not None and start >= self.end


def validate_usage(
    entity_id: str | None, resource: str | None, window: str, start: datetime | None, end: datetime | None
) -> Asked:
    """Return the checked request; that of a namespace without entity and resource. Raises ``ValidationError``."""
    asked = Asked(
        None if entity_id is None else check_identifier("entity_id", entity_id),
        None if resource is None else check_resource("resource", resource),
        check_window(window),
        check_instant("start", start),
        check_instant("end", end),
    )
    if asked.start is not None and asked.is_past(asked.start):
        raise ValidationError("end", end, f"must be after the start, {start}")
    return asked


def _validate_page(limit: int, behind: str | None) -> None:
    """Check the size of a page, and the ``next`` of the page before. Raises ``ValidationError``."""
    validate_page_size(limit)
    if behind is not None and not (isinstance(behind, str) and _NEXT.fullmatch(behind)):
        raise ValidationError("next", behind, "must be the next of a page before")


def get_snapshots(namespace_state: NamespaceState, asked: Asked, *, limit: int, behind: str | None) -> Flow[UsagePage]:
    """Return up to ``limit`` snapshots after ``behind``, oldest first; of an entity on all resources by resource
    first.
    """
    _validate_page(limit, behind)
    rows = IndexRows(namespace_state.namespace_id)
    page = yield from read_page(namespace_state, rows, asked, limit, behind)
    yield from report(rows)
    return UsagePage(tuple(each.usage for each in page.snapshots), page.next)


class _Row(NamedTuple):
    """A snapshot's row in a page of a query, and its id."""

    item: Item
    id: SnapshotId

    @property
    def key(self) -> Key:
        """The key of the snapshot in the table."""
        return key_of(self.item)


class Snapshot(NamedTuple):
    """A snapshot, and its consumption in millitokens."""

    usage: UsageSnapshot
    milli: Mapping[str, int]


class Sums:
    """The sums of snapshots: millitokens by limit, because parts of tokens may add up to whole ones; and acquires."""

    def __init__(self) -> None:
        self.milli: dict[str, int] = {}
        self.totals = dict.fromkeys(TOTALS.values(), 0)
        self.refused_by: dict[Refuser, int] = {}

    def add(self, snapshot: Snapshot) -> None:
        """Add a snapshot."""
        for name, milli in snapshot.milli.items():
            self.milli[name] = self.milli.get(name, 0) + milli
        for name in self.totals:
            self.totals[name] += getattr(snapshot.usage, name)
        for refuser, refused in snapshot.usage.refused_by.items():
            self.refused_by[refuser] = self.refused_by.get(refuser, 0) + refused


class _Page(NamedTuple):
    """Snapshots, and the start of the next page, ``None`` at the end."""

    snapshots: Sequence[Snapshot]
    next: str | None


def read_page(
    namespace_state: NamespaceState, rows: IndexRows, asked: Asked, limit: int, behind: str | None
) -> Flow[_Page]:
    """Return up to ``limit`` snapshots after ``behind``; count the rows that are dropped."""
    found: list[Snapshot] = []
    keyed = SortedRows(_queries(namespace_state, asked, limit, behind))
    while True:
        items = yield from keyed.page()
        *others, last = items or (None,)
        looked_at = [item for item in others if item is not None and asked.may_cover(item)]
        usable = rows.read([*looked_at, *([] if last is None else [last])], _row)
        wanted = [row for row in usable if asked.covers(row.id.window, row.id.window_start)]
        taken = wanted[: limit - len(found)]
        found += rows.read((yield from _read(asked, taken)), partial(_snapshot, {row.key: row.id for row in taken}))
        if len(taken) < len(wanted):
            return _Page(found, _place(asked, taken[-1].id))
        if keyed.ended or _is_past(asked, usable):
            return _Page(found, None)
        if len(found) >= limit:
            return _Page(found, _place(asked, usable[-1].id))


def _row(item: Item) -> _Row:
    return _Row(item, SnapshotId.of_row(item))


def _snapshot(ids: Mapping[Key, SnapshotId], item: Item) -> Snapshot:
    """Return the snapshot of an item at a key that was read. Raises an error of ``UNREADABLE`` for any other item."""
    ids[key_of(item)].check(item)
    milli = read_milli(item)
    return Snapshot(read_usage(item, milli), milli)


def every_snapshot(namespace_state: NamespaceState, asked: Asked, add: Callable[[Snapshot], None]) -> Flow[None]:
    """Call ``add`` with each requested snapshot; one page of them at a time is in memory."""
    rows = IndexRows(namespace_state.namespace_id)
    behind, more = None, True
    while more:
        page = yield from read_page(namespace_state, rows, asked, LARGEST_PAGE, behind)
        for snapshot in page.snapshots:
            add(snapshot)
        behind, more = page.next, page.next is not None
    yield from report(rows)


def _queries(namespace_state: NamespaceState, asked: Asked, limit: int, behind: str | None) -> list[Query]:
    size = limit * KEYS_OF_A_DAY if asked.window == "daily" else 2 * limit
    after = _before_start(asked) if behind is None else asked.prefix + behind
    if asked.entity_id is not None:
        prefix = asked.prefix if asked.resource is None else keys.sk_usage(asked.resource, "")
        pk = keys.pk_entity(namespace_state.namespace_id, asked.entity_id)
        return [Query(pk, begins_with=prefix, after=after, limit=size)]
    if asked.resource is None:
        return of_namespace(namespace_state, Query("", "GSI4", begins_with=asked.prefix, after=after, limit=size))
    query = Query("", "GSI2", begins_with=asked.prefix, after=after, limit=size)
    return of_resource(namespace_state, asked.resource, query)


def _before_start(asked: Asked) -> str | None:
    """Return a sort key after all keys of the window before the start, and before all keys of its own window."""
    if asked.start is None or not asked.in_order_of_time:
        return None
    before = asked.start - timedelta(seconds=WINDOW_SECONDS[asked.window])
    last = window_key(asked.window, before) + "~"  # "~" sorts last in a key
    return asked.prefix + last if asked.entity_id is None else keys.sk_usage(asked.resource or "", last)


def _read(asked: Asked, rows: Sequence[_Row]) -> Flow[list[Item]]:
    if asked.entity_id is not None:
        return [row.item for row in rows]
    places = [row.key for row in rows]
    found = yield from read_all(places)
    return [found[place] for place in places if place in found]


def _place(asked: Asked, snapshot: SnapshotId) -> str:
    if asked.entity_id is not None:
        return snapshot.sk.removeprefix(asked.prefix)
    sort_key = snapshot.namespace_sk if asked.resource is None else snapshot.index_sk
    return sort_key.removeprefix(asked.prefix)


def _is_past(asked: Asked, rows: Sequence[_Row]) -> bool:
    """Return whether no page after that of these rows can have a requested snapshot."""
    return asked.in_order_of_time and bool(rows) and asked.is_past(rows[-1].id.window_start)
