"""The places of the four levels of limits and of switches."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zae_limiter.values.limits import ConfigSource
    from zae_limiter.values.provisioner import ConfigPlace


def places_of(entity_id: str, resource: str) -> dict["ConfigSource", "ConfigPlace"]:
    """Return the place of each level, in the order in which they win."""
    from zae_limiter.values.naming import DEFAULT_RESOURCE

    return {
        "entity": (entity_id, resource),
        "entity_default": (entity_id, DEFAULT_RESOURCE),
        "resource": (None, resource),
        "system": (None, None),
    }
