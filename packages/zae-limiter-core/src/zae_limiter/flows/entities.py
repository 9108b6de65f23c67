"""Entities: create, get, children.

Lives here: the rules of the two-level tree. Never: what an acquire does with a parent (acquire).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ..entities import Entity
from ..exceptions import EntityExistsError, EntityNotFoundError, ValidationError
from ..operations.errors import ConditionFailed, TransactionCancelled
from ..operations.values import Check, Conditions, Key, Page, Put, Query, Transact
from ..schema import keys
from ..schema.items import entity_item, read_entity
from .load import patiently, read
from .scope import Scope
from .steps import Flow


@dataclass(frozen=True, slots=True)
class NewEntity:
    """What a caller wants created."""

    entity_id: str
    name: str | None
    parent_id: str | None
    cascade: bool
    metadata: Mapping[str, str]


def create_entity(scope: Scope, new: NewEntity, *, created_at: str) -> Flow[Entity]:
    """The entity as it was stored. Raises ``EntityExistsError``, ``EntityNotFoundError`` for an unknown parent, and
    ``ValidationError`` for a parent that is the entity itself or has a parent.
    """
    if new.parent_id == new.entity_id:
        raise ValidationError("parent_id", new.parent_id, "an entity cannot be its own parent")
    entity = Entity(new.entity_id, new.name, new.parent_id, new.cascade, dict(new.metadata), created_at, 1)
    put = Put(entity_item(scope.namespace_id, entity), Conditions(absent=("PK",)))
    if new.parent_id is None:
        yield from _put(put, entity)
    else:
        yield from _put_below(scope, put, entity, new.parent_id)
    scope.configs.forget(_meta(scope, new.entity_id))
    return entity


def get_entity(scope: Scope, entity_id: str) -> Flow[Entity | None]:
    """The entity, ``None`` where there is none."""
    item = yield from read(_meta(scope, entity_id))
    return None if item is None else read_entity(item)


def get_children(scope: Scope, parent_id: str) -> Flow[list[Entity]]:
    """The entities whose parent this is, by id."""
    children: list[Entity] = []
    query: Query | None = Query(keys.gsi1_pk_parent(scope.namespace_id, parent_id), index="GSI1")
    while query is not None:
        page: Page = yield from patiently(query)
        children += [read_entity(item) for item in page.items]
        query = None if page.next is None else Query(query.pk, index="GSI1", start=page.next)
    return children


def _put(put: Put, entity: Entity) -> Flow[None]:
    try:
        yield put
    except ConditionFailed:
        raise EntityExistsError(entity.entity_id) from None


def _put_below(scope: Scope, put: Put, entity: Entity, parent_id: str) -> Flow[None]:
    is_top = Check(_meta(scope, parent_id), Conditions(exists=("PK",), absent=("parent_id",)))
    try:
        yield Transact((put, is_top))
    except TransactionCancelled as cancelled:
        itself, parent = cancelled.reasons
        if itself.code == "ConditionalCheckFailed":
            raise EntityExistsError(entity.entity_id) from None
        if parent.code != "ConditionalCheckFailed":
            raise
        if parent.item is None:
            raise EntityNotFoundError(parent_id) from None
        problem = f"has a parent itself, {parent.item['parent_id']}: the tree has two levels"
        raise ValidationError("parent_id", parent_id, problem) from None


def _meta(scope: Scope, entity_id: str) -> Key:
    return Key(keys.pk_entity(scope.namespace_id, entity_id), keys.sk_meta())
