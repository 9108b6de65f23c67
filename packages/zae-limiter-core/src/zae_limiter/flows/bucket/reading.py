"""Read buckets: one, all of an entity, or the sums over a resource."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from ...exceptions import ValidationError
from ...operations.values import Item, Key, Page, Query
from ...rules.balances import limit_share, refill_bucket
from ...schema import keys
from ...schema.attributes import (
    PK,
    REFUSED,
    SHADOWED,
    TTL,
    bucket_attributes,
)
from ...schema.items import BucketId, BucketState, read_bucket
from ...values.buckets import Bucket, BucketLimit, LimitCapacity, ResourceCapacity
from ...values.limits import MILLI
from ...values.naming import check_identifier, check_resource
from ...values.resolution import Config
from ..index_rows import IndexRows, report
from ..process.namespace_state import NamespaceState, bucket_key
from ..retry import read_all, with_retries
from ..steps import Flow
from ..validation import validate_bucket, validate_places
from .shifting import all_shifted

MOST_PLACES: Final = 1000


def get_bucket(namespace_state: NamespaceState, entity_id: str, resource: str) -> Flow[Bucket | None]:
    """Return the bucket, ``None`` if there is none, which is equivalent to a full one."""
    bucket = BucketId(namespace_state.namespace_id, *validate_bucket(entity_id, resource))
    found = yield from _in_force(namespace_state, (yield from read_whole([bucket])))
    return found[0] if found else None


def get_buckets(namespace_state: NamespaceState, entity_id: str, resource: str | None) -> Flow[list[Bucket]]:
    """Return the buckets of an entity, sorted by resource; only that of ``resource`` if it is given."""
    if resource is not None:
        bucket = yield from get_bucket(namespace_state, entity_id, resource)
        return [] if bucket is None else [bucket]
    pk = keys.gsi3_pk_entity(namespace_state.namespace_id, check_identifier("entity_id", entity_id))
    query: Query | None = Query(pk, index="GSI3", begins_with=keys.INDEX_BUCKET_PREFIX)
    rows = IndexRows(namespace_state.namespace_id)
    shards: dict[str, list[BucketState]] = {}
    while query is not None:
        query, states = yield from _states_of_page(namespace_state, query, rows)
        for state in states:
            shards.setdefault(state.id.resource, []).append(state)
    yield from report(rows)
    return (yield from _in_force(namespace_state, [shards[name] for name in sorted(shards)]))


def get_buckets_at(namespace_state: NamespaceState, places: Sequence[tuple[str, str]]) -> Flow[list[Bucket]]:
    """Return the buckets at entities and resources, in that order; leave out missing ones."""
    ns = namespace_state.namespace_id
    buckets = [BucketId(ns, *validate_bucket(*place)) for place in validate_places(places)]
    if len(buckets) > MOST_PLACES:
        raise ValidationError("places", len(buckets), f"must be {MOST_PLACES} places at most: ask several times")
    return (yield from _in_force(namespace_state, (yield from read_whole(buckets))))


def get_resource_capacity(namespace_state: NamespaceState, resource: str) -> Flow[ResourceCapacity]:
    """Return the sums over all buckets of a resource; hold one page of them in memory at a time."""
    resource = check_resource("resource", resource)
    pk = keys.gsi2_pk_resource(namespace_state.namespace_id, resource)
    query: Query | None = Query(pk, index="GSI2", begins_with=keys.INDEX_BUCKET_PREFIX)
    rows = IndexRows(namespace_state.namespace_id)
    sums: dict[str, _Sum] = {}
    entities = 0
    while query is not None:
        query, states = yield from _states_of_page(namespace_state, query, rows)
        entities += sum(_shard_of(state) == 0 for state in states)
        now = namespace_state.now()
        for state in states:
            _add(sums, state.repaired(now), now)
    yield from report(rows)
    return ResourceCapacity(resource, tuple(sums[name].total(name) for name in sorted(sums)), entities)


def read_whole(buckets: Sequence[BucketId]) -> Flow[list[list[BucketState]]]:
    """Return all shards of each bucket, none for a missing bucket. Shard 0 is read first: it knows the newest count."""
    homes = yield from read_all([bucket_key(bucket) for bucket in buckets])
    shards = [_shard_keys(bucket, homes.get(bucket_key(bucket))) for bucket in buckets]
    found = homes | (yield from read_all([key for keys in shards for key in keys[1:]]))
    return [[read_bucket(found[key]) for key in keys if key in found] for keys in shards]


def _in_force(namespace_state: NamespaceState, found: Sequence[Sequence[BucketState]]) -> Flow[list[Bucket]]:
    """Return the buckets that were found, with the values that their schedules have now, as their next write would
    have them. A schedule is in the config alone, so it is read for the buckets that have one, and remembered.
    """
    there = [states for states in found if states]
    scheduled = [states[0].id for states in there if any(map(states[0].schedule_id, states[0].shard_limits))]
    configs = (yield from _configs(namespace_state, scheduled)) if scheduled else {}
    now_ms = namespace_state.now()

    def shaped(states: Sequence[BucketState]) -> Sequence[BucketState]:
        config = configs.get(states[0].id)
        return states if config is None else all_shifted([each.repaired(now_ms) for each in states], config, now_ms)

    return [bucket_of(shaped(states), now_ms) for states in there]


def _configs(namespace_state: NamespaceState, buckets: Sequence[BucketId]) -> Flow[dict[BucketId, Config]]:
    """Return the configs of buckets, by the records that this process knows and one read of the others; a second one
    follows where an entity turns out to have a plan.
    """
    cache, begun = namespace_state.configs, namespace_state.now()
    generation, places = cache.generation, [(each.entity_id, each.resource) for each in buckets]
    wanted = dict.fromkeys(key for place in places for key in cache.stale_keys(*place, begun))
    read = cache.learn(wanted, (yield from read_all([*wanted])), begun, generation)
    plans = dict.fromkeys(key for place in places for key in cache.unknown_of_plan(*place, read, begun))
    read = {**read, **cache.learn(plans, (yield from read_all([*plans])), begun, generation)}
    now_ms = namespace_state.now()
    found = [cache.resolve(*place, read, now_ms=now_ms, generation=generation) for place in places]
    return {bucket: each.config for bucket, each in zip(buckets, found, strict=True) if each is not None}


def _shard_keys(bucket: BucketId, home: Item | None) -> list[Key]:
    return [bucket_key(bucket.other(shard)) for shard in range(read_bucket(home).shard_count if home else 0)]


def bucket_of(states: Sequence[BucketState], now_ms: int) -> Bucket:
    """Return the shards of a bucket as one ``Bucket``."""
    states = [state.repaired(now_ms) for state in states]
    first = min(states, key=_shard_of)
    ttl = first.item.get(TTL)
    return Bucket(
        entity_id=first.id.entity_id,
        resource=first.id.resource,
        shard_count=first.shard_count,
        limits=tuple(_limit_of(states, first, name, now_ms) for name in sorted(first.shard_limits)),
        anchor_ms=first.anchor_ms,
        expires_at_ms=None if ttl is None else ttl * 1000,
        shadowed=sum(state.item.get(SHADOWED, 0) for state in states),
        refused=sum(state.item.get(REFUSED, 0) for state in states),
    )


def _limit_of(states: Sequence[BucketState], first: BucketState, name: str, now_ms: int) -> BucketLimit:
    holders = [state for state in states if name in state.shard_limits]
    available = sum(balance(state, name, now_ms) for state in holders)
    consumed = sum(state.item.get(bucket_attributes(name).consumed, 0) for state in holders)
    return BucketLimit(first.shard_limits[name].limit, available // MILLI, consumed // MILLI)


def balance(state: BucketState, name: str, now_ms: int) -> int:
    """Return the headroom of a limit on a shard, in millitokens."""
    return refill_bucket(state.shard_limits[name], state.tokens_milli(name), now_ms)


def bucket_of_row(row: Item) -> BucketId:
    """Return the id of the bucket that an item, or its row in an index, is of. Raises ``ValueError`` for any other."""
    bucket = BucketId.parse(row[PK])
    fixed = bucket.attributes()
    if any(fixed.get(name, value) != value for name, value in row.items()):
        raise ValueError(f"not as the bucket of its key: {row[PK]!r}")
    return bucket


def _states_of_page(
    namespace_state: NamespaceState, query: Query, rows: IndexRows
) -> Flow[tuple[Query | None, list[BucketState]]]:
    """Return the bucket states behind one page of keys, and the query of the next page."""
    page: Page = yield from with_retries(query)
    places = [bucket_key(bucket) for bucket in rows.read(page.items, bucket_of_row)]
    found = yield from read_all(places)
    behind = None if page.next is None else replace(query, start=page.next)
    now_ms = namespace_state.now()
    return behind, rows.read(
        (found[place] for place in places if place in found), lambda item: checked_state(item, now_ms)
    )


def checked_state(item: Item, now_ms: int) -> BucketState:
    """Return the state of a bucket item with all amounts checked. Raises an error of ``UNREADABLE`` for a damaged
    item.
    """
    bucket_of_row(item)
    state = read_bucket(item)
    bucket_of([state], now_ms)
    return state


@dataclass(slots=True)
class _Sum:
    """The sums of one limit so far: amounts in millitokens, and the number of entities."""

    capacity: int = 0
    available: int = 0
    entities: int = 0

    def total(self, name: str) -> LimitCapacity:
        return LimitCapacity(name, self.capacity // MILLI, self.available // MILLI, self.entities)


def _add(sums: dict[str, _Sum], state: BucketState, now_ms: int) -> None:
    for name, shard_limit in state.shard_limits.items():
        total = sums.setdefault(name, _Sum())
        total.capacity += limit_share(
            shard_limit.limit, shard_limit.limit.capacity * MILLI, shard_limit.shard, shard_limit.shards
        )
        total.available += balance(state, name, now_ms)
        total.entities += shard_limit.shard == 0


def _shard_of(state: BucketState) -> int:
    return state.id.shard
