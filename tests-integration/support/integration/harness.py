"""What lives here: repositories on a table of one target, in one variant, and what stands in that table.
What never does: a claim.
"""

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from zae_limiter import Options, RateLimiter, Repository, SyncRateLimiter, SyncRepository
from zae_limiter.clock.system import SystemClock
from zae_limiter.engines.dynamodb.aio.store import DynamoDBStore
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.engines.engine import Store, SyncStore
from zae_limiter.engines.meter import Meter
from zae_limiter.engines.sqlite.aio import SQLiteStore
from zae_limiter.engines.sqlite.sync import SyncSQLiteStore
from zae_limiter.operations.values import BatchGet, Get, Item, Key, Operation, Query
from zae_limiter.schema.attributes import bucket_attributes
from zae_limiter.schema.items import BucketId
from zae_limiter.schema.partitions import INDEX_SUFFIXES, every_gsi4_pk

from .awaited import Awaited, Variant
from .spread_memory import SpreadMemoryStore, SyncSpreadMemoryStore, spread_table
from .targets import Target

REGION = "us-east-1"


class Harness:
    """A table of its own on a target. ``meter`` counts what all repositories of the harness ask for."""

    def __init__(self, target: Target, table_name: str, variant: Variant) -> None:
        self.target = target
        self.table_name = table_name
        self.variant = variant
        self.meter = Meter()
        self.namespace_id = ""
        self._memory = spread_table(self.meter)
        self._threads = ThreadPoolExecutor(64)
        self._closing: list[Callable[[], Awaitable[None]]] = []
        self._aside = self._sync_store(None, None)

    @property
    def partitions(self) -> int:
        """How many partitions of an index a list of buckets or of usage asks for."""
        return 1 if self.target.folder is not None else INDEX_SUFFIXES + 1

    async def open(
        self,
        *,
        endpoint_url: str | None = None,
        read_timeout: float = 30,
        machine: SystemClock | None = None,
        **options: Any,
    ) -> RateLimiter:
        """A limiter as a process of its own has it: its own client, cache and copies of buckets.

        ``machine`` is what the process's machine takes for the time, ``clock`` what nothing corrects. In the sync
        variant the limiter is awaited all the same.
        """
        chosen = Options(create_table=True, **{"read_timeout": read_timeout, "acquire_timeout": None, **options})
        client = {
            "endpoint_url": endpoint_url or self.target.endpoint_url,
            "connect_timeout": min(read_timeout, 5),  # one lost packet is sent again after a second
            "read_timeout": read_timeout,
            "clock": machine,
        }
        if self.variant == "async":
            repository = await Repository.over(self._store(client), chosen)
            limiter = RateLimiter(repository=repository)
            self.namespace_id = repository.namespace_id
        else:
            sync_repository = SyncRepository.over(self._sync_store(client, self.meter), chosen)
            self.namespace_id = sync_repository.namespace_id
            limiter = cast("RateLimiter", Awaited(SyncRateLimiter(repository=sync_repository), self._threads))
        self._closing.append(limiter.close)
        self.meter.reset()
        return limiter

    def bucket(self, entity_id: str, resource: str) -> Item | None:
        """The bucket as it is stored."""
        item: Item | None = self.perform(Get(self.key(entity_id, resource)))
        return item

    def consumed(self, entity_id: str, resource: str, limit: str) -> int:
        """What the bucket has counted as consumed, in millitokens; 0 where there is no bucket."""
        item = self.bucket(entity_id, resource) or {}
        return int(item.get(bucket_attributes(limit).consumed, 0))

    def key(self, entity_id: str, resource: str) -> Key:
        """Where the bucket stands."""
        return Key(BucketId(self.namespace_id, entity_id, resource).pk, "#STATE")

    def items(self) -> list[Item]:
        """All items of the namespace, by key."""
        pages = [self.perform(Query(pk, "GSI4")) for pk in every_gsi4_pk(self.namespace_id)]
        found = [item for page in pages for item in page.items]
        keys = sorted(Key(item["PK"], item["SK"]) for item in found)
        return [item for _, item in sorted(self.perform(BatchGet(tuple(keys))).items.items())]

    def perform(self, operation: Operation[Any]) -> Any:
        """Ask the table itself, aside from every repository."""
        return self._aside.perform(operation)

    async def close(self) -> None:
        """Close every repository."""
        for close in self._closing:
            await close()
        self._aside.close()
        self._threads.shutdown()

    def _store(self, client: dict[str, Any]) -> Store:
        if self.target.folder is not None:
            return SQLiteStore(self.target.folder / self.table_name, timeout=30, meter=self.meter)
        if self.target.endpoint_url is None:
            return SpreadMemoryStore(self._memory)
        return DynamoDBStore(self.table_name, region=REGION, meter=self.meter, **client)

    def _sync_store(self, client: dict[str, Any] | None, meter: Meter | None) -> SyncStore:
        if self.target.folder is not None:
            return SyncSQLiteStore(self.target.folder / self.table_name, meter=meter)
        if self.target.endpoint_url is None:
            return SyncSpreadMemoryStore(self._memory)
        chosen = client or {"endpoint_url": self.target.endpoint_url, "read_timeout": 10}
        return SyncDynamoDBStore(self.table_name, region=REGION, meter=meter, **chosen)
