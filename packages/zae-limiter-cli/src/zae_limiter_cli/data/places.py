"""The places of the levels of limits and of switches."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zae_limiter import SyncRepository
    from zae_limiter.values.limits import ConfigSource
    from zae_limiter.values.provisioner import ConfigPlace
    from zae_limiter.values.resolution import Composed

ALL_RESOURCES: Final = "_default_"
"""The resource of limits that hold on all resources without their own."""


def tier_of(repository: "SyncRepository", entity_id: str) -> str | None:
    """Return the tier of an entity; ``None`` without one, or without a record."""
    record = repository.get_entity(entity_id)
    return None if record is None else record.tier


def composed_beneath(repository: "SyncRepository", entity_id: str, resource: str) -> "Composed":
    """Return the limits that hold without an override; on ``_default_``, where no resource is named."""
    from zae_limiter.maintenance import SyncMaintenance
    from zae_limiter.values.resolution import SAYS_NOTHING, Level, compose

    places = places_of(entity_id, resource, tier_of(repository, entity_id))
    found = SyncMaintenance(repository).get_configs([*places.values()])
    said = {source: found[place].said if place in found else SAYS_NOTHING for source, place in places.items()}
    return compose([Level(source, each.limits, mode=each.mode) for source, each in said.items()])


def place_in_tier(tier: str, resource: str) -> "ConfigPlace":
    """Return the place of a tier's limits on a resource, or on all."""
    from zae_limiter.maintenance import audit_tier

    return audit_tier(tier), resource


def places_of(entity_id: str, resource: str, tier: str | None = None) -> dict["ConfigSource", "ConfigPlace"]:
    """Return the place of each level, in the order in which they win; those of a tier for an entity that has one. On
    ``_default_`` they are those that name no resource.
    """
    of_tier: dict[ConfigSource, ConfigPlace] = {}
    if tier is not None:
        of_tier = {"tier": place_in_tier(tier, resource), "tier_default": place_in_tier(tier, ALL_RESOURCES)}
    places: dict[ConfigSource, ConfigPlace] = {
        "entity": (entity_id, resource),
        "entity_default": (entity_id, ALL_RESOURCES),
        **of_tier,
        "resource": (None, resource),
        "system": (None, None),
    }
    if resource != ALL_RESOURCES:
        return places
    return {source: place for source, place in places.items() if source not in ("entity", "tier", "resource")}
