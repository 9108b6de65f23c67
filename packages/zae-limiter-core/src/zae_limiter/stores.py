"""The stores, for programs that choose one themselves: to count what requests cost, or to put their own in front.

``Repository.over(store, options)`` opens a repository over a store. ``MemoryTable`` is a table in this process, which a
``MemoryStore`` and a ``SyncMemoryStore`` may share; its items expire once it has ``expire_by(clock.now_ms)``. ``Meter``
counts requests and capacity units.
"""

from .aio.store import DynamoDBStore, MemoryStore, Store
from .memory.table import MemoryTable
from .operations.capacity import Meter
from .operations.values import Operation
from .sync.store import SyncDynamoDBStore, SyncMemoryStore, SyncStore

__all__ = [
    "DynamoDBStore",
    "MemoryStore",
    "MemoryTable",
    "Meter",
    "Operation",
    "Store",
    "SyncDynamoDBStore",
    "SyncMemoryStore",
    "SyncStore",
]
