"""The item of an idempotency key: what was done to a bucket under it."""

from collections.abc import Mapping
from typing import Final

from ..runtime.named_tuple import NamedTuple
from . import keys
from .attributes import ENTITY_ID, EVENT_ID, RESOURCE, TTL
from .items import BucketId
from .record import TEXT, Field, Item, Record, a_map, item_keys, number, reads


class Done(NamedTuple):
    """What a key stands for: the action, and the whole tokens by limit of a credit; none of a reset."""

    action: str
    tokens: Mapping[str, int]


DONE: Final = Record(
    Done,
    action=TEXT,
    tokens=Field(lambda item, name: {each: number(item[name], each) for each in a_map(item, name)}, dict),
)
read_done = DONE.read


def done_key(bucket: BucketId, key: str) -> tuple[str, str]:
    """Return the key of the item of an idempotency key of a bucket."""
    return keys.pk_idempotency(bucket.namespace_id, bucket.entity_id), keys.sk_idempotency(bucket.resource, key)


def done_item(bucket: BucketId, key: str, done: Done, *, event_id: str, expires_at: int) -> Item:
    """Return the item of a key, which expires at ``expires_at`` (epoch seconds); ``event_id`` is the audit event."""
    own = {ENTITY_ID: bucket.entity_id, RESOURCE: bucket.resource, EVENT_ID: event_id, TTL: expires_at}
    return {**item_keys(bucket.namespace_id, *done_key(bucket, key)), **own, **DONE.write(done)}


@reads
def has_expired(item: Item, now_ms: int) -> bool:
    """Return whether a key no longer counts: the table may keep its item for two days more."""
    return number(item, TTL) * 1000 <= now_ms
