"""Say of each change of a plan what callers have afterwards: of the levels together, and of what they used.

A plan shows each level alone. Where a level extends the next one, a caller has the limits of several; and a quota may
come from another level than before. So the levels of the file are composed as core does, before the plan and after it.
What programs store beside the file is not among them: an override, a level that is not managed, the tier of an entity
that the file does not declare.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from attrs import field, frozen

from .addresses import Address
from .changes import Change
from .declarations import Decl, RecordDecl
from .limit_declarations import LimitDecl
from .limit_text import write_limit
from .manifest import LimitsManifest
from .money import show_amount
from .naming import DEFAULT_RESOURCE, matching
from .overrides import LiveOverride
from .plan import Plan
from .shares import Shared

SHOWN: Final = 3
"""The most levels that extend a changed one, and the most resources of a changed tier, that are named."""

AT_ONCE: Final = " at once"
_RESOURCES: Final = 20  # changed ones, on which levels for all resources are looked at
_SLOTS: Final = "concurrent"
_WINDOW: Final = ("kind", "window", "timezone", "starts_on", "refill_period")


@frozen
class Consequences:
    """What callers have after each change of a plan, in lines by address: `together`, the limits of levels that extend
    one another, and `used`, what becomes of what was used of a quota. `quotas` has these limits of a level by name,
    before and after.
    """

    together: Mapping[Address, tuple[str, ...]] = field(factory=dict)
    used: Mapping[Address, tuple[str, ...]] = field(factory=dict)
    quotas: Mapping[Address, Mapping[str, tuple[LimitDecl, LimitDecl]]] = field(factory=dict)

    @property
    def lines(self) -> Mapping[Address, tuple[str, ...]]:
        """All lines by address."""
        both = dict.fromkeys((*self.together, *self.used))
        return {at: (*self.together.get(at, ()), *self.used.get(at, ())) for at in both}


class _Has(NamedTuple):
    """A limit that a caller has, and the address of the level that it is of."""

    limit: LimitDecl
    at: Address


_Composed = Mapping[str, _Has]


class _Levels:
    """The levels of a namespace at one time."""

    def __init__(self, levels: Mapping[Address, Decl]) -> None:
        self._levels = levels
        self._patterns = [str(at.resource) for at in levels if at.is_pattern]
        self._of_tiers: dict[str, list[str]] = {}
        for at in levels:
            if at.tier is not None:
                self._of_tiers.setdefault(at.tier, []).append(str(at.resource))

    @property
    def extending(self) -> Iterator[Address]:
        """The addresses of the levels that extend the next one."""
        return (at for at, decl in self._levels.items() if getattr(decl, "extends", False))

    def extends(self, at: Address) -> bool:
        """Return whether the level at an address extends the next one."""
        return bool(getattr(self._levels.get(at), "extends", False))

    def tier_of(self, entity: str) -> str | None:
        """Return the tier of an entity, as far as the file declares it."""
        record = self._levels.get(Address(None, entity))
        return record.tier if isinstance(record, RecordDecl) else None

    def resources_of(self, tier: str | None) -> list[str]:
        """Return the resources on which a tier has limits."""
        return [] if tier is None else self._of_tiers.get(tier, [])

    def composed(self, entity: str | None, resource: str | None) -> tuple[_Composed, tuple[Address, ...]]:
        """Return the limits of an entity, or of a tier in its place, on a resource, and the levels they are of."""
        found: dict[str, _Has] = {}
        of: list[Address] = []
        for at in self._chain(entity, resource):
            decl = self._levels.get(at)
            if decl is None or isinstance(decl, RecordDecl) or not (decl.limits or decl.unlimited):
                continue
            of.append(at)
            for name, limit in decl.limits.items():
                found.setdefault(name, _Has(limit, at))
            if not getattr(decl, "extends", False):
                break
        return found, tuple(of)

    def _chain(self, entity: str | None, resource: str | None) -> Iterator[Address]:
        if resource is not None:
            on = dict.fromkeys((resource, DEFAULT_RESOURCE))
            if entity is not None:
                yield from (Address(each, entity) for each in on)
                if Address(resource, entity).tier is None and (tier := self.tier_of(entity)) is not None:
                    yield from (Address.of_tier(tier, each) for each in on)
            if resource != DEFAULT_RESOURCE:
                yield Address(resource)
            named = "" if resource == DEFAULT_RESOURCE else resource
            yield from map(Address, matching(self._patterns, named))
        yield Address()


def consequences_of(manifest: LimitsManifest, plan: Plan) -> Consequences:
    """Return what callers have after each change of a plan that brings a namespace to this manifest."""
    shared = Shared(plan.share)
    later = {at: shared(at, decl) for at, decl in manifest.declared()}
    earlier = dict(later)
    for change in plan.changes:
        for levels, side in ((earlier, change.before), (later, change.after)):
            if side is None:
                levels.pop(change.address, None)
            else:
                levels[change.address] = side
    before, after = _Levels(earlier), _Levels(later)
    together = {change.address: [*_own(change.address, before, after)] for change in plan.changes}
    for at, lines in _of_extending(plan, before, after).items():
        together[at] += lines
    overrides = {each.address: each for each in plan.overrides}
    used = {
        change.address: tuple(_used(change, before, after, overrides.get(change.address))) for change in plan.changes
    }
    quotas = [at for at, lines in used.items() if lines and not at.is_record]
    return Consequences(
        {at: tuple(lines) for at, lines in together.items() if lines},
        {at: lines for at, lines in used.items() if lines},
        {at: _quotas_at(at, before, after) for at in quotas},
    )


def _own(at: Address, before: _Levels, after: _Levels) -> Iterator[str]:
    """Yield what a level that extends the next one, before or after, gives together with those below it."""
    if at.is_record or not (before.extends(at) or after.extends(at)):
        return
    limits, _ = after.composed(at.entity, at.resource)
    parts = [_with_level(name, has, at) for name, has in sorted(limits.items())]
    gone = sorted(before.composed(at.entity, at.resource)[0].keys() - limits.keys())
    parts += [f"{name} no longer" for name in gone]
    yield f"together: {'; '.join(parts) or 'no limits'}"


def _with_level(name: str, has: _Has, at: Address) -> str:
    said = f"{name} {write_limit(has.limit.values)}"
    return said if has.at == at else f"{said} of {has.at}"


def _of_extending(plan: Plan, before: _Levels, after: _Levels) -> dict[Address, list[str]]:
    """Return what changes for levels that do not change themselves, and extend one that does, by the changed one."""
    changed = {change.address for change in plan.changes}
    shared = (at for at in changed if at.level in ("resource", "tier") and not at.is_pattern)
    on = {str(at.resource) for at in shared} - {DEFAULT_RESOURCE}
    found: dict[Address, list[str]] = {}
    for at in sorted({*before.extending, *after.extending} - changed, key=lambda each: each.rank):
        for resource in (at.resource, *(sorted(on)[:_RESOURCES] if at.resource == DEFAULT_RESOURCE else ())):
            (old, of_old), (new, of_new) = (levels.composed(at.entity, resource) for levels in (before, after))
            cause = next((each for each in (*of_old, *of_new) if each in changed), None)
            steps = [*_steps(old, new)]
            if cause is not None and at in (*of_old, *of_new) and steps:
                where = at if resource == at.resource else Address(resource, at.entity)
                found.setdefault(cause, []).append(f"{where}, which extends it: {'; '.join(steps)}")
    return {cause: _few(lines, "more that extend it") for cause, lines in found.items()}


def _steps(old: _Composed, new: _Composed) -> Iterator[str]:
    for name in sorted({*old, *new}):
        was, now = (_text(side[name].limit) if name in side else "none" for side in (old, new))
        if was != now:
            yield f"{name} {was} -> {now}"


def _used(change: Change, before: _Levels, after: _Levels, override: LiveOverride | None) -> Iterator[str]:
    """Yield what becomes of what was used of each quota that callers of a changed level have otherwise afterwards, or
    once an override ends.
    """
    at = change.address
    if not at.is_record:
        yield from _used_at(at.entity, at.resource, before, after, override)
        return
    tiers = [side.tier if isinstance(side, RecordDecl) else None for side in (change.before, change.after)]
    if tiers[0] != tiers[1]:
        resources = sorted({*before.resources_of(tiers[0]), *after.resources_of(tiers[1])})
        lines = [f"{each}: {line}" for each in resources for line in _used_at(at.entity, each, before, after)]
        yield from _few(lines, "more on other resources")


def _used_at(
    entity: str | None, resource: str | None, before: _Levels, after: _Levels, override: LiveOverride | None = None
) -> Iterator[str]:
    (old, _), (new, _) = (levels.composed(entity, resource) for levels in (before, after))
    for name, has in sorted(old.items()):
        now = new.get(name)
        said = _gone(has.limit) if now is None else what_becomes(has.limit, now.limit)
        if said and override is not None and override.decides(name):
            if now is not None and said.endswith(AT_ONCE):
                said = f"{_kept(has.limit, now.limit)}: {_text(now.limit)} in place of {_text(has.limit)}"
            said = f"the override stays until {override.until}; then {said}"
        if said:
            yield f"{name}: {said}"


def _quotas_at(at: Address, before: _Levels, after: _Levels) -> dict[str, tuple[LimitDecl, LimitDecl]]:
    (old, _), (new, _) = (levels.composed(at.entity, at.resource) for levels in (before, after))
    both = {name: (has.limit, new[name].limit) for name, has in old.items() if name in new}
    return {name: sides for name, sides in both.items() if what_becomes(*sides)}


def _gone(limit: LimitDecl) -> str:
    """Return what becomes of a limit that no level has: its bucket keeps it until it is full."""
    if not _is_quota(limit):
        return ""
    until = "" if limit.kind == "total" else " until its window ends"
    return f"limits no call; if it comes back, what was used counts{until}"


def what_becomes(before: LimitDecl, after: LimitDecl) -> str:
    """Return what becomes of what was used of a limit, where one side is a quota; empty if that does not change."""
    if _is_quota(before) and after.kind == _SLOTS:
        return "what was used is forgotten: all slots are free"
    if before.kind == _SLOTS and _is_quota(after):
        return "begins its window with what slots are free"
    if not (_is_quota(before) or _is_quota(after)) or _SLOTS in (before.kind, after.kind):
        return ""
    kept = _kept(before, after)
    if before.unit != after.unit:
        return f"{kept}; its number counts as {_counted(after)} now"
    more = after.capacity - before.capacity
    if not more or before.schedule or after.schedule or not (_is_quota(before) and _is_quota(after)):
        return kept
    return f"{kept}: {_amount(abs(more), after)} {'more' if more > 0 else 'less'}{AT_ONCE}"


def _kept(before: LimitDecl, after: LimitDecl) -> str:
    if not _is_quota(before):
        return "what its bucket lacks counts as used"
    if not _is_quota(after):
        return "begins with what is left; what comes back no longer counts as used"
    if any(getattr(before, each) != getattr(after, each) for each in _WINDOW):
        return "the new window begins with what was used"
    same = (before.capacity, before.unit, before.schedule) == (after.capacity, after.unit, after.schedule)
    return "" if same else "what was used stays used"


def _is_quota(limit: LimitDecl) -> bool:
    return limit.kind not in ("token_bucket", _SLOTS)


def _counted(limit: LimitDecl) -> str:
    return f"millionths of {limit.unit}" if limit.unit else "tokens"


def _amount(amount: int, limit: LimitDecl) -> str:
    return show_amount(amount, limit.unit) if limit.unit else f"{amount:,}"


def _text(limit: LimitDecl) -> str:
    return write_limit(limit.values)


def _few(lines: list[str], others: str) -> list[str]:
    more = len(lines) - SHOWN
    return lines if more <= 0 else [*lines[:SHOWN], f"{more:,} {others}"]
