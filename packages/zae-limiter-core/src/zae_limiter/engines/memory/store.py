"""Stores over a table in this process, for each variant."""

from typing import Any

from ...operations.values import Operation
from ..engine import Capabilities, Store, SyncStore
from ..meter import Meter
from .table import MemoryTable


class _OverTable:
    """A table in this process; stores may share one ``table``. ``meter`` is that of a table of its own."""

    def __init__(self, table: MemoryTable | None = None, *, meter: Meter | None = None) -> None:
        self.table = table or MemoryTable(meter)
        """The table, which several stores may share."""

    @property
    def capabilities(self) -> Capabilities:
        """The meter of the table, which counts what the requests would cost on DynamoDB; no operation waits."""
        usage = self.table.counts_usage
        return Capabilities(meter=self.table.meter, deadlines="unneeded", expiry=True, plain_indexes=True, usage=usage)


class MemoryStore(_OverTable, Store):
    """A table in this process; stores may share one ``table``. ``meter`` is that of a table of its own."""

    async def perform(self, operation: Operation[Any]) -> Any:
        """Return the answer that ``operation`` promises, or raise a ``StoreError``."""
        return self.table.execute(operation)

    async def close(self) -> None:
        """Do nothing: there is nothing open."""


class SyncMemoryStore(_OverTable, SyncStore):
    """A table in this process; stores may share one ``table``. ``meter`` is that of a table of its own."""

    def perform(self, operation: Operation[Any]) -> Any:
        """Return the answer that ``operation`` promises, or raise a ``StoreError``."""
        return self.table.execute(operation)

    def close(self) -> None:
        """Do nothing: there is nothing open."""
