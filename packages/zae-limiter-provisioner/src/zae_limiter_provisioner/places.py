"""Between the manifest's words and core's: addresses and places, declarations and stored configs, managed sets.

Lives here: that translation, both ways. Never: what is to be done.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from zae_limiter import Limit, ProvisionerState, StoredConfig
from zae_limiter.provisioner import ConfigPlace
from zae_limiter_manifest import (
    Address,
    Decl,
    LimitDecl,
    LiveItem,
    ManagedSet,
    ResourceDecl,
    SystemDecl,
    fingerprint,
)

Kind = Literal["managed", "intended"]


def place_of(address: Address) -> ConfigPlace:
    """Where core keeps what stands at an address."""
    return address.entity, address.resource


def address_of(place: ConfigPlace) -> Address:
    """The address of a place."""
    entity, resource = place
    return Address(resource, entity)


def stored(decl: Decl) -> StoredConfig:
    """What is to be written for a declaration, its fingerprint beside it."""
    limits = tuple(_limit(name, each) for name, each in decl.limits.items())
    policy = decl.on_unavailable if isinstance(decl, SystemDecl) else None
    return StoredConfig(limits, policy, fingerprint(decl))


def live_item(address: Address, config: StoredConfig) -> LiveItem:
    """What stands at an address, in the manifest's words."""
    limits = {limit.name: _decl(limit) for limit in config.limits}
    if address.level == "system":
        return LiveItem(SystemDecl(config.on_unavailable, limits), config.fingerprint)
    return LiveItem(ResourceDecl(limits), config.fingerprint)


def set_in(state: ProvisionerState, kind: Kind) -> ManagedSet:
    """What a state says is managed, or intended."""
    return ManagedSet(
        system=getattr(state, f"{kind}_system"),
        resources=getattr(state, f"{kind}_resources"),
        entities=getattr(state, f"{kind}_entities"),
    )


def with_sets(
    state: ProvisionerState, *, managed: Iterable[Address], intended: Iterable[Address] = (), **changes: Any
) -> ProvisionerState:
    """The state with these sets in it."""
    return replace(state, **_fields("managed", managed), **_fields("intended", intended), **changes)


def _fields(kind: Kind, addresses: Iterable[Address]) -> Mapping[str, Any]:
    names = ManagedSet.of(addresses)
    return {
        f"{kind}_system": names.system,
        f"{kind}_resources": tuple(names.resources),
        f"{kind}_entities": {entity: tuple(own) for entity, own in names.entities.items()},
    }


def _limit(name: str, decl: LimitDecl) -> Limit:
    return Limit(
        name=name,
        capacity=decl.capacity,
        burst=decl.burst,
        refill_amount=decl.refill_amount,
        refill_period=decl.refill_period,
    )


def _decl(limit: Limit) -> LimitDecl:
    return LimitDecl(
        limit.capacity,
        burst=limit.burst,
        refill_amount=limit.refill_amount,
        refill_period=limit.refill_period,
    )
