"""The items of the table: how each is made of values, and read back.

Lives here: the content of every record. Never: keys and attribute names (keys, attributes), what is written when.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

from ..entities import Entity
from ..limits import MILLI, Limit, OnUnavailable, check_on_unavailable
from ..provisioner import StoredConfig
from ..sharding import Part, full_part
from ..token_bucket import ShardLimit
from . import keys
from .attributes import bucket_attr, limit_attr

Item = dict[str, Any]

WRITES: Final = bucket_attr("wcu", "tc")
ONE_WRITE: Final = MILLI
AHEAD_MS: Final = 60_000
FINGERPRINT: Final = "fingerprint"  # of a config that the provisioner wrote: what it wrote
CHILDREN: Final = "child_count"  # of an entity: how many others have it as their parent


class BucketAttributes(NamedTuple):
    """The attribute names of one limit in a bucket item."""

    tk: str
    tc: str
    cp: str
    bx: str
    ra: str
    rp: str


@lru_cache(maxsize=4096)
def bucket_attributes(limit: str) -> BucketAttributes:
    """The attribute names of the limit."""
    return BucketAttributes(*(bucket_attr(limit, name) for name in BucketAttributes._fields))


class LimitRow(NamedTuple):
    """One limit of a bucket item: all that a write of it needs, at hand."""

    name: str
    tk: str
    tc: str
    ceiling_milli: int
    refill_amount: int
    refill_period: int
    minted_at_anchor: int


class BucketState(NamedTuple):
    """A bucket item as it was seen, and what its shape says: shape, ceiling and attributes of each limit.

    ``fill_ms`` is how long the slowest limit takes from empty to full.
    """

    item: Item
    shard_limits: Mapping[str, ShardLimit]
    ceilings: Mapping[str, int]
    rows: tuple[LimitRow, ...]
    fill_ms: int

    @property
    def id(self) -> "BucketId":
        """Which item it is."""
        return BucketId(*keys.parse_bucket_pk(self.item["PK"]))

    @property
    def anchor_ms(self) -> int:
        """The instant that the balances are expressed for; the version of the shapes."""
        return int(self.item["rf"])

    def is_ahead(self, now_ms: int) -> bool:
        """Whether the anchor lies so far ahead that a clock must have been wrong."""
        return self.anchor_ms > now_ms + AHEAD_MS

    def repaired(self, now_ms: int) -> "BucketState":
        """The same, or with an anchor that a wrong clock has set ahead as the next write will leave it.

        Nothing was minted, and what was stored is forgotten; a balance below zero stays: what is owed is owed.
        """
        if not self.is_ahead(now_ms):
            return self
        forgotten = {row.tk: min(self.item[row.tk], 0) for row in self.rows}
        return read_bucket({**self.item, **forgotten, "rf": now_ms})

    @property
    def shard_count(self) -> int:
        """Among how many shards the bucket's limits are divided, as far as this shard knows."""
        return int(self.item["shard_count"])

    def tokens_milli(self, limit: str) -> int:
        """The stored balance of a limit, as of the anchor."""
        return int(self.item[bucket_attributes(limit).tk])

    def part(self, limit: Limit, now_ms: int) -> Part:
        """What this shard has of a limit, by the shape that it has here; full where it is new to the shard."""
        shard_limit = self.shard_limits.get(limit.name)
        if shard_limit is None:
            return full_part(limit, now_ms, self.id.shard, self.shard_count)
        return Part(shard_limit, self.tokens_milli(limit.name))


def read_bucket(item: Item, before: BucketState | None = None) -> BucketState:
    """The view of a bucket item; takes the shapes over from the view before it where the anchor did not move."""
    if before is not None:
        old, shard_limits, ceilings, rows, fill_ms = before
        if old["rf"] == item["rf"] and old["shard_count"] == item["shard_count"]:
            return BucketState(item, shard_limits, ceilings, rows, fill_ms)
    shard_limits = read_shapes(item)
    rows = tuple(_row(name, shard_limit) for name, shard_limit in shard_limits.items())
    fill_ms = max((row.ceiling_milli * row.refill_period // row.refill_amount for row in rows), default=0)
    return BucketState(item, shard_limits, {row.name: row.ceiling_milli for row in rows}, rows, fill_ms)


def _row(name: str, shard_limit: ShardLimit) -> LimitRow:
    at, limit = bucket_attributes(name), shard_limit.limit
    return LimitRow(
        name=name,
        tk=at.tk,
        tc=at.tc,
        ceiling_milli=shard_limit.ceiling_milli,
        refill_amount=limit.refill_amount,
        refill_period=limit.refill_period,
        minted_at_anchor=shard_limit.minted_at_anchor,
    )


def read_shapes(item: Item) -> dict[str, ShardLimit]:
    """The shape of every limit of a bucket item, by name."""
    shard = keys.parse_bucket_pk(item["PK"])[3]
    names = (name[2:-3] for name in item if name.startswith("b_") and name.endswith("_tk"))
    return {name: ShardLimit(_read_rule(item, name), item["rf"], shard, item["shard_count"]) for name in names}


def _read_rule(item: Item, name: str) -> Limit:
    at = bucket_attributes(name)
    return Limit(
        name=name,
        capacity=item[at.cp] // MILLI,
        burst=(item[at.bx] if at.bx in item else item[at.cp]) // MILLI,
        refill_amount=item[at.ra] // MILLI,
        refill_period=item[at.rp] // 1000,
    )


def rule_attributes(limit: Limit) -> dict[str, int]:
    """The attributes of a bucket item that hold the rule; ``bx`` only where the burst is not the capacity."""
    at = bucket_attributes(limit.name)
    rule = {at.cp: limit.capacity * MILLI, at.ra: limit.refill_amount * MILLI, at.rp: limit.refill_period * 1000}
    if limit.burst != limit.capacity:
        rule[at.bx] = limit.burst * MILLI
    return rule


@dataclass(frozen=True, slots=True)
class BucketId:
    """Which bucket item: an entity, a resource and a shard of a namespace."""

    namespace_id: str
    entity_id: str
    resource: str
    shard: int = 0
    pk: str = field(init=False)

    def __post_init__(self) -> None:
        pk = keys.pk_bucket(self.namespace_id, self.entity_id, self.resource, self.shard)
        object.__setattr__(self, "pk", pk)

    def other(self, shard: int) -> "BucketId":
        """Another shard of the same bucket."""
        return BucketId(self.namespace_id, self.entity_id, self.resource, shard)

    def attributes(self) -> Item:
        """Keys, index keys and names: what does not change in the life of the item."""
        ns = self.namespace_id
        return {
            "PK": self.pk,
            "SK": keys.sk_state(),
            "GSI2PK": keys.gsi2_pk_resource(ns, self.resource),
            "GSI2SK": keys.gsi2_sk_bucket(self.entity_id, self.shard),
            "GSI3PK": keys.gsi3_pk_entity(ns, self.entity_id),
            "GSI3SK": keys.gsi3_sk_bucket(self.resource, self.shard),
            "GSI4PK": keys.gsi4_pk(ns),
            "GSI4SK": self.pk,
            "entity_id": self.entity_id,
            "resource": self.resource,
        }


def config_attributes(limits: Iterable[Limit]) -> dict[str, int]:
    """The limits as the attributes of a config item."""
    attributes = {}
    for limit in limits:
        attributes[limit_attr(limit.name, "cp")] = limit.capacity
        attributes[limit_attr(limit.name, "bx")] = limit.burst
        attributes[limit_attr(limit.name, "ra")] = limit.refill_amount
        attributes[limit_attr(limit.name, "rp")] = limit.refill_period
    return attributes


def read_limits(item: Item | None) -> tuple[Limit, ...]:
    """The limits of a config item, sorted by name; none where there is no item."""
    names = sorted(name[2:-3] for name in item or () if name.startswith("l_") and name.endswith("_cp"))
    return tuple(_read_limit(item or {}, name) for name in names)


def _read_limit(item: Item, name: str) -> Limit:
    capacity: int = item[limit_attr(name, "cp")]
    return Limit(
        name=name,
        capacity=capacity,
        burst=int(item.get(limit_attr(name, "bx"), capacity)),
        refill_amount=item[limit_attr(name, "ra")],
        refill_period=item[limit_attr(name, "rp")],
    )


def read_on_unavailable(item: Item | None) -> OnUnavailable | None:
    """What the system config says, ``None`` where it says nothing."""
    value = (item or {}).get("on_unavailable")
    return None if value is None else check_on_unavailable(value)


def read_config(item: Item) -> StoredConfig:
    """All that a config item says."""
    return StoredConfig(read_limits(item), read_on_unavailable(item), item.get(FINGERPRINT))


def said_besides(config: StoredConfig) -> Item:
    """What a config item says besides its limits."""
    said = {"on_unavailable": config.on_unavailable, FINGERPRINT: config.fingerprint}
    return {name: value for name, value in said.items() if value is not None}


def entity_item(namespace_id: str, entity: Entity) -> Item:
    """The record of an entity that has no children yet; in the index of its parent where it has one."""
    pk = keys.pk_entity(namespace_id, entity.entity_id)
    item: Item = {
        "PK": pk,
        "SK": keys.sk_meta(),
        "GSI4PK": keys.gsi4_pk(namespace_id),
        "GSI4SK": pk,
        "entity_id": entity.entity_id,
        "cascade": entity.cascade,
        "metadata": dict(entity.metadata),
        "created_at": entity.created_at,
        "version": entity.version,
        CHILDREN: 0,
    }
    if entity.name is not None:
        item["name"] = entity.name
    if entity.parent_id is not None:
        item["parent_id"] = entity.parent_id
        item["GSI1PK"] = keys.gsi1_pk_parent(namespace_id, entity.parent_id)
        item["GSI1SK"] = keys.gsi1_sk_child(entity.entity_id)
    return item


def read_entity(item: Item) -> Entity:
    """The entity of a record."""
    return Entity(
        entity_id=item["entity_id"],
        name=item.get("name"),
        parent_id=item.get("parent_id"),
        cascade=item["cascade"],
        metadata=item["metadata"],
        created_at=item["created_at"],
        version=item["version"],
    )


def namespace_items(name: str, namespace_id: str, created_at: str) -> tuple[Item, Item]:
    """The two records of a namespace: by name and by id."""
    fields = {"PK": keys.pk_system("_"), "name": name, "namespace_id": namespace_id, "created_at": created_at}
    return {**fields, "SK": keys.sk_namespace(name)}, {**fields, "SK": keys.sk_nsid(namespace_id)}
