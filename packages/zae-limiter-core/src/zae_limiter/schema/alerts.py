"""The item that remembers which thresholds of a limit were told of, in its last window."""

from typing import Any, Final, NamedTuple

from . import keys
from .attributes import ENTITY_ID, GSI4PK, GSI4SK, LIMIT, PK, RESOURCE, SK, TOLD, TOLD_WINDOW, TTL
from .items import BucketId
from .partitions import index_suffix
from .reading import number, reads

Item = dict[str, Any]

_KEPT_SECONDS: Final = 2 * 24 * 3600  # after its window: twice as long as the stream keeps its records


class Told(NamedTuple):
    """The highest threshold that was told of, in percent, and the number of the window that it was told in."""

    window: int
    percent: int


def told_key(bucket: BucketId, limit: str) -> tuple[str, str]:
    """Return the key of the item for a limit of a bucket: one for all its shards."""
    sk = f"{keys.ALERT_PREFIX}{keys.encode(bucket.resource)}#{limit}"
    return keys.pk_entity(bucket.namespace_id, bucket.entity_id), sk


def told_item(bucket: BucketId, limit: str, told: Told, end_ms: int | None, *, spread: bool) -> Item:
    """Return the item; it expires two days after ``end_ms``, the end of its window, or never.

    ``spread``: its index row has a suffix, as the table's schema says.
    """
    pk, sk = told_key(bucket, limit)
    item = {
        PK: pk,
        SK: sk,
        GSI4PK: keys.gsi4_pk(bucket.namespace_id, index_suffix(bucket.entity_id) if spread else None),
        GSI4SK: f"{bucket.namespace_id}/ALERT#{keys.encode(bucket.entity_id)}",
        ENTITY_ID: bucket.entity_id,
        RESOURCE: bucket.resource,
        LIMIT: limit,
        TOLD_WINDOW: told.window,
        TOLD: told.percent,
    }
    return item if end_ms is None else {**item, TTL: end_ms // 1000 + _KEPT_SECONDS}


@reads
def read_told(item: Item) -> Told:
    """Return what an item remembers."""
    return Told(number(item, TOLD_WINDOW), number(item, TOLD))
