"""A plan: the changes that bring a namespace to its manifest. `diff` computes plans."""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Self

from attrs import asdict, evolve, field, frozen
from attrs.validators import deep_iterable, ge, instance_of, optional

from .addresses import Address
from .changes import Action, Change
from .formats import reading
from .naming import NameKind, find_name_problem
from .overrides import LiveOverride
from .problems import show
from .states import ApplyUnderWay

GUARDED_FROM_ITEMS: Final = 10
GUARDED_PERCENT: Final = 30

_COUNT: Final = [instance_of(int), ge(0)]
_ADDRESSES: Final = deep_iterable(instance_of(Address), instance_of(tuple))


@frozen
class Plan:
    """The ordered changes of a namespace, with the findings beside them.

    `serial` is that of the state that the plan was made against. `managed` counts the items managed before, `declared`
    the items of the manifest. `forgotten` items were managed, are no longer declared and are gone already: only the
    state is corrected. `unmanaged` items exist, but are neither declared nor managed. `taken_from` is the owner from
    whom the namespace is taken. `overrides` are in force; no change concerns them. `under_way` is another apply, which
    was changing the namespace when the plan was made. `share` is the region's share of each limit, and `share_before`
    the recorded one, None for the whole.
    """

    namespace: str = field()
    changes: tuple[Change, ...] = field(default=(), validator=deep_iterable(instance_of(Change), instance_of(tuple)))
    serial: int = field(default=0, kw_only=True, validator=_COUNT)
    manifest_hash: str | None = field(default=None, kw_only=True, validator=optional(instance_of(str)))
    managed: int = field(default=0, kw_only=True, validator=_COUNT)
    declared: int = field(default=0, kw_only=True, validator=_COUNT)
    forgotten: tuple[Address, ...] = field(default=(), kw_only=True, validator=_ADDRESSES)
    unmanaged: tuple[Address, ...] = field(default=(), kw_only=True, validator=_ADDRESSES)
    taken_from: str | None = field(default=None, kw_only=True, validator=optional(instance_of(str)))

    overrides: tuple[LiveOverride, ...] = field(
        default=(), kw_only=True, validator=deep_iterable(instance_of(LiveOverride), instance_of(tuple))
    )
    under_way: ApplyUnderWay | None = field(default=None, kw_only=True, validator=optional(instance_of(ApplyUnderWay)))
    share: str | None = field(default=None, kw_only=True, validator=optional(instance_of(str)))
    share_before: str | None = field(default=None, kw_only=True, validator=optional(instance_of(str)))

    @namespace.validator
    def _namespace_is_a_name(self, _: object, value: object) -> None:
        if problem := find_name_problem(NameKind.NAMESPACE, value):
            raise ValueError(f"namespace {show(value)} {problem}")

    @property
    def moves_share(self) -> bool:
        """Whether an apply changes the share that is recorded."""
        return self.share != self.share_before

    @property
    def created(self) -> int:
        """The number of changes that create an item."""
        return self._count("create")

    @property
    def updated(self) -> int:
        """The number of changes that update an item."""
        return self._count("update")

    @property
    def deleted(self) -> int:
        """The number of changes that delete an item."""
        return self._count("delete")

    def _count(self, action: Action) -> int:
        return sum(change.action == action for change in self.changes)

    @property
    def drifted(self) -> tuple[Change, ...]:
        """The changes of managed items that somebody else has changed or deleted."""
        return tuple(change for change in self.changes if change.drift)

    @property
    def pending(self) -> tuple[Change, ...]:
        """The changes that are not applied yet."""
        return tuple(change for change in self.changes if not change.drift)

    def why_guarded(self) -> str | None:
        """Return why the deletes of this plan need permission; None if they do not."""
        if self.deleted and not self.declared:
            return f"deletes all that is managed: {self.deleted} of {self.managed}"
        if self.managed >= GUARDED_FROM_ITEMS and self.deleted * 100 > self.managed * GUARDED_PERCENT:
            return f"deletes {self.deleted} of {self.managed} managed items, over {GUARDED_PERCENT} %"
        return None

    def narrowed(self, targets: Collection[str]) -> Self:
        """Return the plan for the addresses that fit one of these patterns; the whole plan without any."""
        if not targets:
            return self
        changes = tuple(each for each in self.changes if _fits(each.address, targets))
        return evolve(self, changes=changes, forgotten=tuple(each for each in self.forgotten if _fits(each, targets)))

    def changes_hash(self) -> str:
        """Return `sha256:` and hex digits, equal for plans with the same changes; the serial is checked separately."""
        changes = tuple(evolve(change, reaches=None) for change in self.changes)
        same = evolve(self, serial=0, unmanaged=(), overrides=(), under_way=None, changes=changes)
        return _sha256(json.dumps(same.to_dict(), sort_keys=True, separators=(",", ":")))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` reads back as an equal plan: an answer of the Lambda without its
        status.
        """
        optional_parts = {
            "forgotten": [address.to_dict() for address in self.forgotten],
            "unmanaged": [address.to_dict() for address in self.unmanaged],
            "taken_from": self.taken_from,
            "overrides": [override.to_dict() for override in self.overrides],
            "under_way": self.under_way and asdict(self.under_way),
            "share": self.share,
            "share_before": self.share_before,
        }
        return {
            "namespace": self.namespace,
            "serial": self.serial,
            "manifest_hash": self.manifest_hash,
            "changes": [change.to_dict() for change in self.changes],
            "created": self.created,
            "updated": self.updated,
            "deleted": self.deleted,
            "managed": self.managed,
            "declared": self.declared,
            **{key: value for key, value in optional_parts.items() if value},
        }

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Return the plan in the plain values of `to_dict`; other keys are ignored. Raises `FormatError`."""
        with reading("plan"):
            return cls(
                raw["namespace"],
                tuple(map(Change.from_dict, raw["changes"])),
                serial=raw["serial"],
                manifest_hash=raw["manifest_hash"],
                managed=raw["managed"],
                declared=raw["declared"],
                forgotten=tuple(map(Address.from_dict, raw.get("forgotten", ()))),
                unmanaged=tuple(map(Address.from_dict, raw.get("unmanaged", ()))),
                taken_from=raw.get("taken_from"),
                overrides=tuple(map(LiveOverride.from_dict, raw.get("overrides", ()))),
                under_way=ApplyUnderWay.from_dict(raw["under_way"]) if "under_way" in raw else None,
                share=raw.get("share"),
                share_before=raw.get("share_before"),
            )


def _fits(address: Address, targets: Collection[str]) -> bool:
    return any(map(address.fits, targets))


def plans_hash(plans: Iterable[Plan]) -> str:
    """Return the `changes_hash` of the one plan that changes something; of several, `sha256:` and hex digits of theirs.

    It depends neither on their order nor on plans that change nothing.
    """
    hashes = sorted(plan.changes_hash() for plan in plans if _does_something(plan))
    return hashes[0] if len(hashes) == 1 else _sha256("\n".join(hashes))


def _does_something(plan: Plan) -> bool:
    return bool(plan.changes or plan.forgotten or plan.taken_from or plan.moves_share)


def _sha256(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
