"""The refusals of this process that no write has counted yet, and the acquires that it let through uncounted in an
outage, as plain data.

``acquire.counting`` says what is a refusal, ``acquire.outage`` what is uncounted; ``commit_run`` writes the counts.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from threading import Lock
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from ...operations.values import NOTHING, sums
from ...runtime import forks
from ...schema.attributes import REFUSED

QUIET_MS: Final = 60_000
MOST_IN_A_WRITE: Final = 8  # counts: a write of many limits has to fit into DynamoDB's expressions with them


class Refusing(Protocol):
    """A bucket that refuses; ``refused_since_ms``: since when the refusals in its last write had been pending."""

    refused_since_ms: int


B = TypeVar("B", bound=Refusing)


class _Pending(NamedTuple):
    """Refusals by attribute, the first of them at ``since_ms``, or later if a separate write was due since then."""

    counts: Mapping[str, int]
    since_ms: int


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

    def add(self, cached: B, now_ms: int, attributes: Iterable[str] = (REFUSED,)) -> bool:
        """Count a refusal under each attribute; return whether a separate write is due, because no write has come for a
        minute.
        """
        with self._lock:
            counts, since_ms = self.counts.get(cached, (NOTHING, now_ms))
            due = abs(now_ms - since_ms) >= QUIET_MS
            self._keep(cached, sums(counts, dict.fromkeys(attributes, 1)), now_ms if due else since_ms)
            return due

    def take(self, cached: B) -> Mapping[str, int]:
        """Remove and return the counts by attribute, for a write: as many as fit into it."""
        with self._lock:
            pending = self.counts.pop(cached, None)
            if pending is None:
                return NOTHING
            cached.refused_since_ms = pending.since_ms  # it has one write under way at most
            taken = dict(islice(pending.counts.items(), MOST_IN_A_WRITE))
            if len(taken) < len(pending.counts):
                left = {name: number for name, number in pending.counts.items() if name not in taken}
                self._keep(cached, left, pending.since_ms)
            return taken

    def put_back(self, cached: B, counts: Mapping[str, int]) -> None:
        """Add the counts of a write that was not applied. They wait for as long as if nobody had tried to write
        them.
        """
        with self._lock:
            later = self.counts.get(cached)
            self._keep(cached, sums(counts, later.counts if later else NOTHING), cached.refused_since_ms)

    def _keep(self, cached: B, counts: Mapping[str, int], since_ms: int) -> None:
        self.counts[cached] = _Pending(counts, since_ms)
        if len(self.counts) > self._size:
            del self.counts[next(iter(self.counts))]
