"""The refusals of this process that no write has counted yet.

Lives here: the counts, as plain data. Never: what is a refusal (acquire.counting), the write that takes them
(commit_run).
"""

from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from ...runtime import forks

if TYPE_CHECKING:
    from .namespace_state import CachedBucket

QUIET_MS: Final = 60_000


class _Pending(NamedTuple):
    """So many refusals, the first of them at ``since_ms``; later, if a write of their own was due since."""

    number: int
    since_ms: int


class PendingRefusals:
    """The refusals of at most ``size`` buckets, each given by its shard 0. Threads may share it.

    A bucket in ``counts`` has some; the next write of this process to it takes them.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = Lock()
        self.counts: dict[CachedBucket, _Pending] = {}
        forks.register(self)

    def forget(self) -> None:
        """Begin again in a child process: the parent counts its own."""
        self._lock = Lock()
        self.counts = {}

    def add(self, cached: "CachedBucket", now_ms: int) -> bool:
        """Count a refusal; whether a write of its own is due, because no other has come for a minute."""
        with self._lock:
            number, since_ms = self.counts.get(cached, (0, now_ms))
            due = abs(now_ms - since_ms) >= QUIET_MS
            self._keep(cached, number + 1, now_ms if due else since_ms)
            return due

    def take(self, cached: "CachedBucket") -> int:
        """Remove and return the number of refusals, for a write."""
        with self._lock:
            pending = self.counts.pop(cached, None)
            if pending is None:
                return 0
            cached.refused_since_ms = pending.since_ms  # it has one write under way at most
            return pending.number

    def put_back(self, cached: "CachedBucket", number: int) -> None:
        """Add those of a write that was not applied; they wait for as long as if it had not been tried."""
        with self._lock:
            later = self.counts.get(cached)
            self._keep(cached, number + (later.number if later else 0), cached.refused_since_ms)

    def _keep(self, cached: "CachedBucket", number: int, since_ms: int) -> None:
        self.counts[cached] = _Pending(number, since_ms)
        if len(self.counts) > self._size:
            del self.counts[next(iter(self.counts))]
