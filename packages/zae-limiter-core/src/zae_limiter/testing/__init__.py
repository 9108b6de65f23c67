"""Test programs that use this library.

This module has a clock that a test moves, and that moves itself while calls wait. ``testing.plugin`` needs pytest; this
module does not.

    pytest_plugins = ["zae_limiter.testing.plugin"]  # in conftest.py: manual_clock, limiter, sync_limiter
"""

import asyncio
import math
import threading
import time
from collections.abc import Callable
from typing import Final

__all__ = ["ManualClock"]

_LOOK: Final = 0.001  # real seconds between two looks of a thread that waits beside others
_TURNS: Final = 20  # of the event loop between two looks of a task that waits: the others have begun or ended theirs


class ManualClock:
    """A clock that stands still until it is advanced, or until calls wait.

    The clock has the waits of the limiter as well: those of ``max_wait``, and the pauses before a request is repeated.
    The breaker goes by real time and by the clock's moves: after ``advance``, the next call asks the store again.
    While calls wait, it jumps to the instant of the one that is due first, so no test sleeps. With ``jumps=False`` they
    wait until ``advance`` reaches their instants. Threads and tasks may share it.
    """

    def __init__(self, start_ms: int = 1_700_000_000_000, *, jumps: bool = True) -> None:
        self._now_ms = start_ms
        self._jumps = jumps
        self._due: list[int] = []  # the instants until which calls wait
        self._changes = (
            0  # how many waits began or ended, and moves: between two looks without one, no wait is about to
        )
        self._followers: list[Callable[[int], object]] = []
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """How many calls wait now."""
        return len(self._due)

    def now_ms(self) -> int:
        """Return the time in epoch milliseconds."""
        return self._now_ms

    def monotonic(self) -> float:
        """Return the seconds that the breaker uses: real time, plus what the test has moved on."""
        return time.monotonic() + self._now_ms / 1000

    def advance(self, seconds: float = 0, *, ms: int = 0) -> None:
        """Move the clock on by so many seconds and milliseconds. Raises ``ValueError`` for a step back."""
        step = round(seconds * 1000) + ms
        if step < 0:
            raise ValueError(f"time does not go back, not even {-step} ms")
        with self._lock:
            self._now_ms += step
            self._changes += 1
        self._tell()

    def on_move(self, follow: Callable[[int], object]) -> None:
        """Call ``follow`` with the epoch milliseconds after each move."""
        self._followers.append(follow)

    def sleep(self, seconds: float) -> None:
        """Wait in manual time, as the sync variant does."""
        due, seen = self._begin(seconds), -1
        try:
            while not self._is_over(due, seen):
                seen = self._changes
                time.sleep(_LOOK if threading.active_count() > 1 else 0)
        finally:
            self._end(due)

    async def sleep_async(self, seconds: float) -> None:
        """Wait in manual time, as the async variant does."""
        due, seen = self._begin(seconds), -1
        try:
            while not self._is_over(due, seen):
                seen = self._changes
                for _ in range(_TURNS if self._jumps else 0):
                    await asyncio.sleep(0)
                await asyncio.sleep(0 if self._jumps and due == min(self._due) else _LOOK)
        finally:
            self._end(due)

    def _begin(self, seconds: float) -> int:
        with self._lock:
            due = self._now_ms + math.ceil(round(seconds * 1000, 6))
            self._due.append(due)
            self._changes += 1
        return due

    def _end(self, due: int) -> None:
        with self._lock:
            self._due.remove(due)
            self._changes += 1

    def _is_over(self, due: int, seen: int) -> bool:
        """Return whether the instant has come; jump to it if it is the first one, and nothing has changed since
        ``seen``.
        """
        with self._lock:
            if self._now_ms >= due:
                return True
            if not self._jumps or due > min(self._due) or seen != self._changes:
                return False
            self._now_ms = due
            self._changes += 1
        self._tell()
        return True

    def _tell(self) -> None:
        for follow in self._followers:
            follow(self._now_ms)
