"""The item of an entity: made of the value, and read back."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..values.entities import Entity
from ..values.naming import check_identifier
from . import keys
from .attributes import (
    CASCADE,
    CHILDREN,
    CREATED_AT,
    ENTITY_ID,
    GSI1PK,
    GSI1SK,
    GSI4PK,
    GSI4SK,
    METADATA,
    NAME,
    PARENT_ID,
    PK,
    SK,
    VERSION,
)
from .reading import flag, number, optional, reads, text

Item = dict[str, Any]


def entity_item(namespace_id: str, entity: Entity) -> Item:
    """Return the item of an entity that has no children; with a parent, it is in GSI1."""
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
    return item


@reads
def read_entity(item: Item) -> Entity:
    """Return the entity of an item."""
    parent_link = read_parent_link(item)
    return Entity(
        entity_id=check_identifier(ENTITY_ID, item[ENTITY_ID]),
        name=optional(text, item, NAME),
        parent_id=parent_link.parent_id,
        cascade=parent_link.cascade,
        metadata=read_metadata(item[METADATA]),
        created_at=text(item, CREATED_AT),
        version=number(item, VERSION),
    )


class ParentLink(NamedTuple):
    """The parent of an entity, and whether an acquire of the entity also consumes from it."""

    parent_id: str | None = None
    cascade: bool = False


@reads
def read_parent_link(item: Item | None) -> ParentLink:
    """Return the parent link in an entity's item; an entity without an item has no parent."""
    if item is None:
        return ParentLink()
    parent_id = optional(text, item, PARENT_ID)
    return ParentLink(None if parent_id is None else check_identifier(PARENT_ID, parent_id), flag(item, CASCADE))


@reads
def read_child_count(item: Item) -> int:
    """Return the number of entities whose parent it is."""
    return number(item, CHILDREN)


def write_metadata(metadata: Mapping[str, Any]) -> dict[str, str] | str:
    """Return the metadata as they are stored: a map of strings, or a text in JSON if a value is no string."""
    if all(isinstance(value, str) for value in metadata.values()):
        return dict(metadata)
    return json.dumps(metadata, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def read_metadata(stored: Mapping[str, str] | str) -> Mapping[str, Any]:
    """Return the metadata of an item. Raises ``ValueError`` for a text that is no JSON object."""
    try:
        found: Mapping[str, Any] = json.loads(stored) if isinstance(stored, str) else stored
    except RecursionError as error:
        raise ValueError("metadata are nested too deep") from error
    if not isinstance(found, Mapping):
        raise ValueError(f"metadata are no map: {found!r}")
    return found
