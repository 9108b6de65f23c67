"""The batch of one write: the requests that fit, their sums, and the two rows that write a limit.

Lives here: pure functions. Never: the kind of write (write_plans), its outcome (commit_run).

With ``m`` minted since the anchor, a checked amount ``c``, an unchecked one ``a`` and ``g`` given back:

    below its ceiling   tokens BETWEEN c - g - m AND ceiling - m      ADD tokens -(c + a - g)
    at its ceiling      tokens >= ceiling - slack - m                 SET tokens = ceiling - slack - m - (c + a - g)

A write at the ceiling forgets what overflowed. Otherwise an idle minute would count twice.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...operations.values import Conditions, Key, Update
from ...schema.attributes import ACQUIRES, REFUSED, TTL
from ...schema.items import ONE_WRITE, WRITES
from ..process.bucket_queue import BucketRequest

TTL_SLACK_SECONDS = 5  # the most that the clocks of processes may differ


class Batch:
    """The sums of a batch, in millitokens by limit; ``carried`` are its requests, ``short`` those that did not fit.

    ``refused``: the earlier refusals that its write counts.
    """

    __slots__ = ("carried", "checked", "events", "given", "refused", "short", "unchecked")

    def __init__(self) -> None:
        self.checked: dict[str, int] = {}
        self.unchecked: dict[str, int] = {}
        self.given: dict[str, int] = {}
        self.events = 0
        self.refused = 0
        self.carried: list[BucketRequest] = []
        self.short: list[BucketRequest] = []

    def carry(self, request: BucketRequest) -> None:
        """Add a request that fits; its given and unchecked amounts count from the start (``fit_batch``)."""
        if self.checked:
            _add(self.checked, request.checked)
        else:
            self.checked = dict(request.checked)
        self.events += request.events
        self.carried.append(request)

    def left(self, headroom: Mapping[str, int], ceilings: Mapping[str, int]) -> dict[str, int]:
        """The tokens of each limit that the batch leaves for the short requests, in millitokens."""
        return {
            name: min(ceilings[name], free + self.given.get(name, 0)) - self.checked.get(name, 0)
            for name, free in headroom.items()
        }

    def net(self, limit: str) -> int:
        """The tokens that the batch takes from the limit, in millitokens."""
        return self.checked.get(limit, 0) + self.unchecked.get(limit, 0) - self.given.get(limit, 0)

    def limits(self) -> Iterable[str]:
        """The limits that take part."""
        return {**self.checked, **self.unchecked, **self.given} if self.unchecked or self.given else self.checked

    @property
    def gives_only(self) -> bool:
        """Whether it takes nothing; then the write needs no tokens, only the bucket."""
        return not self.checked and not self.unchecked

    @property
    def moves_nothing(self) -> bool:
        """Whether all amounts are 0; then nothing is written."""
        if any(self.checked.values()):
            return False
        return not (any(self.unchecked.values()) or any(self.given.values()))


def fit_batch(requests: Sequence[BucketRequest], headroom: Mapping[str, int], ceilings: Mapping[str, int]) -> Batch:
    """The requests that fit, first come first served.

    One that does not fit does not block a smaller one behind it, unless both come from a waiting line.
    """
    batch = Batch()
    for request in requests:
        if not request.checked:
            _add(batch.given, request.given)
            _add(batch.unchecked, request.unchecked)
    blocked = False
    for request in requests:
        if not (blocked and request.turn) and _fits(request.checked, batch, headroom, ceilings):
            batch.carry(request)
        else:
            batch.short.append(request)
            blocked = blocked or request.turn > 0
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
    """An update in the making: each limit adds its conditions and its change."""

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
        """Draft a relative write: add ``change`` to ``tokens`` if it is from ``least`` to ``most``."""
        self.at_most[tokens] = most
        if least is not None:
            self.at_least[tokens] = least
        if change:
            self.add[tokens] = change

    def take_at_ceiling(self, tokens: str, *, least: int, balance: int) -> None:
        """Draft an absolute write: set ``tokens`` to ``balance`` if it is at least ``least``."""
        self.at_least[tokens] = least
        self.set[tokens] = balance

    def count(self, attribute: str, amount: int) -> None:
        """Add to a number, unless ``amount`` is 0."""
        if amount:
            self.add[attribute] = amount

    def count_write(self, batch: Batch) -> None:
        """Count the acquires of the batch, the refusals that it takes along, and the write itself."""
        self.add[WRITES] = ONE_WRITE
        self.count(ACQUIRES, batch.events)
        self.count(REFUSED, batch.refused)

    def expire(self, ttl: int | None, item: Mapping[str, Any]) -> None:
        """Set the ``ttl``, or remove it; a condition keeps the write from replacing a later one that was not seen."""
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
