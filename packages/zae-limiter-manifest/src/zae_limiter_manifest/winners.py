"""Which level of a manifest has the limits of an entity on a resource."""

from collections.abc import Iterator, Mapping

from attrs import frozen

from .declarations import EntityDecl, ResourceDecl, SystemDecl
from .limit_declarations import LimitDecl
from .manifest import LimitsManifest
from .naming import DEFAULT_RESOURCE, matching
from .problems import Path


@frozen
class Limited:
    """A limit that holds, and the path of the level that has it; `own` if that is the entity's, or its tier's."""

    limit: LimitDecl
    at: Path
    own: bool


def limits_of(manifest: LimitsManifest, entity: EntityDecl, path: Path, resource: str) -> Mapping[str, Limited]:
    """Return the limits of an entity on a resource, `_default_` for one that no level names, by name."""
    found: dict[str, Limited] = {}
    for at, decl, own in levels_of(manifest, entity, path, resource):
        for name, limit in decl.limits.items():
            found.setdefault(name, Limited(limit, at, own))
        if decl.unlimited or (decl.limits and not getattr(decl, "extends", False)):
            break
    return found


def tier_levels(manifest: LimitsManifest, entity: EntityDecl) -> Mapping[str, ResourceDecl]:
    """Return the levels of the tier of an entity, by resource."""
    tier = None if entity.tier is None else manifest.tiers.get(entity.tier)
    return {} if tier is None else tier.resources


def levels_of(
    manifest: LimitsManifest, entity: EntityDecl, path: Path, resource: str
) -> Iterator[tuple[Path, ResourceDecl | SystemDecl, bool]]:
    """Yield the levels that may have the limits, the strongest first, each with its path."""
    for where, levels in ((path, entity.resources), (("tiers", entity.tier), tier_levels(manifest, entity))):
        for each in dict.fromkeys((resource, DEFAULT_RESOURCE)):
            if (level := levels.get(each)) is not None:
                yield (*where, "resources", each), level, True
    for each in (resource, *matching(manifest.resources, "" if resource == DEFAULT_RESOURCE else resource)):
        if (of_all := manifest.resources.get(each)) is not None:
            yield ("resources", each), of_all, False
    if manifest.system is not None:
        yield ("system",), manifest.system, False


def all_levels(manifest: LimitsManifest) -> Iterator[tuple[Path, str | None, SystemDecl | ResourceDecl]]:
    """Yield the path of each level, its resource, and the level."""
    if manifest.system is not None:
        yield ("system",), None, manifest.system
    for resource, level in manifest.resources.items():
        yield ("resources", resource), resource, level
    for section, named in (("tiers", manifest.tiers), ("entities", manifest.entities)):
        for each, decl in named.items():
            for resource, level in decl.resources.items():
                yield (section, each, "resources", resource), resource, level
