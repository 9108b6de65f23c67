"""The stores, for programs that choose one themselves, and all that an engine of your own needs.

``Repository.over(store, options)`` opens a repository over a store. ``MemoryTable`` is a table in this process, which a
``MemoryStore`` and a ``SyncMemoryStore`` may share; its items expire once it has ``expire_by(clock.now_ms)``. ``Meter``
counts requests and capacity units.

An engine is a subclass of ``Store`` or ``SyncStore``. It performs an ``Operation``, such as ``Get`` or ``Update``, and
returns the answer that this promises, or raises a ``StoreError``, which says what is certain about the outcome.
``INDEXES`` and ``TABLE_KEYS`` have the attributes that a query goes by; ``item_size`` has the bytes of an item, which
may be 400 KB. ``zae_limiter.testing.conformance`` has the tests of an engine.
"""

from .engines.dynamodb.aio.store import DynamoDBStore
from .engines.dynamodb.sync.store import SyncDynamoDBStore
from .engines.engine import Capabilities, Store, SyncStore
from .engines.memory.store import MemoryStore, SyncMemoryStore
from .engines.memory.table import MemoryTable
from .engines.meter import Meter
from .engines.sqlite.aio import SQLiteStore
from .engines.sqlite.sync import SyncSQLiteStore
from .engines.time_left import time_left
from .operations.errors import (
    AccessLost,
    Closed,
    ConditionFailed,
    Conflict,
    Denied,
    Invalid,
    NotApplied,
    OutcomeUnknown,
    Reason,
    StoreError,
    TableExists,
    TableMissing,
    Throttled,
    TransactionCancelled,
    TrustLost,
    Unreachable,
    Unreadable,
    Untrusted,
)
from .operations.sizes import item_size
from .operations.values import (
    BatchGet,
    BatchWrite,
    Check,
    Conditions,
    CreateTable,
    Delete,
    DescribeTable,
    EnableTtl,
    Found,
    Get,
    IndexName,
    Item,
    Key,
    Operation,
    Page,
    Put,
    Query,
    Scan,
    Transact,
    Unwritten,
    Update,
    Value,
)
from .schema.table import INDEXES, TABLE_KEYS, Index

__all__ = [
    "INDEXES", "TABLE_KEYS", "AccessLost", "BatchGet", "BatchWrite", "Capabilities", "Check", "Closed",
    "ConditionFailed", "Conditions", "Conflict", "CreateTable", "Delete", "Denied", "DescribeTable",
    "DynamoDBStore", "EnableTtl", "Found", "Get", "Index", "IndexName", "Invalid", "Item", "Key", "MemoryStore",
    "MemoryTable", "Meter", "NotApplied", "Operation", "OutcomeUnknown", "Page", "Put", "Query", "Reason",
    "SQLiteStore", "Scan", "Store", "StoreError", "SyncDynamoDBStore", "SyncMemoryStore", "SyncSQLiteStore",
    "SyncStore", "TableExists", "TableMissing", "Throttled", "Transact", "TransactionCancelled", "TrustLost",
    "Unreachable", "Unreadable", "Untrusted", "Unwritten", "Update", "Value", "item_size", "time_left",
]  # fmt: skip
