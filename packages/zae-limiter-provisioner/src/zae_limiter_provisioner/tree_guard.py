"""Refuse a plan whose tree of entities no order of writes makes possible, before anything is written.

The manifest has checked what it declares. What it cannot see: children that others have made, and, where a plan is
narrowed to targets, parents that stay as they are live. Only where these matter are they read.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from zae_limiter import SyncRepository
from zae_limiter.maintenance import SyncMaintenance
from zae_limiter_manifest import Address, Change, LiveItem, Plan, RecordDecl
from zae_limiter_manifest.hierarchy import MOST_BUCKETS

from .ordering import Trees
from .refusals import Refused

_NAMED: Final = 3


def refuse_broken_tree(plan: Plan, live: Mapping[Address, LiveItem], repository: SyncRepository | None) -> None:
    """Raise ``Refused`` for an entity that goes and keeps children, gets above itself, has too many above it, or gets a
    parent that is not there.
    """
    changes = [change for change in plan.changes if change.address.is_record]
    _refuse_orphans(changes, live)
    moved = [
        str(change.address.entity)
        for change in changes
        if change.after is not None and _parents(change.after) != _parents(change.before)
    ]
    if any(_parents(change.after) for change in changes):
        _Guard(Trees.of(changes, live), live, repository).check(moved)


def _refuse_orphans(changes: Sequence[Change], live: Mapping[Address, LiveItem]) -> None:
    left: Counter[str] = Counter()
    for change in changes:
        left.update({*_parents(change.before)} - {*_parents(change.after)})
    gone = (change.address for change in changes if change.after is None)
    kept = {str(at): live[at].children - left[str(at.entity)] for at in gone}
    stuck = [f"{entity} ({count})" for entity, count in kept.items() if count > 0]
    if stuck:
        others = f" and {len(stuck) - _NAMED} more" if len(stuck) > _NAMED else ""
        message = (
            f"an entity with children cannot be removed: {', '.join(stuck[:_NAMED])}{others}; "
            "declare it, or declare its children elsewhere, or remove them by hand"
        )
        raise Refused("has_children", message)


def _parents(decl: object) -> Sequence[str]:
    return decl.parents if isinstance(decl, RecordDecl) else ()


class _Guard:
    """Follows the tree as a plan leaves it, upward from what moves, and downward."""

    def __init__(self, trees: Trees, live: Mapping[Address, LiveItem], repository: SyncRepository | None) -> None:
        self._trees = trees
        self._repository = repository
        self._asked: set[str] = set()
        self._counts = {str(at.entity): item.children for at, item in live.items() if at.is_record}
        self._children: dict[str, list[str]] = {}
        for entity, parents in trees.before.items():
            self._note_child(entity, parents)

    def check(self, moved: Iterable[str]) -> None:
        """Raise ``Refused`` if an entity that moves, or one below it, does not fit where it will be."""
        entities = dict.fromkeys(moved)
        for each in (entities, self._below(entity for entity in entities if entity in self._trees.before)):
            self._read_above(each)
            for entity in each:
                self._check(entity)

    def _check(self, entity: str) -> None:
        above: dict[str, str] = {}  # who is above, and by whom each was found
        level = [entity]
        while level and len(above) < MOST_BUCKETS:
            found = {parent: each for each in level for parent in self._trees.after.get(each, ())}
            level = [parent for parent in found if parent not in above]
            above |= {parent: found[parent] for parent in level}
        if entity in above:
            raise Refused("circle", f"entity {entity} would be above itself, {_way(entity, above)}: move it elsewhere")
        for parent, child in above.items():
            if parent not in self._trees.after:
                raise Refused(
                    "no_parent", f"entity {child} would be below {parent}, which is not there: apply that, too"
                )
        if len(above) >= MOST_BUCKETS:
            many = f"entity {entity} would have {', '.join(above)} above it: at most {MOST_BUCKETS - 1} entities can be"
            raise Refused("too_many_above", many)

    def _read_above(self, entities: Iterable[str]) -> None:
        """Read who is above these and not known, level by level."""
        level, seen = set(entities), set[str]()
        while level:
            seen |= level
            level = {parent for entity in level for parent in self._trees.after.get(entity, ())} - seen
            self._read(level)

    def _below(self, entities: Iterable[str]) -> dict[str, None]:
        """Return all who are below these now, also those that only the index of children knows."""
        level, below = [*entities], dict[str, None]()
        while level:
            for entity in level:
                if self._counts.get(entity, 0) > len(self._children.get(entity, ())) and self._repository:
                    self._read(child.entity_id for child in self._repository.get_children(entity))
            children = dict.fromkeys(child for entity in level for child in self._children.get(entity, ()))
            level = [child for child in children if child not in below]
            below |= dict.fromkeys(level)
        return below

    def _read(self, entities: Iterable[str]) -> None:
        """Read the records of entities that are not known."""
        known = self._asked | self._trees.before.keys() | self._trees.after.keys()
        unknown = sorted({*entities} - known)
        self._asked.update(unknown)
        found = SyncMaintenance(self._repository).get_entity_records(unknown) if unknown and self._repository else {}
        for entity, record in found.items():
            self._trees.before[entity] = self._trees.after[entity] = record.parent_ids
            self._counts[entity] = record.children
            self._note_child(entity, record.parent_ids)

    def _note_child(self, entity: str, parents: Iterable[str]) -> None:
        for parent in parents:
            self._children.setdefault(parent, []).append(entity)


def _way(entity: str, found_by: Mapping[str, str]) -> str:
    way = [entity]
    while (below := found_by[way[-1]]) != entity:
        way.append(below)
    return " -> ".join([entity, *reversed(way)])
