"""The item of a call with an idempotency key: which try holds its tokens, and what it asked for.

It is in a partition of its own, one of several by the key: an application may write there, and not to the keys of
credits, and a bucket takes more calls a second than one partition writes. It is in no index, because each row would
double the price of a call; so a purge leaves it to its ``ttl``.
"""

from collections.abc import Mapping
from typing import Final
from zlib import crc32

from ..runtime.named_tuple import NamedTuple
from . import keys
from .attributes import AMOUNTS, DRAWS, ENTITY_ID, FIRST, OVERFLOW, PK, REPEATS, RESOURCE, SETTLED, SK, TTL
from .record import NUMBER, TEXT, Field, Item, Record, a_map, number, reads

CALL_PARTITIONS: Final = 16


class KeptCall(NamedTuple):
    """What a key stands for: the try that was admitted ``first``, the amounts of the call and of its draws, in
    millitokens by limit, the resource that it overflowed to, and the number of ``repeats``.
    """

    first: str
    amounts: Mapping[str, int]
    draws: Mapping[str, Mapping[str, int]]
    overflow: str | None = None
    repeats: int = 0


def _amounts(item: Item, name: str) -> dict[str, int]:
    return {each: number(item[name], each) for each in a_map(item, name)}


KEPT: Final = Record(
    KeptCall,
    first=TEXT.named(FIRST),
    amounts=Field(_amounts, dict, attribute=AMOUNTS),
    draws=Field(
        lambda item, name: {draw: _amounts(item[name], draw) for draw in a_map(item, name)},
        lambda draws: {draw: dict(amounts) for draw, amounts in draws.items()},
        {},
        DRAWS,
    ),
    overflow=TEXT.named(OVERFLOW).optional(),
    repeats=NUMBER.named(REPEATS).optional(0),
)
read_call = KEPT.read


def call_key(ns: str, entity_id: str, resource: str, key: str) -> tuple[str, str]:
    """Return the key of the item of a call."""
    return keys.pk_call(ns, entity_id, resource, crc32(key.encode()) % CALL_PARTITIONS), keys.sk_call(key)


def call_item(address: tuple[str, str], entity_id: str, resource: str, kept: KeptCall, *, expires_at: int) -> Item:
    """Return the item of a call, which expires at ``expires_at`` (epoch seconds)."""
    own = {PK: address[0], SK: address[1], ENTITY_ID: entity_id, RESOURCE: resource, TTL: expires_at}
    return {**own, **KEPT.write(kept)}


def place_of_draw(entity_id: str, resource: str) -> str:
    """Return how the item names the bucket of a draw."""
    return f"{keys.encode(entity_id)}#{keys.encode(resource)}"


@reads
def expiry_of(item: Item) -> int:
    """Return when a call no longer counts, in epoch seconds: the table may keep its item for two days more."""
    return number(item, TTL)


__all__ = [
    "KEPT", "REPEATS", "SETTLED", "KeptCall", "call_item", "call_key", "expiry_of", "place_of_draw", "read_call",
]  # fmt: skip
