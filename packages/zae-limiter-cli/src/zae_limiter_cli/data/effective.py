"""Read the limits and switches of all levels that concern an entity, and which of them hold."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .places import places_of
from .refusals import plain_on_refused
from .showing import plain_limits, plain_override
from .switches import plain_resolved, plain_switches

if TYPE_CHECKING:
    from zae_limiter import Limit, OnRefused, Switches, SyncRepository
    from zae_limiter.values import ResolvedSwitches
    from zae_limiter.values.limits import ConfigSource
    from zae_limiter.values.provisioner import StoredConfig
    from zae_limiter.values.resolution import Level


@dataclass(frozen=True, slots=True)
class Effective:
    """The levels of an entity on a resource, in the order in which they win; on ``_default_`` those that hold on a
    resource that no level names.
    """

    resource: str
    configs: "Mapping[ConfigSource, StoredConfig | None]"

    @property
    def winner(self) -> "Level | None":
        """The first level that has limits, with those in force."""
        from zae_limiter.values.resolution import Level, winner

        return winner([Level(source, limits_in_force(each)) for source, each in self.configs.items()])

    @property
    def switches(self) -> "ResolvedSwitches | None":
        """The switches that hold, each by the first level that sets it; ``None`` if no level sets one."""
        from zae_limiter.values.switches import resolve_switches

        return resolve_switches((source, _switches_of(each)) for source, each in self.configs.items())

    @property
    def on_refused(self) -> "tuple[ConfigSource | None, OnRefused | None]":
        """What follows a refusal, and the level that says so."""
        said = ((source, each.on_refused) for source, each in self.configs.items() if each and each.on_refused)
        return next(said, (None, None))

    @property
    def is_named(self) -> bool:
        """Whether anything of this resource holds: limits, a switch, or what follows a refusal."""
        won, own, shared = self.winner, self.configs.get("entity"), self.configs.get("resource")
        if own is not None or (won is not None and won.source in ("tier", "resource")):
            return True
        return shared is not None and bool(shared.switches or shared.on_refused)

    def plain(self) -> dict[str, Any]:
        """Return all levels as plain values."""
        won, (policy_from, policy), system = self.winner, self.on_refused, self.configs["system"]
        return {
            "resource": self.resource,
            "source": won and won.source,
            "limits": plain_limits(won.limits if won else ()),
            "on_unavailable": system and system.on_unavailable,
            **plain_on_refused(policy),
            **({} if policy_from is None else {"on_refused_source": policy_from}),
            "switches": plain_resolved(self.switches),
            "levels": [
                {
                    "source": source,
                    "limits": plain_limits(each.limits if each else ()),
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

    places = {resource: places_of(entity_id, resource, tier) for resource in resources}
    wanted = [place for levels in places.values() for place in levels.values()]
    found = SyncMaintenance(repository).get_configs(wanted, skip_unreadable=True)
    return {
        resource: Effective(resource, {source: found.get(place) for source, place in levels.items()})
        for resource, levels in places.items()
    }


def limits_in_force(config: "StoredConfig | None") -> "tuple[Limit, ...]":
    """Return the limits of a level: those of its override while that is in force."""
    if config is None:
        return ()
    return config.override.limits if config.override else config.limits


def _switches_of(config: "StoredConfig | None") -> "Switches":
    from zae_limiter.values.switches import NO_SWITCHES

    return config.switches if config else NO_SWITCHES
