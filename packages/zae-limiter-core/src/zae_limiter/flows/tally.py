"""What is counted beside the tokens of a bucket: what a request adds, a write adds, and no write has added yet."""

from collections.abc import Mapping
from typing import Final

from ..operations.values import NOTHING


class Tally:
    """Amounts in millitokens by limit, that change the count of consumed tokens alone; the number of acquires, how many
    of them came from entities ``below``, and how many a shadow limit would have refused (``shadowed``).

    That of a request is replaced, never changed: several may have the same.
    """

    __slots__ = ("amounts", "below", "events", "shadowed")

    def __init__(
        self, amounts: Mapping[str, int] = NOTHING, events: int = 0, below: int = 0, shadowed: int = 0
    ) -> None:
        self.amounts = dict(amounts)
        self.events = events
        self.below = below
        self.shadowed = shadowed

    def __bool__(self) -> bool:
        return bool(self.amounts or self.events or self.below or self.shadowed)

    def add(self, other: "Tally") -> None:
        """Count what another one counts as well."""
        self.add_amounts(other.amounts)
        self.events += other.events
        self.below += other.below
        self.shadowed += other.shadowed

    def add_amounts(self, amounts: Mapping[str, int]) -> None:
        """Count more amounts."""
        for name, amount in amounts.items():
            self.amounts[name] = self.amounts.get(name, 0) + amount

    def of(self, amounts: Mapping[str, int]) -> "Tally":
        """Return the same acquires with other amounts."""
        return Tally(amounts, self.events, self.below, self.shadowed)

    def plus(self, other: "Tally") -> "Tally":
        """Return both together."""
        both = self.of(self.amounts)
        both.add(other)
        return both


NO_TALLY: Final = Tally()
ONE: Final = Tally(events=1)
ONE_BELOW: Final = Tally(events=1, below=1)
