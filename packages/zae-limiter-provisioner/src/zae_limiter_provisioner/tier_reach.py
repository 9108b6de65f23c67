"""How many entities a change of their tier reaches, and the tiers that may not go because entities keep them."""

from collections.abc import Iterable

from attrs import evolve

from zae_limiter import SyncRepository
from zae_limiter_manifest import Plan, RecordDecl

from .refusals import Refused


def with_reach(plan: Plan, repository: SyncRepository | None) -> Plan:
    """Return the plan of an apply with the number of entities that each change of their tier reaches, after its other
    changes. A query for each tier that changes; none if no tier does.

    Raises ``Refused`` for a tier that loses its last limits while entities keep it.
    """
    names = dict.fromkeys(name for change in plan.changes if (name := change.address.tier) is not None)
    if not names:
        return plan
    have = {name: _entities_after(plan, name, repository) for name in names}
    live = {} if repository is None else repository.list_tiers()
    for name, entities in have.items():
        own = {change.address.resource: change.after for change in plan.changes if change.address.tier == name}
        left = {*live.get(name, ()), *own} - {resource for resource, after in own.items() if after is None}
        if entities and not left:
            raise Refused("tier_in_use", _in_use(name, entities))
    changes = (
        change if change.address.tier is None else evolve(change, reaches=len(have[change.address.tier]))
        for change in plan.changes
    )
    return evolve(plan, changes=tuple(changes))


def _entities_after(plan: Plan, name: str, repository: SyncRepository | None) -> set[str]:
    """Return the entities that have a tier of this name after the changes."""
    found = set[str]() if repository is None else {*repository.list_entities_of_tier(name)}
    for change in plan.changes:
        if change.address.is_record:
            entity = str(change.address.entity)
            found.discard(entity)
            if isinstance(change.after, RecordDecl) and change.after.tier == name:
                found.add(entity)
    return found


def _in_use(name: str, entities: Iterable[str]) -> str:
    first, *others = sorted(entities)
    who = first if not others else f"{first} and {len(others):,} more"
    return f"tier {name} would go, and {who} would keep it: declare it, or give them another tier first"
