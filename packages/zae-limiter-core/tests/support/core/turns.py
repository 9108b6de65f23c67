"""A store in memory that takes its time, in turns of the event loop: what else is under way happens in between.

Lives here: that store. Never: a claim.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.operations.values import Operation
from zae_limiter.stores import Capabilities, Store


class TurningStore(Store):
    """Async access to a table: each request is under way for so many turns there, and as many back."""

    def __init__(self, table: MemoryTable, turns: Callable[[], int]) -> None:
        self._table = table
        self._turns = turns

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(hot_items=True)

    async def perform(self, operation: Operation[Any]) -> Any:
        await turn(self._turns())
        try:
            return self._table.execute(operation)
        finally:
            await turn(self._turns())

    async def close(self) -> None:
        """Do nothing."""


async def turn(times: int) -> None:
    """Let whatever else is ready happen so often."""
    for _ in range(times):
        await asyncio.sleep(0)
