"""The places of the levels of limits and of switches."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from zae_limiter import SyncRepository
    from zae_limiter.values.limits import ConfigSource
    from zae_limiter.values.provisioner import ConfigPlace
    from zae_limiter.values.resolution import Composed, Level, Said

ALL_RESOURCES: Final = "_default_"
"""The resource of limits that hold on all resources without their own."""


def tier_of(repository: "SyncRepository", entity_id: str) -> str | None:
    """Return the tier of an entity; ``None`` without one, or without a record."""
    record = repository.get_entity(entity_id)
    return None if record is None else record.tier


def patterns_of(repository: "SyncRepository", resource: str) -> list[str]:
    """Return the patterns of a resource that have a config, the longest first; on ``_default_``, that of all."""
    from zae_limiter.maintenance import SyncMaintenance
    from zae_limiter.values.patterns import matching

    found = SyncMaintenance(repository).list_patterns()
    return matching(found, "" if resource == ALL_RESOURCES else resource)


def as_level(source: str, said: "Said", **more: Any) -> "Level":
    """Return the level of a place of ``places_of``."""
    from zae_limiter.values.resolution import Level

    name, _, pattern = source.partition(" ")
    return Level(cast("ConfigSource", name), said.limits, mode=said.mode, pattern=pattern or None, **more)


def name_of(level: "Level") -> str:
    """Return the name that ``places_of`` has for a level."""
    return level.source if level.pattern is None else f"{level.source} {level.pattern}"


def words_of(source: str) -> str:
    """Return the level of a place of ``places_of`` in words."""
    from zae_limiter.values.switches import SETTERS

    return f"the config of the {source}" if source.startswith("pattern ") else SETTERS[cast("ConfigSource", source)]


def composed_beneath(repository: "SyncRepository", entity_id: str, resource: str) -> "Composed":
    """Return the limits that hold without an override; on ``_default_``, where no resource is named."""
    patterns = patterns_of(repository, resource)
    return _composed(repository, places_of(entity_id, resource, tier_of(repository, entity_id), patterns))


def composed_below(repository: "SyncRepository", resource: str, tier: str | None = None) -> "Composed":
    """Return the limits of a resource, or of a tier on a resource, together with those of the levels below."""
    places = places_of("-", resource, tier, patterns_of(repository, resource))
    return _composed(repository, {source: each for source, each in places.items() if not source.startswith("entity")})


def _composed(repository: "SyncRepository", places: "Mapping[str, ConfigPlace]") -> "Composed":
    from zae_limiter.maintenance import SyncMaintenance
    from zae_limiter.values.resolution import SAYS_NOTHING, compose

    found = SyncMaintenance(repository).get_configs([*places.values()])
    said = {source: found[place].said if place in found else SAYS_NOTHING for source, place in places.items()}
    return compose([as_level(source, each) for source, each in said.items()])


def place_in_tier(tier: str, resource: str) -> "ConfigPlace":
    """Return the place of a tier's limits on a resource, or on all."""
    from zae_limiter.maintenance import audit_tier

    return audit_tier(tier), resource


def places_of(
    entity_id: str, resource: str, tier: str | None = None, patterns: Iterable[str] = ()
) -> dict[str, "ConfigPlace"]:
    """Return the place of each level, in the order in which they win; those of a tier for an entity that has one, and
    those of the resource's ``patterns``, each under its name: ``pattern anthropic/*``. On ``_default_`` they are those
    that name no resource.
    """
    of_tier: dict[str, ConfigPlace] = {}
    if tier is not None:
        of_tier = {"tier": place_in_tier(tier, resource), "tier_default": place_in_tier(tier, ALL_RESOURCES)}
    places: dict[str, ConfigPlace] = {
        "entity": (entity_id, resource),
        "entity_default": (entity_id, ALL_RESOURCES),
        **of_tier,
        "resource": (None, resource),
        **{f"pattern {pattern}": (None, pattern) for pattern in patterns},
        "system": (None, None),
    }
    if resource != ALL_RESOURCES:
        return places
    return {source: place for source, place in places.items() if source not in ("entity", "tier", "resource")}
