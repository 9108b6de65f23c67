"""Read the limits and switches of all levels that concern an entity, and which of them hold."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .places import ALL_RESOURCES, as_level, places_of
from .refusals import plain_on_refused
from .showing import plain_limits, plain_mode, plain_override
from .switches import plain_resolved, plain_switches

if TYPE_CHECKING:
    from zae_limiter import OnRefused, Switches, SyncRepository
    from zae_limiter.values import ResolvedSwitches
    from zae_limiter.values.provisioner import StoredConfig
    from zae_limiter.values.resolution import Composed, Said


@dataclass(frozen=True, slots=True)
class Effective:
    """The levels of an entity on a resource, in the order in which they win; on ``_default_`` those that hold on a
    resource that no level names.
    """

    resource: str
    configs: "Mapping[str, StoredConfig | None]"

    @property
    def composed(self) -> "Composed":
        """The limits in force of all levels together."""
        from zae_limiter.values.resolution import compose

        return compose([as_level(source, said_in_force(each)) for source, each in self.configs.items()])

    @property
    def switches(self) -> "ResolvedSwitches | None":
        """The switches that hold, each by the first level that sets it; ``None`` if no level sets one."""
        from zae_limiter.values.resolution import SAYS_NOTHING
        from zae_limiter.values.switches import resolve_switches

        levels = (as_level(source, SAYS_NOTHING, switches=_switches_of(each)) for source, each in self.configs.items())
        return resolve_switches((level.source, level.switches, level.pattern) for level in levels)

    @property
    def on_refused(self) -> "tuple[str | None, OnRefused | None]":
        """What follows a refusal, and the level that says so."""
        said = ((source, each.on_refused) for source, each in self.configs.items() if each and each.on_refused)
        return next(said, (None, None))

    @property
    def is_named(self) -> bool:
        """Whether anything of this resource holds: limits, a switch, or what follows a refusal."""
        sources = {each.source for each in self.composed.levels}
        own, shared = self.configs.get("entity"), self.configs.get("resource")
        if own is not None or not sources.isdisjoint(("tier", "resource")):
            return True
        return shared is not None and bool(shared.switches or shared.on_refused)

    def plain(self) -> dict[str, Any]:
        """Return all levels as plain values."""
        composed, (policy_from, policy), system = self.composed, self.on_refused, self.configs["system"]
        return {
            "resource": self.resource,
            "source": composed.source,
            **({} if composed.pattern is None else {"pattern": composed.pattern}),
            "limits": plain_limits(composed.limits),
            "sources": dict(composed.sources),
            "on_unavailable": system and system.on_unavailable,
            **plain_on_refused(policy),
            **({} if policy_from is None else {"on_refused_source": policy_from}),
            "switches": plain_resolved(self.switches),
            "levels": [
                {
                    "source": source,
                    "limits": plain_limits(each.limits if each else ()),
                    **plain_mode(each.said if each else None),
                    "override": plain_override(each.override if each else None),
                    "switches": plain_switches(_switches_of(each)),
                    **plain_on_refused(each.on_refused if each else None),
                }
                for source, each in self.configs.items()
            ],
        }


def read_effective(
    repository: "SyncRepository", entity_id: str, tier: str | None, resources: Iterable[str]
) -> dict[str, Effective]:
    """Return what holds for an entity by resource, by one batch of reads. A level that cannot be read is left out, and
    named at the end of the command.
    """
    from zae_limiter.maintenance import SyncMaintenance
    from zae_limiter.values.patterns import is_pattern, matching

    known = SyncMaintenance(repository).list_patterns()
    places = {
        resource: places_of(entity_id, resource, tier, matching(known, "" if resource == ALL_RESOURCES else resource))
        for resource in resources
        if not is_pattern(resource)
    }
    wanted = [place for levels in places.values() for place in levels.values()]
    found = SyncMaintenance(repository).get_configs(wanted, skip_unreadable=True)
    return {
        resource: Effective(resource, {source: found.get(place) for source, place in levels.items()})
        for resource, levels in places.items()
    }


def said_in_force(config: "StoredConfig | None") -> "Said":
    """Return what a level says of limits: with its override, while that is in force."""
    from zae_limiter.values.resolution import SAYS_NOTHING, lifted

    if config is None:
        return SAYS_NOTHING
    override = config.override
    return config.said if override is None else lifted(config.said, override.limits, extends=override.extends)


def _switches_of(config: "StoredConfig | None") -> "Switches":
    from zae_limiter.values.switches import NO_SWITCHES

    return config.switches if config else NO_SWITCHES
