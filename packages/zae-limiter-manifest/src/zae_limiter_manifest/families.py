"""Warn of children and parents that do not go together."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

from .declarations import EntityDecl
from .excess import rate_of, text_of
from .limit_declarations import LimitDecl
from .manifest import LimitsManifest
from .naming import DEFAULT_RESOURCE
from .problems import Path, format_path
from .warned import CHILD_ABOVE_PARENT, OVERSUBSCRIBED, PARENT_WITHOUT_CASCADE, PARENT_WITHOUT_LIMITS, Warned
from .winners import levels_of, limits_of, tier_levels

_Alike = Mapping[object, list[str]]  # entities by their limits: those of a tier that have none of their own are alike
_Children = Mapping[str, _Alike]  # the entities that cascade to a parent, by its id


def find_in_families(manifest: LimitsManifest) -> Iterator[Warned]:
    """Yield what is odd between parents and children, in the order of the manifest."""
    children: dict[str, dict[object, list[str]]] = {}
    above: dict[tuple[Path, Path, str], Warned] = {}
    for entity, decl in manifest.entities.items():
        if decl.parents and not decl.cascade:
            text = f"has {_named(decl.parents)} and no `cascade: true`: its calls take nothing from above"
            yield Warned(PARENT_WITHOUT_CASCADE, manifest.namespace, ("entities", entity), text)
        for parent in decl.parents if decl.cascade else ():
            kind = ("entity", entity) if decl.resources else ("tier", decl.tier)
            children.setdefault(parent, {}).setdefault(kind, []).append(entity)
    for parent, alike in children.items():
        for ids in alike.values():
            _add_above_parent(manifest, ids[0], parent, above)
    yield from above.values()
    yield from _without_limits(manifest, children)
    yield from _oversubscribed(manifest, children)


def _named(parents: Sequence[str]) -> str:
    return f"the parent{'s' if parents[1:] else ''} {', '.join(parents)}"


def _add_above_parent(
    manifest: LimitsManifest, entity: str, parent: str, found: dict[tuple[Path, Path, str], Warned]
) -> None:
    """Add each limit of a child that exceeds its parent's; once for each pair of levels.

    A default is every entity's, and not written for the children of one parent: the warning is at the parent's own
    limit, which is lower.
    """
    child, over = manifest.entities[entity], manifest.entities[parent]
    if not _has_limits(manifest, over):  # which is a warning of its own
        return
    for resource in _resources(manifest, child, over):
        if not _draws(manifest, entity, resource):
            continue
        mine = limits_of(manifest, child, ("entities", entity), resource)
        theirs = limits_of(manifest, over, ("entities", parent), resource)
        for name, limited in mine.items():
            bound = theirs.get(name)
            if bound is None or not (limited.own or bound.own) or bound.limit.shadow or bound.at == limited.at:
                continue
            if not _exceeds(limited.limit, bound.limit):
                continue
            child_text, text = text_of(limited.limit), text_of(bound.limit)
            if limited.own:
                at, level = limited.at, f"parent {parent} ({format_path(bound.at)}): its calls never get more than that"
                text = f"is {child_text}, above the {text} of its {level}"
            else:
                at, level = bound.at, f"default ({format_path(limited.at)}): it never gets more than this"
                text = f"is {text}, below the {child_text} that {entity}, a child of {parent}, has by {level}"
            at = (*at, "limits", name)
            found.setdefault((limited.at, bound.at, name), Warned(CHILD_ABOVE_PARENT, manifest.namespace, at, text))


def _draws(manifest: LimitsManifest, entity: str, resource: str) -> bool:
    """Return whether calls of an entity that cascades take from its parents on a resource: its switches decide."""
    levels = levels_of(manifest, manifest.entities[entity], ("entities", entity), resource)
    set_by = (decl.cascade for _, decl, _ in levels if decl.cascade is not None)
    return next(set_by, True)


def _resources(manifest: LimitsManifest, *entities: EntityDecl) -> Iterator[str]:
    """Return the resources on which the levels of these entities may differ, `_default_` for the others."""
    levels = (levels for each in entities for levels in (each.resources, tier_levels(manifest, each)))
    return iter(dict.fromkeys((*(resource for each in levels for resource in each), DEFAULT_RESOURCE)))


def _exceeds(child: LimitDecl, parent: LimitDecl) -> bool:
    """Return whether a limit exceeds that of a parent over any long time; False if they do not compare."""
    part = _part(child, parent)
    return part is not None and part > 1


def _part(child: LimitDecl, parent: LimitDecl) -> Fraction | None:
    """Return how many times the parent's limit a child's is; None if they do not compare, or the parent's is 0."""
    if child.unit != parent.unit or not parent.capacity:
        return None
    if (child.kind, child.window, child.refill_period) == (parent.kind, parent.window, parent.refill_period):
        return Fraction(child.capacity, parent.capacity)
    mine, theirs = rate_of(child), rate_of(parent)
    return None if mine is None or theirs is None else mine / theirs


def _without_limits(manifest: LimitsManifest, children: _Children) -> Iterator[Warned]:
    """Yield the parents whose buckets get the defaults of single callers."""
    default = _default_level(manifest)
    for parent, alike in children.items():
        each = [entity for ids in alike.values() for entity in ids]
        decl = manifest.entities[parent]
        if default is None or _has_limits(manifest, decl):
            continue
        below = f"{each[0]} and {len(each) - 1:,} more share" if each[1:] else f"{each[0]} takes from"
        text = f"has no limits of its own, so {below} the defaults of one entity there ({default})"
        yield Warned(PARENT_WITHOUT_LIMITS, manifest.namespace, ("entities", parent), text)


def _has_limits(manifest: LimitsManifest, entity: EntityDecl) -> bool:
    """Return whether an entity, or its tier, says of any resource which limits it has, or that it has none."""
    levels = (*entity.resources.values(), *tier_levels(manifest, entity).values())
    return any(level.limits or level.unlimited for level in levels)


def _default_level(manifest: LimitsManifest) -> str | None:
    """Return the path of a default that has limits."""
    for resource, decl in manifest.resources.items():
        if decl.limits:
            return format_path(("resources", resource))
    return "system" if manifest.system is not None and manifest.system.limits else None


def _oversubscribed(manifest: LimitsManifest, children: _Children) -> Iterator[Warned]:
    """Yield each limit of a parent that its children's limits together exceed by more than the factor."""
    factor = Fraction(Decimal(str(manifest.oversubscribe)))
    for parent, alike in children.items():
        over = manifest.entities[parent]
        told: set[Path] = set()
        for resource in _resources(manifest, over):
            theirs = limits_of(manifest, over, ("entities", parent), resource)
            sums = _sums(
                manifest,
                [*alike.values()],
                resource,
                {name: each.limit for name, each in theirs.items() if each.own and not each.limit.shadow},
            )
            for name, (total, rate) in sums.items():
                at = (*theirs[name].at, "limits", name)
                if total > 1 and rate > factor and at not in told:
                    told.add(at)
                    text = (
                        f"is {text_of(theirs[name].limit)}, and the {total:,} children of {parent} may take "
                        f"{float(rate):.4g} times as much: more than `oversubscribe: {manifest.oversubscribe:g}`"
                    )
                    yield Warned(OVERSUBSCRIBED, manifest.namespace, at, text)


def _sums(
    manifest: LimitsManifest, alike: Sequence[Sequence[str]], resource: str, limits: Mapping[str, LimitDecl]
) -> dict[str, tuple[int, Fraction]]:
    """Return how many children have a limit that compares with the parent's, and their sum as a part of it."""
    sums: dict[str, tuple[int, Fraction]] = {}
    for ids in alike if limits else ():
        if not _draws(manifest, ids[0], resource):
            continue
        mine = limits_of(manifest, manifest.entities[ids[0]], ("entities", ids[0]), resource)
        for name in mine.keys() & limits.keys():
            part = _part(mine[name].limit, limits[name])
            if part is not None:
                many, total = sums.get(name, (0, Fraction(0)))
                sums[name] = many + len(ids), total + len(ids) * part
    return sums
