"""Desired, last applied and live, held against each other.
Never reads or writes any of the three."""

from collections.abc import Iterable, Mapping
from typing import Final

from attrs import field, frozen
from attrs.validators import instance_of, optional

from .addresses import Address, ManagedSet
from .changes import Change, fingerprint
from .declarations import Decl, ResourceDecl, SystemDecl
from .manifest import LimitsManifest
from .plan import Plan

_NOTHING_MANAGED: Final = ManagedSet()


@frozen
class LiveItem:
    """What stands at an address, and the fingerprint of what a provisioner wrote there last, None where none did."""

    decl: Decl = field(validator=instance_of((SystemDecl, ResourceDecl)))
    fingerprint: str | None = field(default=None, validator=optional(instance_of(str)))

    @property
    def is_as_written(self) -> bool:
        """Whether a provisioner wrote just this."""
        return self.fingerprint is not None and self.fingerprint == fingerprint(self.decl)


def compute_diff(
    desired: LimitsManifest,
    live: Mapping[Address, LiveItem],
    *,
    managed: ManagedSet = _NOTHING_MANAGED,
    serial: int = 0,
    taken_from: str | None = None,
) -> Plan:
    """The plan that brings what is live to what is desired; what neither declares nor manages it leaves alone.

    `managed` is what the last apply left managed (see `settle_intended`). `live` must hold what stands at the addresses
    that are declared or managed; what else it holds is counted as unmanaged.
    """
    declared = dict(desired.declared())
    gone = [address for address in managed if address not in declared]
    changes = [
        *(_wanted(at, decl, live.get(at), is_managed=at in managed) for at, decl in declared.items()),
        *(_unwanted(at, live.get(at)) for at in gone),
    ]
    return Plan(
        desired.namespace,
        tuple(sorted(filter(None, changes), key=lambda change: change.address.rank)),
        serial=serial,
        manifest_hash=desired.canonical_hash(),
        managed=len(managed),
        declared=len(declared),
        forgotten=tuple(address for address in gone if address not in live),
        unmanaged=_sorted(address for address in live if address not in declared and address not in managed),
        taken_from=taken_from,
    )


def _wanted(address: Address, decl: Decl, item: LiveItem | None, *, is_managed: bool) -> Change | None:
    if item is None:
        return Change(address, None, decl, drift=is_managed)
    if item.decl == decl and (is_managed or item.is_as_written):
        return None
    return Change(address, item.decl, decl, drift=is_managed and not item.is_as_written, adopted=not is_managed)


def _unwanted(address: Address, item: LiveItem | None) -> Change | None:
    return None if item is None else Change(address, item.decl, None, drift=not item.is_as_written)


def settle_intended(managed: ManagedSet, intended: ManagedSet, live: Mapping[Address, LiveItem]) -> ManagedSet:
    """What is managed where an apply was cut short, that had noted what it meant to manage besides.

    Of that, only what carries a fingerprint: the rest was never written, and is not its own to delete.
    """
    written = (a for a in intended if (item := live.get(a)) is not None and item.fingerprint is not None)
    return ManagedSet.of([*managed, *written])


def managed_after(desired: ManagedSet, managed: ManagedSet, undone: Iterable[Address] = ()) -> ManagedSet:
    """What is managed after an apply: what is desired; where a change was not done, what was managed before."""
    left = frozenset(undone)
    return ManagedSet.of([*(a for a in desired if a not in left), *(a for a in managed if a in left)])


def _sorted(addresses: Iterable[Address]) -> tuple[Address, ...]:
    return tuple(sorted(addresses, key=lambda address: address.rank))
