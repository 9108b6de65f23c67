"""Who is above an entity: its parents, theirs, and so on, each once.

No entity is above itself, and at most ``MOST_BUCKETS - 1`` entities are above one. A move of an entity with children is
checked by the strongly consistent records of all above it, and its transaction asks that these are as they were read.
So two moves at the same time close no circle. Who is below is known by an index, which may be a moment behind. So a
child that is added in the same moment may have too many above it; its acquires raise an error that says so.
"""

from collections.abc import Iterable, Mapping, Sequence

from ...exceptions import EntityNotFoundError, ValidationError
from ...operations.values import Conditions, Item, Key, Query, Update
from ...runtime.dataclass import dataclass, field
from ...schema import keys
from ...schema.attributes import CHILDREN, PARENT_ID, PK, SK, VERSION
from ...schema.entities import read_child_count, read_child_id, read_entity, read_parent_link
from ...values.entities import MOST_BUCKETS
from ..index_rows import IndexRows, query_rows, report
from ..optimistic import as_read
from ..process.namespace_state import NamespaceState
from ..retry import key_of, read_all
from ..steps import Flow
from ..validation import Parents, validate_metadata, validate_name


def meta_key(namespace_state: NamespaceState, entity_id: str) -> Key:
    """Return the key of the entity's record."""
    return Key(keys.pk_entity(namespace_state.namespace_id, entity_id), keys.sk_meta())


@dataclass(slots=True)
class Records:
    """Records of entities as they were read, by id; ``None`` for one that does not exist.

    ``moved``: the parents that an entity is about to get. ``rows``: of a list, which counts a record that cannot be
    read as none.
    """

    namespace_state: NamespaceState
    by_id: dict[str, Item | None] = field(default_factory=dict)
    moved: dict[str, tuple[str, ...]] = field(default_factory=dict)
    rows: IndexRows | None = None

    def read(self, entity_ids: Iterable[str]) -> Flow[None]:
        """Read the records that are not known yet, in one request."""
        wanted = {each: meta_key(self.namespace_state, each) for each in entity_ids if each not in self.by_id}
        found = yield from read_all([*wanted.values()])
        if self.rows is not None:
            found = {key_of(item): item for item in self.rows.read(found.values(), _linked)}
        self.by_id |= {each: found.get(key) for each, key in wanted.items()}

    def parents_of(self, entity_id: str) -> tuple[str, ...]:
        """Return the parents of an entity that was read; none of one that does not exist."""
        if entity_id in self.moved:
            return self.moved[entity_id]
        return read_parent_link(self.by_id.get(entity_id)).parent_ids

    def read_levels(self, entity_ids: Iterable[str]) -> Flow[None]:
        """Read these entities and all above them; one request for each level of all of them together."""
        level = list(entity_ids)
        for _ in range(MOST_BUCKETS):
            yield from self.read(level)
            level = [each for entity_id in level for each in self.parents_of(entity_id) if each not in self.by_id]

    def read_above(self, parent_ids: Sequence[str]) -> Flow[list[str]]:
        """Return the parents and all above them, nearest first; one request for each level that is not known.

        Stop above the most that there may be.
        """
        above, done = [*parent_ids], 0
        while (level := above[done:]) and done < MOST_BUCKETS:
            done = len(above)
            yield from self.read(level)
            more = dict.fromkeys(each for entity_id in level for each in self.parents_of(entity_id))
            above += [each for each in more if each not in above]
        return above


def _linked(item: Item) -> Item:
    """Return a record whose parents can be read. Raises ``Unreadable``."""
    read_parent_link(item)
    return item


def check_above(entity_id: str, parents: Parents, above: Sequence[str], records: Records) -> None:
    """Raise ``EntityNotFoundError`` for an unknown parent, ``ValidationError`` for a circle and for too many above."""
    for each in parents.ids:
        if records.by_id[each] is None:
            raise EntityNotFoundError(each)
    if entity_id in above:
        below = next(each for each in above if entity_id in records.parents_of(each))
        problem = f"{below} has {entity_id} as a parent: no entity can be above itself"
        raise ValidationError(parents.field, ", ".join(parents.ids), problem)
    _check_count(entity_id, parents, above)


def check_below(entity_id: str, parents: Parents, records: Records) -> Flow[None]:
    """Raise ``ValidationError`` if the move of an entity puts too many above one below it, by the index of children."""
    records.moved[entity_id] = parents.ids
    level, seen = [entity_id], {entity_id}
    while level:
        below: dict[str, Item] = {}
        for each in level:
            below |= {read_child_id(item): item for item in (yield from read_children(records.namespace_state, each))}
        # what was read before stays, for the conditions: it may say who was above, and has moved below since
        records.by_id = {**below, **records.by_id}
        for each in below:
            _check_count(each, parents, (yield from records.read_above(records.parents_of(each))))
        level = [each for each, item in below.items() if read_child_count(item) and each not in seen]
        seen.update(level)


def _check_count(entity_id: str, parents: Parents, above: Sequence[str]) -> None:
    if len(above) >= MOST_BUCKETS:
        many = f"{entity_id} would have {', '.join(above)} above it: at most {MOST_BUCKETS - 1} entities can be"
        raise ValidationError(parents.field, ", ".join(parents.ids), many)


def count_children(records: Records, changes: Mapping[str, int], seen: Iterable[str]) -> list[Update]:
    """Return the writes that change the counts of children, on the condition that those ``seen`` have the parents that
    were read. No rule depends on an index.

    One that is seen and whose count stays is written as well: a check alone would need a permission of its own.
    """
    wanted: dict[str, Conditions] = {}
    for each in seen:
        item = records.by_id.get(each)
        alone = item is None or not read_parent_link(item).parent_ids
        wanted[each] = Conditions(exists=(PK,), absent=(PARENT_ID,)) if alone else as_read(item or {}, VERSION)
    for each in changes:
        wanted.setdefault(each, Conditions(exists=(PK,)))
    return [
        Update(meta_key(records.namespace_state, each), add={CHILDREN: changes.get(each, 0)}, when=when)
        for each, when in wanted.items()
    ]


def read_children(namespace_state: NamespaceState, parent_id: str) -> Flow[list[Item]]:
    """Return the records of an entity's children, sorted by id. Those of which it is a further parent take a read."""
    query = Query(keys.gsi1_pk_parent(namespace_state.namespace_id, parent_id), index="GSI1")
    rows = IndexRows(namespace_state.namespace_id)
    children = yield from query_rows(query, rows, lambda item: _child(namespace_state, parent_id, item))
    linked = [read_child_id(item) for item in children if item[SK] != keys.sk_meta()]
    found = [item for item in children if item[SK] == keys.sk_meta()]
    items = yield from read_all([meta_key(namespace_state, each) for each in linked])
    found += rows.read(
        (item for item in items.values() if parent_id in read_parent_link(item).parent_ids),
        lambda item: _child(namespace_state, parent_id, item),
    )
    yield from report(rows)
    return sorted(found, key=read_child_id)  # the index sorts them by what is in its key


def _child(namespace_state: NamespaceState, parent_id: str, item: Item) -> Item:
    """Return a record or a link that is where its key says. Raises an error of ``UNREADABLE`` for any other row."""
    entity_id = read_child_id(item)
    if item[SK] == keys.sk_parent(parent_id):
        if item[PK] != keys.pk_entity(namespace_state.namespace_id, entity_id) or item[PARENT_ID] != parent_id:
            raise ValueError("not as the link of its key")
        return item
    entity = read_entity(item)
    if key_of(item) != meta_key(namespace_state, entity_id) or parent_id not in entity.parent_ids:
        raise ValueError("not as the child of its key")
    validate_name(entity.name)
    validate_metadata(entity.metadata)
    return item
