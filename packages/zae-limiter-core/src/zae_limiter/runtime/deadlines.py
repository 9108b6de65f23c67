"""Futures that fail when their time is over."""

import asyncio
import math
from collections.abc import Callable
from typing import Protocol


class Settleable(Protocol):
    """A future, or what can be settled like one."""

    def done(self) -> bool:
        """Return whether it is settled."""

    def set_exception(self, error: Exception, /) -> None:
        """Settle it as failed."""


class Deadlines:
    """The deadlines of many futures of one event loop, with one timer for all: most are settled long before.

    ``error`` makes the exception of a future whose time is over. Instants are of ``loop.time()``.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, error: Callable[[], Exception]) -> None:
        self._loop = loop
        self._error = error
        self._until: dict[Settleable, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._next = math.inf

    def add(self, future: Settleable, until: float) -> None:
        """Fail ``future`` at the instant ``until``, unless it is removed before."""
        self._until[future] = until
        if until < self._next:
            self._set_timer(until)

    def remove(self, future: Settleable) -> None:
        """Forget the deadline of ``future``."""
        self._until.pop(future, None)

    def _set_timer(self, until: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next = until
        self._timer = self._loop.call_at(until, self._expire)

    def _expire(self) -> None:
        now = self._loop.time()
        self._timer, self._next = None, math.inf
        try:
            for future in [future for future, until in self._until.items() if until <= now]:
                del self._until[future]
                if not future.done():
                    future.set_exception(self._error())
        finally:  # a signal handler may raise in between
            if self._until:
                self._set_timer(min(self._until.values()))
