"""Call a function later, from one thread for all calls; it ends when none is left."""

import threading
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from time import monotonic
from typing import Final, Generic, TypeVar

from . import forks

T = TypeVar("T")

THREAD_NAME: Final = "zae-limiter-reminders"
IDLE_SECONDS: Final = 5.0  # a thread that has nothing to do waits so long for the next call


class Reminders(Generic[T]):
    """Calls ``remind`` with each value when its time has come. A child process begins again without any."""

    def __init__(self, remind: Callable[[T], object]) -> None:
        self._remind = remind
        self._begin_again()
        forks.register(self)

    def forget(self) -> None:
        """Begin again in a child process: the parent calls what is to come."""
        self._begin_again()

    def _begin_again(self) -> None:
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, T]] = []
        self._numbers = count()
        self._runs = False

    def add(self, seconds: float, value: T) -> None:
        """Call with ``value`` in so many seconds. Without threads, at the end of the interpreter, nothing is called."""
        with self._changed:
            heappush(self._due, (monotonic() + seconds, next(self._numbers), value))
            if self._runs:
                self._changed.notify()
                return
            self._runs = True
        try:
            threading.Thread(target=self._run, name=THREAD_NAME, daemon=True).start()
        except RuntimeError:
            self._runs = False

    def _run(self) -> None:
        while (value := self._next()) is not None:
            self._remind(value)

    def _next(self) -> T | None:
        with self._changed:
            while not self._due or self._due[0][0] > monotonic():
                if not self._due and not self._changed.wait(IDLE_SECONDS) and not self._due:
                    self._runs = False
                    return None
                if self._due:
                    self._changed.wait(max(0.0, self._due[0][0] - monotonic()))
            return heappop(self._due)[2]
