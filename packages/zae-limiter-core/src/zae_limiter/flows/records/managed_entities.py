"""Read and write the records of many entities, for the provisioner.

The tree is in the records alone: each names its parent, and counts its children. A write of a child therefore also
writes its parents, and no transaction may write one item twice: the counts of a parent are summed up, and an entity
that is a parent of another one of the same transaction waits for the next one. So the order of the changes is kept,
and the caller gives it: parents before children, children away before their parent goes.

An entity that somebody gave several parents is left alone: a manifest has one parent of each.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ...exceptions import (
    EntityHasChildrenError,
    EntityNotFoundError,
    ValidationError,
    ZAELimiterError,
)
from ...operations.errors import StoreError, TransactionCancelled
from ...operations.values import Conditions, Delete, Item, Put, Query, Transact, Update
from ...schema import keys
from ...schema.attributes import ANCESTOR_IDS, CHILDREN, EVENT_ID, FINGERPRINT, PARENT_ID, PK, VERSION
from ...schema.entities import entity_item, read_child_count, read_entity, read_parent_link, read_plan
from ...schema.reading import optional, text
from ...values.audit import AuditAction, Cause
from ...values.entities import Entity
from ...values.naming import DEFAULT_RESOURCE, check_identifier
from ...values.provisioner import StoredEntity
from ..bucket.telling import tell_own
from ..index_rows import IndexRows, query_rows, report
from ..optimistic import Write, as_read, lost_race
from ..process.namespace_state import NamespaceState
from ..public_errors import public_error
from ..retry import ATTEMPTS, RACE_PAUSES, RaceLost, key_of, read_all, with_retries
from ..steps import Flow, Sleep
from ..validation import Parents, validate_keys, validate_metadata, validate_name
from . import audit
from .directory import entity_of_row
from .entities import NO_PARENTS, check_not_itself, plain
from .lineage import meta_key
from .managed_configs import read_many

CHANGES_PER_TRANSACTION = 25  # two writes each, and at most as many of parents: DynamoDB takes a hundred

Failures = dict[str, ZAELimiterError]


def get_records(namespace_state: NamespaceState, entity_ids: Sequence[str]) -> Flow[dict[str, StoredEntity]]:
    """Return what is stored of these entities, by id, without those that have no record, or several parents."""
    if isinstance(entity_ids, str) or not isinstance(entity_ids, Sequence):
        raise ValidationError("entity_ids", entity_ids, "must be a list of entities")
    ids = dict.fromkeys(check_identifier("entity_id", each) for each in entity_ids)
    wanted = {meta_key(namespace_state, each): each for each in ids}
    found = yield from read_many(list(wanted))
    return {wanted[key]: _stored(item) for key, item in found.items() if len(read_parent_link(item).parent_ids) < 2}


def list_ids(namespace_state: NamespaceState) -> Flow[list[str]]:
    """Return the ids of all entities that the index shows, sorted."""
    ns = namespace_state.namespace_id
    rows = IndexRows(ns)
    query = Query(keys.gsi4_pk(ns), "GSI4", begins_with=keys.pk_entity(ns, ""))
    found = yield from query_rows(query, rows, lambda item: entity_of_row(rows, item))
    yield from report(rows)
    return sorted(each for each in found if each is not None)


def put_records(
    namespace_state: NamespaceState, records: Mapping[str, StoredEntity | None], cause: Cause
) -> Flow[Failures]:
    """Create, change or remove (``None``) these records in this order, each with its audit event; return the errors.

    A record that is as wanted is left alone. A removal leaves limits and buckets. Raises ``ValidationError`` before any
    request, and ``InfrastructureError`` if nothing was written.
    """
    waiting = [_Change(number, *each) for number, each in enumerate(_validated(records).items())]
    failures: Failures = {}
    replanned: list[str] = []
    part = 0
    while waiting:
        try:
            done = yield from _write_some(namespace_state, waiting, cause, part, failures, replanned)
        except StoreError as error:
            problem = public_error(namespace_state.stack, error)
            if not part:
                raise problem from error
            failures |= {change.entity_id: problem for change in waiting}
            break
        waiting, part = waiting[done:], part + 1
    for entity_id in records:
        namespace_state.configs.forget(meta_key(namespace_state, entity_id))
    return failures | (yield from _tell(namespace_state, replanned))


def _tell(namespace_state: NamespaceState, entity_ids: Sequence[str]) -> Flow[Failures]:
    """Tell the live buckets of entities that have another plan now; return the error of each that was not told."""
    try:
        told = yield from tell_own(namespace_state, [(each, DEFAULT_RESOURCE) for each in entity_ids])
    except StoreError as error:
        return dict.fromkeys(entity_ids, public_error(namespace_state.stack, error))
    return {bucket.entity_id: public_error(namespace_state.stack, why) for bucket, why in told.failed.items()}


class _Change(NamedTuple):
    """One record to write; ``number`` distinguishes its audit event."""

    number: int
    entity_id: str
    wanted: StoredEntity | None


class _Writes(NamedTuple):
    """The writes of one record, the children that parents get or lose, and the parents that get one."""

    own: tuple[Write, Write]
    children: Mapping[str, int]
    joined: frozenset[str]


def _validated(records: Mapping[str, StoredEntity | None]) -> dict[str, StoredEntity | None]:
    if not isinstance(records, Mapping):
        raise ValidationError("records", records, "must map entities to StoredEntity, or to None to remove them")
    checked = validate_keys("records", records, lambda each: check_identifier("entity_id", each))
    for entity_id, wanted in checked.items():
        if wanted is None:
            continue
        if not isinstance(wanted, StoredEntity):
            raise ValidationError("records", wanted, "must be a StoredEntity, or None for nothing")
        check_not_itself(entity_id, Parents((wanted.parent_id,), "parent_id") if wanted.parent_id else NO_PARENTS)
        validate_name(wanted.name)
        validate_metadata(wanted.metadata)
    return checked


def _write_some(
    namespace_state: NamespaceState,
    waiting: Sequence[_Change],
    cause: Cause,
    part: int,
    failures: Failures,
    replanned: list[str],
) -> Flow[int]:
    """Write the first changes, as many as one transaction takes, and return how many that were. Raises ``StoreError``.

    A change that cannot be made goes to ``failures``, an entity that got another plan to ``replanned``.
    """
    for attempt in range(ATTEMPTS):
        if attempt > 1:  # let others finish
            yield Sleep(RACE_PAUSES[attempt])
        first = waiting[:CHANGES_PER_TRANSACTION]
        found = yield from _read(namespace_state, first)
        writes, done, failed = _together(namespace_state, first, found, cause)
        if not writes:
            failures |= failed
            return done
        try:
            yield from with_retries(Transact(tuple(writes), cause.request_token(attempt, part)))
        except TransactionCancelled as cancelled:
            if not lost_race(cancelled):
                raise
        else:
            failures |= failed
            replanned += [
                each.entity_id
                for each in first[:done]
                if each.entity_id not in failed
                and read_plan(found.get(each.entity_id)) != (each.wanted and each.wanted.plan)
            ]
            return done
    raise RaceLost


def _read(namespace_state: NamespaceState, changes: Sequence[_Change]) -> Flow[dict[str, Item]]:
    """Return the items of the entities and of the parents that they are to get, by id."""
    parents = [change.wanted.parent_id for change in changes if change.wanted and change.wanted.parent_id]
    wanted = {meta_key(namespace_state, each): each for each in (*(each.entity_id for each in changes), *parents)}
    found = yield from read_all(list(wanted))
    return {wanted[key]: item for key, item in found.items()}


def _together(
    namespace_state: NamespaceState, changes: Sequence[_Change], found: Mapping[str, Item], cause: Cause
) -> tuple[list[Write], int, Failures]:
    """Return the writes of the first changes that may be in one transaction, how many these are, and their errors."""
    writes: list[Write] = []
    children: Counter[str] = Counter()
    joined: set[str] = set()
    written: set[str] = set()
    failures: Failures = {}
    for done, change in enumerate(changes):
        parents = _parents(change, found.get(change.entity_id))
        if change.entity_id in children or parents & written:  # the next transaction reads what this one writes
            return [*writes, *_counts(namespace_state, children, joined)], done, failures
        try:
            made = _writes(namespace_state, change, found, cause)
        except ZAELimiterError as error:
            failures[change.entity_id] = error
            continue
        if made is None:
            continue
        writes += made.own
        written.add(change.entity_id)
        children.update(made.children)
        joined |= made.joined
    return [*writes, *_counts(namespace_state, children, joined)], len(changes), failures


def _parents(change: _Change, item: Item | None) -> set[str]:
    """Return the parents that an entity has, and is to have."""
    wanted = change.wanted and change.wanted.parent_id
    return {*read_parent_link(item).parent_ids, *([wanted] if wanted else [])}


def _counts(namespace_state: NamespaceState, children: Mapping[str, int], joined: set[str]) -> Iterator[Update]:
    """Yield the updates of the counts of parents; one that gets a child has to be at the top."""
    for parent, count in children.items():
        when = Conditions(exists=(PK,), absent=(PARENT_ID,) if parent in joined else ())
        yield Update(meta_key(namespace_state, parent), add={CHILDREN: count}, when=when)


def _writes(
    namespace_state: NamespaceState, change: _Change, found: Mapping[str, Item], cause: Cause
) -> _Writes | None:
    """Return the writes that make one record as it is wanted; ``None`` if it is. Raises ``ZAELimiterError``."""
    item, wanted = found.get(change.entity_id), change.wanted
    if item is None and wanted is None:
        return None
    if len(several := read_parent_link(item).parent_ids) > 1:
        problem = f"has the parents {', '.join(several)}, and a manifest gives one: move it under one, or leave it out"
        raise ValidationError("entity_id", change.entity_id, problem)
    if wanted is None:
        return _removal(namespace_state, change, item or {}, cause)
    before = None if item is None else read_entity(item)
    created_at = cause.again(namespace_state.now()).at if before is None else before.created_at
    version = 1 if before is None else before.version + 1
    metadata = validate_metadata(wanted.metadata)
    after = Entity(change.entity_id, wanted.name, wanted.parent_id, wanted.cascade, metadata, created_at, version)
    after = replace(after, plan=wanted.plan)
    old = {} if item is None or before is None else _attributes(namespace_state, before, item.get(FINGERPRINT))
    new = _attributes(namespace_state, after, wanted.fingerprint)
    if item is not None and all(old.get(name) == new.get(name) for name in {*old, *new} - {VERSION}):
        return None
    leaves, joins = before and before.parent_id, after.parent_id
    if joins is not None and joins != leaves:
        _check_parent(joins, found.get(joins), children=0 if item is None else read_child_count(item))
    action: AuditAction = "entity_created" if before is None else "entity_updated"
    put = _event(namespace_state, change, cause, action, before, after)
    new[EVENT_ID] = put.item[EVENT_ID]
    own: Write = Put({**new, CHILDREN: 0}, Conditions(absent=(PK,)))
    if item is not None:
        guard = as_read(item, VERSION, *([CHILDREN] if joins is not None and leaves is None else []))
        changed = {name: value for name, value in new.items() if value != old.get(name)}
        gone = tuple(name for name in (*old, *([ANCESTOR_IDS] if ANCESTOR_IDS in item else [])) if name not in new)
        own = Update(meta_key(namespace_state, change.entity_id), set=changed, remove=gone, when=guard)
    moves = {} if leaves == joins else {**({leaves: -1} if leaves else {}), **({joins: 1} if joins else {})}
    return _Writes((own, put), moves, frozenset({joins} if joins and joins != leaves else ()))


def _attributes(namespace_state: NamespaceState, entity: Entity, fingerprint: str | None) -> Item:
    """Return the attributes of a record that this module writes: all but its count of children, and its event."""
    item = entity_item(namespace_state.namespace_id, entity)
    del item[CHILDREN]
    return item if fingerprint is None else {**item, FINGERPRINT: fingerprint}


def _removal(namespace_state: NamespaceState, change: _Change, item: Item, cause: Cause) -> _Writes:
    if children := read_child_count(item):
        raise EntityHasChildrenError(change.entity_id, children)
    before = read_entity(item)
    put = _event(namespace_state, change, cause, "entity_deleted", before, None)
    delete = Delete(key_of(item), as_read(item, VERSION, CHILDREN))
    return _Writes((delete, put), {before.parent_id: -1} if before.parent_id else {}, frozenset())


def _event(
    namespace_state: NamespaceState,
    change: _Change,
    cause: Cause,
    action: AuditAction,
    before: Entity | None,
    after: Entity | None,
) -> Put:
    return audit.event(
        namespace_state,
        cause,
        action,
        change.entity_id,
        before=None if before is None else plain(before),
        after=None if after is None else plain(after),
        number=change.number,
    )


def _check_parent(parent_id: str, parent: Item | None, *, children: int) -> None:
    if parent is None:
        raise EntityNotFoundError(parent_id)
    if above := read_parent_link(parent).parent_ids:
        problem = f"has a parent itself, {', '.join(above)}: the tree of a manifest has two levels"
        raise ValidationError("parent_id", parent_id, problem)
    if children:
        problem = f"the entity has children itself, {children}: the tree of a manifest has two levels"
        raise ValidationError("parent_id", parent_id, problem)


def _stored(item: Item) -> StoredEntity:
    entity = read_entity(item)
    return StoredEntity(
        entity.parent_id,
        entity.cascade and entity.parent_id is not None,
        entity.name,
        entity.metadata,
        optional(text, item, FINGERPRINT),
        read_child_count(item),
        entity.plan,
    )
