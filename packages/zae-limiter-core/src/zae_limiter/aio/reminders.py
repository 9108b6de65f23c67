"""Waiters that enter their queues later, on whichever event loop the driver works by then."""

import asyncio
from collections.abc import Callable
from time import monotonic

from ..flows.bucket_queue import Waiter


class Reminders:
    """Calls ``post`` with each waiter when its time has come. A loop that ends takes none with it."""

    def __init__(self, post: Callable[[Waiter], object]) -> None:
        self._post = post
        self._due: dict[Waiter, tuple[asyncio.AbstractEventLoop, float]] = {}

    def add(self, loop: asyncio.AbstractEventLoop, waiter: Waiter, seconds: float) -> None:
        """Post the waiter in so many seconds."""
        self._due[waiter] = loop, monotonic() + seconds
        loop.call_later(seconds, self._remind, loop, waiter)

    def move_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """Go on with another loop."""
        for waiter, (_, at) in list(self._due.items()):
            self.add(loop, waiter, max(0.0, at - monotonic()))

    def forget(self) -> None:
        """Begin again in a child process: the parent posts what is to come."""
        self._due = {}

    def _remind(self, loop: asyncio.AbstractEventLoop, waiter: Waiter) -> None:
        if waiter in self._due and self._due[waiter][0] is loop:
            del self._due[waiter]
            self._post(waiter)
