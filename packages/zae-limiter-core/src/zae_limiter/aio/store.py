"""Stores that are awaited.

Lives here: what performs an operation, over DynamoDB or in memory. Never: what to perform (flows).
"""

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Protocol

from zae_limiter.clock import SystemClock
from zae_limiter.operations.capacity import Meter
from zae_limiter.operations.client import ClientOptions
from zae_limiter.operations.errors import NotApplied, StoreError
from zae_limiter.operations.render import read_answer, render
from zae_limiter.operations.values import Operation

from .transport import Send, counted, fault_of, open_client, timed

if TYPE_CHECKING:
    from zae_limiter.operations import memory


class Store(Protocol):
    """What runs operations: the extension point for another backend.

    Where it has an attribute ``clock``, repositories over it go by that one unless they are given another.
    """

    async def perform(self, operation: Operation) -> Any:
        """Return the answer that ``operation`` promises, or raise a ``StoreError``."""

    async def close(self) -> None:
        """Let go of what is held open; nothing may be performed after it."""


class MemoryStore:
    """A table in this process, which ``memory`` may share with other stores."""

    def __init__(self, table: "memory.MemoryStore | None" = None) -> None:
        from zae_limiter.operations import memory  # who uses DynamoDB does without

        self.table = table or memory.MemoryStore()

    async def perform(self, operation: Operation) -> Any:
        """Return the answer that ``operation`` promises, or raise a ``StoreError``."""
        return self.table.execute(operation)

    async def close(self) -> None:
        """Do nothing: there is nothing open."""


class DynamoDBStore:
    """A DynamoDB table, through one client that the first operation opens. For one event loop.

    Times are in seconds. ``send`` takes the client's place. ``meter`` counts requests and units; it may be set until
    the first operation, and costs nothing when not. ``clock`` is corrected by the date of every answer.
    """

    def __init__(
        self,
        table_name: str,
        *,
        region: str | None = None,
        endpoint_url: str | None = None,
        profile: str | None = None,
        connect_timeout: float = 1.0,
        read_timeout: float = 2.0,
        max_connections: int = 100,
        send: Send | None = None,
        meter: Meter | None = None,
        clock: SystemClock | None = None,
    ) -> None:
        self.table_name = table_name
        self.meter = meter
        self.clock = clock or SystemClock()
        self._options = ClientOptions(
            region=region,
            endpoint_url=endpoint_url,
            profile=profile,
            connect_timeout=connect_timeout,
            read_timeout=read_timeout,
            max_connections=max_connections,
        )
        self._given_send = send
        self._send: Send | None = None
        self._closing = AsyncExitStack()
        self._closed = False
        self._lock = asyncio.Lock()

    async def perform(self, operation: Operation) -> Any:
        """Return the answer that ``operation`` promises, or raise a ``StoreError``."""
        name, request = render(operation, self.table_name)
        send = self._send or await self._connect()
        try:
            answer = await send(name, request)
        except StoreError:
            raise
        except Exception as error:
            fault = fault_of(operation, error)
            if fault is None:
                return None
            raise fault from error
        return read_answer(operation, answer)

    async def close(self) -> None:
        """Close the client; an operation after it is ``NotApplied``."""
        async with self._lock:
            self._closed, self._send = True, None
            await self._closing.aclose()

    async def _connect(self) -> Send:
        async with self._lock:
            if self._closed:
                raise NotApplied("the store is closed")
            if self._send is None:
                self._send = self._watched(self._given_send or await self._open())
            return self._send

    async def _open(self) -> Send:
        try:
            return await open_client(self._options, self._closing)
        except Exception as error:
            raise NotApplied(f"no client: {error}") from error

    def _watched(self, send: Send) -> Send:
        send = timed(send, self.clock.on_answer)
        return send if self.meter is None else counted(send, self.meter)
