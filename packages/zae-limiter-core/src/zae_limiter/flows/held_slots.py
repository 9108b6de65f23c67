"""The slots that leases of this process hold, as plain data: what a lease frees, and what has to be renewed when.

A hold changes only in a run of its bucket's queue, of which there is one at a time. So a release and a renewal never
count on what the other one is just changing. ``bucket.slots`` has the writes, ``rules.slots`` the idea.

A hold has an end where its owner wants one: ``ends_ms``, by ``max_hold``, and ``stalls_ms``, while an integration waits
for a client that reads. Then the next renewal frees it in place of renewing it, and its owner has lost it. Else a
client that reads nothing would hold a slot for as long as it keeps its connection.

Only the leases keep their holds alive. A lease that its owner drops without an end, as a framework that never reports
the end of a call does, is renewed no more, so that its slots come back when they expire.
"""

from collections.abc import Iterable, Sequence
from math import inf
from threading import Lock
from weakref import WeakKeyDictionary

from ..rules.slots import Slots
from ..runtime import forks


class SlotHold:
    """Slots of one limit that one request took, in millitokens, and the epoch of their last renewal.

    ``epoch`` is ``None`` if the answer to a renewal was lost: nobody knows which count they are in, so both are left to
    expire. From ``until_ms`` on, unless they are renewed, others may have the slots. From ``ends_ms`` or ``stalls_ms``
    on, the next run of the queue frees them.
    """

    __slots__ = (
        *("__weakref__", "_generation", "_renews_ms", "ends_ms", "epoch", "expires_ms", "limit", "milli", "stalls_ms"),
        "until_ms",
    )

    def __init__(self, limit: str, milli: int, slots: Slots) -> None:
        self.limit = limit
        self.milli = milli
        self.ends_ms = self.stalls_ms = inf
        self._generation = forks.generation
        self.renewed(slots)

    @property
    def is_of_parent(self) -> bool:
        """Whether another process holds the slots, of which this one is a forked child."""
        return self._generation != forks.generation

    def renewed(self, slots: Slots) -> None:
        """Note that a write counted the slots in the current epoch: they are due in the middle of the next one."""
        self.epoch: int | None = slots.epoch
        self.expires_ms = slots.expires_ms
        self._renews_ms = slots.began_ms + slots.expires_ms * 3 // 2
        self.until_ms = slots.began_ms + slots.expires_ms * 2

    @property
    def due_ms(self) -> float:
        """The instant at which it has to be renewed, or ends."""
        return min(self._renews_ms, self.ends_ms, self.stalls_ms)

    def lose(self) -> None:
        """Note that the slots are lost."""
        self.until_ms = self.milli = 0

    def has_ended(self, now_ms: int) -> bool:
        """Return whether the slots are still held, but no longer for their holder: they are about to be freed."""
        return self.milli > 0 and now_ms >= min(self.ends_ms, self.stalls_ms)

    def is_lost(self, now_ms: int) -> bool:
        """Return whether others may have the slots."""
        return now_ms >= self.until_ms and (self.milli > 0 or not self.until_ms)


class Freeing:
    """Slots that a lease gives back. A run that is to free them detaches them from their hold first, so that they come
    back by themselves if it fails.
    """

    __slots__ = ("epoch", "hold", "is_detached", "milli")

    def __init__(self, hold: SlotHold, milli: int) -> None:
        self.hold = hold
        self.milli = milli
        self.is_detached = False
        self.epoch: int | None = None

    def detach(self) -> None:
        """Take the slots from their hold, once: nobody renews them any more."""
        if not self.is_detached:
            self.is_detached, self.epoch = True, self.hold.epoch
            self.milli = min(self.milli, self.hold.milli)
            self.hold.milli -= self.milli


class HeldSlots:
    """The holds of this process on one bucket, and when the next renewal comes. A forked child has none.

    ``arranged`` counts the renewals that were arranged: only the last one arranges another, because a hold with an
    early end may come while one is on its way.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._generation = forks.generation
        self._lock = Lock()
        self._holds: WeakKeyDictionary[SlotHold, None] = WeakKeyDictionary()
        self._comes_ms: float = inf
        self.arranged = 0

    def add(self, holds: Iterable[SlotHold], now_ms: int) -> float | None:
        """Add holds; return the seconds after which a renewal is due, ``None`` if one comes by then."""
        if self._generation != forks.generation:
            self._begin()
        with self._lock:
            added = dict.fromkeys(holds)
            self._holds.update(added)
            return self._remind(now_ms) if min(hold.due_ms for hold in added) < self._comes_ms else None

    def next(self, now_ms: int, *, at_least: float = 0.0) -> float | None:
        """Return the seconds after which the next renewal is due, after one has ended; ``None`` if nothing is held."""
        with self._lock:
            return self._remind(now_ms, at_least)

    def _remind(self, now_ms: int, at_least: float = 0.0) -> float | None:
        for hold in [hold for hold in self._holds if not hold.milli]:
            del self._holds[hold]
        due_ms = self._comes_ms = min((hold.due_ms for hold in self._holds), default=inf)
        self.arranged += 1
        return None if due_ms == inf else max(at_least, (due_ms - now_ms) / 1000)

    def holds(self) -> Sequence[SlotHold]:
        """Return the holds that still have slots."""
        if self._generation != forks.generation:
            self._begin()
        with self._lock:
            return [hold for hold in self._holds if hold.milli]


class SlotChange:
    """What a batch changes of the slots of one limit, in millitokens: ``freed`` by epoch, and ``moved`` to the current
    epoch by renewals.
    """

    __slots__ = ("freed", "moved")

    def __init__(self) -> None:
        self.freed: dict[int, int] = {}
        self.moved = 0
