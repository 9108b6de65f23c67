"""What lives here: what a namespace shall have, held against what it has: a change is before and after.
What never does: I/O, or the words in which a change is told.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from zae_limiter import Limit, OnUnavailable
from zae_limiter_manifest import LimitDecl, LimitsManifest

Level = Literal["system", "resource", "entity"]
Action = Literal["create", "update"]


@dataclass(frozen=True, slots=True)
class Address:
    """Where limits stand: ``entity`` on the entity's level only, ``resource`` on all but the system's."""

    level: Level
    resource: str | None = None
    entity: str | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """What stands at an address: limits sorted by name; the system's also says what to do while the store is away."""

    limits: tuple[Limit, ...] = ()
    on_unavailable: OnUnavailable | None = None


NOTHING = Config()


@dataclass(frozen=True, slots=True)
class Change:
    """What has to be written at an address; raises `ValueError` where nothing would change."""

    address: Address
    before: Config
    after: Config

    def __post_init__(self) -> None:
        if self.before == self.after:
            raise ValueError(f"{self.address} stays as it is: that is no change")

    @property
    def action(self) -> Action:
        """``create`` where nothing stood before."""
        return "create" if self.before == NOTHING else "update"


def desired_configs(manifest: LimitsManifest) -> dict[Address, Config]:
    """What the manifest declares, by address, in the order of levels: system, resources, entities, each sorted."""
    configs: dict[Address, Config] = {}
    if manifest.system is not None:
        configs[Address("system")] = Config(_limits(manifest.system.limits), manifest.system.on_unavailable)
    for resource, declared in sorted(manifest.resources.items()):
        configs[Address("resource", resource)] = Config(_limits(declared.limits))
    for entity, own in sorted(manifest.entities.items()):
        for resource, declared in sorted(own.resources.items()):
            configs[Address("entity", resource, entity)] = Config(_limits(declared.limits))
    return configs


def compare(desired: Mapping[Address, Config], live: Mapping[Address, Config]) -> list[Change]:
    """The changes that make live what is desired, in the order of ``desired``; none where nothing differs."""
    wanted = {address: _completed(config, live[address]) for address, config in desired.items()}
    return [Change(address, live[address], config) for address, config in wanted.items() if config != live[address]]


def _completed(desired: Config, live: Config) -> Config:
    """The system level may say one thing of two: the other stays as it is."""
    return Config(desired.limits or live.limits, desired.on_unavailable or live.on_unavailable)


def _limits(declared: Mapping[str, LimitDecl]) -> tuple[Limit, ...]:
    return tuple(_limit(name, decl) for name, decl in sorted(declared.items()))


def _limit(name: str, decl: LimitDecl) -> Limit:
    return Limit(
        name=name,
        capacity=decl.capacity,
        burst=decl.burst,
        refill_amount=decl.refill_amount,
        refill_period=decl.refill_period,
    )
