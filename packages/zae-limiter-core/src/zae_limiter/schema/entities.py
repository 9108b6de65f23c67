"""The item of an entity: made of the value, and read back."""

import json
from collections.abc import Mapping
from typing import Any

from ..entities import Entity
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

Item = dict[str, Any]


def entity_item(namespace_id: str, entity: Entity) -> Item:
    """The item of an entity that has no children; with a parent, it is in GSI1."""
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


def read_entity(item: Item) -> Entity:
    """The entity of an item."""
    return Entity(
        entity_id=item[ENTITY_ID],
        name=item.get(NAME),
        parent_id=item.get(PARENT_ID),
        cascade=item[CASCADE],
        metadata=read_metadata(item[METADATA]),
        created_at=item[CREATED_AT],
        version=item[VERSION],
    )


def write_metadata(metadata: Mapping[str, Any]) -> dict[str, str] | str:
    """Metadata as they are stored: a map of strings, or a text in JSON if a value is no string."""
    if all(isinstance(value, str) for value in metadata.values()):
        return dict(metadata)
    return json.dumps(metadata, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def read_metadata(stored: Mapping[str, str] | str) -> Mapping[str, Any]:
    """Metadata of an item. Raises ``ValueError`` for a text that is no JSON object."""
    try:
        found: Mapping[str, Any] = json.loads(stored) if isinstance(stored, str) else stored
    except RecursionError as error:
        raise ValueError("metadata are nested too deep") from error
    if not isinstance(found, Mapping):
        raise ValueError(f"metadata are no map: {found!r}")
    return found
