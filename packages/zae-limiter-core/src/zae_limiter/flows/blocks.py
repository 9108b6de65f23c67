"""The parts of a hold, as plain data: its blocks, its pace, and what a write does for it. ``hold`` has the reasons."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ..rules.balances import ShardLimit
from ..values.limits import Limit

Terms = tuple[tuple[Limit, ...], tuple[Limit, ...]]  # the rules of limits, and the limits as they are declared


class Block:
    """The tokens that one write took ahead, in millitokens by limit: what is ``left`` of those ``taken``.

    ``taken_ms`` is the instant of the write, ``until`` the end by ``elapsed_ms``, ``terms`` are those of its limits: a
    write of another shard may have brought other ones meanwhile, under which it is void. ``source`` is the shard that
    it was taken from.
    """

    __slots__ = ("left", "source", "taken", "taken_ms", "terms", "until")

    def __init__(self, taken: Mapping[str, int], taken_ms: int, until: float, source: "Source", terms: Terms) -> None:
        self.terms = terms
        self.taken = taken
        self.left = dict(taken)
        self.taken_ms = taken_ms
        self.until = until
        self.source = source


class Payment(NamedTuple):
    """What a block pays of a write."""

    block: Block
    limit: str
    amount: int


class Draw(NamedTuple):
    """What one write does for a hold, in millitokens by limit: it takes ``block``, brings ``back`` what is left of the
    ``ended`` blocks, and counts what was ``spent`` since the last write, by so many acquires, of which those ``below``
    came from entities below. What is ``paid`` by the
    hold for the write's own acquires needs not be in the table.
    """

    block: Block | None
    ended: tuple[Block, ...]
    back: Mapping[str, int]
    spent: Mapping[str, int]
    events: int
    payments: Sequence[Payment]
    below: int = 0

    @property
    def paid(self) -> Mapping[str, int]:
        """What all blocks pay."""
        paid: dict[str, int] = {}
        for _, limit, amount in self.payments:
            paid[limit] = paid.get(limit, 0) + amount
        return paid


class Source(NamedTuple):
    """A shard as a block was taken from it: its number, and its anchor. Under another anchor it may be full without
    what was taken: somebody has made it anew, filled or split it, or it had other values of a schedule.
    """

    number: int
    anchor_ms: int


class Shard(NamedTuple):
    """The shard that a write goes to: its limits, and what the write leaves of each, in millitokens."""

    source: Source
    limits: Mapping[str, ShardLimit]
    left: Mapping[str, int]


class Pace:
    """What this process used of a bucket in the last life of a block, in millitokens by limit, by so many acquires."""

    def __init__(self) -> None:
        self.used: Mapping[str, float] = {}
        self.events = 0.0
        self.at_ms = 0

    def add(self, used: Mapping[str, int], events: int, now_ms: int, life_ms: int) -> None:
        """Add what was used since the last call."""
        if life_ms <= 0:
            return
        passed = max(0.0, (now_ms - self.at_ms) / life_ms) if self.at_ms else 1.0
        before, now = (1 - passed, 1.0) if passed < 1 else (0.0, 1 / passed)
        names = {name for name in (*self.used, *used) if used.get(name) or before}
        self.used = {name: self.used.get(name, 0) * before + used.get(name, 0) * now for name in names}
        self.events = self.events * before + events * now
        self.at_ms = now_ms


def come_back(ended: Sequence[Block], limits: Mapping[str, ShardLimit], now_ms: int) -> dict[str, int]:
    """Return what is left of blocks, less what was minted since they were taken: the bucket may have that again."""
    back: dict[str, int] = {}
    for block in ended:
        for name, left in block.left.items():
            if left and name in limits:
                minted = limits[name].minted(now_ms) - limits[name].minted(block.taken_ms)
                minted += limits[name].unit > 0  # by another fraction it may have been one more
                back[name] = back.get(name, 0) + max(0, left - max(0, minted))
    return {name: amount for name, amount in back.items() if amount}


def pay(blocks: Iterable[Block], amounts: Mapping[str, int]) -> list[Payment]:
    """Take the amounts from blocks that have them, the oldest first."""
    payments = []
    for name, amount in amounts.items():
        rest = amount
        for block in blocks:
            if part := min(rest, block.left.get(name, 0)):
                block.left[name] -= part
                rest -= part
                payments.append(Payment(block, name, part))
    return payments


def pay_back(payments: Iterable[Payment]) -> None:
    """Leave to the blocks what they paid of a write that was not applied; no block has more than was taken."""
    for block, name, amount in payments:
        block.left[name] = min(block.left[name] + amount, block.taken[name])


def to_pay(there: Mapping[str, int], used: Mapping[str, int], held: Mapping[str, int]) -> dict[str, int]:
    """Return what blocks pay of a write for the limits of which the bucket has too little: all that it uses, if that
    much is held, else what is short, as far as it is held. The little that is there is what all other writes reckon
    with, too.
    """
    paid: dict[str, int] = {}
    for name, left in there.items():
        if left < 0 < (most := held.get(name, 0)):
            whole = used.get(name, 0)
            paid[name] = whole if -left <= whole <= most else min(-left, most)
    return paid
