"""Stores over a table in this process, for each variant."""

from typing import Any

from ...operations.values import Operation
from ..meter import Meter
from .table import MemoryTable


class MemoryStore:
    """A table in this process; stores may share one ``table``. ``meter`` is that of a table of its own."""

    answers_at_once = True

    def __init__(self, table: MemoryTable | None = None, *, meter: Meter | None = None) -> None:
        self.table = table or MemoryTable(meter)
        """The table, which several stores may share."""

    @property
    def meter(self) -> Meter | None:
        """What counts the cost that the requests would have on DynamoDB."""
        return self.table.meter

    async def perform(self, operation: Operation[Any]) -> Any:
        """Return the answer that ``operation`` promises, or raise a ``StoreError``."""
        return self.table.execute(operation)

    async def close(self) -> None:
        """Do nothing: there is nothing open."""


class SyncMemoryStore:
    """A table in this process; stores may share one ``table``. ``meter`` is that of a table of its own."""

    answers_at_once = True

    def __init__(self, table: MemoryTable | None = None, *, meter: Meter | None = None) -> None:
        self.table = table or MemoryTable(meter)
        """The table, which several stores may share."""

    @property
    def meter(self) -> Meter | None:
        """What counts the cost that the requests would have on DynamoDB."""
        return self.table.meter

    def perform(self, operation: Operation[Any]) -> Any:
        """Return the answer that ``operation`` promises, or raise a ``StoreError``."""
        return self.table.execute(operation)

    def close(self) -> None:
        """Do nothing: there is nothing open."""
