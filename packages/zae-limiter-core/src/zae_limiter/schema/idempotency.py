"""The item of an idempotency key: what was done to a bucket under it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from . import keys
from .attributes import ACTION, ENTITY_ID, EVENT_ID, GSI4PK, GSI4SK, PK, RESOURCE, SK, TOKENS, TTL
from .reading import number, reads, text

Item = dict[str, Any]


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


def done_item(place: KeyPlace, done: Done, *, event_id: str, expires_at: int) -> Item:
    """Return the item of a key, which expires at ``expires_at`` (epoch seconds); ``event_id`` is the audit event."""
    pk = keys.pk_idempotency(place.namespace_id, place.entity_id)
    return {
        PK: pk,
        SK: keys.sk_idempotency(place.resource, place.key),
        GSI4PK: keys.gsi4_pk(place.namespace_id),
        GSI4SK: pk,
        ENTITY_ID: place.entity_id,
        RESOURCE: place.resource,
        ACTION: done.action,
        TOKENS: dict(done.tokens),
        EVENT_ID: event_id,
        TTL: expires_at,
    }


@reads
def read_done(item: Item) -> Done:
    """Return what the key of an item stands for."""
    tokens = item[TOKENS]
    if not isinstance(tokens, dict):
        raise TypeError("the tokens of an idempotency key are no map")
    return Done(text(item, ACTION), {name: number(tokens, name) for name in tokens})


@reads
def has_expired(item: Item, now_ms: int) -> bool:
    """Return whether a key no longer counts: the table may keep its item for two days more."""
    return number(item, TTL) * 1000 <= now_ms
