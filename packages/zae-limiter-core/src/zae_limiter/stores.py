"""The stores, for programs that choose one themselves: to count what requests cost, or to put their own in front.

``Repository.over(store, options)`` opens a repository over a store. ``MemoryTable`` is a table in this process, which a
``MemoryStore`` and a ``SyncMemoryStore`` may share; its items expire once it has ``expire_by(clock.now_ms)``. ``Meter``
counts requests and capacity units.
"""

from .engines.dynamodb.aio.store import DynamoDBStore
from .engines.dynamodb.sync.store import SyncDynamoDBStore
from .engines.engine import Store, SyncStore
from .engines.memory.store import MemoryStore, SyncMemoryStore
from .engines.memory.table import MemoryTable
from .engines.meter import Meter
from .engines.time_left import time_left
from .operations.values import Operation

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
    "time_left",
]
