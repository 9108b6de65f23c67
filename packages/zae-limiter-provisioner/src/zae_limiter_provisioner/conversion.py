"""Convert between the manifest's values and core's: addresses, declarations, managed sets, stored forms."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

from zae_limiter import Limit, OnRefused, Override, Switches
from zae_limiter.maintenance import ProvisionerState, StoredConfig
from zae_limiter.values.provisioner import ConfigPlace, StoredEntity
from zae_limiter.values.resolution import LevelMode
from zae_limiter.values.switches import Cascading
from zae_limiter_manifest import (
    LIMIT_FIELDS,
    Address,
    LimitDecl,
    LiveItem,
    LiveOverride,
    ManagedSet,
    OnRefusedDecl,
    RecordDecl,
    ResourceDecl,
    SystemDecl,
    fingerprint,
)
from zae_limiter_manifest.metadata import Metadata
from zae_limiter_manifest.switches import SWITCH_FIELDS

Kind = Literal["managed", "intended"]


def place_of(address: Address) -> ConfigPlace:
    """Return the place where core stores the limits of an address."""
    return address.entity, address.resource


def address_of(place: ConfigPlace) -> Address:
    """Return the address of a place."""
    entity, resource = place
    return Address(resource, entity)


def to_stored_entity(decl: RecordDecl) -> StoredEntity:
    """Return the record to store for a declared entity, with its fingerprint."""
    return StoredEntity(
        cascade=decl.cascade,
        name=decl.name,
        metadata=decl.metadata.to_dict(),
        fingerprint=fingerprint(decl),
        parent_ids=decl.parents,
        tier=decl.tier,
    )


def live_record(record: StoredEntity) -> LiveItem:
    """Return a stored record as a live item of the manifest."""
    decl = RecordDecl(tuple(record.parent_ids), record.cascade, record.name, Metadata.of(record.metadata), record.tier)
    return LiveItem(decl, record.fingerprint, children=record.children)


@lru_cache(maxsize=1024)  # many entities have equal limits
def to_stored_config(decl: SystemDecl | ResourceDecl) -> StoredConfig:
    """Return the config to store for a declaration, with its fingerprint."""
    limits = tuple(Limit(name, **each.values) for name, each in decl.limits.items())
    policy = decl.on_unavailable if isinstance(decl, SystemDecl) else None
    cascade: Cascading | None = None if decl.cascade is None else "on" if decl.cascade else "off"
    switches = Switches(disabled=decl.disabled, bypass=decl.bypass, cascade=cascade, reason=decl.reason)
    said = decl.on_refused
    on_refused = None if said is None else OnRefused(said.wait, said.overflow, said.at)
    mode: LevelMode | None = "unlimited" if decl.unlimited else None
    if isinstance(decl, ResourceDecl) and decl.extends:
        mode = "extends"
    return StoredConfig(limits, policy, fingerprint(decl), switches=switches, on_refused=on_refused, mode=mode)


def live_item(address: Address, config: StoredConfig) -> LiveItem:
    """Return a stored config as a live item of the manifest."""
    return _live_item(config, of_system=address.level == "system")


@lru_cache(maxsize=1024)
def _live_item(config: StoredConfig, *, of_system: bool) -> LiveItem:
    limits, said = {limit.name: _decl(limit) for limit in config.limits}, config.switches
    switches: dict[str, Any] = {name: getattr(said, name) for name in SWITCH_FIELDS}
    stored = config.on_refused
    on_refused = None if stored is None else OnRefusedDecl(wait=stored.wait, overflow=stored.overflow, at=stored.at)
    switches["unlimited"] = config.mode == "unlimited"
    if of_system:
        return LiveItem(SystemDecl(config.on_unavailable, limits, on_refused, **switches), config.fingerprint)
    extends = config.mode == "extends"
    return LiveItem(ResourceDecl(limits, on_refused, extends=extends, **switches), config.fingerprint)


def live_override(address: Address, override: Override) -> LiveOverride:
    """Return an override in force, as the manifest's value."""
    until = override.until.isoformat(timespec="seconds").replace("+00:00", "Z")
    limits = {limit.name: _decl(limit) for limit in override.limits}
    return LiveOverride(address, until, ResourceDecl(limits, extends=override.extends))


def address_set(state: ProvisionerState, kind: Kind) -> ManagedSet:
    """Return the managed, or the intended, set of a state."""
    return ManagedSet(
        system=getattr(state, f"{kind}_system"),
        resources=getattr(state, f"{kind}_resources"),
        entities=getattr(state, f"{kind}_entities"),
        records=getattr(state, f"{kind}_records"),
    )


def with_sets(
    state: ProvisionerState, *, managed: Iterable[Address], intended: Iterable[Address] = (), **changes: Any
) -> ProvisionerState:
    """Return the state with these managed and intended sets."""
    return replace(state, **_fields("managed", managed), **_fields("intended", intended), **changes)


def _fields(kind: Kind, addresses: Iterable[Address]) -> Mapping[str, Any]:
    names = ManagedSet.of(addresses)
    return {
        f"{kind}_system": names.system,
        f"{kind}_resources": tuple(names.resources),
        f"{kind}_entities": {entity: tuple(own) for entity, own in names.entities.items()},
        f"{kind}_records": tuple(names.records),
    }


def _decl(limit: Limit) -> LimitDecl:
    found = {each: getattr(limit, each) for each in LIMIT_FIELDS}
    return LimitDecl(**found | {"schedule": tuple(map(str, limit.schedule))})
