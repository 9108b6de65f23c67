"""The item of an entity: made of the value, and read back."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ..runtime.named_tuple import NamedTuple
from ..values.entities import Entity
from ..values.naming import check_identifier, check_tier
from . import keys
from .attributes import (
    ANCESTOR_IDS,
    CASCADE,
    CHILDREN,
    ENTITY_ID,
    GSI1PK,
    GSI1SK,
    GSI3PK,
    GSI3SK,
    PARENT_ID,
    PARENT_IDS,
    PK,
    TIER,
)
from .record import (
    FLAG,
    NUMBER,
    TEXT,
    Field,
    Item,
    Record,
    checked,
    flag,
    item_keys,
    number,
    optional,
    reads,
    text,
    texts,
)


@reads
def read_tier(item: Item | None) -> str | None:
    """Return the tier in an entity's item; ``None`` for an entity without one, or without an item."""
    tier = None if item is None else optional(text, item, TIER)
    return None if tier is None else check_tier(TIER, tier)


class ParentLink(NamedTuple):
    """The parents of an entity, and whether an acquire of the entity also consumes from them.

    ``further_ids``: who was above the parents when the entity got them.
    """

    parent_ids: tuple[str, ...] = ()
    cascade: bool = False
    further_ids: tuple[str, ...] = ()


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
    """Return the metadata as they are stored: a map of strings, or a text in JSON if a value is not a string."""
    if all(isinstance(value, str) for value in metadata.values()):
        return dict(metadata)
    import json  # few metadata have more than strings

    return json.dumps(metadata, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def read_metadata(stored: Mapping[str, str] | str) -> Mapping[str, Any]:
    """Return the metadata of an item. Raises ``ValueError`` for a text that is not JSON object, and for ``NaN``, which
    no document could have.
    """

    def refuse(constant: str) -> None:
        raise ValueError(f"metadata have {constant}")

    found: Any = stored
    if isinstance(stored, str):
        import json

        try:
            found = json.loads(stored, parse_constant=refuse)
        except RecursionError as error:
            raise ValueError("metadata are nested too deep") from error
    if not isinstance(found, Mapping):
        raise ValueError(f"metadata are not a map: {found!r}")
    return found


ENTITY: Final = Record(
    Entity,
    parent_ids=Field(lambda item, _: read_parent_link(item).parent_ids, lambda ids: [*ids] if len(ids) > 1 else None),
    entity_id=checked(check_identifier),
    name=TEXT.optional(),
    parent_id=TEXT.optional(),
    cascade=FLAG,
    metadata=Field(lambda item, name: read_metadata(item[name]), write_metadata),
    created_at=TEXT,
    version=NUMBER,
    tier=Field(lambda item, _: read_tier(item)).optional(),
)


def entity_item(ns: str, entity: Entity) -> Item:
    """Return the item of an entity that has no children; in GSI1, it is a child of its first parent, in
    GSI3 one of the entities of its tier.
    """
    item = {**item_keys(ns, keys.pk_entity(ns, entity.entity_id), keys.sk_meta()), CHILDREN: 0, **ENTITY.write(entity)}
    if entity.parent_id is not None:
        item |= _child_row(ns, entity.entity_id, entity.parent_id)
    if entity.tier is not None:
        item |= {GSI3PK: keys.gsi3_pk_tier(ns, entity.tier), GSI3SK: keys.gsi3_sk_entity(entity.entity_id)}
    return item


def parent_item(ns: str, entity_id: str, parent_id: str) -> Item:
    """Return the item that links an entity to a further parent: an index has one row for an item."""
    at = item_keys(ns, keys.pk_entity(ns, entity_id), keys.sk_parent(parent_id))
    return {**at, **_child_row(ns, entity_id, parent_id), ENTITY_ID: entity_id, PARENT_ID: parent_id}


def _child_row(ns: str, entity_id: str, parent_id: str) -> Item:
    return {GSI1PK: keys.gsi1_pk_parent(ns, parent_id), GSI1SK: keys.gsi1_sk_child(entity_id)}


@reads
def read_entity(item: Item) -> Entity:
    """Return the entity of an item."""
    entity = ENTITY.read(item)
    if keys.parse_entity_pk(item[PK])[1] != entity.entity_id:
        raise ValueError(f"{ENTITY_ID} is not that of its key")
    return entity


@reads
def read_child_id(item: Item) -> str:
    """Return the child in an entity's item, or in its link to a further parent."""
    return check_identifier(ENTITY_ID, item[ENTITY_ID])
