"""The item of an entity: made of the value, and read back."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..values.entities import Entity
from ..values.naming import check_identifier, check_plan
from ..values.switches import ResolvedSwitches
from . import keys, plan_keys
from .attributes import (
    ANCESTOR_IDS,
    CASCADE,
    CHILDREN,
    CREATED_AT,
    ENTITY_ID,
    GSI1PK,
    GSI1SK,
    GSI3PK,
    GSI3SK,
    GSI4PK,
    GSI4SK,
    METADATA,
    NAME,
    PARENT_ID,
    PARENT_IDS,
    PK,
    PLAN,
    SK,
    VERSION,
)
from .reading import flag, number, optional, reads, text, texts

Item = dict[str, Any]


def entity_item(namespace_id: str, entity: Entity) -> Item:
    """Return the item of an entity that has no children; in GSI1, it is a child of its first parent, in
    GSI3 one of the entities of its plan.
    """
    pk = keys.pk_entity(namespace_id, entity.entity_id)
    item: Item = {
        PK: pk,
        SK: keys.sk_meta(),
        GSI4PK: keys.gsi4_pk(namespace_id),
        GSI4SK: pk,
        ENTITY_ID: entity.entity_id,
        CASCADE: entity.cascade,
        METADATA: write_metadata(entity.metadata),
        CREATED_AT: entity.created_at,
        VERSION: entity.version,
        CHILDREN: 0,
    }
    if entity.name is not None:
        item[NAME] = entity.name
    if entity.parent_id is not None:
        item[PARENT_ID] = entity.parent_id
        item[GSI1PK] = keys.gsi1_pk_parent(namespace_id, entity.parent_id)
        item[GSI1SK] = keys.gsi1_sk_child(entity.entity_id)
    if len(entity.parent_ids) > 1:
        item[PARENT_IDS] = list(entity.parent_ids)
    if entity.plan is not None:
        item[PLAN] = entity.plan
        item[GSI3PK] = plan_keys.gsi3_pk_plan(namespace_id, entity.plan)
        item[GSI3SK] = keys.gsi3_sk_entity(entity.entity_id)
    return item


def parent_item(namespace_id: str, entity_id: str, parent_id: str) -> Item:
    """Return the item that links an entity to a further parent: an index has one row for an item."""
    pk = keys.pk_entity(namespace_id, entity_id)
    return {
        PK: pk,
        SK: keys.sk_parent(parent_id),
        GSI1PK: keys.gsi1_pk_parent(namespace_id, parent_id),
        GSI1SK: keys.gsi1_sk_child(entity_id),
        GSI4PK: keys.gsi4_pk(namespace_id),
        GSI4SK: pk,
        ENTITY_ID: entity_id,
        PARENT_ID: parent_id,
    }


@reads
def read_child_id(item: Item) -> str:
    """Return the child in an entity's item, or in its link to a further parent."""
    return check_identifier(ENTITY_ID, item[ENTITY_ID])


@reads
def read_entity(item: Item) -> Entity:
    """Return the entity of an item."""
    parent_link, entity_id = read_parent_link(item), check_identifier(ENTITY_ID, item[ENTITY_ID])
    if keys.parse_entity_pk(item[PK])[1] != entity_id:
        raise ValueError(f"{ENTITY_ID} is not that of its key")
    return Entity(
        entity_id=entity_id,
        name=optional(text, item, NAME),
        parent_id=parent_link.parent_ids[0] if parent_link.parent_ids else None,
        cascade=parent_link.cascade,
        metadata=read_metadata(item[METADATA]),
        created_at=text(item, CREATED_AT),
        version=number(item, VERSION),
        parent_ids=parent_link.parent_ids,
        plan=read_plan(item),
    )


@reads
def read_plan(item: Item | None) -> str | None:
    """Return the plan in an entity's item; ``None`` for an entity without one, or without an item."""
    plan = None if item is None else optional(text, item, PLAN)
    return None if plan is None else check_plan(PLAN, plan)


class ParentLink(NamedTuple):
    """The parents of an entity, and whether an acquire of the entity also consumes from them.

    ``further_ids``: who was above the parents when the entity got them. ``switches``: what holds by the configs, if the
    link was read with them.
    """

    parent_ids: tuple[str, ...] = ()
    cascade: bool = False
    further_ids: tuple[str, ...] = ()
    switches: ResolvedSwitches | None = None


@reads
def read_parent_link(item: Item | None) -> ParentLink:
    """Return the parent link in an entity's item; an entity without an item has no parents."""
    if item is None:
        return ParentLink()
    first, cascade = optional(text, item, PARENT_ID), flag(item, CASCADE)
    if first is None:
        return ParentLink(cascade=cascade)
    parents = _ids(PARENT_IDS, item.get(PARENT_IDS, [first]))
    if parents[:1] != (first,):
        raise ValueError(f"{PARENT_IDS} do not begin with {PARENT_ID}")
    return ParentLink(parents, cascade, _ids(ANCESTOR_IDS, item.get(ANCESTOR_IDS, [])))


def _ids(name: str, values: Iterable[object]) -> tuple[str, ...]:
    return tuple(check_identifier(name, each) for each in texts(values, name))


@reads
def read_child_count(item: Item) -> int:
    """Return the number of entities whose parent it is."""
    return number(item, CHILDREN)


def write_metadata(metadata: Mapping[str, Any]) -> dict[str, str] | str:
    """Return the metadata as they are stored: a map of strings, or a text in JSON if a value is no string."""
    if all(isinstance(value, str) for value in metadata.values()):
        return dict(metadata)
    return json.dumps(metadata, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def _parse(stored: str) -> Any:
    """Return what a JSON text has. Raises ``ValueError``, also for ``NaN``, which no document could have."""
    return json.loads(stored, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"metadata have {name}")


def read_metadata(stored: Mapping[str, str] | str) -> Mapping[str, Any]:
    """Return the metadata of an item. Raises ``ValueError`` for a text that is no JSON object."""
    try:
        found: Mapping[str, Any] = _parse(stored) if isinstance(stored, str) else stored
    except RecursionError as error:
        raise ValueError("metadata are nested too deep") from error
    if not isinstance(found, Mapping):
        raise ValueError(f"metadata are no map: {found!r}")
    return found
