"""What the entries of a batch add up to, and how a limit is written for them.

Lives here: who fits, and the two rows of "The write", pure. Never: which write it is (frames), what its answer means (commit).

With ``m`` minted since the anchor, a checked amount ``c``, an unchecked one ``a`` and ``g`` given back:

    below its ceiling   tk BETWEEN c - g - m AND ceiling - m      ADD tk -(c + a - g)
    at its ceiling      tk >= ceiling - slack - m                 SET tk = ceiling - slack - m - (c + a - g)

Whoever consumes at the ceiling thereby forgets what overflowed; without that, an idle minute would be paid out twice.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..limits import Limit
from ..operations.values import Conditions, Key, Update
from ..schema.items import ONE_WRITE, WRITES, bucket_attributes
from .lane import Entry

TTL_GRACE_MS = 60_000


@dataclass(slots=True)
class Load:
    """What the entries of a batch add up to, in millitokens by limit; who is carried, and who did not fit."""

    checked: dict[str, int] = field(default_factory=dict)
    unchecked: dict[str, int] = field(default_factory=dict)
    given: dict[str, int] = field(default_factory=dict)
    events: int = 0
    carried: list[Entry] = field(default_factory=list)
    short: list[Entry] = field(default_factory=list)

    def carry(self, entry: Entry) -> None:
        """Take an entry along; what it gives back and what is not checked counts from the start."""
        _add(self.checked, entry.checked)
        self.events += entry.events
        self.carried.append(entry)

    def left(self, room: Mapping[str, int], ceilings: Mapping[str, int]) -> dict[str, int]:
        """What the batch leaves of each limit for those who did not fit."""
        return {
            name: min(ceilings[name], free + self.given.get(name, 0)) - self.checked.get(name, 0)
            for name, free in room.items()
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
        return not (any(self.checked.values()) or any(self.unchecked.values()) or any(self.given.values()))


def weigh(entries: Sequence[Entry], room: Mapping[str, int], ceilings: Mapping[str, int]) -> Load:
    """Who fits, first come first served; one that does not fit does not stand in the way of a smaller one behind it."""
    load = Load()
    for entry in entries:
        if not entry.checked:
            _add(load.given, entry.given)
            _add(load.unchecked, entry.unchecked)
    for entry in entries:
        if _fits(entry.checked, load, room, ceilings):
            load.carry(entry)
        else:
            load.short.append(entry)
    return load


def _fits(amounts: Mapping[str, int], load: Load, room: Mapping[str, int], ceilings: Mapping[str, int]) -> bool:
    for limit, amount in amounts.items():
        room_now = min(ceilings[limit], room[limit] + load.given.get(limit, 0))
        if load.checked.get(limit, 0) + amount > room_now:
            return False
    return True


def _add(totals: dict[str, int], amounts: Mapping[str, int]) -> None:
    for limit, amount in amounts.items():
        totals[limit] = totals.get(limit, 0) + amount


class Standing(NamedTuple):
    """One limit at the instant of a write: stored balance, minted since the anchor, the ceiling that counts."""

    tokens: int
    minted: int
    ceiling: int

    @property
    def full(self) -> bool:
        """Whether it stands at its ceiling."""
        return self.tokens + self.minted >= self.ceiling

    @property
    def room(self) -> int:
        """What is available, in millitokens."""
        return min(self.ceiling, self.tokens + self.minted)


@dataclass(slots=True)
class Draft:
    """An update in the making: each limit puts its conditions and its change into it."""

    add: dict[str, int] = field(default_factory=dict)
    set: dict[str, Any] = field(default_factory=dict)
    remove: list[str] = field(default_factory=list)
    exists: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    equals: dict[str, int] = field(default_factory=dict)
    at_least: dict[str, int] = field(default_factory=dict)
    at_most: dict[str, int] = field(default_factory=dict)

    def take_below(self, limit: str, stand: Standing, load: Load, *, moved: int = 0) -> None:
        """Row ADD; ``moved`` is what a new anchor adds to the stored balance."""
        tk = bucket_attributes(limit).tk
        self.at_most[tk] = stand.ceiling - stand.minted
        checked = load.checked.get(limit)
        if checked is not None:
            self.at_least[tk] = checked - load.given.get(limit, 0) - stand.minted
        self.count(tk, moved - load.net(limit))

    def take_at_ceiling(self, limit: str, stand: Standing, load: Load, *, slack: int = 0, minted: int = 0) -> None:
        """Row SET; ``minted`` is what is minted by now under the anchor that the written balance has."""
        tk = bucket_attributes(limit).tk
        self.at_least[tk] = stand.ceiling - slack - stand.minted
        self.set[tk] = stand.ceiling - slack - minted - load.net(limit)

    def count(self, attribute: str, amount: int) -> None:
        """Add to a number; adding nothing is left out."""
        if amount:
            self.add[attribute] = amount

    def count_consumption(self, load: Load) -> None:
        """Count what is consumed, the acquires, and the write itself."""
        for limit in load.limits():
            self.count(bucket_attributes(limit).tc, load.net(limit))
        self.count("ev", load.events)
        self.add[WRITES] = ONE_WRITE

    def expire(self, ttl: int | None, item: Mapping[str, Any]) -> None:
        """Set when the item expires, or that it does not."""
        if ttl is not None:
            self.set["ttl"] = ttl
        elif "ttl" in item:
            self.remove.append("ttl")

    def update(self, key: Key) -> Update:
        """The finished operation."""
        when = Conditions(
            exists=tuple(self.exists),
            absent=tuple(self.absent),
            equals=self.equals,
            at_least=self.at_least,
            at_most=self.at_most,
        )
        return Update(key, add=self.add, set=self.set, remove=tuple(self.remove), when=when)


def expires_at(now_ms: int, multiplier: int, deficits: Iterable[tuple[Limit, int]]) -> int:
    """``ttl``, in epoch seconds: a minute, and ``multiplier`` times as long as the slowest limit takes to fill up."""
    longest_ms = max((deficit * limit.refill_period // limit.refill_amount for limit, deficit in deficits), default=0)
    return -(-(now_ms + TTL_GRACE_MS + multiplier * max(longest_ms, 0)) // 1000)
