"""Slots: who holds them by what callers were told, and what the items count.

Why. A slot is of its holder until he gives it back, and longer than ``expires`` after the write that took or renewed
it; as long as he lives and believes himself to hold it, nobody else has it. So at each instant the slots of all
holders of a bucket are at most its slots, whoever was killed, stood still, or lost an answer.

Never: what brings slots back (the end of a history asks for all of them: world).
"""

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple, Protocol

from zae_limiter.flows.bucket_queue import BucketRequest
from zae_limiter.flows.slots import Renewing, TakenSlots
from zae_limiter.operations.values import Item

from .bucket_items import SLOTS
from .kernel import Kernel, Violation

if TYPE_CHECKING:
    from .application import Application


class Counts(NamedTuple):
    """The slots of an item, in millitokens: all, the free ones, those of even epochs and of odd ones."""

    capacity: int
    free: int
    even: int
    odd: int
    expires_ms: int

    def check(self) -> None:
        """Raise ``Violation`` unless each slot is free or held, once."""
        if self.free + self.even + self.odd != self.capacity or min(self.even, self.odd) < 0:
            raise Violation(f"slots are counted twice, or not at all: {self}")


def counts_of(item: Item | None) -> Counts | None:
    """The slots of an item, ``None`` if it has none: all of a bucket's slots are on shard 0."""
    if item is None or f"b_{SLOTS}_tk" not in item or not item["PK"].endswith("#0"):
        return None
    names = (f"b_{SLOTS}_{each}" for each in ("tk", "he", "ho"))
    free, even, odd = (item[name] for name in names)
    return Counts(item[f"b_{SLOTS}_cp"], free, even, odd, item[f"b_{SLOTS}_ex"])


class Lives(Protocol):
    """Whose slots they are: the process, which knows the time by its own clock."""

    alive: bool

    def now_ms(self) -> int:
        """The time as the process knows it."""


class Holder:
    """The slots that one confirmed write took for a caller, as long as they are his."""

    def __init__(self, process: Lives, hold: TakenSlots, milli: int, write: "Application", *, tried: bool) -> None:
        assert write.slots is not None, "a write that took slots left some"
        self._process = process
        self.tried = tried
        self.hold = hold
        self.milli = milli
        self._expires_ms = write.slots.expires_ms
        self.known_ms = write.decided_ms

    def holds(self, now_ms: int, skew_ms: int) -> bool:
        """Whether the slots are his: by the time since the last write for them, or because he lives and believes so."""
        if now_ms < self.known_ms + self._expires_ms - skew_ms:
            return True
        return self._process.alive and not self.hold.is_lost(self._process.now_ms())


class SlotBook:
    """All holders of a history, by bucket."""

    def __init__(self, kernel: Kernel, skew_ms: int) -> None:
        self._kernel = kernel
        self.differs(skew_ms)
        self._holders: defaultdict[str, list[Holder]] = defaultdict(list)
        self._of: dict[TakenSlots, Holder] = {}
        self.most = 0
        self.taken = 0
        self.renewed = 0

    def differs(self, skew_ms: int) -> None:
        """Each clock may be so far off."""
        self._skew_ms = 2 * skew_ms

    def took(self, process: Lives, request: BucketRequest, write: "Application") -> None:
        """A confirmed write took slots for a caller, or renewed some. Raises ``Violation`` where too many are held.

        Whoever a switch lets pass takes what its process knew to be free, even if it no longer is: that does not count.
        """
        tried = SLOTS in request.shadow_amounts
        if isinstance(request.slots, Renewing):
            for hold in request.slots.moves:
                if hold in self._of:
                    self._of[hold].known_ms = write.decided_ms
                    self.renewed += 1
        for hold in request.taken_slots:
            if hold.limit == SLOTS:
                self._of[hold] = holder = Holder(process, hold, request.taken[SLOTS], write, tried=tried)
                self._holders[write.bucket].append(holder)
                self.taken += 1
        self._check(write)

    def gives(self, request: BucketRequest) -> None:
        """A caller is about to give slots back: from now on they are nobody's."""
        for each in () if request.slots is None else request.slots.frees:
            if each.taken in self._of:
                holder = self._of[each.taken]
                holder.milli = max(0, holder.milli - each.milli)

    def _check(self, write: "Application") -> None:
        assert write.slots is not None, "a write of slots left some"
        now_ms = self._kernel.now_ms
        holders = [each for each in self._holders[write.bucket] if each.milli and each.holds(now_ms, self._skew_ms)]
        self._holders[write.bucket] = [each for each in self._holders[write.bucket] if each.milli]
        held = sum(each.milli for each in holders if not each.tried)
        self.most = max(self.most, held)
        if held > write.slots.capacity:
            raise Violation(f"{held} slots of {write.bucket} are held, and there are {write.slots.capacity}")
