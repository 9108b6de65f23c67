"""Find the limits of buckets that are in shadow: a bucket has the values of a limit, and its levels say the rest."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from .effective import Effective
from .places import ALL_RESOURCES, places_of

if TYPE_CHECKING:
    from zae_limiter import SyncRepository


def shadow_limits(
    repository: "SyncRepository",
    buckets: "Iterable[tuple[str, str]]",
    tiers: Mapping[str, str | None] | None = None,
) -> "dict[tuple[str, str], frozenset[str]]":
    """Return the limits in shadow, or bypassed, of each bucket, an entity and a resource, that has any. It reads the
    levels, and without ``tiers`` the records, a hundred with a request; what cannot be read is left out.
    """
    from zae_limiter.maintenance import SyncMaintenance
    from zae_limiter.values.patterns import matching

    asked = [*dict.fromkeys((entity_id, resource) for entity_id, resource in buckets)]
    if not asked:
        return {}
    maintenance = SyncMaintenance(repository)
    if tiers is None:
        records = maintenance.get_entity_records(sorted({each for each, _ in asked}), skip_unreadable=True)
        tiers = {entity_id: record.tier for entity_id, record in records.items()}
    known = maintenance.list_patterns()
    levels = {
        (entity_id, resource): places_of(
            entity_id,
            resource,
            tiers.get(entity_id),
            matching(known, "" if resource == ALL_RESOURCES else resource),
        )
        for entity_id, resource in asked
    }
    wanted = dict.fromkeys(place for places in levels.values() for place in places.values())
    configs = maintenance.get_configs([*wanted], skip_unreadable=True)
    found: dict[tuple[str, str], frozenset[str]] = {}
    for bucket, places in levels.items():
        effective = Effective(bucket[1], {source: configs.get(place) for source, place in places.items()})
        switches = effective.switches
        bypassed = switches is not None and switches.bypasses
        if names := frozenset(each.name for each in effective.composed.limits if each.shadow or bypassed):
            found[bucket] = names
    return found
