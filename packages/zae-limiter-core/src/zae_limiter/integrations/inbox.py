"""Read early what the client of an ASGI request sends, while its request waits for tokens."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

MOST_READ: Final = 2**16  # bytes of a body: what a server buffers itself

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]


class Inbox:
    """Messages in their order. One task at a time asks for them."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._read: deque[Message] = deque()
        self._next: asyncio.Future[Message] | None = None

    async def get(self) -> Message:
        """Return the next message."""
        if self._read:
            return self._read.popleft()
        if (reading := self._next) is not None:
            self._next = None
            return await reading
        return await self._receive()

    async def until_gone(self) -> bool:
        """Wait until the client leaves; return ``False`` if more of its body comes than is read early."""
        size = 0
        while size < MOST_READ:
            reading = self._next = self._next or asyncio.ensure_future(self._receive())
            message = await asyncio.shield(reading)  # a cancelled ``receive`` may lose a message
            self._next = None
            self._read.append(message)
            if message["type"] == "http.disconnect":
                return True
            size += 1 + len(message.get("body", b""))
        return False

    def close(self) -> None:
        """Stop reading: the request has ended."""
        if self._next is not None:
            self._next.cancel()
