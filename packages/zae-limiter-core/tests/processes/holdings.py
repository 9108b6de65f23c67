"""The holdings of leases, read from the table alone.

A holding is the amount that one lease has of its buckets. Each lease consumes a unit of its own from a limit that
refuses nobody, so that a counter of the bucket has a digit for each lease.

Lives here: the units, and the digits of a counter. Never: how a lease comes about (callers).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from simulation.kernel import Violation
from zae_limiter import Limit
from zae_limiter.operations.values import Item, Operation, Put, Transact, Update
from zae_limiter.values.limits import MAX_PERIOD, MAX_TOKENS, MILLI

BASE = 8  # a lease holds at most 3, a write changes it by 3 at most
DIGITS = 16
ABSENT = 0


class Holding:
    """The amount that one lease should hold of each of its buckets in the end, in units of its own.

    ``uncertain`` where an answer that concerns it was lost: then it is from nothing to the ``most`` it asked for.
    """

    def __init__(self, place: int) -> None:
        self.limit = f"who{place // DIGITS}"
        self.unit = BASE ** (place % DIGITS)
        self.entities: tuple[str, ...] = ()
        self.expected = 0
        self.most = 0
        self.uncertain = ""
        self.correcting = False

    def doubt(self, why: str) -> None:
        """Mark the holding as uncertain."""
        self.uncertain = self.uncertain or why


class Holdings:
    """The holdings of all leases, and the limits in which they are counted."""

    def __init__(self, leases: int) -> None:
        self.all = [Holding(place) for place in range(leases)]
        self._next = 0

    @property
    def limits(self) -> list[Limit]:
        """As large as limits can be, and never refilled: they refuse nobody."""
        names = sorted({holding.limit for holding in self.all})
        return [Limit.custom(name, MAX_TOKENS, refill_amount=1, refill_period=MAX_PERIOD) for name in names]

    def take(self) -> Holding:
        """The next free holding."""
        self._next += 1
        return self.all[self._next - 1]

    @property
    def left(self) -> int:
        """How many are free."""
        return len(self.all) - self._next

    def touched(self, operation: Operation[Any]) -> list[tuple[Holding, int]]:
        """The holdings that an operation changes, and by how much it changes each."""
        found = []
        for amounts in _counted(operation):
            for limit in {holding.limit for holding in self.all}:
                for place, change in _digits(amounts.get(f"b_{limit}_tc", ABSENT) // MILLI):
                    found.append((self._at(limit, place), change))
        return found

    def doubt(self, limit: str, milli: int, why: str) -> None:
        """Mark the holdings that are part of an amount of a limit as uncertain."""
        for place, _ in _digits(milli // MILLI):
            self._at(limit, place).doubt(why)

    def held(self, items: Mapping[str, Sequence[Item]]) -> dict[tuple[str, int], int]:
        """The amount of each holding by the buckets of all entities, without those that are empty."""
        there: dict[tuple[str, int], int] = {}
        for entity, shards in items.items():
            for limit in {holding.limit for holding in self.all}:
                total = sum(item.get(f"b_{limit}_tc", ABSENT) for item in shards)
                for place, amount in _digits(total // MILLI):
                    there[entity, self.all.index(self._at(limit, place))] = amount
        return there

    def settle(self, items: Mapping[str, Sequence[Item]]) -> None:
        """Raises ``Violation`` where a lease holds something else than it should."""
        there = self.held(items)
        for place, holding in enumerate(self.all):
            for entity in items:
                amount, asked = there.get((entity, place), 0), entity in holding.entities
                fits = 0 <= amount <= holding.most if holding.uncertain else amount == holding.expected
                if not (fits if asked else amount == 0):
                    raise Violation(
                        f"lease {place} holds {amount} of {entity}, should hold {holding.expected if asked else 0}"
                        f" (it asked for {holding.most}; {holding.uncertain or 'all answers came'})"
                    )

    def _at(self, limit: str, place: int) -> Holding:
        holding = self.all[int(limit.removeprefix("who")) * DIGITS + place]
        assert holding.limit == limit
        return holding


def _counted(operation: Operation[Any]) -> Iterator[Mapping[str, Any]]:
    for write in operation.writes if isinstance(operation, Transact) else (operation,):
        if isinstance(write, Put):
            yield write.item
        elif isinstance(write, Update):
            yield write.add


def _digits(number: int) -> Iterator[tuple[int, int]]:
    """The digits that are not 0, from -4 to 3, the lowest first."""
    place = 0
    while number:
        digit = (number + BASE // 2) % BASE - BASE // 2
        if digit:
            yield place, digit
        number = (number - digit) // BASE
        place += 1
