"""What the requests of a batch add up to, and how a limit is written for them.

Lives here: who fits, and the relative and the absolute write of a limit, pure. Never: which write it is (write_plans),
what follows it (group_commit).

With ``m`` minted since the anchor, a checked amount ``c``, an unchecked one ``a`` and ``g`` given back:

    below its ceiling   tokens BETWEEN c - g - m AND ceiling - m      ADD tokens -(c + a - g)
    at its ceiling      tokens >= ceiling - slack - m                 SET tokens = ceiling - slack - m - (c + a - g)

Whoever consumes at the ceiling thereby forgets what overflowed; without that, an idle minute would be paid out twice.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...operations.values import Conditions, Key, Update
from ...schema.attributes import ACQUIRES, TTL
from ...schema.items import ONE_WRITE, WRITES
from ..process.bucket_queue import BucketRequest

TTL_SLACK_SECONDS = 5  # what the clocks of processes may differ by


class Batch:
    """What the requests of a batch add up to, in millitokens by limit; who is carried, and who did not fit."""

    __slots__ = ("carried", "checked", "events", "given", "short", "unchecked")

    def __init__(self) -> None:
        self.checked: dict[str, int] = {}
        self.unchecked: dict[str, int] = {}
        self.given: dict[str, int] = {}
        self.events = 0
        self.carried: list[BucketRequest] = []
        self.short: list[BucketRequest] = []

    def carry(self, request: BucketRequest) -> None:
        """Take a request along; what it gives back and what is not checked counts from the start."""
        if self.checked:
            _add(self.checked, request.checked)
        else:
            self.checked = dict(request.checked)
        self.events += request.events
        self.carried.append(request)

    def left(self, headroom: Mapping[str, int], ceilings: Mapping[str, int]) -> dict[str, int]:
        """What the batch leaves of each limit for those who did not fit."""
        return {
            name: min(ceilings[name], free + self.given.get(name, 0)) - self.checked.get(name, 0)
            for name, free in headroom.items()
        }

    def net(self, limit: str) -> int:
        """What the batch takes from the limit."""
        return self.checked.get(limit, 0) + self.unchecked.get(limit, 0) - self.given.get(limit, 0)

    def limits(self) -> Iterable[str]:
        """The limits that take part."""
        return {**self.checked, **self.unchecked, **self.given} if self.unchecked or self.given else self.checked

    @property
    def gives_only(self) -> bool:
        """Whether it takes nothing, so that nothing is asked of the bucket but to exist."""
        return not self.checked and not self.unchecked

    @property
    def moves_nothing(self) -> bool:
        """Whether all amounts are 0: then it is judged, not written."""
        if any(self.checked.values()):
            return False
        return not (any(self.unchecked.values()) or any(self.given.values()))


def fit_batch(requests: Sequence[BucketRequest], headroom: Mapping[str, int], ceilings: Mapping[str, int]) -> Batch:
    """Who fits, first come first served; one that does not fit does not stand in the way of a smaller one behind it."""
    batch = Batch()
    for request in requests:
        if not request.checked:
            _add(batch.given, request.given)
            _add(batch.unchecked, request.unchecked)
    for request in requests:
        if _fits(request.checked, batch, headroom, ceilings):
            batch.carry(request)
        else:
            batch.short.append(request)
    return batch


def _fits(amounts: Mapping[str, int], batch: Batch, headroom: Mapping[str, int], ceilings: Mapping[str, int]) -> bool:
    checked, given = batch.checked, batch.given
    for limit, amount in amounts.items():
        total = amount + checked[limit] if limit in checked else amount
        free = headroom[limit]
        if (total > free and (limit not in given or total > free + given[limit])) or total > ceilings[limit]:
            return False
    return True


def _add(totals: dict[str, int], amounts: Mapping[str, int]) -> None:
    for limit, amount in amounts.items():
        totals[limit] = totals.get(limit, 0) + amount


class UpdateDraft:
    """An update in the making: each limit puts its conditions and its change into it."""

    __slots__ = ("absent", "add", "at_least", "at_most", "equals", "exists", "remove", "set")

    def __init__(self) -> None:
        self.add: dict[str, int] = {}
        self.set: dict[str, Any] = {}
        self.remove: tuple[str, ...] = ()
        self.exists: tuple[str, ...] = ()
        self.absent: tuple[str, ...] = ()
        self.equals: dict[str, int] = {}
        self.at_least: dict[str, int] = {}
        self.at_most: dict[str, int] = {}

    def take_below(self, tokens: str, *, least: int | None, most: int, change: int) -> None:
        """Relative write."""
        self.at_most[tokens] = most
        if least is not None:
            self.at_least[tokens] = least
        if change:
            self.add[tokens] = change

    def take_at_ceiling(self, tokens: str, *, least: int, balance: int) -> None:
        """Absolute write."""
        self.at_least[tokens] = least
        self.set[tokens] = balance

    def count(self, attribute: str, amount: int) -> None:
        """Add to a number; adding nothing is left out."""
        if amount:
            self.add[attribute] = amount

    def count_write(self, batch: Batch) -> None:
        """Count the acquires, and the write itself."""
        self.add[WRITES] = ONE_WRITE
        self.count(ACQUIRES, batch.events)

    def expire(self, ttl: int | None, item: Mapping[str, Any]) -> None:
        """Set when the item expires, or that it does not: never sooner than one wants who is in debt, unseen."""
        if ttl is not None:
            self.set[TTL] = ttl
            if TTL in item:
                self.at_most[TTL] = ttl + TTL_SLACK_SECONDS
            else:
                self.absent += (TTL,)
        elif TTL in item:
            self.remove += (TTL,)

    def update(self, key: Key) -> Update:
        """The finished operation."""
        when = Conditions(self.exists, self.absent, self.equals, self.at_least, self.at_most)
        return Update(key, self.add, self.set, self.remove, when)
