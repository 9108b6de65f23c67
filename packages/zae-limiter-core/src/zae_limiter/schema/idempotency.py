"""The item of an idempotency key: what was done to a bucket under it."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from . import keys
from .attributes import ENTITY_ID, EVENT_ID, RESOURCE, TTL
from .record import TEXT, Field, Item, Record, a_map, item_keys, number, reads


class KeyPlace(NamedTuple):
    """The bucket that a key is of, and the key."""

    namespace_id: str
    entity_id: str
    resource: str
    key: str


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


def done_item(at: KeyPlace, done: Done, *, event_id: str, expires_at: int) -> Item:
    """Return the item of a key, which expires at ``expires_at`` (epoch seconds); ``event_id`` is the audit event."""
    pk, sk = keys.pk_idempotency(at.namespace_id, at.entity_id), keys.sk_idempotency(at.resource, at.key)
    own = {ENTITY_ID: at.entity_id, RESOURCE: at.resource, EVENT_ID: event_id, TTL: expires_at}
    return {**item_keys(at.namespace_id, pk, sk), **own, **DONE.write(done)}


@reads
def has_expired(item: Item, now_ms: int) -> bool:
    """Return whether a key no longer counts: the table may keep its item for two days more."""
    return number(item, TTL) * 1000 <= now_ms
