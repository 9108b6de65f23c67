"""Open the demo's table, in memory, in a file or at an endpoint, with one meter for its requests."""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from zae_limiter import Options, Store, SyncStore
from zae_limiter.stores import (
    DynamoDBStore,
    MemoryStore,
    MemoryTable,
    Meter,
    Operation,
    SQLiteStore,
    SyncDynamoDBStore,
    SyncMemoryStore,
)

from ..connection import Connection, fill_in_what_local_endpoints_ignore, is_local

ROUND_TRIP_SECONDS: Final = 0.005


@dataclass(frozen=True, slots=True)
class Backend:
    """One table, async and sync; ``description`` says where it is."""

    description: str
    options: Options
    store: Store
    sync_store: SyncStore
    meter: Meter


class DistantMemory(MemoryStore):
    """A table of this process with a delay like a network's: callers can share a request only while it takes time."""

    async def perform(self, operation: Operation[Any]) -> Any:
        """Answer as the table in memory does, after one round trip."""
        await asyncio.sleep(ROUND_TRIP_SECONDS)
        return await super().perform(operation)


def in_memory(namespace: str) -> Backend:
    """Return a table of this process alone."""
    meter = Meter()
    table = MemoryTable(meter)
    description = f"in memory: no network, no account; a request takes {ROUND_TRIP_SECONDS * 1000:.0f} ms"
    return Backend(description, Options(namespace=namespace), DistantMemory(table), SyncMemoryStore(table), meter)


def in_file(namespace: str, url: str) -> Backend:
    """Return a table in a file, which is made if it is missing. Raises ``CommandError`` for a bad URL."""
    connection = Connection.of_store(url, source="--store")
    meter = Meter()
    sync_store = connection.open_file(meter)
    options = Options(namespace=namespace, **connection.store_options())
    description = f"file {sync_store.path}: no network, no account"
    return Backend(description, options, SQLiteStore(sync_store.path, meter=meter), sync_store, meter)


def at_endpoint(namespace: str, url: str, *, table: str, region: str | None) -> Backend:
    """Return a table of the DynamoDB at ``url``; create it if it is missing."""
    if is_local(url):
        fill_in_what_local_endpoints_ignore()
    meter = Meter()
    options = Options(namespace=namespace, stack=table, endpoint_url=url, region=region, create_table=True)
    parts = options.store_options()
    store, sync_store = DynamoDBStore(table, meter=meter, **parts), SyncDynamoDBStore(table, meter=meter, **parts)
    return Backend(f"table {table} at {url}", options, store, sync_store, meter)
