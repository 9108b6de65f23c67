"""Usage: snapshots in pages, their sums, the entities with the most, and how the aggregator counts them exactly once.

A snapshot has, for each shard of the bucket, the mark of the last record of the stream that it counted; the write that
adds moves the mark. The records of one shard come in order. So those up to the mark are counted, however often and in
whatever batches they come again.

A sum over several entities takes of each its own part alone, without what calls of entities below took. The tree is
read only for a window in which an entity was asked itself, and entities below it as well.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from heapq import nsmallest
from typing import Final

from ...exceptions import ValidationError
from ...operations.errors import ConditionFailed, RaceLost
from ...operations.values import Conditions, Item, Key, Query, Update
from ...runtime.dataclass import dataclass
from ...runtime.named_tuple import NamedTuple
from ...schema import keys
from ...schema.attributes import SK, TOTALS, TTL
from ...schema.changes import Consumption
from ...schema.entities import read_parent_link
from ...schema.usage import (
    COUNTED_AT,
    COUNTED_CALLS,
    COUNTED_UNTIL,
    SPAN_MINUTES,
    SPANS,
    SnapshotId,
    additions,
    counted_attribute,
    is_hourly,
    read_mark,
    read_milli,
    read_spans,
    read_usage,
)
from ...values.limits import MILLI
from ...values.naming import check_identifier, check_limit_name, check_resource
from ...values.own_usage import (
    OwnParts,
    Part,
    has_any,
    names_of,
    own_of_run,
    own_tokens,
    own_usage,
    usage_of_run,
)
from ...values.usage import (
    WINDOW_SECONDS,
    EntityUsage,
    LimitUsage,
    Refuser,
    UsagePage,
    UsageSnapshot,
    UsageSummary,
    Window,
    check_instant,
    check_window,
    window_key,
)
from ..index_rows import IndexRows, report
from ..partitions import SortedRows, of_namespace, of_resource
from ..process.namespace_state import NamespaceState
from ..retry import key_of, read_all, with_retries
from ..steps import Flow
from ..validation import LARGEST_PAGE, validate_page_size
from .lineage import Records

MINUTE_MS: Final = 60_000
KEYS_OF_A_DAY: Final = 25  # 24 hourly snapshots and the daily one have adjacent keys

NO_SPANS: Final[Mapping[int, tuple[int, int]]] = {}
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


def get_snapshots(namespace_state: NamespaceState, asked: Asked, *, limit: int, behind: str | None) -> Flow[UsagePage]:
    """Return up to ``limit`` snapshots after ``behind``, oldest first; of an entity on all resources by resource
    first.
    """
    validate_page_size(limit)
    if behind is not None and not (isinstance(behind, str) and _NEXT.fullmatch(behind)):
        raise ValidationError("next", behind, "must be the next of a page before")
    pages = SnapshotPages(namespace_state, asked, limit, behind)
    return UsagePage((yield from next_page(pages)), pages.next)


class _Row(NamedTuple):
    """A snapshot's row in a page of a query, the key of the snapshot in the table, and its id."""

    item: Item
    key: Key
    id: SnapshotId


class Snapshot(NamedTuple):
    """A snapshot, its consumption in millitokens, and its acquires by five minutes if they were asked for."""

    usage: UsageSnapshot
    milli: Mapping[str, int]
    spans: Mapping[int, tuple[int, int]] = NO_SPANS


class Span(NamedTuple):
    """What was admitted and refused of an entity on a resource in the five minutes from ``at`` on."""

    entity_id: str
    resource: str
    at: datetime
    admitted: int
    refused: int


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


class SnapshotPages:
    """The requested snapshots after ``behind``, oldest first, in pages of up to ``limit``.

    A query of each partition has more rows than a page: those that are left over are the first ones of the next page,
    so a reader of all pages reads each row once. ``rows`` counts the ones that are dropped.
    """

    def __init__(self, namespace_state: NamespaceState, asked: Asked, limit: int, behind: str | None = None) -> None:
        self.rows = IndexRows(namespace_state.namespace_id)
        self.next = behind
        self.spans = False  # whether the pages have the acquires by five minutes
        self._asked = asked
        self._limit = limit
        self._keyed = SortedRows(_queries(namespace_state, asked, limit, behind))
        self._waiting: list[_Row] = []
        self._last: SnapshotId | None = None  # of the row that was read last
        self._complete = False

    @property
    def ended(self) -> bool:
        """Whether no page follows; ``next`` is ``None`` then, otherwise the ``behind`` of other pages from here on."""
        return self._complete and not self._waiting

    def page(self) -> Flow[list[Snapshot]]:
        """Return the next page. It may have fewer snapshots, or none: some are gone when their rows are followed."""
        found: list[Snapshot] = []
        while (missing := self._limit - len(found)) and not self.ended:
            while len(self._waiting) < missing and not self._complete:
                yield from self._read_rows()
            taken, self._waiting = self._waiting[:missing], self._waiting[missing:]
            stored = [row.item for row in taken]
            if self._asked.entity_id is None:  # rows of an index: they have the keys alone
                by_key = yield from read_all([row.key for row in taken])
                stored = [by_key[row.key] for row in taken if row.key in by_key]
            found += self.rows.read(stored, partial(_snapshot, {row.key: row.id for row in taken}, spans=self.spans))
            last = taken[-1].id if self._waiting else self._last
            self.next = None if self.ended or last is None else self._place(last)
            if self._waiting:
                break
        return found

    def _read_rows(self) -> Flow[None]:
        items = yield from self._keyed.page()
        *others, last = items or (None,)
        looked_at = [item for item in others if item is not None and self._asked.may_cover(item)]
        usable = self.rows.read([*looked_at, *([] if last is None else [last])], _row_of)
        self._waiting += [row for row in usable if self._asked.covers(row.id.window, row.id.window_start)]
        if usable:
            self._last = usable[-1].id
        is_past = self._asked.in_order_of_time and bool(usable) and self._asked.is_past(usable[-1].id.window_start)
        self._complete = self._keyed.ended or is_past  # no page behind it can have a requested snapshot

    def _place(self, snapshot: SnapshotId) -> str:
        asked = self._asked
        if asked.entity_id is not None:
            return snapshot.sk.removeprefix(asked.prefix)
        return (snapshot.namespace_sk if asked.resource is None else snapshot.index_sk).removeprefix(asked.prefix)


def open_pages(namespace_state: NamespaceState, asked: Asked) -> Flow[SnapshotPages]:
    """Return all pages of a namespace, which is known once a flow runs in it."""
    yield from ()
    return SnapshotPages(namespace_state, asked, LARGEST_PAGE)


def next_page(pages: SnapshotPages) -> Flow[tuple[UsageSnapshot, ...]]:
    """Return the snapshots of the next page, and report the rows that it drops."""
    found = yield from pages.page()
    yield from report(pages.rows)
    pages.rows = IndexRows(pages.rows.namespace_id)
    return tuple(each.usage for each in found)


def next_spans(pages: SnapshotPages) -> Flow[tuple[Span, ...]]:
    """Return the acquires by five minutes of the next page, and report the rows that it drops."""
    pages.spans = True
    found = yield from pages.page()
    yield from report(pages.rows)
    pages.rows = IndexRows(pages.rows.namespace_id)
    return tuple(
        Span(usage.entity_id, usage.resource, usage.window_start + timedelta(minutes=minute), admitted, refused)
        for usage, _, spans in found
        for minute, (admitted, refused) in spans.items()
    )


def _row_of(item: Item) -> _Row:
    return _Row(item, key_of(item), SnapshotId.of_row(item))


def _snapshot(ids: Mapping[Key, SnapshotId], item: Item, *, spans: bool = False) -> Snapshot:
    """Return the snapshot of an item at a key that was read. Raises an error of ``UNREADABLE`` for any other item."""
    ids[key_of(item)].check(item)
    milli = read_milli(item)
    return Snapshot(read_usage(item, milli), milli, read_spans(item) if spans else NO_SPANS)


def every_snapshot(namespace_state: NamespaceState, asked: Asked, add: Callable[[Snapshot], None]) -> Flow[None]:
    """Call ``add`` with each requested snapshot; one page of them at a time is in memory."""
    pages = SnapshotPages(namespace_state, asked, LARGEST_PAGE)
    while not pages.ended:
        for snapshot in (yield from pages.page()):
            add(snapshot)
    yield from report(pages.rows)


def _queries(namespace_state: NamespaceState, asked: Asked, limit: int, behind: str | None) -> list[Query]:
    size = limit * KEYS_OF_A_DAY if asked.window == "daily" else 2 * limit
    after = None if behind is None else asked.prefix + behind
    if after is None and asked.start is not None and asked.in_order_of_time:
        # after all keys of the window before the start, and before all of its own window: "~" sorts last in a key
        before = asked.start - timedelta(seconds=WINDOW_SECONDS[asked.window])
        last = window_key(asked.window, before) + "~"
        after = asked.prefix + last if asked.entity_id is None else keys.sk_usage(asked.resource or "", last)
    if asked.entity_id is not None:
        prefix = asked.prefix if asked.resource is None else keys.sk_usage(asked.resource, "")
        pk = keys.pk_entity(namespace_state.namespace_id, asked.entity_id)
        return [Query(pk, begins_with=prefix, after=after, limit=size)]
    if asked.resource is None:
        return of_namespace(namespace_state, Query("", "GSI4", begins_with=asked.prefix, after=after, limit=size))
    query = Query("", "GSI2", begins_with=asked.prefix, after=after, limit=size)
    return of_resource(namespace_state, asked.resource, query)


class Use(NamedTuple):
    """The consumption of one stream record; ``mark`` sorts in the order of a shard's records.

    ``at_ms``: when the record was written; ``calls``: the acquires, refused ones as well, that the shard had by then.
    """

    mark: str
    consumption: Consumption
    at_ms: int = 0
    calls: int = 0


def count_usage(
    snapshot: SnapshotId,
    shard: int,
    uses: Sequence[Use],
    *,
    expires_at: int | None,
    now_ms: int | None = None,
    spread: bool = False,
) -> Flow[bool]:
    """Add the uses of one shard that the snapshot has not counted; return whether there were any.

    This is one write if none of them was counted before. ``expires_at`` is in epoch seconds. With
    ``now_ms`` the write also says how far the stream is counted. ``spread``: the table's schema has suffixes in the
    indexes.
    """
    distinct = {use.mark: use for use in uses}
    left = [distinct[mark] for mark in sorted(distinct)]
    while left:
        try:
            yield from with_retries(_counting(snapshot, shard, left, expires_at, now_ms, spread=spread))
        except ConditionFailed as failure:
            counted = "" if failure.item is None else read_mark(failure.item, shard)
            before, left = left, [use for use in left if use.mark > counted]
            if len(left) == len(before):  # only a snapshot that has counted one of them refuses to
                raise RaceLost("the snapshot refuses to count what it has not counted") from None
        else:
            return True
    return False


def _counting(
    snapshot: SnapshotId, shard: int, uses: Sequence[Use], expires_at: int | None, now_ms: int | None, *, spread: bool
) -> Update:
    """Return the update that adds the uses, in order, if the snapshot has counted none of them."""
    counted = counted_attribute(shard)
    values = {**snapshot.attributes(spread=spread), counted: uses[-1].mark}
    if expires_at is not None:
        values[TTL] = expires_at
    if now_ms is not None:
        values |= {COUNTED_UNTIL: uses[-1].at_ms, COUNTED_AT: now_ms}
        if shard == 0:
            values[COUNTED_CALLS] = uses[-1].calls
    add = additions(use.consumption for use in uses)
    if snapshot.window == "hourly":
        for use in uses:
            place = use.at_ms // MINUTE_MS % 60 // SPAN_MINUTES
            acquires = use.consumption.acquires
            for counter in SPANS:
                if counter in acquires:
                    name = SPANS[counter][place]
                    add[name] = add[name] + acquires[counter] if name in add else acquires[counter]
    return Update(Key(snapshot.pk, snapshot.sk), add=add, set=values, when=Conditions(below={counted: uses[0].mark}))


def get_summary(namespace_state: NamespaceState, asked: Asked) -> Flow[UsageSummary]:
    """Return the sums of all requested snapshots; of several entities, a call that cascaded counts once."""
    windows: dict[datetime, Sums] = {}
    read = every_own_snapshot if asked.entity_id is None else every_snapshot
    yield from read(namespace_state, asked, lambda each: windows.setdefault(each.usage.window_start, Sums()).add(each))
    sums = windows.values()
    names = sorted({name for each in sums for name in each.milli})

    def of_limit(name: str) -> LimitUsage:
        milli = [each.milli.get(name, 0) for each in sums]
        total, least, most = sum(milli), min(milli), max(milli)
        return LimitUsage(name, total // MILLI, least // MILLI, most // MILLI, total / (MILLI * len(milli)))

    return UsageSummary(
        asked.window,
        len(windows),
        tuple(map(of_limit, names)),
        refused_by=dict(sorted(sum((Counter(each.refused_by) for each in sums), Counter[Refuser]()).items())),
        **{name: sum(each.totals[name] for each in sums) for name in TOTALS.values()},
    )


def every_own_snapshot(namespace_state: NamespaceState, asked: Asked, add: Callable[[Snapshot], None]) -> Flow[None]:
    """Call ``add`` with the own part of each requested snapshot; one window of them at a time is in memory."""
    pages, parts = SnapshotPages(namespace_state, asked, LARGEST_PAGE), OwnParts()
    records = Records(namespace_state, rows=pages.rows)
    window: list[Snapshot] = []

    def end_window() -> Flow[None]:
        for each in (yield from _own(records, parts, window)):
            add(each)
        window.clear()

    while not pages.ended:
        for snapshot in (yield from pages.page()):
            if window and window[0].usage.window_start != snapshot.usage.window_start:
                yield from end_window()
            window.append(snapshot)
    yield from end_window()
    yield from report(pages.rows)


def _own(records: Records, known: OwnParts, window: Sequence[Snapshot]) -> Flow[list[Snapshot]]:
    """Return the own parts of a window's snapshots; those that have none are left out."""
    parts = known.of([each.usage for each in window])
    by_resource: dict[str, list[tuple[Snapshot, Part]]] = {}
    for snapshot, part in zip(window, parts, strict=True):
        by_resource.setdefault(snapshot.usage.resource, []).append((snapshot, part))
    found: list[Snapshot] = []
    names = names_of((each.usage.entity_id, each.milli) for each in window)
    for each in by_resource.values():
        if any(part == "some" for _, part in each):
            yield from records.read_levels(snapshot.usage.entity_id for snapshot, _ in each)
        used = {snapshot.usage.entity_id: snapshot.milli for snapshot, _ in each}
        of_entity = {snapshot.usage.entity_id: part for snapshot, part in each}
        own = own_tokens(used, of_entity, lambda entity_id: _above(records, entity_id))
        for snapshot, part in each:
            milli = own[snapshot.usage.entity_id]
            of_run = own_of_run(snapshot.usage.entity_id, snapshot.usage.resource, milli, names)
            milli = milli if of_run is None else of_run
            whole = {name: amount // MILLI for name, amount in milli.items()}
            usage = own_usage(snapshot.usage, part, whole) if of_run is None else usage_of_run(snapshot.usage, whole)
            if (part == "all" and of_run is None) or has_any(usage) or any(milli.values()):
                found.append(Snapshot(usage, milli))
    return found


def _above(records: Records, entity_id: str) -> set[str]:
    """Return the entities that calls of an entity cascade to, by the records that were read."""
    above, level = set[str](), [entity_id]
    while level:
        links = [read_parent_link(records.by_id.get(each)) for each in level]
        level = [each for link in links if link.cascade for each in link.parent_ids if each not in above]
        above.update(level)
    return above


def validate_top(
    resource: str | None, by: str, window: str, start: datetime | None, end: datetime | None, limit: int
) -> Asked:
    """Return the checked request. Raises ``ValidationError``."""
    if not isinstance(by, str) or by not in TOTALS.values():
        check_limit_name("by", by)
    validate_page_size(limit)
    return validate_usage(None, resource, window, start, end)


def get_top(namespace_state: NamespaceState, asked: Asked, *, by: str, limit: int) -> Flow[tuple[EntityUsage, ...]]:
    """Return the ``limit`` entities with the most of ``by``, the first with the most; leave out entities that have
    none. In a namespace, an entity has a place for each resource: a limit of the same name is another one there.

    Read every requested snapshot, one page at a time; the sums of each entity stay in memory.
    """
    places: dict[tuple[str, str], Sums] = {}

    def add(snapshot: Snapshot) -> None:
        usage = snapshot.usage
        places.setdefault((usage.entity_id, usage.resource), Sums()).add(snapshot)

    def entity_usage(place: tuple[str, str], sums: Sums) -> EntityUsage:
        consumed = {name: sums.milli[name] // MILLI for name in sorted(sums.milli)}
        return EntityUsage(
            place[0], place[1], consumed, refused_by=dict(sorted(sums.refused_by.items())), **sums.totals
        )

    yield from every_snapshot(namespace_state, asked, add)
    amounts = {place: sums.totals.get(by, sums.milli.get(by, 0)) for place, sums in places.items()}
    ranked = nsmallest(limit, ((-amount, place) for place, amount in amounts.items() if amount > 0))
    return tuple(entity_usage(place, places[place]) for _, place in ranked)
