"""Read buckets: one, all of an entity, or the sums over a resource.

A bucket has the limits of its last write. It is shown as its next write would have it, as far as the bucket itself says
that this differs: if it was invalidated since, if a schedule shapes it, or if it is blocked, which may have
ended. The configs of these buckets alone are read. So a bucket that was not invalidated costs no read more; a change of
a resource's limits that invalidated no bucket shows when a process has obeyed.
"""

from collections.abc import Sequence
from typing import Any, Final

from ...exceptions import ValidationError
from ...operations.values import Item, Key, Query
from ...rules.balances import ShardLimit, limit_share, refill_bucket
from ...rules.sharding import calculate_balance
from ...rules.windows import window_at
from ...runtime.dataclass import dataclass, replace
from ...schema import keys
from ...schema.attributes import CONFIG_AS_OF, PK, REFUSED, SHADOWED, TTL, bucket_attributes, parse_refused_by
from ...schema.items import BucketId, BucketState, read_bucket
from ...schema.partitions import is_spread
from ...schema.record import reads
from ...schema.trace import END_OF_TIME_MS
from ...values.buckets import Bucket, BucketLimit, LimitCapacity, ResourceCapacity
from ...values.limits import MILLI, Limit
from ...values.naming import check_identifier, check_resource
from ...values.resolution import Config
from ..index_rows import IndexRows, report
from ..partitions import next_rows, of_resource
from ..process.namespace_state import NamespaceState, bucket_key
from ..retry import key_of, read_all
from ..steps import Flow
from ..validation import validate_bucket, validate_places
from .shifting import all_shifted
from .view import View

MOST_PLACES: Final = 1000


def get_bucket(namespace_state: NamespaceState, entity_id: str, resource: str) -> Flow[Bucket | None]:
    """Return the bucket, ``None`` if there is none, which is equivalent to a full one."""
    bucket = BucketId(namespace_state.namespace_id, *validate_bucket(entity_id, resource))
    found = yield from in_force(namespace_state, (yield from read_whole([bucket])))
    return found[0] if found else None


def get_buckets(namespace_state: NamespaceState, entity_id: str, resource: str | None) -> Flow[list[Bucket]]:
    """Return the buckets of an entity, sorted by resource; only that of ``resource`` if it is given."""
    if resource is not None:
        bucket = yield from get_bucket(namespace_state, entity_id, resource)
        return [] if bucket is None else [bucket]
    pk = keys.gsi3_pk_entity(namespace_state.namespace_id, check_identifier("entity_id", entity_id))
    queries = [Query(pk, index="GSI3", begins_with=keys.INDEX_BUCKET_PREFIX)]
    rows = IndexRows(namespace_state.namespace_id)
    shards: dict[str, list[BucketState]] = {}
    while queries:
        queries, states = yield from _states_of_page(namespace_state, queries, rows)
        for state in states:
            shards.setdefault(state.id.resource, []).append(state)
    found = yield from in_force(namespace_state, [shards[name] for name in sorted(shards)], rows)
    yield from report(rows)
    return found


def get_buckets_at(namespace_state: NamespaceState, places: Sequence[tuple[str, str]]) -> Flow[list[Bucket]]:
    """Return the buckets at entities and resources, in that order; leave out missing ones."""
    ns = namespace_state.namespace_id
    buckets = [BucketId(ns, *validate_bucket(*place)) for place in validate_places(places)]
    if len(buckets) > MOST_PLACES:
        raise ValidationError("places", len(buckets), f"must be {MOST_PLACES} places at most: ask several times")
    rows = IndexRows(ns)
    found = yield from in_force(namespace_state, (yield from _read_sound(namespace_state, buckets, rows)), rows)
    yield from report(rows)
    return found


def get_resource_capacity(namespace_state: NamespaceState, resource: str) -> Flow[ResourceCapacity]:
    """Return the sums over all buckets of a resource; hold a page of some partitions in memory at a time."""
    resource = check_resource("resource", resource)
    queries = of_resource(namespace_state, resource, Query("", "GSI2", begins_with=keys.INDEX_BUCKET_PREFIX))
    rows = IndexRows(namespace_state.namespace_id)
    sums: dict[str, _Sum] = {}
    entities = 0
    while queries:
        queries, states = yield from _states_of_page(namespace_state, queries, rows)
        entities += sum(_shard_of(state) == 0 for state in states)
        now = namespace_state.now()
        for state in states:
            _add(sums, state.repaired(now), now)
    yield from report(rows)
    return ResourceCapacity(resource, tuple(sums[name].total(name) for name in sorted(sums)), entities)


def read_whole(buckets: Sequence[BucketId]) -> Flow[list[list[BucketState]]]:
    """Return all shards of each bucket, none for a missing bucket. Shard 0 is read first: it knows the newest count.

    A shard that has not merged yet as shard 0 has is read with those that it merges with.
    """
    homes = yield from read_all([bucket_key(bucket) for bucket in buckets])
    shards = [_shard_keys(bucket, homes.get(bucket_key(bucket))) for bucket in buckets]
    found = homes | (yield from read_all([key for keys in shards for key in keys[1:]]))
    states = [[read_bucket(found[key]) for key in keys if key in found] for keys in shards]
    behind = [bucket_key(each) for bucket in states for each in shards_behind(bucket)]
    more = [read_bucket(item) for item in (yield from read_all(behind)).values()] if behind else []
    return [[*bucket, *(each for each in more if bucket and each.id.other(0) == bucket[0].id)] for bucket in states]


def shards_behind(states: Sequence[BucketState]) -> list[BucketId]:
    """Return the shards that are to merge with some of these, which are all that shard 0 knows."""
    count = states[0].shard_count if states else 0
    return [
        state.id.other(shard)
        for state in states
        for shard in range(_shard_of(state) + count, max(count, state.shard_count), count)
    ]


def _read_sound(
    namespace_state: NamespaceState, buckets: Sequence[BucketId], rows: IndexRows
) -> Flow[list[list[BucketState]]]:
    """Return the shards of each bucket that can be read, as ``read_whole`` does; ``rows`` reports the others."""
    now_ms = namespace_state.now()

    def shards(wanted: Sequence[BucketId]) -> Flow[dict[BucketId, BucketState]]:
        found = yield from read_all([bucket_key(each) for each in wanted])
        return {state.id: state for state in rows.read(found.values(), lambda item: checked_state(item, now_ms))}

    homes = yield from shards(buckets)
    others = {each: [each.other(shard) for shard in range(1, homes[each].shard_count)] for each in homes}
    states = {**homes, **(yield from shards([other for each in others.values() for other in each]))}
    return [[states[each] for each in (home, *others.get(home, ())) if each in states] for home in buckets]


def in_force(
    namespace_state: NamespaceState, found: Sequence[Sequence[BucketState]], rows: IndexRows | None = None
) -> Flow[list[Bucket]]:
    """Return the buckets that were found, as their next write would have them: see the top of this module.

    With the ``rows`` of a list, a config that cannot be read is reported there, and its buckets are shown as their last
    write left them. Raises ``Unreadable`` else.
    """
    there = [states for states in found if states]
    configs = yield from limits_now(namespace_state, there, rows)
    now_ms = namespace_state.now()
    by_home = {key_of(states[0].item): states for states in there}

    @reads
    def shown(item: Item) -> Bucket:
        states = by_home[key_of(item)]
        return _with_dates(_shown(states, configs.get(states[0].id), now_ms))

    homes = [states[0].item for states in there]
    return [shown(item) for item in homes] if rows is None else rows.read(homes, shown)


def _with_dates(bucket: Bucket) -> Bucket:
    """Return a bucket whose instants are dates. Raises ``ValueError`` for any other, which cannot be shown."""
    for ms in (bucket.anchor_ms, bucket.expires_at_ms, *(each.window_ends_ms for each in bucket.limits)):
        if ms is not None and not 0 <= ms < END_OF_TIME_MS:
            raise ValueError(f"{ms} is not an instant in epoch milliseconds")
    return bucket


def _may_differ(states: Sequence[BucketState]) -> bool:
    """Return whether other limits may hold than those of the last write."""
    first = states[0]
    blocked = any(limit.blocks for limit in first.limits)
    return blocked or any(map(first.schedule_id, first.shard_limits)) or any(each.is_told for each in states)


def _shown(states: Sequence[BucketState], config: Config | None, now_ms: int) -> Bucket:
    repaired = [each.repaired(now_ms) for each in states]
    if config is None or not config.stored:
        return bucket_of(repaired, now_ms)
    config, shaped = config.at(now_ms), all_shifted(repaired, config, now_ms)
    bucket = bucket_of(shaped, now_ms)
    if bucket.available.keys() == config.by_name.keys() and all(each.is_of(config) for each in shaped):
        return bucket
    consumed = {each.limit.name: each.consumed for each in bucket.limits}
    limits = []
    for limit in sorted(config.limits, key=lambda each: each.name):
        parts = View(shaped, config, now_ms, reshaped=True).parts(limit.name)
        available = calculate_balance(parts, now_ms)
        limits.append(_limit_shown(limit, parts[0].shard_limit, available, consumed.get(limit.name, 0), now_ms))
    return replace(bucket, limits=tuple(limits))


def limits_now(
    namespace_state: NamespaceState, found: Sequence[Sequence[BucketState]], rows: IndexRows | None = None
) -> Flow[dict[BucketId, Config]]:
    """Return the limits of those buckets that may have had others at their last write, by the records that this process
    knows and one read of the others; a second one follows where an entity turns out to have a tier. What it knows since
    before a bucket was invalidated is read again.
    """
    told = {
        states[0].id: max((int(each.item[CONFIG_AS_OF]) for each in states if each.is_told), default=0)
        for states in found
        if _may_differ(states)
    }
    if not told:
        return {}
    cache, at_ms = namespace_state.configs, namespace_state.now()
    generation, places = cache.generation, {(each.entity_id, each.resource): at for each, at in told.items()}
    read = yield from cache.read(places, at_ms, rows=rows)
    now_ms, limits = namespace_state.now(), dict[BucketId, Config]()
    for bucket, (place, told_ms) in zip(told, places.items(), strict=True):
        known = cache.resolve(place, read, now_ms=now_ms, generation=generation, later_than_ms=told_ms)
        if known is not None:
            limits[bucket] = known.config
    return limits


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
        **refused_counts(states),
    )


def refused_counts(states: Sequence[BucketState]) -> dict[str, Any]:
    """Return what the shards of a bucket count together of refusals: by whom, and those that shadow limits spared."""
    refusers = {name: refuser for state in states for name in state.item if (refuser := parse_refused_by(name))}
    counted = {name: sum(state.item.get(name, 0) for state in states) for name in (SHADOWED, REFUSED, *refusers)}
    return {
        "shadowed": counted[SHADOWED],
        "refused": counted[REFUSED],
        "refused_by": {refusers[name]: counted[name] for name in sorted(refusers)},
    }


def _limit_of(states: Sequence[BucketState], first: BucketState, name: str, now_ms: int) -> BucketLimit:
    holders = [state for state in states if name in state.shard_limits]
    available = sum(balance(state, name, now_ms) for state in holders)
    consumed = sum(state.item.get(bucket_attributes(name).consumed, 0) for state in holders)
    shard_limit = first.shard_limits[name]
    return _limit_shown(shard_limit.limit, shard_limit, available, consumed // MILLI, now_ms)


def _limit_shown(limit: Limit, shard_limit: ShardLimit, available: int, consumed: int, now_ms: int) -> BucketLimit:
    """Return a limit as it is shown, of which so many millitokens are left. One that has windows says when that under
    way ends, as a shard has it.
    """
    ends_ms = None
    if shard_limit.limit.kind in ("calendar", "first_use"):
        window = window_at(shard_limit.limit, now_ms, shard_limit.begun_ms)
        ends_ms = None if window is None else window.end_ms
    return BucketLimit(limit, available // MILLI, consumed, ends_ms)


def balance(state: BucketState, name: str, now_ms: int) -> int:
    """Return the headroom of a limit on a shard, in millitokens."""
    return refill_bucket(state.shard_limits[name], state.tokens_milli(name), now_ms)


def bucket_of_row(row: Item) -> BucketId:
    """Return the id of the bucket that an item, or its row in an index, is of. Raises ``ValueError`` for any other."""
    bucket = BucketId.parse(row[PK])
    fixed = bucket.attributes(spread=is_spread(row))
    if any(fixed.get(name, value) != value for name, value in row.items()):
        raise ValueError(f"not as the bucket of its key: {row[PK]!r}")
    return bucket


def _states_of_page(
    namespace_state: NamespaceState, queries: Sequence[Query], rows: IndexRows
) -> Flow[tuple[list[Query], list[BucketState]]]:
    """Return the queries that are left, and the bucket states behind a page of keys of each of the first."""
    items, left = yield from next_rows(queries)
    places = [bucket_key(bucket) for bucket in rows.read(items, bucket_of_row)]
    found = yield from read_all(places)
    now_ms = namespace_state.now()
    return left, rows.read(
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
