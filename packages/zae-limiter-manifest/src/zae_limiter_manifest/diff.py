"""Compare the desired, the last applied and the live limits."""

from collections.abc import Iterable, Mapping
from typing import Final

from attrs import field, frozen
from attrs.validators import instance_of, optional

from .addresses import Address, ManagedSet
from .changes import Change, fingerprint
from .declarations import Decl, RecordDecl, ResourceDecl, SystemDecl
from .manifest import LimitsManifest
from .overrides import LiveOverride
from .plan import Plan
from .shares import Shared

_NOTHING_MANAGED: Final = ManagedSet()


@frozen
class LiveItem:
    """What is live at an address, and the fingerprint of a provisioner's last write there, None without one.

    `children`: of an entity itself, the number of entities below it.
    """

    decl: Decl = field(validator=instance_of((SystemDecl, ResourceDecl, RecordDecl)))
    fingerprint: str | None = field(default=None, validator=optional(instance_of(str)))
    children: int = field(default=0, kw_only=True)

    @property
    def is_as_written(self) -> bool:
        """Whether a provisioner wrote exactly these limits."""
        return self.fingerprint is not None and self.fingerprint == fingerprint(self.decl)


def compute_diff(
    desired: LimitsManifest,
    live: Mapping[Address, LiveItem],
    *,
    managed: ManagedSet = _NOTHING_MANAGED,
    serial: int = 0,
    taken_from: str | None = None,
    overrides: Iterable[LiveOverride] = (),
    share: str | None = None,
    share_before: str | None = None,
) -> Plan:
    """Return the plan that turns the live limits into the desired ones; items neither declared nor managed are left
    alone.

    `managed` is the set that the last apply left managed (see `settle_intended`). `live` must contain the items at all
    declared and managed addresses; its other items are counted as unmanaged. `overrides` are only reported. The limits
    are the region's `share` of the desired ones, None for the whole. Raises `ShareError` if a limit cannot be divided.
    """
    shared = Shared(share)
    declared = {at: shared(at, decl) for at, decl in desired.declared(managed)}
    shared.check()
    gone = [address for address in managed if address not in declared]
    changes = [
        *(_change_of_declared(at, decl, live.get(at), is_managed=at in managed) for at, decl in declared.items()),
        *(_change_of_removed(at, live.get(at)) for at in gone),
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
        overrides=tuple(sorted(overrides, key=lambda override: override.address.rank)),
        share=share,
        share_before=share_before,
    )


def _change_of_declared(address: Address, decl: Decl, item: LiveItem | None, *, is_managed: bool) -> Change | None:
    if item is None:
        return Change(address, None, decl, drift=is_managed)
    if item.decl == decl and (is_managed or item.is_as_written):
        return None
    return Change(address, item.decl, decl, drift=is_managed and not item.is_as_written, adopted=not is_managed)


def _change_of_removed(address: Address, item: LiveItem | None) -> Change | None:
    return None if item is None else Change(address, item.decl, None, drift=not item.is_as_written)


def settle_intended(managed: ManagedSet, intended: ManagedSet, live: Mapping[Address, LiveItem]) -> ManagedSet:
    """Return the managed set after an apply that may have been cut short, with the items that it intended to manage.

    An intended item counts only if it has a fingerprint: the others were never written, so no apply may delete them.
    """
    written = (a for a in intended if (item := live.get(a)) is not None and item.fingerprint is not None)
    return ManagedSet.of([*managed, *written])


def managed_after(desired: ManagedSet, managed: ManagedSet, undone: Iterable[Address] = ()) -> ManagedSet:
    """Return the managed set after an apply: the desired one, but an undone change leaves its address as it was."""
    left = frozenset(undone)
    return ManagedSet.of([*(a for a in desired if a not in left), *(a for a in managed if a in left)])


def _sorted(addresses: Iterable[Address]) -> tuple[Address, ...]:
    return tuple(sorted(addresses, key=lambda address: address.rank))
