"""Time that passes only while everybody waits, and a store in memory that is as far away as a real one.

Lives here: an event loop, its clock, the store. Never: a limiter.
"""

import asyncio
import random
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar
from unittest.mock import patch

from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.operations.values import Operation
from zae_limiter.stores import Capabilities, Store

T = TypeVar("T")
EPOCH_MS = 1_700_000_000_000


class _Leap(selectors.SelectSelector):
    """Where the loop would sleep, its time moves on instead."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("everybody waits, and nothing is going to happen")
            self.now += max(timeout, 0)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose hours take seconds, and whose runs can be repeated exactly."""

    def __init__(self) -> None:
        self._leap = _Leap()
        super().__init__(self._leap)

    def time(self) -> float:
        return self._leap.now


class VirtualClock:
    """The loop's time, as the limiter counts it."""

    def now_ms(self) -> int:
        return EPOCH_MS + round(asyncio.get_running_loop().time() * 1000)


class Distant(Store):
    """A store over a table in memory; a request needs half of ``seconds`` for each way."""

    def __init__(self, table: MemoryTable, seconds: float) -> None:
        self._table = table
        self._seconds = seconds

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(hot_items=True)

    async def perform(self, operation: Operation[Any]) -> Any:
        await asyncio.sleep(self._seconds / 2)
        try:
            return self._table.execute(operation)
        finally:
            await asyncio.sleep(self._seconds / 2)

    async def close(self) -> None:
        pass


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that lives in virtual time; chance is the same each time.

    What is prefetched ends by it alone: a slow machine would end it earlier.
    """
    random.seed(1)
    now_ms = patch("zae_limiter.flows.prefetch.elapsed_ms", lambda: asyncio.get_running_loop().time() * 1000)
    with now_ms, asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine)
