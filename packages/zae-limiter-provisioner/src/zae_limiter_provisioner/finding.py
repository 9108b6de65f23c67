"""What a namespace has: the state that the last apply left, and what stands in the table.

Lives here: reading both. Never: a write, or a decision.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from zae_limiter import ProvisionerState, SyncRepository
from zae_limiter.provisioner import ConfigPlace
from zae_limiter_manifest import Address, LiveItem, ManagedSet, settle_intended

from .places import address_of, live_item, place_of, set_in


@dataclass(frozen=True, slots=True)
class Found:
    """The state, what stands at the addresses that were asked for, and what is managed after all."""

    state: ProvisionerState
    live: Mapping[Address, LiveItem]
    managed: ManagedSet

    @classmethod
    def nothing(cls) -> Self:
        """What a namespace has that nobody has registered."""
        return cls(ProvisionerState(), {}, ManagedSet())

    @classmethod
    def at(
        cls, repository: SyncRepository, declared: Iterable[Address], *, state: ProvisionerState | None = None
    ) -> Self:
        """What stands where something is declared or managed, by the state, which is read where it is not given."""
        state = state or repository.get_provisioner_state()
        return cls._read(repository, {place_of(address): None for address in declared}, state)

    @classmethod
    def everywhere(cls, repository: SyncRepository, declared: Iterable[Address] = ()) -> Self:
        """What stands anywhere; what was set in the last moment may be missing, unless it is declared or managed."""
        places = {place_of(address): None for address in declared}
        state = repository.get_provisioner_state()
        return cls._read(repository, places | dict.fromkeys(repository.list_config_places()), state)

    @classmethod
    def _read(cls, repository: SyncRepository, places: dict[ConfigPlace, None], state: ProvisionerState) -> Self:
        # The state was read first: where it has its serial still when a lock is taken, nobody has applied since.
        managed, intended = set_in(state, "managed"), set_in(state, "intended")
        known = {place_of(address): None for each in (managed, intended) for address in each}
        found = repository.get_configs([*(places | known)])
        live = {(at := address_of(place)): live_item(at, config) for place, config in found.items()}
        return cls(state, live, settle_intended(managed, intended, live))
