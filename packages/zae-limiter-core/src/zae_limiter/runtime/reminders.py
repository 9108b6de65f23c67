"""Call a function later, from one thread for all calls; it ends when none is left."""

import threading
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Final, Generic, TypeVar

from . import forks
from .elapsed import elapsed

T = TypeVar("T")

THREAD_NAME: Final = "zae-limiter-reminders"
LOOK_SECONDS: Final = 1.0  # a wait of a thread stands still with the machine, what is held does not


class Reminders(Generic[T]):
    """Calls ``remind`` with each value when its time has come. A forked child starts without any."""

    def __init__(self, remind: Callable[[T], object]) -> None:
        self._remind = remind
        self.forget()
        forks.register(self)

    def forget(self) -> None:
        """Reset after a fork: pending calls stay with the parent."""
        self._lock = threading.Lock()
        self._sooner = threading.Event()  # a value came that is due before all others
        self._due: list[tuple[float, int, T]] = []
        self._numbers = count()
        self._runs = False

    def add(self, seconds: float, value: T) -> None:
        """Call with ``value`` in so many seconds. Without threads, at the end of the interpreter, nothing is called."""
        due = elapsed() + seconds, next(self._numbers), value
        with self._lock:
            heappush(self._due, due)
            starts, self._runs = not self._runs, True
            if self._due[0] is due:
                self._sooner.set()
        if starts:
            try:
                threading.Thread(target=self._run, name=THREAD_NAME, daemon=True).start()
            except RuntimeError:
                self._runs = False

    def stop(self) -> None:
        """Drop all pending calls, and end the thread."""
        with self._lock:
            self._due.clear()
            self._sooner.set()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._due:
                    self._runs = False
                    return
                self._sooner.clear()
                seconds = self._due[0][0] - elapsed()
                value = heappop(self._due)[2] if seconds <= 0 else None
            if value is None:
                self._sooner.wait(min(seconds, LOOK_SECONDS))
            else:
                self._remind(value)
