"""The order in which changes of a tree of entities are written.

The problem: each write has to leave a tree, in which no entity is above itself and an entity with children stays, also
if the apply dies after it. The choice: an entity gets its parents after all who are above it in the end have got
theirs. Then what is above it at its write is above it in the end, so that no write closes a circle, whatever moves,
even where two entities change places. Tiers are written before the entities that name them, and go after them. Limits
follow, and what goes is last, children before their parents.

Among those, children of one parent are neighbours, so that a transaction counts them at their parent in one write.

The price: while an apply goes on, an entity that moves later may have more above it than an acquire takes. To make that
rare, of two entities that are as deep in the end, the one that was deeper moves first.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from zae_limiter_manifest import Address, Change, LiveItem, RecordDecl

Parents = Mapping[str, Sequence[str]]

_TIERS, _TREE, _LIMITS, _GONE, _GONE_TIERS = range(5)
_NOBODY: Final = ()


class Trees(NamedTuple):
    """The parents of each known entity before the changes, and after them."""

    before: dict[str, Sequence[str]]
    after: dict[str, Sequence[str]]

    @classmethod
    def of(cls, changes: Sequence[Change], live: Mapping[Address, LiveItem]) -> "Trees":
        """Return the trees of live items and changes."""
        before: dict[str, Sequence[str]] = {
            str(at.entity): item.decl.parents for at, item in live.items() if isinstance(item.decl, RecordDecl)
        }
        after = {**before}
        for change in changes:
            if isinstance(change.after, RecordDecl):
                after[str(change.address.entity)] = change.after.parents
            elif change.address.is_record:
                after.pop(str(change.address.entity), None)
        return cls(before, after)


def write_order(changes: Sequence[Change], live: Mapping[Address, LiveItem]) -> list[Change]:
    """Return the changes in the order of their writes; among equals, the order stays."""
    trees = Trees.of(changes, live)
    before, after = _Levels(trees.before), _Levels(trees.after)

    def place(change: Change) -> tuple[int, int, int, Sequence[str]]:
        if change.address.tier is not None:
            return _GONE_TIERS if change.after is None else _TIERS, 0, 0, _NOBODY
        if not change.address.is_record:
            return _LIMITS, 0, 0, _NOBODY
        entity = str(change.address.entity)
        if change.after is None:
            return _GONE, -before.of(entity), 0, trees.before.get(entity, _NOBODY)
        return _TREE, after.of(entity), -before.of(entity), trees.after[entity]

    return sorted(changes, key=place)


class _Levels:
    """The levels of entities: 0 at the top, and below that one more than the deepest parent."""

    def __init__(self, parents: Parents) -> None:
        self._parents = parents
        self._known: dict[str, int] = {}

    def of(self, entity: str) -> int:
        """Return the level of an entity; 0 for an unknown one."""
        if entity not in self._known:
            self._known[entity] = 0  # ends a circle, which no table should have
            levels = (self.of(parent) + 1 for parent in self._parents.get(entity, _NOBODY))
            self._known[entity] = max(levels, default=0)
        return self._known[entity]
