"""Entities: create, get, update, delete, and the writes of one record. ``lineage`` has the rules for who may be above
whom.

A process may die between two writes of a deletion. Before the record is deleted, the entity still exists, with fewer
limits; afterwards only buckets are left, and these refill. In both cases another delete does the rest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate, count
from typing import Any

from ...exceptions import (
    EntityExistsError,
    EntityHasChildrenError,
    EntityNotFoundError,
    StaleEntityError,
    ValidationError,
)
from ...operations.errors import ConditionFailed, OutcomeUnknown, StoreError, Throttled, TransactionCancelled
from ...operations.sizes import item_size
from ...operations.values import Conditions, Delete, Item, Key, Put, Query, Transact, Update
from ...runtime.dataclass import replace
from ...runtime.named_tuple import NamedTuple
from ...schema import keys
from ...schema.attributes import (
    ANCESTOR_IDS,
    ANCHOR,
    CHILDREN,
    CONFIG_VERSION,
    EVENT_ID,
    FINGERPRINT,
    METADATA,
    PARENT_IDS,
    PK,
    SK,
    TIER,
    VERSION,
)
from ...schema.configs import read_columns, read_own_place
from ...schema.entities import entity_item, parent_item, read_child_count, read_entity, write_metadata
from ...schema.items import BucketId
from ...values.audit import AuditAction, Cause
from ...values.entities import UNCHANGED, Entity, Json, Unchanged
from ...values.naming import DEFAULT_RESOURCE, check_identifier
from ...values.switches import NO_SWITCHES
from ..bucket.reading import bucket_of_row
from ..index_rows import IndexRows, query_rows, report
from ..optimistic import Write, as_read, lost_race, optimistic
from ..pages import PAUSES, query_all
from ..process.namespace_state import NamespaceState, bucket_key
from ..retry import ATTEMPTS, RaceLost, key_of, read, read_all, with_retries
from ..steps import Flow, Sleep, call_all
from ..validation import (
    Parents,
    validate_flag,
    validate_metadata,
    validate_name,
    validate_parents,
    validate_tier,
    validate_update,
    validate_version,
)
from . import audit
from .levels import Change, check_tier_exists, place_of, tell_buckets
from .lineage import Records, check_above, check_below, count_children, meta_key, read_children
from .many_levels import change_many

NO_PARENTS = Parents((), "parent_id")
CONFIGS_IN_TRANSACTION = 90
DELETES_AT_ONCE = 25
BYTES_IN_EVENT = 300_000  # of limits, in the audit event of the entity: an item has at most 400 KB


def create_entity(
    namespace_state: NamespaceState,
    entity_id: str,
    cause: Cause,
    *,
    name: str | None,
    parent_id: str | None,
    parent_ids: Sequence[str] | None,
    cascade: bool,
    metadata: Mapping[str, Json] | None,
    tier: str | None = None,
    exist_ok: bool = False,
) -> Flow[Entity]:
    """Create an entity, and return it. With ``exist_ok``, an entity that is there already is returned as it is.

    Raises ``EntityExistsError``, ``EntityNotFoundError`` for an unknown parent, and ``ValidationError``, also for an
    unknown tier, and for a parent that is the entity itself or has too many above it.
    """
    entity_id = check_identifier("entity_id", entity_id)
    given = [UNCHANGED if each is None else each for each in (parent_id, parent_ids)]
    parents = validate_parents(*given) or NO_PARENTS
    if validate_flag("cascade", cascade) and not parents.ids:
        raise ValidationError("cascade", cascade, "needs a parent_id to cascade to")
    entity = Entity(entity_id, validate_name(name), None, cascade, validate_metadata(metadata), cause.at, 1)
    entity = replace(entity, tier=validate_tier(tier)).under(*parents.ids)
    check_not_itself(entity_id, parents)
    if (
        validate_flag("exist_ok", exist_ok)
        and (there := (yield from get_entity(namespace_state, entity_id))) is not None
    ):
        return there
    yield from check_tier_exists(namespace_state, entity.tier)
    return (yield from _create(namespace_state, entity, parents, cause, exist_ok=exist_ok))


def _create(
    namespace_state: NamespaceState, entity: Entity, parents: Parents, cause: Cause, *, exist_ok: bool
) -> Flow[Entity]:
    entity_id, records = entity.entity_id, Records(namespace_state)
    for number in range(ATTEMPTS):
        above: Sequence[str] = parents.ids
        if number or len(above) > 1:  # one parent without parents, the commonest case, need not be read
            above = yield from records.read_above(parents.ids)
            check_above(entity_id, parents, above, records)
        try:
            writes = writes_of(records, entity_id, entity, above, cause).with_counts(records)
            yield from with_retries(Transact(writes, cause.request_token(number)))
        except TransactionCancelled as cancelled:
            if not lost_race(cancelled):
                raise
            itself, _, *_ = cancelled.reasons
            if exist_ok and itself.item is not None:  # created by another process in between
                return read_entity(itself.item)
            if itself.code == "ConditionalCheckFailed":
                raise EntityExistsError(entity_id) from None
            found = [each.item for each in cancelled.reasons[-len(parents.ids) :]]
            records = Records(namespace_state, dict(zip(parents.ids, found, strict=True)) if len(found) == 1 else {})
        else:
            namespace_state.configs.mark_changed(meta_key(namespace_state, entity_id))
            if entity.tier is not None:  # it may have been used before it was created
                yield from tell_buckets(namespace_state, (entity_id, DEFAULT_RESOURCE))
            return entity
    raise RaceLost


class RecordWrites(NamedTuple):
    """The writes of one record, how the counts of its parents change, and who must have the parents that were read."""

    own: Sequence[Write]
    children: Mapping[str, int]
    seen: Sequence[str]

    def with_counts(self, records: Records) -> tuple[Write, ...]:
        """Return the writes, with those of the counts at the parents behind them."""
        return (*self.own, *count_children(records, self.children, self.seen))


def writes_of(
    records: Records,
    entity_id: str,
    after: Entity | None,
    above: Sequence[str],
    cause: Cause,
    *,
    number: int = 0,
    fingerprint: str | Unchanged | None = UNCHANGED,
    configs: Mapping[str, Any] | None = None,
) -> RecordWrites:
    """Return the writes that leave the record of an entity as it is to be after them, ``None`` for none: the record
    first, then its audit event, which has also the ``configs`` of a deleted entity, then the links to further parents.

    ``above``: who is above the entity then. The record and all above it were read.
    """
    namespace_state, item = records.namespace_state, records.by_id.get(entity_id)
    ns, before = namespace_state.namespace_id, None if item is None else read_entity(item)
    made: AuditAction = "entity_created" if before is None else "entity_updated"
    event = audit.event(
        namespace_state,
        cause,
        "entity_deleted" if after is None else made,
        entity_id,
        before=configs if before is None else {**(configs or {}), **_plain(before)},
        after=None if after is None else _plain(after),
        number=number,
    )
    left, parents = (() if each is None else each.parent_ids for each in (before, after))
    joined = [each for each in parents if each not in left]
    seen: Sequence[str] = joined
    own: list[Write] = [event]
    if after is not None:
        new = entity_item(ns, after) | {EVENT_ID: event.item[EVENT_ID]}
        if isinstance(fingerprint, Unchanged):
            fingerprint = (item or {}).get(FINGERPRINT)
        if fingerprint is not None:
            new[FINGERPRINT] = fingerprint
        beside, guards = [FINGERPRINT], [VERSION]
        if left != parents:
            beside, guards = [FINGERPRINT, ANCESTOR_IDS], [VERSION, CHILDREN]
            if further := [each for each in above if each not in parents]:  # a hint of what to read with the parents
                new[ANCESTOR_IDS] = further
        if item is None or before is None:
            own = [Put(new, Conditions(absent=(PK,))), event]
        else:  # an update, because the count of children changes meanwhile
            if left != parents and read_child_count(item):
                seen = above
            old = entity_item(ns, before) | {name: item[name] for name in beside if name in item}
            changed = {name: value for name, value in new.items() if value != old.get(name)}
            gone = tuple(name for name in old if name not in new)
            own = [Update(key_of(item), set=changed, remove=gone, when=as_read(item, *guards)), event]
    elif item is not None:
        own = [Delete(key_of(item), as_read(item, VERSION, CHILDREN)), event]  # without children
    pk = keys.pk_entity(ns, entity_id)
    own += [Delete(Key(pk, keys.sk_parent(each))) for each in left[1:] if each not in parents[1:]]
    own += [Put(parent_item(ns, entity_id, each)) for each in parents[1:] if each not in left[1:]]
    counts = {each: -1 for each in left if each not in parents} | dict.fromkeys(joined, 1)
    return RecordWrites(own, counts, seen)


def is_same(before: Entity, after: Entity) -> bool:
    """Return whether two records differ in nothing but their versions."""
    same = replace(after, version=before.version) == before
    return same and write_metadata(after.metadata) == write_metadata(before.metadata)  # True == 1


def _plain(entity: Entity) -> dict[str, Any]:
    """Return an entity as an audit event has it."""
    fields = ("name", "parent_id", "cascade", "version")
    more: dict[str, Any] = {PARENT_IDS: list(entity.parent_ids)} if len(entity.parent_ids) > 1 else {}
    if entity.tier is not None:
        more[TIER] = entity.tier
    return {name: getattr(entity, name) for name in fields} | more | {METADATA: write_metadata(entity.metadata)}


def get_entity(namespace_state: NamespaceState, entity_id: str) -> Flow[Entity | None]:
    """Return the entity, ``None`` if there is none."""
    entity_id = check_identifier("entity_id", entity_id)
    item = yield from read(meta_key(namespace_state, entity_id))
    return None if item is None else read_entity(item)


def get_children(namespace_state: NamespaceState, parent_id: str) -> Flow[list[Entity]]:
    """Return the children of an entity, sorted by id."""
    parent_id = check_identifier("parent_id", parent_id)
    items = yield from read_children(namespace_state, parent_id)
    return [read_entity(item) for item in items]


def get_ancestors(namespace_state: NamespaceState, entity_id: str) -> Flow[list[Entity]]:
    """Return the parents of an entity, and all above them, nearest first. Raises ``EntityNotFoundError``."""
    entity_id = check_identifier("entity_id", entity_id)
    records = Records(namespace_state)
    [itself, *above] = yield from records.read_above([entity_id])
    if records.by_id[itself] is None:
        raise EntityNotFoundError(entity_id)
    yield from records.read(above)
    return [read_entity(item) for each in above if (item := records.by_id[each]) is not None]


def update_entity(
    namespace_state: NamespaceState,
    entity_id: str,
    fields: Mapping[str, Any],
    cause: Cause,
    *,
    expected_version: int | None,
) -> Flow[Entity]:
    """Change the fields that are not ``UNCHANGED``, and return the entity; nothing is written if nothing changes.

    Raises ``StaleEntityError`` for another version than the expected one, ``EntityNotFoundError`` for the entity and
    for an unknown parent, and ``ValidationError``.
    """
    entity_id, given = check_identifier("entity_id", entity_id), validate_update(fields)
    validate_version(expected_version)
    parents: Parents | None = given.pop("parents", None)
    check_not_itself(entity_id, parents or NO_PARENTS)
    yield from check_tier_exists(namespace_state, given.get("tier"))

    def attempt(cause: Cause) -> Flow[tuple[Sequence[Write], Entity]]:
        records = Records(namespace_state)
        yield from records.read((entity_id, *(parents or NO_PARENTS).ids))
        if (item := records.by_id[entity_id]) is None:
            raise EntityNotFoundError(entity_id)
        before = read_entity(item)
        if expected_version not in (None, before.version):
            raise StaleEntityError(entity_id, expected_version, before.version)
        after = replace(before, **given) if parents is None else replace(before, **given).under(*parents.ids)
        if is_same(before, after):
            return (), before
        after = replace(after, version=before.version + 1)
        if after.cascade and after.parent_id is None:
            problem = "needs a parent_id to cascade to: with its last parent, take cascade from it, too (cascade=False)"
            raise ValidationError("cascade", after.cascade, problem)
        above: Sequence[str] = ()
        if parents is not None and after.parent_ids != before.parent_ids:
            above = yield from records.read_above(parents.ids)
            check_above(entity_id, parents, above, records)
            if read_child_count(item):
                yield from check_below(entity_id, parents, records)
        return writes_of(records, entity_id, after, above, cause).with_counts(records), after

    entity = yield from optimistic(cause, attempt)
    namespace_state.configs.mark_changed(meta_key(namespace_state, entity_id))
    if "tier" in given:  # also if it has the tier already: an interrupted call may not have invalidated all
        yield from tell_buckets(namespace_state, (entity_id, DEFAULT_RESOURCE))
    return entity


def check_not_itself(entity_id: str, parents: Parents) -> None:
    """Raise ``ValidationError`` if an entity would be its own parent."""
    if entity_id in parents.ids:
        raise ValidationError(parents.field, entity_id, "an entity cannot be its own parent")


def delete_entity(namespace_state: NamespaceState, entity_id: str, cause: Cause) -> Flow[None]:
    """Delete the limits that the transaction has no room for, then the record with the other limits, then the buckets.

    Raises ``EntityHasChildrenError``, and ``EntityNotFoundError`` if nothing of the entity exists.
    """
    entity_id = check_identifier("entity_id", entity_id)
    rounds = count()

    def attempt(cause: Cause) -> Flow[tuple[Sequence[Write], list[Item]]]:
        item = yield from read(meta_key(namespace_state, entity_id))
        if item is not None and (children := read_child_count(item)):
            raise EntityHasChildrenError(entity_id, children)
        pk, now_ms = keys.pk_entity(namespace_state.namespace_id, entity_id), namespace_state.now()
        configs = yield from query_all(Query(pk, begins_with=keys.CONFIG_PREFIX))
        if item is None and not any(read_columns(config, now_ms).plain() for config in configs):
            rows = IndexRows(namespace_state.namespace_id)
            if not (yield from _buckets(rows, entity_id)):
                yield from report(rows)
                raise EntityNotFoundError(entity_id)
        # the transaction has room for so many of them, and so has the one event of all
        sizes = (item_size({each[SK]: read_columns(each, now_ms).plain()}) for each in configs[:CONFIGS_IN_TRANSACTION])
        room = sum(total <= BYTES_IN_EVENT for total in accumulate(sizes))
        if others := configs[room:]:  # each with its own audit event
            keyed = {place: place_of(namespace_state, place) for place in map(read_own_place, others)}
            gone = {place: Change(at, None, override=None, switches=asdict(NO_SWITCHES)) for place, at in keyed.items()}
            result = yield from change_many(namespace_state, gone, cause.before(next(rounds)))
            for error in result.failed.values():
                raise error
        plain = {read_own_place(each)[1]: read_columns(each, namespace_state.now()).plain() for each in configs[:room]}
        told = {"configs": {resource: config for resource, config in plain.items() if config}}
        records = Records(namespace_state, {entity_id: item})
        made = writes_of(records, entity_id, None, (), cause, configs=told).with_counts(records)
        return [*(Delete(key_of(each), as_read(each, CONFIG_VERSION)) for each in configs[:room]), *made], configs

    configs = yield from optimistic(cause, attempt)
    for key in (meta_key(namespace_state, entity_id), *map(key_of, configs)):
        namespace_state.configs.mark_changed(key)
    rows = IndexRows(namespace_state.namespace_id)
    buckets = yield from _buckets(rows, entity_id)
    for last in (False, True):  # shard 0 last: it knows the shard count
        yield from _delete_as_read([bucket_key(bucket) for bucket in buckets if (bucket.shard == 0) is last])
    for bucket in buckets:
        cached = namespace_state.cached_shards.get((bucket.entity_id, bucket.resource, bucket.shard))
        if cached is not None:  # else this process could refuse by the last seen state
            cached.learn(None, namespace_state.now(), own_writes=0)
    yield from report(rows)


def _buckets(rows: IndexRows, entity_id: str) -> Flow[list[BucketId]]:
    """Return the entity's buckets, by an index that may be a moment behind the table."""
    pk = keys.gsi3_pk_entity(rows.namespace_id, entity_id)
    return (yield from query_rows(Query(pk, "GSI3", keys.INDEX_BUCKET_PREFIX), rows, bucket_of_row))


def _delete_as_read(keys: Sequence[Key]) -> Flow[None]:
    """Delete buckets on condition that each has the anchor that was read.

    So a request that arrives late, after its answer was lost, leaves a bucket alone that was made anew since, with
    what was taken from it. A batch of DynamoDB knows no conditions.
    """

    def same_anchor(item: Item) -> Conditions:
        return Conditions(equals={ANCHOR: item[ANCHOR]}) if ANCHOR in item else Conditions(absent=(ANCHOR,))

    error: StoreError | None = None
    for attempt in range(len(PAUSES) + 1):
        if attempt:
            yield Sleep(PAUSES[attempt - 1])
        items = [*(yield from read_all(keys)).values()]
        failed: list[Key] = []
        for start in range(0, len(items), DELETES_AT_ONCE):
            wave = items[start : start + DELETES_AT_ONCE]
            answers = yield from call_all([Delete(key_of(item), same_anchor(item)) for item in wave])
            for item, answer in zip(wave, answers, strict=True):
                if isinstance(answer, ConditionFailed | Throttled | OutcomeUnknown):
                    failed, error = [*failed, key_of(item)], answer
                elif isinstance(answer, StoreError):
                    raise answer
        if not failed:
            return
        keys = failed
    raise RaceLost if error is None or isinstance(error, ConditionFailed) else error
