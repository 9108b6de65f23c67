"""Find entities that no level limits on a resource, as an acquire composes the levels."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from .effective import Effective
from .places import ALL_RESOURCES, patterns_of, places_of

if TYPE_CHECKING:
    from zae_limiter import SyncRepository
    from zae_limiter.values import KnownEntity


class Unlimited(NamedTuple):
    """An entity without limits, and the level that says so; ``None`` where no level has any."""

    entity: "KnownEntity"
    by: str | None


def only_without_limits(
    repository: "SyncRepository", entities: "Sequence[KnownEntity]", resource: str | None
) -> list[Unlimited]:
    """Return those of the entities that have no limits on a resource, or, without one, on a resource that no level
    names. Two configs of each are read, a hundred with a request, and those that they share.

    Raises ``Unreadable`` for a config that cannot be read: it may have the limits.
    """
    from zae_limiter.maintenance import SyncMaintenance

    on = resource or ALL_RESOURCES
    patterns = patterns_of(repository, on) if entities else []
    places = {
        each.entity_id: places_of(each.entity_id, on, None if each.record is None else each.record.tier, patterns)
        for each in entities
    }
    wanted = dict.fromkeys(place for of_entity in places.values() for place in of_entity.values())
    found = SyncMaintenance(repository).get_configs([*wanted])
    unlimited = []
    for each in entities:
        of_entity = places[each.entity_id].items()
        composed = Effective(on, {source: found.get(place) for source, place in of_entity}).composed
        if not composed.limits:
            unlimited.append(Unlimited(each, composed.source))
    return unlimited
