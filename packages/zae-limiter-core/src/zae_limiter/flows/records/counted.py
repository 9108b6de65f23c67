"""How far usage is counted, by what snapshots and buckets say.

A snapshot has the instants of the last record that it counted and of the batch that did, and the acquires, refused ones
as well, that its bucket's first shard had by then. A bucket that has more by now shows that something waits to be
counted; one that has not shows that nothing does, however long ago the last batch was. So an idle table is not behind.

Nothing says when a waiting acquire was made: a bucket keeps no times. Of a table that was idle, the first acquire waits
as one of an hour ago would. Who must not mistake it looks again some seconds later.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from ...operations.values import Item, Key, Query
from ...runtime.named_tuple import NamedTuple
from ...schema import keys
from ...schema.attributes import ACQUIRES, PK, REFUSED
from ...schema.items import BucketId
from ...schema.record import number
from ...schema.usage import COUNTED_AT, COUNTED_CALLS, COUNTED_UNTIL, SnapshotId
from ..index_rows import IndexRows, report
from ..partitions import SortedRows, everywhere
from ..process.namespace_state import NamespaceState, bucket_key
from ..retry import key_of, read_all, with_retries
from ..steps import Flow
from . import registry

SNAPSHOTS = 50  # of the newest window, by which a namespace says how far it is counted
MOST_NAMESPACES = 5
PLACES: Final = 33  # of which one read has the bucket and the usage of two days
QUERIES: Final = 3
DAY_MS: Final = 86_400_000


class StreamState(NamedTuple):
    """How far usage is counted: up to a record of ``until_ms``, by a batch at ``batch_ms``; ``None`` if nothing is.

    ``waiting``: acquires that are in buckets and not in usage, of the ``buckets`` that were looked at.
    """

    until_ms: int | None = None
    batch_ms: int | None = None
    waiting: int = 0
    buckets: int = 0

    def behind_ms(self, now_ms: int) -> int:
        """Return how far usage is behind at most; 0 if nothing waits."""
        return max(0, now_ms - self.until_ms) if self.waiting and self.until_ms is not None else 0


def stream_state() -> Flow[StreamState]:
    """Return the state of the first namespaces in use; by a sample of the buckets used last in each."""
    in_use = yield from registry.in_use()
    found: list[StreamState] = []
    for each in in_use[:MOST_NAMESPACES]:
        state = yield from _state_of(each.namespace_id)
        found.append(state)
    return StreamState(
        max((each.until_ms for each in found if each.until_ms is not None), default=None),
        max((each.batch_ms for each in found if each.batch_ms is not None), default=None),
        sum(each.waiting for each in found),
        sum(each.buckets for each in found),
    )


def _state_of(namespace_id: str) -> Flow[StreamState]:
    rows = IndexRows(namespace_id)
    newest = Query("", "GSI4", begins_with=keys.INDEX_USAGE_PREFIX, limit=SNAPSHOTS, descending=True)
    keyed, first = SortedRows(everywhere(namespace_id, newest)), list[Item]()
    while not keyed.ended and len(first) < SNAPSHOTS:
        first += yield from keyed.page()
    found = yield from read_all([key_of(row) for row in rows.own(first[:SNAPSHOTS])])
    last = _last_of(rows, found.values())
    items = yield from read_all([bucket_key(bucket) for bucket in last])
    state = _state(rows, last, items.values())
    yield from report(rows)
    return state


def state_at(namespace_state: NamespaceState, places: Sequence[tuple[str, str]]) -> Flow[StreamState]:
    """Return the state of the buckets at the first 33 places, each an entity and a resource: by one read, of them and
    of the usage of today and yesterday. If nothing was counted there on these days, it takes a query for each of up to
    three buckets. Without places it is the state of the namespace, by a sample of the buckets used last.
    """
    namespace_id = namespace_state.namespace_id
    if not places:
        return (yield from _state_of(namespace_id))
    rows, now_ms = IndexRows(namespace_id), namespace_state.now()
    buckets = [BucketId(namespace_id, *place) for place in dict.fromkeys(places)][:PLACES]
    days = [SnapshotId.of_bucket(each, "daily", at_ms) for each in buckets for at_ms in (now_ms, now_ms - DAY_MS)]
    found = yield from read_all([*map(bucket_key, buckets), *(Key(each.pk, each.sk) for each in days)])
    there = {each: found[bucket_key(each)] for each in buckets if bucket_key(each) in found}
    last = _last_of(rows, (found[key] for each in days if (key := Key(each.pk, each.sk)) in found))
    for each in [*there][: 0 if last else QUERIES]:
        newest = Query(
            keys.pk_entity(namespace_id, each.entity_id),
            begins_with=keys.sk_usage(each.resource, ""),
            limit=2,
            descending=True,
        )
        last |= _last_of(rows, (yield from with_retries(newest)).items)
    state = _state(rows, last, there.values())
    yield from report(rows)
    return state


_Counts = dict[BucketId, tuple[int, int, int]]


def _last_of(rows: IndexRows, snapshots: Iterable[Item]) -> _Counts:
    """Return what the snapshots say of each bucket: the record that was counted last, its batch, and the acquires."""
    last: _Counts = {}
    for bucket, until, batch, calls in rows.read((item for item in snapshots if COUNTED_CALLS in item), _counted):
        last[bucket] = max(last.get(bucket, (0, 0, 0)), (until, batch, calls))
    return last


def _state(rows: IndexRows, last: _Counts, buckets: Iterable[Item]) -> StreamState:
    if not last:
        return StreamState()
    waiting = [(bucket, calls) for bucket, calls in rows.read(buckets, _calls) if bucket in last]
    more = sum(max(0, calls - last[bucket][2]) for bucket, calls in waiting)
    return StreamState(
        max(each[0] for each in last.values()), max(each[1] for each in last.values()), more, len(waiting)
    )


def _calls(item: Item) -> tuple[BucketId, int]:
    refused = number(item, REFUSED) if REFUSED in item else 0
    return BucketId.parse(item[PK]), number(item, ACQUIRES) + refused


def _counted(item: Item) -> tuple[BucketId, int, int, int]:
    """Return the bucket's first shard, and what a snapshot that counted it says of it."""
    place = SnapshotId.of_row(item)
    bucket = BucketId(place.namespace_id, place.entity_id, place.resource)
    return bucket, number(item, COUNTED_UNTIL), number(item, COUNTED_AT), number(item, COUNTED_CALLS)
