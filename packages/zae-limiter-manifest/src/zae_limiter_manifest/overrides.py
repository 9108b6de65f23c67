"""An override in force: limits that somebody has set for a time at an address. No plan changes it."""

from collections.abc import Mapping
from typing import Any, Self

from attrs import field, frozen
from attrs.validators import instance_of

from .addresses import Address
from .checks import enforce
from .converter import CONVERTER, EXTENDS
from .declarations import RESOURCE, ResourceDecl


@frozen
class LiveOverride:
    """The limits that replace those of an address until an instant, in ISO 8601."""

    address: Address = field(validator=instance_of(Address))
    until: str = field(validator=instance_of(str))
    decl: ResourceDecl = field(validator=instance_of(ResourceDecl))

    def decides(self, name: str) -> bool:
        """Return whether a limit of this name at the address is without effect until the override ends."""
        return name in self.decl.limits or not self.decl.extends

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` reads back as an equal value."""
        limits = {name: CONVERTER.unstructure(limit) for name, limit in self.decl.limits.items()}
        extends = {EXTENDS: True} if self.decl.extends else {}
        return {**self.address.to_dict(), "until": self.until, "limits": limits, **extends}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Return the override in the plain values of `to_dict`; raises `KeyError`, `TypeError` or `ValueError`."""
        address, plain = Address.from_dict(raw), {name: raw[name] for name in ("limits", EXTENDS) if name in raw}
        enforce(RESOURCE, plain, f"{address}: override")
        return cls(address, raw["until"], CONVERTER.structure(plain, ResourceDecl))
