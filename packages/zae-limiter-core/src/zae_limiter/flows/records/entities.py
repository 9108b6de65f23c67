"""Entities: create, get, update, children. ``lineage`` has the rules for who may be above whom."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...exceptions import EntityExistsError, EntityNotFoundError, StaleEntityError, ValidationError
from ...operations.errors import TransactionCancelled
from ...operations.values import Conditions, Delete, Item, Key, Put, Transact, Update
from ...schema import keys
from ...schema.attributes import ANCESTOR_IDS, CHILDREN, EVENT_ID, METADATA, PARENT_IDS, PK, PLAN, VERSION
from ...schema.entities import entity_item, parent_item, read_child_count, read_entity, write_metadata
from ...values.audit import Cause
from ...values.entities import UNCHANGED, Entity, Json
from ...values.naming import DEFAULT_RESOURCE, check_identifier
from ..optimistic import Write, as_read, lost_race, optimistic
from ..process.namespace_state import NamespaceState
from ..retry import ATTEMPTS, RaceLost, read, with_retries
from ..steps import Flow
from ..validation import (
    Parents,
    validate_flag,
    validate_metadata,
    validate_name,
    validate_parents,
    validate_plan,
    validate_update,
    validate_version,
)
from . import audit, plans
from .levels import tell_buckets
from .lineage import Records, check_above, check_below, further_of, links, meta_key, read_children

NO_PARENTS = Parents((), "parent_id")


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
    plan: str | None = None,
    exist_ok: bool = False,
) -> Flow[Entity]:
    """Create an entity, and return it. With ``exist_ok``, an entity that is there already is returned as it is.

    Raises ``EntityExistsError``, ``EntityNotFoundError`` for an unknown parent, and ``ValidationError``, also for an
    unknown plan, and for a parent that is the entity itself or has too many above it.
    """
    entity_id = check_identifier("entity_id", entity_id)
    given = [UNCHANGED if each is None else each for each in (parent_id, parent_ids)]
    parents = validate_parents(*given) or NO_PARENTS
    if validate_flag("cascade", cascade) and not parents.ids:
        raise ValidationError("cascade", cascade, "needs a parent_id to cascade to")
    entity = Entity(entity_id, validate_name(name), None, cascade, validate_metadata(metadata), cause.at, 1)
    entity = replace(entity, plan=validate_plan(plan)).under(*parents.ids)
    check_not_itself(entity_id, parents)
    if (
        validate_flag("exist_ok", exist_ok)
        and (there := (yield from get_entity(namespace_state, entity_id))) is not None
    ):
        return there
    yield from plans.check_exists(namespace_state, entity.plan)
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
            yield from with_retries(Transact(_new(entity, above, records, cause), cause.request_token(number)))
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
            namespace_state.configs.forget(meta_key(namespace_state, entity_id))
            if entity.plan is not None:  # it may have been used before it was created
                yield from tell_buckets(namespace_state, (entity_id, DEFAULT_RESOURCE))
            return entity
    raise RaceLost


def _new(entity: Entity, above: Sequence[str], records: Records, cause: Cause) -> tuple[Write, ...]:
    """Return the writes of a new entity: its record first, the counts at its parents last."""
    namespace_state, parent_ids = records.namespace_state, entity.parent_ids
    audit_put = audit.event(
        namespace_state, cause, "entity_created", entity.entity_id, before=None, after=plain(entity)
    )
    item = {**entity_item(namespace_state.namespace_id, entity), EVENT_ID: audit_put.item[EVENT_ID]}
    if further := further_of(parent_ids, above):
        item[ANCESTOR_IDS] = further
    more = relinked(namespace_state, entity.entity_id, (), parent_ids)
    return (Put(item, Conditions(absent=(PK,))), audit_put, *more, *links(records, (), parent_ids))


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
    yield from plans.check_exists(namespace_state, given.get("plan"))

    def attempt() -> Flow[tuple[Sequence[Write], Entity]]:
        records = Records(namespace_state)
        yield from records.read((entity_id, *(parents or NO_PARENTS).ids))
        if (item := records.by_id[entity_id]) is None:
            raise EntityNotFoundError(entity_id)
        before = read_entity(item)
        if expected_version not in (None, before.version):
            raise StaleEntityError(entity_id, expected_version, before.version)
        after = replace(before, **given) if parents is None else replace(before, **given).under(*parents.ids)
        if after == before and write_metadata(after.metadata) == write_metadata(before.metadata):  # True == 1
            return (), before
        after = replace(after, version=before.version + 1)
        if after.cascade and after.parent_id is None:
            problem = "needs a parent_id to cascade to: with its last parent, take cascade from it, too (cascade=False)"
            raise ValidationError("cascade", after.cascade, problem)
        writes = _update(namespace_state, item, after, cause)
        if parents is not None and after.parent_ids != before.parent_ids:
            writes = yield from _move(records, writes, before, parents)
        return writes, after

    entity = yield from optimistic(cause, attempt)
    namespace_state.configs.forget(meta_key(namespace_state, entity_id))
    if "plan" in given:  # also if it has the plan already: an interrupted call may not have told all
        yield from tell_buckets(namespace_state, (entity_id, DEFAULT_RESOURCE))
    return entity


def _move(records: Records, writes: Sequence[Write], before: Entity, parents: Parents) -> Flow[list[Write]]:
    """Return the writes of an update that gives an entity other parents: the ``writes`` of its record, with those of
    its links and of its former and new parents.
    """
    entity_id, above = before.entity_id, (yield from records.read_above(parents.ids))
    check_above(entity_id, parents, above, records)
    item = records.by_id[entity_id]
    assert item is not None, "what is updated was read"
    guarded: Sequence[str] = ()
    if read_child_count(item):
        yield from check_below(entity_id, parents, records)
        guarded = above
    further = further_of(parents.ids, above)
    rewrite, *others = writes
    assert isinstance(rewrite, Update), "an update changes the record first"
    if further:
        rewrite = rewrite._replace(set={**rewrite.set, ANCESTOR_IDS: further})
    elif ANCESTOR_IDS in item:
        rewrite = rewrite._replace(remove=(*rewrite.remove, ANCESTOR_IDS))
    return [
        rewrite,
        *others,
        *relinked(records.namespace_state, entity_id, before.parent_ids, parents.ids),
        *links(records, before.parent_ids, parents.ids, guarded=guarded),
    ]


def relinked(
    namespace_state: NamespaceState, entity_id: str, before: Sequence[str], after: Sequence[str]
) -> list[Write]:
    """Return the writes that leave an entity with links to its further parents."""
    gone = [each for each in before[1:] if each not in after[1:]]
    new = [each for each in after[1:] if each not in before[1:]]
    deletes = (Delete(_link_key(namespace_state, entity_id, each)) for each in gone)
    return [*deletes, *(Put(parent_item(namespace_state.namespace_id, entity_id, each)) for each in new)]


def plain(entity: Entity) -> dict[str, Any]:
    """Return an entity as an audit event has it."""
    fields = ("name", "parent_id", "cascade", "version")
    more: dict[str, Any] = {PARENT_IDS: list(entity.parent_ids)} if len(entity.parent_ids) > 1 else {}
    if entity.plan is not None:
        more[PLAN] = entity.plan
    return {name: getattr(entity, name) for name in fields} | more | {METADATA: write_metadata(entity.metadata)}


def leaving(namespace_state: NamespaceState, entity: Entity) -> list[Write]:
    """Return the writes that take a deleted entity off its parents."""
    gone = relinked(namespace_state, entity.entity_id, entity.parent_ids, ())
    return [*gone, *links(Records(namespace_state), entity.parent_ids, ())]


def _link_key(namespace_state: NamespaceState, entity_id: str, parent_id: str) -> Key:
    """Return the key of an entity's link to a further parent."""
    return Key(keys.pk_entity(namespace_state.namespace_id, entity_id), keys.sk_parent(parent_id))


def check_not_itself(entity_id: str, parents: Parents) -> None:
    """Raise ``ValidationError`` if an entity would be its own parent."""
    if entity_id in parents.ids:
        raise ValidationError(parents.field, entity_id, "an entity cannot be its own parent")


def _update(namespace_state: NamespaceState, item: Item, after: Entity, cause: Cause) -> list[Write]:
    before = read_entity(item)
    audit_put = audit.event(
        namespace_state, cause, "entity_updated", after.entity_id, before=plain(before), after=plain(after)
    )
    return [_rewrite(namespace_state, item, after, audit_put.item[EVENT_ID]), audit_put]


def _rewrite(namespace_state: NamespaceState, item: Item, after: Entity, event_id: str) -> Update:
    """Return the update of the record. It changes attributes, because the count of children changes meanwhile."""
    moves = after.parent_ids != read_entity(item).parent_ids
    old, new = (entity_item(namespace_state.namespace_id, each) for each in (read_entity(item), after))
    return Update(
        meta_key(namespace_state, after.entity_id),
        set={name: value for name, value in new.items() if value != old.get(name)} | {EVENT_ID: event_id},
        remove=tuple(name for name in old if name not in new),
        when=as_read(item, VERSION, *([CHILDREN] if moves else [])),
    )
