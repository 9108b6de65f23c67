"""Where the scenes are played: one store, a clock that the test moves, and processes that have only these in common."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any

from zae_limiter import Limit, RateLimiter, RateLimitExceeded, Repository, SyncRateLimiter, SyncRepository
from zae_limiter.testing import ManualClock


class Stage:
    """One store. Each ``process`` and ``loop`` has a repository of its own: its own cache and copies of buckets."""

    def __init__(
        self,
        clock: ManualClock,
        open_repository: Callable[[], SyncRepository],
        open_in_loop: Callable[[], Awaitable[Repository]],
    ) -> None:
        self.clock = clock
        self._open_repository = open_repository
        self._open_in_loop = open_in_loop
        self._processes: list[SyncRateLimiter] = []
        self._loops: list[RateLimiter] = []

    def process(self, *limits: Limit) -> SyncRateLimiter:
        """Return the limiter of a new process; these limits hold where the store has none."""
        self._processes.append(SyncRateLimiter(self._open_repository(), default_limits=limits or None))
        return self._processes[-1]

    async def loop(self, *limits: Limit) -> RateLimiter:
        """Return the limiter of a new process, for its event loop."""
        self._loops.append(RateLimiter(await self._open_in_loop(), default_limits=limits or None))
        return self._loops[-1]

    async def close(self) -> None:
        """Close all processes."""
        for process in self._processes:
            process.close()
        for loop in self._loops:
            await loop.close()

    def go_to(self, instant: datetime) -> None:
        """Move the clock on to an instant."""
        self.clock.advance(ms=round(instant.timestamp() * 1000) - self.clock.now_ms())


def passes(limiter: SyncRateLimiter, entity: str, consume: Mapping[str, int], **options: Any) -> bool:
    """Return whether a call is admitted; what it takes stays taken."""
    try:
        with limiter.acquire(entity, "gpt-4", consume, **options):
            return True
    except RateLimitExceeded:
        return False


def admitted(times: int, call: Callable[[], bool]) -> int:
    """Return how many of so many calls, one after the other, are admitted."""
    return sum(call() for _ in range(times))
