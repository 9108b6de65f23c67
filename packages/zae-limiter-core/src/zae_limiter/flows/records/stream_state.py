"""Say how far the aggregator has counted, by what its writes of usage leave in the table.

Each snapshot has the instants of the last record that it counted and of the batch that did, and the acquires that its
bucket's first shard had by then. A bucket that has more by now shows that something waits to be counted; one that has
not shows that nothing does, however long ago the last batch was. So an idle table is not behind.
"""

from typing import NamedTuple

from ...operations.values import Item, Query
from ...schema import keys
from ...schema.attributes import ACQUIRES, PK
from ...schema.items import BucketId
from ...schema.reading import number
from ...schema.usage import COUNTED_AT, COUNTED_EVENTS, COUNTED_UNTIL, SnapshotId
from ..index_rows import IndexRows, report
from ..partitions import SortedRows, everywhere
from ..process.namespace_state import bucket_key
from ..retry import key_of, read_all
from ..steps import Flow
from . import registry

SNAPSHOTS = 50  # of the newest window
MOST_NAMESPACES = 5


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
    counted = rows.read((item for item in found.values() if COUNTED_EVENTS in item), _counted)
    last: dict[BucketId, tuple[int, int, int]] = {}
    for bucket, until, batch, events in counted:
        last[bucket] = max(last.get(bucket, (0, 0, 0)), (until, batch, events))
    items = yield from read_all([bucket_key(bucket) for bucket in last])
    waiting = rows.read(items.values(), _events)
    yield from report(rows)
    if not last:
        return StreamState()
    more = sum(max(0, events - last[bucket][2]) for bucket, events in waiting)
    return StreamState(
        max(each[0] for each in last.values()), max(each[1] for each in last.values()), more, len(waiting)
    )


def _counted(item: Item) -> tuple[BucketId, int, int, int]:
    """Return the bucket's first shard, and what a snapshot that counted it says of it."""
    place = SnapshotId.of_row(item)
    bucket = BucketId(place.namespace_id, place.entity_id, place.resource)
    return bucket, number(item, COUNTED_UNTIL), number(item, COUNTED_AT), number(item, COUNTED_EVENTS)


def _events(item: Item) -> tuple[BucketId, int]:
    return BucketId.parse(item[PK]), number(item, ACQUIRES)
