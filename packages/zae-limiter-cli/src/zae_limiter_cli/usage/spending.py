"""What tenants spent of limits of money: their own part, so that a call that cascades counts once."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .units import units_of

if TYPE_CHECKING:
    from zae_limiter import SyncRepository, UsageSnapshot


@dataclass(slots=True)
class Spending:
    """Millionths by tenant and limit, and the currencies of the limits; ``known`` are the names that were looked up."""

    tenants: dict[str, Counter[str]] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    known: set[tuple[str, str]] = field(default_factory=set)

    def add(self, tenant: str, repository: "SyncRepository", own: "UsageSnapshot") -> None:
        """Add the own part of a snapshot; look up the limits of a name when it comes first in a namespace."""
        names = {(repository.name, name) for name in own.consumed}
        if not names <= self.known:
            self.known |= names
            self.units.update(units_of(repository, [own]))
        found = {name: amount for name, amount in own.consumed.items() if name in self.units and amount}
        if found:
            self.tenants.setdefault(tenant, Counter()).update(found)

    @property
    def total(self) -> Counter[str]:
        """What all tenants spent."""
        found = Counter[str]()
        for each in self.tenants.values():
            found.update(each)
        return found
