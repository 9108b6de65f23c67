"""The item that remembers which thresholds of a limit were reported, in its last window."""

from typing import Final

from ..runtime.named_tuple import NamedTuple
from . import keys
from .attributes import ENTITY_ID, LIMIT, RESOURCE, TOLD, TOLD_WINDOW, TTL
from .items import BucketId
from .partitions import index_suffix
from .record import NUMBER, Item, Record, item_keys

_KEPT_SECONDS: Final = 2 * 24 * 3600  # after its window: twice as long as the stream keeps its records


class Told(NamedTuple):
    """The highest threshold that was reported, in percent, and the number of the window that it was reported in."""

    window: int
    percent: int


TOLD_ALERT: Final = Record(Told, window=NUMBER.named(TOLD_WINDOW), percent=NUMBER.named(TOLD))
read_told = TOLD_ALERT.read


def told_key(bucket: BucketId, limit: str) -> tuple[str, str]:
    """Return the key of the item for a limit of a bucket: one for all its shards."""
    sk = f"{keys.ALERT_PREFIX}{keys.encode(bucket.resource)}#{limit}"
    return keys.pk_entity(bucket.namespace_id, bucket.entity_id), sk


def told_item(bucket: BucketId, limit: str, told: Told, end_ms: int | None, *, spread: bool) -> Item:
    """Return the item; it expires two days after ``end_ms``, the end of its window, or never.

    ``spread``: its index row has a suffix, as the table's schema says.
    """
    ns, entity_id = bucket.namespace_id, bucket.entity_id
    row = f"{ns}/ALERT#{keys.encode(entity_id)}"
    return {
        **item_keys(ns, *told_key(bucket, limit), row, index_suffix(entity_id) if spread else None),
        ENTITY_ID: entity_id,
        RESOURCE: bucket.resource,
        LIMIT: limit,
        **TOLD_ALERT.write(told),
        **({} if end_ms is None else {TTL: end_ms // 1000 + _KEPT_SECONDS}),
    }
