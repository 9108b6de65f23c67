"""Entities: create, get, update, children, and the rules of the two-level tree."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...exceptions import EntityExistsError, EntityNotFoundError, StaleEntityError, ValidationError
from ...operations.errors import Reason, TransactionCancelled
from ...operations.values import Conditions, Item, Key, Put, Query, Transact, Update
from ...schema import keys
from ...schema.attributes import CHILDREN, EVENT_ID, METADATA, PARENT_ID, PK, VERSION
from ...schema.entities import entity_item, read_child_count, read_entity, read_parent_link, write_metadata
from ...values.audit import Cause
from ...values.entities import Entity, Json
from ...values.naming import check_identifier
from ..index_rows import IndexRows, query_rows, report
from ..optimistic import Write, as_read, lost_race, optimistic
from ..process.namespace_state import NamespaceState
from ..retry import key_of, read, read_all, with_retries
from ..steps import Flow
from ..validation import validate_flag, validate_metadata, validate_name, validate_update, validate_version
from . import audit


def create_entity(
    namespace_state: NamespaceState,
    entity_id: str,
    cause: Cause,
    *,
    name: str | None,
    parent_id: str | None,
    cascade: bool,
    metadata: Mapping[str, Json] | None,
    exist_ok: bool = False,
) -> Flow[Entity]:
    """Create an entity, and return it. With ``exist_ok``, an entity that is there already is returned as it is.

    Raises ``EntityExistsError``, ``EntityNotFoundError`` for an unknown parent, and ``ValidationError``, also for a
    parent that is the entity itself or has a parent.
    """
    entity_id = check_identifier("entity_id", entity_id)
    parent_id = None if parent_id is None else check_identifier("parent_id", parent_id)
    if validate_flag("cascade", cascade) and parent_id is None:
        raise ValidationError("cascade", cascade, "needs a parent_id to cascade to")
    entity = Entity(entity_id, validate_name(name), parent_id, cascade, validate_metadata(metadata), cause.at, 1)
    check_not_itself(entity_id, parent_id)
    if (
        validate_flag("exist_ok", exist_ok)
        and (there := (yield from get_entity(namespace_state, entity_id))) is not None
    ):
        return there
    audit_put = audit.event(namespace_state, cause, "entity_created", entity_id, before=None, after=plain(entity))
    item = {**entity_item(namespace_state.namespace_id, entity), EVENT_ID: audit_put.item[EVENT_ID]}
    put = Put(item, Conditions(absent=(PK,)))
    joins = [] if parent_id is None else [_join(namespace_state, parent_id)]
    try:
        yield from with_retries(Transact((put, audit_put, *joins), cause.request_token(0)))
    except TransactionCancelled as cancelled:
        if not lost_race(cancelled):
            raise
        found = cancelled.reasons[0].item
        if exist_ok and found is not None:  # created by another process in between
            return read_entity(found)
        raise _not_created(entity, cancelled.reasons) from None
    namespace_state.configs.forget(meta_key(namespace_state, entity_id))
    return entity


def get_entity(namespace_state: NamespaceState, entity_id: str) -> Flow[Entity | None]:
    """Return the entity, ``None`` if there is none."""
    entity_id = check_identifier("entity_id", entity_id)
    item = yield from read(meta_key(namespace_state, entity_id))
    return None if item is None else read_entity(item)


def get_children(namespace_state: NamespaceState, parent_id: str) -> Flow[list[Entity]]:
    """Return the children of an entity, sorted by id."""
    parent_id = check_identifier("parent_id", parent_id)
    query = Query(keys.gsi1_pk_parent(namespace_state.namespace_id, parent_id), index="GSI1")
    rows = IndexRows(namespace_state.namespace_id)
    children = yield from query_rows(query, rows, lambda item: _child(namespace_state, parent_id, item))
    yield from report(rows)
    return sorted(children, key=lambda child: child.entity_id)  # the index sorts them by what is in its key


def _child(namespace_state: NamespaceState, parent_id: str, item: Item) -> Entity:
    """Return the child in a row of the index. Raises an error of ``UNREADABLE`` for any other row."""
    entity = read_entity(item)
    if key_of(item) != meta_key(namespace_state, entity.entity_id) or entity.parent_id != parent_id:
        raise ValueError("not as the child of its key")
    validate_name(entity.name)
    validate_metadata(entity.metadata)
    return entity


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
    check_not_itself(entity_id, given.get("parent_id"))

    def attempt() -> Flow[tuple[Sequence[Write], Entity]]:
        wanted = [meta_key(namespace_state, each) for each in (entity_id, given.get("parent_id")) if each is not None]
        found = yield from read_all(wanted)
        if (item := found.get(wanted[0])) is None:
            raise EntityNotFoundError(entity_id)
        before = read_entity(item)
        if expected_version not in (None, before.version):
            raise StaleEntityError(entity_id, expected_version, before.version)
        after = replace(before, **given)
        if after == before and write_metadata(after.metadata) == write_metadata(before.metadata):  # True == 1
            return (), before
        after = replace(after, version=before.version + 1)
        if after.parent_id is not None and after.parent_id != before.parent_id:
            _check_parent(after.parent_id, found.get(wanted[-1]), children=read_child_count(item))
        if after.cascade and after.parent_id is None:
            raise ValidationError("cascade", after.cascade, "needs a parent_id to cascade to")
        return _update(namespace_state, item, after, cause), after

    entity = yield from optimistic(cause, attempt)
    namespace_state.configs.forget(meta_key(namespace_state, entity_id))
    return entity


def plain(entity: Entity) -> dict[str, Any]:
    """Return an entity as an audit event has it."""
    fields = ("name", "parent_id", "cascade", "version")
    return {name: getattr(entity, name) for name in fields} | {METADATA: write_metadata(entity.metadata)}


def leave(namespace_state: NamespaceState, parent_id: str) -> Update:
    """Return the update that takes one child off its parent's count."""
    return Update(meta_key(namespace_state, parent_id), add={CHILDREN: -1}, when=Conditions(exists=(PK,)))


def meta_key(namespace_state: NamespaceState, entity_id: str) -> Key:
    """Return the key of the entity's record."""
    return Key(keys.pk_entity(namespace_state.namespace_id, entity_id), keys.sk_meta())


def check_not_itself(entity_id: str, parent_id: str | None) -> None:
    """Raise ``ValidationError`` if an entity would be its own parent."""
    if parent_id == entity_id:
        raise ValidationError("parent_id", parent_id, "an entity cannot be its own parent")


def _join(namespace_state: NamespaceState, parent_id: str) -> Update:
    """Return the update that adds a child to its parent's count. No rule of the tree depends on an index."""
    is_top = Conditions(exists=(PK,), absent=(PARENT_ID,))
    return Update(meta_key(namespace_state, parent_id), add={CHILDREN: 1}, when=is_top)


def _not_created(new: Entity, reasons: Sequence[Reason]) -> Exception:
    itself, _, *parents = reasons
    if itself.code == "ConditionalCheckFailed" or new.parent_id is None:
        return EntityExistsError(new.entity_id)
    item = parents[0].item
    return EntityNotFoundError(new.parent_id) if item is None else _too_deep(new.parent_id, item)


def _check_parent(parent_id: str, parent: Item | None, *, children: int) -> None:
    if parent is None:
        raise EntityNotFoundError(parent_id)
    if read_parent_link(parent).parent_id is not None:
        raise _too_deep(parent_id, parent)
    if children:
        problem = f"the entity has children itself, {children}: the tree has two levels"
        raise ValidationError("parent_id", parent_id, problem)


def _too_deep(parent_id: str, parent: Item) -> ValidationError:
    problem = f"has a parent itself, {read_parent_link(parent).parent_id}: the tree has two levels"
    return ValidationError("parent_id", parent_id, problem)


def _update(namespace_state: NamespaceState, item: Item, after: Entity, cause: Cause) -> list[Write]:
    before = read_entity(item)
    audit_put = audit.event(
        namespace_state, cause, "entity_updated", after.entity_id, before=plain(before), after=plain(after)
    )
    writes: list[Write] = [_rewrite(namespace_state, item, after, audit_put.item[EVENT_ID]), audit_put]
    if after.parent_id != before.parent_id:
        writes += [] if before.parent_id is None else [leave(namespace_state, before.parent_id)]
        writes += [] if after.parent_id is None else [_join(namespace_state, after.parent_id)]
    return writes


def _rewrite(namespace_state: NamespaceState, item: Item, after: Entity, event_id: str) -> Update:
    """Return the update of the record. It changes attributes, because the count of children changes meanwhile."""
    joins = after.parent_id is not None and PARENT_ID not in item
    old, new = (entity_item(namespace_state.namespace_id, each) for each in (read_entity(item), after))
    return Update(
        meta_key(namespace_state, after.entity_id),
        set={name: value for name, value in new.items() if value != old.get(name)} | {EVENT_ID: event_id},
        remove=tuple(name for name in old if name not in new),
        when=as_read(item, VERSION, *([CHILDREN] if joins else [])),
    )
