"""The order in which changes of a tree of entities are written, and the changes that no order makes possible.

The tree has two levels, and holds after each write: a parent exists and is at the top, and an entity with children
neither goes nor gets a parent. So children go first, then entities move to the top, then new ones are made there; then
others get their parents, those with children of their own last. Limits follow, and what is left of the tree goes.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from zae_limiter_manifest import Address, Change, LiveItem, Plan, RecordDecl

from .refusals import Refused

_LIMITS: Final = 5
_NAMED: Final = 3


def write_order(changes: Sequence[Change]) -> list[Change]:
    """Return the changes in the order of their writes; among equals, the order stays."""
    left = {_parent(change.before) for change in changes}
    return sorted(changes, key=lambda change: _phase(change, left))


def refuse_orphans(plan: Plan, live: Mapping[Address, LiveItem]) -> None:
    """Raise `Refused` if an entity that goes, or gets another parent, keeps children that the plan leaves there."""
    leaving = Counter(
        parent
        for change in plan.changes
        if (parent := _parent(change.before)) is not None and parent != _parent(change.after)
    )
    kept = {
        str(change.address): live[change.address].children - leaving[str(change.address.entity)]
        for change in plan.changes
        if change.address.is_record and change.before is not None and _is_unseated(change)
    }
    stuck = [f"{entity} ({count})" for entity, count in kept.items() if count > 0]
    if stuck:
        others = f" and {len(stuck) - _NAMED} more" if len(stuck) > _NAMED else ""
        message = (
            f"an entity with children can neither be removed nor get a parent: {', '.join(stuck[:_NAMED])}{others}; "
            "declare it without a parent, or declare its children elsewhere, or remove them by hand"
        )
        raise Refused("has_children", message)


def _is_unseated(change: Change) -> bool:
    """Return whether an entity goes, or gets another parent than it has."""
    return change.after is None or _parent(change.after) not in (None, _parent(change.before))


def _phase(change: Change, left: set[str | None]) -> int:
    if not change.address.is_record:
        return _LIMITS
    before, after = _parent(change.before), _parent(change.after)
    if change.after is None:
        return 0 if before is not None else _LIMITS + 1
    if after is None:
        return 1 if before is not None else 2
    return 4 if change.address.entity in left else 3


def _parent(decl: object) -> str | None:
    return decl.parent if isinstance(decl, RecordDecl) else None
