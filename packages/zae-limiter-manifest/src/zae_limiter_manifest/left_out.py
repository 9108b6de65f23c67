"""Levels of a manifest that leave out a limit which a weaker level has: whose calls are not limited by it any more.

The first level that has limits wins as a whole, so a level that names some of them drops the others. That may be meant,
so it is not a mistake; but it cannot be seen in a file, and a call that names the limit is admitted.
"""

from collections.abc import Iterator, Mapping, Sequence

from .declarations import ResourceDecl
from .manifest import LimitsManifest
from .naming import DEFAULT_RESOURCE, matching
from .problems import Path, format_path
from .warned import LEFT_OUT, Warned
from .winners import limits_of, tier_levels

_SHOWN = 3  # levels that have a limit, in a message

_Levels = Mapping[str, Sequence[str]]  # the paths of the levels that have a limit, by its name


def find_left_out(manifest: LimitsManifest) -> Iterator[Warned]:
    """Yield each level that leaves limits out, in the order of the manifest."""
    everywhere = _of_resources(manifest)
    system = _named(("system",), None if manifest.system is None else manifest.system.limits)
    for resource, decl in manifest.resources.items():
        if lost := _lost(decl, {}, _of_patterns(manifest, resource), system):
            yield _found(manifest, ("resources", resource), lost, f"calls on {resource}")
    for tier, of_tier in manifest.tiers.items():
        for resource, decl in of_tier.resources.items():
            same, others = _below_tier(manifest, tier, resource, everywhere)
            ends, behind = _behind(decl, resource, same, [(("tiers", tier), of_tier.resources)])
            if lost := behind or _lost(decl, same, others, system):
                who = f"calls of entities with tier {tier} {_on(resource, of_tier.resources)}"
                yield _found(manifest, ("tiers", tier, "resources", resource), lost, who, ends)
    parents = {parent for each in manifest.entities.values() if each.cascade for parent in each.parents}
    for entity, own in manifest.entities.items():
        for resource, decl in own.resources.items():
            same, others = _below_entity(manifest, entity, resource, everywhere)
            levels = [(("entities", entity), own.resources), (("tiers", own.tier), tier_levels(manifest, own))]
            ends, behind = _behind(decl, resource, same, levels)
            lost = behind or _lost(decl, same, others, system)
            above = _limited_above(manifest, entity, resource) if lost else ()
            if entity in parents:  # the defaults are of single callers: its children have them, and it has the sum
                lost = {name: at for name, at in lost.items() if at[0].startswith(("entities", "tiers"))}
            if lost := {name: levels for name, levels in lost.items() if name not in above}:
                who = f"calls of {entity} {_on(resource, own.resources)}"
                yield _found(manifest, ("entities", entity, "resources", resource), lost, who, ends)


def _on(resource: str, levels: Mapping[str, ResourceDecl]) -> str:
    if resource != DEFAULT_RESOURCE:
        return f"on {resource}"
    return "on all resources" if len(levels) == 1 else "on all other resources"


def _found(manifest: LimitsManifest, path: Path, lost: _Levels, calls: str, ends: Path = ()) -> Warned:
    """Return the warning; ``ends`` is the level that it extends, and that extends no further."""
    names = {name: tuple(dict.fromkeys(lost[name]))[:_SHOWN] for name in sorted(lost)}
    missing = ", ".join(f"{name} ({' and '.join(at)} {'do' if at[1:] else 'does'})" for name, at in names.items())
    text = f"does not limit {missing}: {calls} are counted, and not limited by {', '.join(names)}"
    if ends:
        text += f"; it extends {format_path(ends)} alone, which has no `extends: true`"
    return Warned(LEFT_OUT, manifest.namespace, path, text, names)


def _of_resources(manifest: LimitsManifest) -> _Levels:
    """Return the resources that have a limit, by its name."""
    found: dict[str, list[str]] = {}
    for resource, decl in manifest.resources.items():
        for name in decl.limits:
            found.setdefault(name, []).append(resource)
    return found


def _named(path: Path, limits: Mapping[str, object] | None) -> _Levels:
    return dict.fromkeys(limits or (), (format_path(path),))


def _lost(decl: ResourceDecl, same: _Levels, *others: _Levels) -> dict[str, Sequence[str]]:
    """Return what the weaker levels of the same resource have and a level with limits leaves out.

    So with the levels of all resources, if it has a limit in common with them: a budget in dollars is measured by
    itself, and leaves out no requests in a minute.
    """
    if not decl.limits or decl.extends:
        return {}
    general = _merged(*others)
    weaker = _merged(same, general) if decl.limits.keys() & general.keys() else same
    return {name: each for name, each in weaker.items() if name not in decl.limits}


def _behind(
    decl: ResourceDecl,
    resource: str,
    same: _Levels,
    levels: Sequence[tuple[Path, Mapping[str, ResourceDecl]]],
) -> tuple[Path, dict[str, Sequence[str]]]:
    """Return what an extending level leaves out all the same, and the ``_default_`` between it and the resource that
    ends there; a tier's own level on the resource has a warning of its own.
    """
    if not decl.extends or resource == DEFAULT_RESOURCE:
        return (), {}
    held = {*decl.limits}
    for number, (path, of_owner) in enumerate(levels):
        of_tier = of_owner.get(resource) if number else None
        if of_tier is not None and (of_tier.limits or of_tier.unlimited):
            break
        default = of_owner.get(DEFAULT_RESOURCE)
        if default is None or not (default.limits or default.unlimited):
            continue
        if default.unlimited:
            break
        held |= {*default.limits}
        if not default.extends:
            return (*path, "resources", DEFAULT_RESOURCE), {name: at for name, at in same.items() if name not in held}
    return (), {}


def _merged(*levels: _Levels) -> dict[str, Sequence[str]]:
    merged: dict[str, Sequence[str]] = {}
    for each in levels:
        for name, paths in each.items():
            merged[name] = (*merged.get(name, ()), *paths)
    return merged


def _below_tier(manifest: LimitsManifest, tier: str, resource: str, everywhere: _Levels) -> tuple[_Levels, _Levels]:
    """Return the limits of the levels between a tier's level and the system: of its resource, and of all."""
    levels = manifest.tiers[tier].resources
    if resource == DEFAULT_RESOURCE:
        return _on_others(everywhere, levels), {}
    return _of_resource(manifest, resource), _of_level(("tiers", tier), levels, DEFAULT_RESOURCE)


def _below_entity(manifest: LimitsManifest, entity: str, resource: str, everywhere: _Levels) -> tuple[_Levels, _Levels]:
    """Return the limits of the levels between an entity's level and the system: of its resource, and of all."""
    own = manifest.entities[entity]
    tier, levels = ("tiers", own.tier), tier_levels(manifest, own)
    if resource == DEFAULT_RESOURCE:
        of_tier = (each for each in levels if each == DEFAULT_RESOURCE or each not in own.resources)
        return _merged(*(_of_level(tier, levels, each) for each in of_tier), _on_others(everywhere, own.resources)), {}
    return (
        _merged(_of_level(tier, levels, resource), _of_resource(manifest, resource)),
        _merged(
            _of_level(("entities", entity), own.resources, DEFAULT_RESOURCE),
            _of_level(tier, levels, DEFAULT_RESOURCE),
        ),
    )


def _of_level(path: Path, levels: Mapping[str, ResourceDecl], resource: str) -> _Levels:
    decl = levels.get(resource)
    return {} if decl is None else _named((*path, "resources", resource), decl.limits)


def _of_resource(manifest: LimitsManifest, resource: str) -> _Levels:
    return _of_level((), manifest.resources, resource) or _of_patterns(manifest, resource)


def _of_patterns(manifest: LimitsManifest, resource: str) -> _Levels:
    """Return the limits of the patterns of a resource, or of those that are shorter than a pattern."""
    return _merged(*(_of_level((), manifest.resources, each) for each in matching(manifest.resources, resource)))


def _on_others(everywhere: _Levels, levels: Mapping[str, ResourceDecl]) -> dict[str, Sequence[str]]:
    """Return the limits of all resources but those on which there is a level of its own."""
    found: dict[str, Sequence[str]] = {}
    for name, resources in everywhere.items():
        others = (format_path(("resources", each)) for each in resources if each not in levels)
        if paths := tuple(path for path, _ in zip(others, range(_SHOWN), strict=False)):
            found[name] = paths
    return found


def _limited_above(manifest: LimitsManifest, entity: str, resource: str) -> set[str]:
    """Return the names that the buckets above an entity limit: its calls still take from these."""
    found: set[str] = set()
    met, level = {entity}, [entity]
    while level:
        sections = [manifest.entities[each] for each in level if each in manifest.entities]
        level = [above for each in sections if each.cascade for above in each.parents if above not in met]
        met.update(level)
        for each in level:
            if each in manifest.entities:
                found.update(limits_of(manifest, manifest.entities[each], ("entities", each), resource))
    return found
