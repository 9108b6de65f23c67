"""Virtual time that outlives event loops and threads.

Lives here: the time, and what the world does by itself (a store's answers). Never: a loop (loops), a thread (threads).
"""

import heapq
from collections.abc import Callable

EPOCH_MS = 1_700_000_000_000
MOST_EVENTS = 100_000


class Stuck(AssertionError):
    """Nobody can go on, or somebody goes round in circles."""


class Timeline:
    """What happens outside of the process, in order of virtual time. ``now_ms`` is as the oracle asks for it."""

    def __init__(self) -> None:
        self.now_us = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self.now_us / 1e6

    @property
    def now_ms(self) -> int:
        """Epoch milliseconds."""
        return EPOCH_MS + self.now_us // 1000

    def later(self, delay_us: int, event: Callable[[], None]) -> None:
        """Have something happen after a delay, whatever becomes of who asks for it."""
        self._count += 1
        if self._count > MOST_EVENTS:
            raise Stuck("it does not come to rest")
        heapq.heappush(self._events, (self.now_us + delay_us, self._count, event))

    def freeze(self, seconds: float) -> None:
        """Let time pass in which nothing of the process runs."""
        self.now_us += round(seconds * 1e6)

    def advance(self, until_us: int | None) -> None:
        """Go on to an instant, or to the next event, whichever comes first. Raises ``Stuck`` where there is neither."""
        due_us = self._events[0][0] if self._events else None
        if until_us is None and due_us is None:
            raise Stuck("everybody waits")
        self.now_us = max(self.now_us, min(instant for instant in (until_us, due_us) if instant is not None))
        while self._events and self._events[0][0] <= self.now_us:
            heapq.heappop(self._events)[2]()


class TimelineClock:
    """The clock of a repository."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def now_ms(self) -> int:
        """Epoch milliseconds."""
        return self._timeline.now_ms
