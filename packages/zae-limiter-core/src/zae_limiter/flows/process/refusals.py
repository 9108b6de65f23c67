"""The refusals of this process that no write has counted yet, and the acquires that it let through uncounted in an
outage, as plain data.

``acquire.counting`` says what is a refusal, ``acquire.outage`` what is uncounted; ``commit_run`` and
``fast_path`` write the counts.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from threading import Lock
from typing import Final, Generic, Protocol, TypeVar

from ...operations.values import NOTHING, sums
from ...runtime import forks
from ...runtime.named_tuple import NamedTuple
from ...schema.attributes import REFUSED, write_ask
from ...values.limit_status import LimitStatus
from ...values.resolution import Config

WITHIN_MS: Final = 5_000  # after which a refusal is in its bucket, and the least time between two writes for that alone
LATE_MS: Final = 1_000  # by which a reminder may be late; one that is later was lost, with its event loop
EARLY_MS: Final = 20  # by which it may be early: timers go by another clock
MOST_IN_A_WRITE: Final = 8  # counts: a write of many limits has to fit into DynamoDB's expressions with them


class LastRefusal:
    """The ``statuses`` of the last call that this process refused by one bucket, and what is under way to count its
    refusals.

    ``count_due_ms``: when a separate write was due for those that its last write takes. ``reminder_ms``: when the last
    reminder of a separate write comes, or came. ``counted``: what a refusal by its own limits counts, by their
    names. ``config``: the limits with which a write of refusals may make the bucket, if there is none.
    """

    __slots__ = ("config", "count_due_ms", "counted", "reminder_ms", "statuses")

    def __init__(self) -> None:
        self.count_due_ms = self.reminder_ms = 0
        self.counted: dict[Sequence[str], Sequence[str]] = {}
        self.config: Config | None = None
        self.statuses: Sequence[LimitStatus] = ()

    @property
    def ask(self) -> str:
        """What the last refused call asked of the bucket and those above, as the text of an item."""
        asked = (each for each in self.statuses if not each.draw and each.requested)
        return write_ask({each.limit_name: each.requested for each in asked})


class Refusing(Protocol):
    """A bucket that refuses."""

    @property
    def last_refusal(self) -> LastRefusal: ...


B = TypeVar("B", bound=Refusing)


class _Pending(NamedTuple):
    """Refusals by attribute, and when a separate write of them is due."""

    counts: dict[str, int]
    due_ms: int


class PendingRefusals(Generic[B]):
    """The pending refusals of at most ``size`` buckets, each named by its shard 0. Threads may share it.

    A bucket in ``counts`` has some; the next write of this process to it takes them.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = Lock()
        self.counts: dict[B, _Pending] = {}
        forks.register(self)

    def forget(self) -> None:
        """Begin again in a child process: the parent counts its own."""
        self._lock = Lock()
        self.counts = {}

    @property
    def owes(self) -> bool:
        """Whether some are to be counted."""
        return bool(self.counts)

    def add(self, cached: B, now_ms: int, attributes: Iterable[str] = (REFUSED,)) -> None:
        """Count a refusal under each attribute."""
        with self._lock:
            pending = self.counts.get(cached)
            if pending is None:
                self._keep(cached, dict.fromkeys(attributes, 1), now_ms + WITHIN_MS)
                return
            counts = pending.counts
            for attribute in attributes:
                counts[attribute] = counts[attribute] + 1 if attribute in counts else 1

    def remind(self, cached: B, now_ms: int, *, came: bool = False) -> int | None:
        """Return the milliseconds after which a reminder has to come, 0 if at once; ``None`` if one is on its way, or
        nothing is pending. ``came``: the last one has just come, and what is due by now was not written.
        """
        with self._lock:
            pending = self.counts.get(cached)
            if pending is None or (not came and self.is_reminded(cached, now_ms)):
                cached.last_refusal.reminder_ms = 0 if came else cached.last_refusal.reminder_ms
                return None
            in_ms = pending.due_ms - now_ms
            if not EARLY_MS < in_ms <= WITHIN_MS:  # it is due, or the clock went back
                in_ms = WITHIN_MS if came else 0
                self._keep(cached, pending.counts, now_ms + WITHIN_MS)
            cached.last_refusal.reminder_ms = now_ms + (in_ms or WITHIN_MS)
            return in_ms

    def is_reminded(self, cached: B, now_ms: int) -> bool:
        """Return whether a reminder of the refusals of a bucket is on its way."""
        return -LATE_MS <= cached.last_refusal.reminder_ms - now_ms <= WITHIN_MS

    def are_due(self, cached: B, now_ms: int) -> bool:
        """Return whether a separate write is due."""
        pending = self.counts.get(cached)
        return pending is not None and not EARLY_MS < pending.due_ms - now_ms <= WITHIN_MS

    def take(self, cached: B) -> Mapping[str, int]:
        """Remove and return the counts by attribute, for a write: as many as fit into it."""
        with self._lock:
            pending = self.counts.pop(cached, None)
            if pending is None:
                return NOTHING
            cached.last_refusal.count_due_ms = pending.due_ms  # it has one write under way at most
            taken = dict(islice(pending.counts.items(), MOST_IN_A_WRITE))
            if len(taken) < len(pending.counts):
                left = {name: number for name, number in pending.counts.items() if name not in taken}
                self._keep(cached, left, pending.due_ms)
            return taken

    def put_back(self, cached: B, counts: Mapping[str, int]) -> None:
        """Add the counts of a write that was not applied. They are due as if no write had been tried."""
        with self._lock:
            later = self.counts.get(cached)
            self._keep(cached, dict(sums(counts, later.counts if later else NOTHING)), cached.last_refusal.count_due_ms)

    def _keep(self, cached: B, counts: dict[str, int], due_ms: int) -> None:
        self.counts[cached] = _Pending(counts, due_ms)
        if len(self.counts) > self._size:
            del self.counts[next(iter(self.counts))]
