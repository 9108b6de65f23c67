"""Read a namespace: the state that the last apply stored, and the live limits in the table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

from zae_limiter.maintenance import ProvisionerState, StoredConfig, SyncMaintenance
from zae_limiter.values.provisioner import ConfigPlace
from zae_limiter_manifest import Address, LiveItem, LiveOverride, ManagedSet, RecordDecl, settle_intended

from .conversion import address_of, address_set, live_item, live_override, live_record, place_of
from .refusals import Refused

PLACES_AT_ONCE: Final = 2_000


@dataclass(frozen=True, slots=True)
class LiveState:
    """The stored state, the live items and the overrides at the requested addresses, and the settled managed set."""

    state: ProvisionerState
    items: Mapping[Address, LiveItem]
    managed: ManagedSet
    overrides: Sequence[LiveOverride] = ()

    @classmethod
    def empty(cls) -> Self:
        """Return the state of a namespace that is not registered."""
        return cls(ProvisionerState(), {}, ManagedSet())

    @classmethod
    def at(
        cls, maintenance: SyncMaintenance, declared: Iterable[Address], *, state: ProvisionerState | None = None
    ) -> Self:
        """Read the declared and the managed addresses; without ``state``, read that first."""
        state = state or maintenance.get_provisioner_state()
        return cls._read(maintenance, dict.fromkeys(declared), state)

    @classmethod
    def with_all_overrides(cls, maintenance: SyncMaintenance, declared: Iterable[Address]) -> Self:
        """Read the declared and the managed addresses, and the overrides at all others.

        Nothing else of the others is kept: a namespace may have any number of limits that no manifest manages.
        """
        live = cls.at(maintenance, declared := [*declared])
        known = {place_of(address) for address in (*declared, *live.managed) if not address.is_record}
        others = [place for place in maintenance.list_config_places() if place[0] is not None and place not in known]
        found = {override.address: override for override in live.overrides}
        for start in range(0, len(others), PLACES_AT_ONCE):
            configs = maintenance.get_configs(others[start : start + PLACES_AT_ONCE], skip_unreadable=True)
            found |= {each.address: each for each in _overrides(configs)}
        return replace(live, overrides=list(found.values()))

    @classmethod
    def everywhere(cls, maintenance: SyncMaintenance, declared: Iterable[Address] = ()) -> Self:
        """Read all addresses. A very recent write may be missing, unless its address is declared or managed."""
        state = maintenance.get_provisioner_state()
        places = map(address_of, maintenance.list_config_places())
        records = (Address(None, entity) for entity in maintenance.list_entity_ids())
        live = cls._read(maintenance, dict.fromkeys((*declared, *places, *records)), state)
        return replace(live, items=_with_parents(maintenance, live.items))

    @classmethod
    def _read(cls, maintenance: SyncMaintenance, addresses: dict[Address, None], state: ProvisionerState) -> Self:
        # The state is read first: if its serial is unchanged when the lock is taken, there was no apply since.
        managed, intended = address_set(state, "managed"), address_set(state, "intended")
        wanted = [*(addresses | dict.fromkeys((*managed, *intended)))]
        found = maintenance.get_configs([place_of(address) for address in wanted if not address.is_record])
        live = {address_of(place): config for place, config in found.items()}
        items = {at: live_item(at, config) for at, config in live.items() if _has_more_than_override(config)}
        records = maintenance.get_entity_records([str(address.entity) for address in wanted if address.is_record])
        items |= {Address(None, entity): live_record(record) for entity, record in records.items()}
        return cls(state, items, settle_intended(managed, intended, items), _overrides(found))


def _with_parents(maintenance: SyncMaintenance, items: Mapping[Address, LiveItem]) -> Mapping[Address, LiveItem]:
    """Return the items with the parents that the index does not show yet. Raises ``Refused`` if one is gone already."""
    found = dict(items)
    while missing := _parents_of(found.values()) - {str(at.entity) for at in found if at.is_record}:
        records = maintenance.get_entity_records(sorted(missing))
        if gone := missing - records.keys():
            raise Refused("stale", f"{min(gone)} was deleted while its children were read: ask again")
        found |= {Address(None, entity): live_record(record) for entity, record in records.items()}
    return found


def _parents_of(items: Iterable[LiveItem]) -> set[str]:
    return {parent for item in items if isinstance(item.decl, RecordDecl) for parent in item.decl.parents}


def _has_more_than_override(config: StoredConfig) -> bool:
    return bool(config.said or config.has_policy or config.switches)


def _overrides(found: Mapping[ConfigPlace, StoredConfig]) -> list[LiveOverride]:
    return [live_override(address_of(place), config.override) for place, config in found.items() if config.override]
