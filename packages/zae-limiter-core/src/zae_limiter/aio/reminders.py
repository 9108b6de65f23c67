"""Waiters that enter their queues later, on whichever event loop the driver works by then."""

import asyncio
from collections.abc import Callable
from typing import Final

from ..flows.bucket_queue import Waiter
from ..runtime.elapsed import elapsed

LOOK_SECONDS: Final = 1.0  # a timer of the loop stands still with the machine, what is held does not


class Reminders:
    """Calls ``post`` with each waiter when its time has come. A loop that ends takes none with it."""

    def __init__(self, post: Callable[[Waiter], object]) -> None:
        self._post = post
        self._due: dict[Waiter, tuple[asyncio.AbstractEventLoop, float]] = {}

    def add(self, loop: asyncio.AbstractEventLoop, waiter: Waiter, seconds: float) -> None:
        """Post the waiter in so many seconds."""
        self._due[waiter] = loop, elapsed() + seconds
        loop.call_later(min(seconds, LOOK_SECONDS), self._remind, loop, waiter)

    def move_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """Go on with another loop."""
        for waiter, (_, at) in list(self._due.items()):
            self.add(loop, waiter, max(0.0, at - elapsed()))

    def forget(self) -> None:
        """Begin again in a child process: the parent posts what is to come."""
        self._due = {}

    def _remind(self, loop: asyncio.AbstractEventLoop, waiter: Waiter) -> None:
        if waiter not in self._due or self._due[waiter][0] is not loop:
            return
        left = self._due[waiter][1] - elapsed()
        if left > 0:
            loop.call_later(min(left, LOOK_SECONDS), self._remind, loop, waiter)
        else:
            del self._due[waiter]
            self._post(waiter)
