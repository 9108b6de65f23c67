"""What is counted beside the tokens of a bucket: what a request adds, a write adds, and no write has added yet; and how
fast this process uses the bucket.
"""

from collections.abc import Mapping
from typing import Final

from ..operations.values import NOTHING
from ..runtime.named_tuple import NamedTuple


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


class Pace(NamedTuple):
    """What this process used of a bucket in the life of a reservation, in millitokens by limit, by so many acquires."""

    used: Mapping[str, float] = NOTHING
    events: float = 0.0
    at_ms: int = 0

    def after(self, used: Mapping[str, int], events: int, now_ms: int, life_ms: int) -> "Pace":
        """Return the pace with what was used since."""
        if life_ms <= 0:
            return self
        before, now = 1.0, 1.0
        passed = (now_ms - self.at_ms) / life_ms if self.at_ms else 1.0
        if passed >= 1:
            before, now = 0.0, 1 / passed
        elif passed > 0:
            before = 1 - passed
        amounts = dict[str, float]()  # in loops: each write of a bucket that is seldom held comes by here
        for name in used:
            amounts[name] = used[name] * now
        if before:
            for name in self.used:
                amounts[name] = self.used[name] * before + amounts.get(name, 0.0)
        return Pace(amounts, self.events * before + events * now, now_ms)


NO_PACE: Final = Pace()
