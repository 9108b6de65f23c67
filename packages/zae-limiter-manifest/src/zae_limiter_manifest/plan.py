"""A plan: the changes that bring a namespace to its manifest, and what was found on the way.
Never finds out what has to change: that is `diff`."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final, Self

from attrs import evolve, field, frozen
from attrs.validators import deep_iterable, ge, instance_of, optional

from .addresses import Address
from .changes import Action, Change
from .formats import reading
from .naming import NameKind, find_name_problem
from .problems import show

FEW: Final = 10
PERCENT: Final = 30

_COUNT: Final = [instance_of(int), ge(0)]
_ADDRESSES: Final = deep_iterable(instance_of(Address), instance_of(tuple))


@frozen
class Plan:
    """What has to change in a namespace: the changes in order, and what was found on the way.

    `serial` is that of the state that was planned against; `managed` counts what was managed before, `declared` what
    the manifest declares. `forgotten`: managed, declared no more and gone already, so that only the state is corrected.
    `unmanaged`: there, but neither declared nor managed. `taken_from`: the owner whom the namespace is taken from.
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

    @namespace.validator
    def _namespace_is_a_name(self, _: object, value: object) -> None:
        if problem := find_name_problem(NameKind.NAMESPACE, value):
            raise ValueError(f"namespace {show(value)} {problem}")

    @property
    def created(self) -> int:
        """How many changes create."""
        return self._count("create")

    @property
    def updated(self) -> int:
        """How many changes update."""
        return self._count("update")

    @property
    def deleted(self) -> int:
        """How many changes delete."""
        return self._count("delete")

    def _count(self, action: Action) -> int:
        return sum(change.action == action for change in self.changes)

    @property
    def drifted(self) -> tuple[Change, ...]:
        """Where somebody else has changed or deleted what is managed."""
        return tuple(change for change in self.changes if change.drift)

    @property
    def pending(self) -> tuple[Change, ...]:
        """What the manifest says and nobody has applied yet."""
        return tuple(change for change in self.changes if not change.drift)

    def why_guarded(self) -> str | None:
        """Why deletes of this plan must be allowed first; None where they need not be."""
        if self.deleted and not self.declared:
            return f"deletes all that is managed: {self.deleted} of {self.managed}"
        if self.managed >= FEW and self.deleted * 100 > self.managed * PERCENT:
            return f"deletes {self.deleted} of {self.managed} managed items, over {PERCENT} %"
        return None

    def changes_hash(self) -> str:
        """`sha256:` and hex digits, equal for plans that do the same; blind to the serial, which is checked apart."""
        same = evolve(self, serial=0, unmanaged=())
        text = json.dumps(same.to_dict(), sort_keys=True, separators=(",", ":"))
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `from_dict` reads back as an equal plan: an answer of the Lambda but its status."""
        optional_parts = {
            "forgotten": [address.to_dict() for address in self.forgotten],
            "unmanaged": [address.to_dict() for address in self.unmanaged],
            "taken_from": self.taken_from,
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
        """The plan in what `to_dict` gave, among other keys perhaps; raises `FormatError`."""
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
            )
