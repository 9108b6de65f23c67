"""The limits that hold once a plan is applied: those of the table, with the changes of the plan over them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from zae_limiter_manifest import Address, Change, LimitDecl, Plan, RecordDecl, ResourceDecl
from zae_limiter_manifest.naming import DEFAULT_RESOURCE
from zae_limiter_manifest.switches import SwitchesDecl

from ...paging import patiently

if TYPE_CHECKING:
    from zae_limiter import Limit, SyncRepository
    from zae_limiter.maintenance import BucketLimits
    from zae_limiter.values.limits import ConfigSource
    from zae_limiter.values.resolution import Said

TIER_LEVELS = ("tier", "tier_default")

Levels = Sequence[tuple["ConfigSource", Address | None]]


class _Record(NamedTuple):
    """What an entity itself says: its parents, whether its own acquires draw on them, its tier."""

    parents: tuple[str, ...] = ()
    cascade: bool = False
    tier: str | None = None


class LimitsAfter:
    """Resolves limits and switches of a namespace as a plan leaves them; it only reads.

    ``applied=False``: as they are now. What is asked for once is read once. Raises the errors of core.
    """

    def __init__(self, repository: "SyncRepository", plan: Plan, *, applied: bool = True) -> None:
        self._repository = repository
        self._changes = {change.address: change for change in plan.changes} if applied else {}
        self._overridden = {override.address for override in plan.overrides}
        self._buckets: dict[tuple[str, str], BucketLimits] = {}
        self._records: dict[str, _Record] = {}
        self._patterns: set[str] | None = None
        self._on_tiers = any(address.tier is not None for address in self._changes)

    def bucket(self, entity_id: str, resource: str) -> "BucketLimits":
        """Return the limits that hold for an entity on a resource, and whether a switch comes before them."""
        found = self._buckets.get((entity_id, resource))
        if found is None:
            found = patiently(partial(self._bucket, entity_id, resource))
            self._buckets[entity_id, resource] = found
        return found

    def _bucket(self, entity_id: str, resource: str) -> "BucketLimits":
        from zae_limiter.maintenance import BucketLimits

        limits = self._limits(entity_id, resource)
        disabled, bypass = (self._switch(name, entity_id, resource) is True for name in ("disabled", "bypass"))
        return BucketLimits(entity_id, resource, limits, disabled, bypass and not disabled)

    def _limits(self, entity_id: str, resource: str) -> tuple["Limit", ...]:
        from zae_limiter.values.resolution import EXTENDS, SAYS_NOTHING, Level, Said, compose

        live, _, source = self._repository.resolve_limits(entity_id, resource)
        rewritten = Address(None, entity_id) in self._changes
        tier = self._record(entity_id).tier if rewritten or self._on_tiers else None
        passed, composes = False, {*live.sources.values()} > {source}
        levels: list[Level] = []
        of_bucket = self._levels(entity_id, resource, tier)
        for place, (level, address) in enumerate(of_bucket):
            change = self._change(address)
            wins = level == source and (level != "pattern" or address == Address(live.pattern))
            passed = passed or wins
            if change is not None:
                found = _said_by(change)
            elif rewritten and level in TIER_LEVELS:  # it may have had another tier
                found = self._read(level, entity_id, resource)
            elif wins and not (composes or any(self._change(weaker) for _, weaker in of_bucket[place + 1 :])):
                found = Said(tuple(live), None if live else "unlimited")
            else:
                on = resource if level != "pattern" or address is None else str(address.resource)
                found = self._read(level, entity_id, on) if passed else SAYS_NOTHING
            levels.append(Level(level, found.limits, mode=found.mode))
            if found and found.mode != EXTENDS:
                break
        return compose(levels).limits

    def _change(self, address: Address | None) -> Change | None:
        return None if address is None or address in self._overridden else self._changes.get(address)

    def _read(self, level: str, entity_id: str, resource: str) -> "Said":
        """Read a level that is weaker than the one that holds now, because the plan takes that one away or it extends
        the next one; an override in force counts.
        """
        from zae_limiter.values.resolution import SAYS_NOTHING, Said, lifted

        repository, on = self._repository, DEFAULT_RESOURCE if level.endswith("_default") else resource
        if level == "system":
            return Said.of(repository.get_system_defaults()[0])
        if level in ("resource", "pattern"):
            return Said.of(repository.get_resource_defaults(resource))
        if level in ("entity", "entity_default"):
            own, override = Said.of(repository.get_limits(entity_id, on)), repository.get_override(entity_id, on)
            return own if override is None else lifted(own, override.limits, extends=override.extends)
        tier = self._record(entity_id).tier
        return SAYS_NOTHING if tier is None else Said.of(repository.get_tier_limits(tier, on))

    def _switch(self, name: str, entity_id: str, resource: str) -> object:
        """Return the value of a switch: that of the first level that sets it."""
        live = getattr(self._repository.resolve_switches(entity_id, resource), name)
        passed = False
        for level, address in self._levels(entity_id, resource):
            change = None if address is None else self._changes.get(address)
            holds = live is not None and level == live.source and (live.pattern in (None, address and address.resource))
            passed = passed or holds
            if change is not None:
                value = _switches_of(change).get(name)
            elif holds:
                value = _plain(live.value)
            else:
                value = self._read_switch(name, address) if passed and address is not None else None
            if value is not None:
                return value
        return None

    def _read_switch(self, name: str, address: Address) -> object:
        return _plain(getattr(self._repository.get_switches(address.entity, address.resource), name))

    def _levels(self, entity_id: str, resource: str, tier: str | None = None) -> Levels:
        """Return the levels that may have limits, the strongest first, with the patterns of the table and the plan."""
        from zae_limiter.maintenance import SyncMaintenance
        from zae_limiter.values.patterns import is_pattern, matching

        if self._patterns is None:
            changed = {address.resource for address in self._changes if address.level == "resource"}
            stored = SyncMaintenance(self._repository).list_patterns()
            self._patterns = {*stored, *(each for each in changed if each is not None and is_pattern(each))}
        *others, system = _levels(entity_id, resource, tier)
        patterns: Levels = [("pattern", Address(each)) for each in matching(self._patterns, resource)]
        return [*others, *patterns, system]

    def _record(self, entity_id: str) -> _Record:
        found = self._records.get(entity_id)
        if found is None:
            change = self._changes.get(Address(None, entity_id))
            if change is None:
                entity = self._repository.get_entity(entity_id)
                found = _Record() if entity is None else _Record(entity.parent_ids, entity.cascade, entity.tier)
            else:
                found = _record_of(change.after)
            self._records[entity_id] = found
        return found


def _plain(value: object) -> object:
    """Return the value of a stored switch as the manifest has it."""
    return {"on": True, "off": False}.get(value, value) if isinstance(value, str) else value


def _levels(entity_id: str, resource: str, tier: str | None = None) -> Levels:
    """Return the levels that may have limits, the strongest first, as core names them; without a tier, those of one
    have no address. A tier has no switches.
    """
    return (
        ("entity", Address(resource, entity_id)),
        ("entity_default", Address(DEFAULT_RESOURCE, entity_id)),
        ("tier", None if tier is None else Address.of_tier(tier, resource)),
        ("tier_default", None if tier is None else Address.of_tier(tier, DEFAULT_RESOURCE)),
        ("resource", Address(resource)),
        ("system", Address()),
    )


def _said_by(change: Change) -> "Said":
    from zae_limiter.values.resolution import SAYS_NOTHING, Said

    after = change.after
    if after is None or isinstance(after, RecordDecl):
        return SAYS_NOTHING
    limits = tuple(limit_of(name, decl) for name, decl in after.limits.items())
    extends = isinstance(after, ResourceDecl) and after.extends
    return Said(limits, "unlimited" if after.unlimited else "extends" if extends else None)


def _switches_of(change: Change) -> dict[str, Any]:
    return change.after.switches if isinstance(change.after, SwitchesDecl) else {}


def _record_of(declared: object) -> _Record:
    if not isinstance(declared, RecordDecl):
        return _Record()
    return _Record(declared.parents, declared.cascade, declared.tier)


def tier_after(change: Change) -> str | None:
    """Return the tier that a change of an entity itself gives it."""
    return _record_of(change.after).tier


def changes_tier(change: Change) -> bool:
    """Return whether a change of an entity itself gives it another tier, or takes its tier away."""
    return _record_of(change.before).tier != tier_after(change)


def changes_parents(change: Change) -> bool:
    """Return whether a change of an entity itself moves it, or changes whether its acquires draw on its parents."""
    return _record_of(change.before)[:2] != _record_of(change.after)[:2]


def limit_of(name: str, decl: LimitDecl) -> "Limit":
    """Return a declared limit as core has it."""
    from zae_limiter import Limit

    return Limit(name, **decl.values)


def differs(before: "BucketLimits", after: "BucketLimits") -> set[str]:
    """Return the names of the limits that are new or other; all of them if a switch is."""
    old, new = ({limit.name: replace(limit, weights={}) for limit in each.limits} for each in (before, after))
    if (before.disabled, before.bypass) != (after.disabled, after.bypass):
        return set(new)
    return {name for name, limit in new.items() if old.get(name) != limit}
