"""Delete an entity with its limits and its buckets.

A process may die between two writes. Before the record is deleted, the entity still exists, with fewer limits;
afterwards only buckets are left, and these refill. In both cases another delete does the rest.
"""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import accumulate, count
from typing import Any

from ...exceptions import EntityHasChildrenError, EntityNotFoundError
from ...operations.errors import ConditionFailed, OutcomeUnknown, RaceLost, StoreError, Throttled
from ...operations.sizes import item_size
from ...operations.values import Conditions, Delete, Item, Key, Query
from ...schema import keys
from ...schema.attributes import ANCHOR, CHILDREN, CONFIG_VERSION, SK, VERSION
from ...schema.configs import read_own_place
from ...schema.entities import read_child_count, read_entity
from ...schema.items import BucketId
from ...values.audit import Cause
from ...values.naming import check_identifier
from ...values.switches import NO_SWITCHES
from ..bucket.reading import bucket_of_row
from ..index_rows import IndexRows, query_rows, report
from ..optimistic import Write, as_read, optimistic
from ..pages import PAUSES, query_all
from ..process.namespace_state import NamespaceState, bucket_key
from ..retry import key_of, read, read_all
from ..steps import Flow, Sleep, call_all
from . import audit, entities
from .levels import Change, Row, place_of
from .lineage import meta_key
from .many_levels import change_many

CONFIGS_IN_TRANSACTION = 90
DELETES_AT_ONCE = 25
BYTES_IN_EVENT = 300_000  # of limits, in the audit event of the entity: an item has at most 400 KB


def delete_entity(namespace_state: NamespaceState, entity_id: str, cause: Cause) -> Flow[None]:
    """Delete the limits that the transaction has no room for, then the record with the other limits, then the buckets.

    Raises ``EntityHasChildrenError``, and ``EntityNotFoundError`` if nothing of the entity exists.
    """
    entity_id = check_identifier("entity_id", entity_id)
    rounds = count()

    def attempt() -> Flow[tuple[Sequence[Write], list[Item]]]:
        item = yield from read(meta_key(namespace_state, entity_id))
        if item is not None and (children := read_child_count(item)):
            raise EntityHasChildrenError(entity_id, children)
        configs = yield from _configs(namespace_state, entity_id)
        now_ms = namespace_state.now()
        if item is None and not any(Row(config, now_ms).plain() for config in configs):
            yield from _refuse_nothing(namespace_state, entity_id)
        room = _room(configs, now_ms)
        yield from _delete_limits(namespace_state, configs[room:], cause.before(next(rounds)))
        return _writes(namespace_state, entity_id, item, configs[:room], cause), configs

    configs = yield from optimistic(cause, attempt)
    for key in (meta_key(namespace_state, entity_id), *map(key_of, configs)):
        namespace_state.configs.forget(key)
    rows = IndexRows(namespace_state.namespace_id)
    yield from _delete_buckets(namespace_state, (yield from _buckets(rows, entity_id)))
    yield from report(rows)


def _refuse_nothing(namespace_state: NamespaceState, entity_id: str) -> Flow[None]:
    """Raise ``EntityNotFoundError`` for an entity that has not even a bucket."""
    rows = IndexRows(namespace_state.namespace_id)
    if not (yield from _buckets(rows, entity_id)):
        yield from report(rows)
        raise EntityNotFoundError(entity_id)


def _configs(namespace_state: NamespaceState, entity_id: str) -> Flow[list[Item]]:
    pk = keys.pk_entity(namespace_state.namespace_id, entity_id)
    return (yield from query_all(Query(pk, begins_with=keys.CONFIG_PREFIX)))


def _buckets(rows: IndexRows, entity_id: str) -> Flow[list[BucketId]]:
    """Return the entity's buckets, by an index that may be a moment behind the table."""
    pk = keys.gsi3_pk_entity(rows.namespace_id, entity_id)
    return (yield from query_rows(Query(pk, "GSI3", keys.INDEX_BUCKET_PREFIX), rows, bucket_of_row))


def _room(configs: Sequence[Item], now_ms: int) -> int:
    """Return how many of the configs the transaction has room for, and the one event that tells of all of them."""
    sizes = (item_size({config[SK]: Row(config, now_ms).plain()}) for config in configs[:CONFIGS_IN_TRANSACTION])
    return sum(total <= BYTES_IN_EVENT for total in accumulate(sizes))


def _writes(
    namespace_state: NamespaceState, entity_id: str, item: Item | None, configs: Sequence[Item], cause: Cause
) -> Sequence[Write]:
    """Return the transaction that deletes the record, if there is one, and the limits."""
    plain = {read_own_place(config)[1]: Row(config, namespace_state.now()).plain() for config in configs}
    before: dict[str, Any] = {"configs": {resource: config for resource, config in plain.items() if config}}
    writes: list[Write] = [Delete(key_of(config), as_read(config, CONFIG_VERSION)) for config in configs]
    if item is not None:
        entity = read_entity(item)
        before |= entities.plain(entity)
        writes.append(Delete(key_of(item), as_read(item, VERSION, CHILDREN)))  # without children
        writes += entities.leaving(namespace_state, entity)
    return [*writes, audit.event(namespace_state, cause, "entity_deleted", entity_id, before=before, after=None)]


def _delete_limits(namespace_state: NamespaceState, configs: Sequence[Item], cause: Cause) -> Flow[None]:
    """Delete limits and overrides, each place with its own audit event."""
    keyed = {place: place_of(namespace_state, place) for place in map(read_own_place, configs)}
    changes = {place: Change(at, None, override=None, switches=asdict(NO_SWITCHES)) for place, at in keyed.items()}
    result = yield from change_many(namespace_state, changes, cause)
    for error in result.failed.values():
        raise error


def _delete_buckets(namespace_state: NamespaceState, buckets: Sequence[BucketId]) -> Flow[None]:
    for last in (False, True):  # shard 0 last: it knows the shard count
        yield from _delete_as_read([bucket_key(bucket) for bucket in buckets if (bucket.shard == 0) is last])
    for bucket in buckets:
        cached = namespace_state.cached_buckets.get((bucket.entity_id, bucket.resource, bucket.shard))
        if cached is not None:  # else this process could refuse by the last seen state
            cached.learn(None, namespace_state.now(), own_writes=0)


def _delete_as_read(keys: Sequence[Key]) -> Flow[None]:
    """Delete buckets on condition that each has the anchor that was read.

    So a request that arrives late, after its answer was lost, leaves a bucket alone that was made anew since, with
    what was taken from it. A batch of DynamoDB knows no conditions.
    """
    error: StoreError | None = None
    for attempt in range(len(PAUSES) + 1):
        if attempt:
            yield Sleep(PAUSES[attempt - 1])
        items = [*(yield from read_all(keys)).values()]
        failed: list[Key] = []
        for start in range(0, len(items), DELETES_AT_ONCE):
            wave = items[start : start + DELETES_AT_ONCE]
            answers = yield from call_all([Delete(key_of(item), _same_anchor(item)) for item in wave])
            for item, answer in zip(wave, answers, strict=True):
                if isinstance(answer, ConditionFailed | Throttled | OutcomeUnknown):
                    failed, error = [*failed, key_of(item)], answer
                elif isinstance(answer, StoreError):
                    raise answer
        if not failed:
            return
        keys = failed
    raise RaceLost if error is None or isinstance(error, ConditionFailed) else error


def _same_anchor(item: Item) -> Conditions:
    return Conditions(equals={ANCHOR: item[ANCHOR]}) if ANCHOR in item else Conditions(absent=(ANCHOR,))
