"""What lives here: a table in memory with the index rows of DynamoDB, so that what lists cost is what it is there.
What never does: a claim.
"""

from dataclasses import replace

from zae_limiter.engines.engine import Capabilities
from zae_limiter.engines.memory.store import MemoryStore, SyncMemoryStore
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.engines.meter import Meter
from zae_limiter.operations.values import Put
from zae_limiter.schema.registry import version_item
from zae_limiter.values.versions import record_of_this_release


def spread_table(meter: Meter) -> MemoryTable:
    """A table whose record has the schema of this release."""
    table = MemoryTable(meter)
    table.execute(Put(version_item(record_of_this_release())))
    return table


class SpreadMemoryStore(MemoryStore):
    """A store over such a table."""

    @property
    def capabilities(self) -> Capabilities:
        """Those of memory, with hot keys in the indexes."""
        return replace(super().capabilities, plain_indexes=False)


class SyncSpreadMemoryStore(SyncMemoryStore):
    """A store over such a table."""

    @property
    def capabilities(self) -> Capabilities:
        """Those of memory, with hot keys in the indexes."""
        return replace(super().capabilities, plain_indexes=False)
