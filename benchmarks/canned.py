"""Limiters whose writes go over the network to the stub, and always find tokens.

Lives here: buckets made in memory, the answer made of one of them, the two variants on top. Never: a measurement.
"""

import json
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from zae_limiter import Limit, Options, RateLimiter, Repository, SyncRateLimiter, SyncRepository
from zae_limiter.engines.dynamodb.aio.store import DynamoDBStore
from zae_limiter.engines.dynamodb.marshal import write_item
from zae_limiter.engines.dynamodb.render import render
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.engines.engine import Capabilities, Store, SyncStore
from zae_limiter.engines.memory.store import SyncMemoryStore
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.operations.values import Get, Item, Key, Operation, Update
from zae_limiter.schema import keys
from zae_limiter.schema.attributes import TTL, bucket_attributes
from zae_limiter.schema.items import WRITES

NEVER_SPLIT = 2**63  # writes a second that no shard has
TABLE = "zae-limiter-benchmarks"
RESOURCE = "gpt-4"
COST = {"rpm": 1, "tpm": 500}
# So large that half of it never fills up while a benchmark runs, and never runs out.
LIMITS = [Limit.per_day("rpm", 10**9), Limit.per_day("tpm", 10**12)]
TEN_DAYS = 10 * 86_400  # seconds; a bucket that is half empty lives as long


class Split(Store):
    """A store that reads in memory and updates over the network."""

    def __init__(self, table: MemoryTable, remote: DynamoDBStore) -> None:
        self._table = table
        self._remote = remote
        self.last: Update | None = None

    @property
    def capabilities(self) -> Capabilities:
        return self._remote.capabilities

    async def perform(self, operation: Operation[Any]) -> Any:
        if type(operation) is not Update:
            return self._table.execute(operation)
        self.last = operation
        return await self._remote.perform(operation)

    def start(self, operation: Operation[Any], done: Callable[[Any, Exception | None], None]) -> bool:
        if type(operation) is not Update:
            return False
        self.last = operation
        return self._remote.start(operation, done)

    async def close(self) -> None:
        await self._remote.close()


class SyncSplit(SyncStore):
    """A store that reads in memory and updates over the network."""

    def __init__(self, table: MemoryTable, remote: SyncDynamoDBStore) -> None:
        self._table = table
        self._remote = remote
        self.last: Update | None = None

    @property
    def capabilities(self) -> Capabilities:
        return self._remote.capabilities

    def perform(self, operation: Operation[Any]) -> Any:
        if type(operation) is not Update:
            return self._table.execute(operation)
        self.last = operation
        return self._remote.perform(operation)

    def close(self) -> None:
        self._remote.close()


class Server:
    """The stub in its own process."""

    def __init__(self, url: str) -> None:
        self.url = url

    def updates(self) -> int:
        """How many UpdateItem there were since the last question."""
        with urllib.request.urlopen(self.url, timeout=5) as answer:
            return int(json.load(answer).get("UpdateItem", 0))


def entity(number: int) -> str:
    """The name of one of the entities."""
    return f"user-{number:06}"


def raw_request(split: Split | SyncSplit) -> dict[str, Any]:
    """The request that the limiter sent last, for another key, so that nobody takes it for a write of its own."""
    assert split.last is not None
    request: dict[str, Any] = render(split.last, TABLE)[1]
    request["Key"]["PK"] = {"S": "raw"}
    return request


@asynccontextmanager
async def warm_limiter(
    *, buckets: int = 1, service_ms: float = 0, options: Options | None = None, shared: bool = False
) -> AsyncIterator[tuple[RateLimiter, Split, Server]]:
    """A limiter that knows so many buckets; if they are ``shared``, another process writes to each as often."""
    table, item = _with_buckets(buckets)
    with _serving(item, service_ms, shared=shared) as server:
        split = Split(table, DynamoDBStore(TABLE, endpoint_url=server.url, region="us-east-1", read_timeout=30))
        async with RateLimiter(await Repository.over(split, options or Options())) as limiter:
            for number in range(buckets):
                await take(limiter, entity(number))
            server.updates()
            yield limiter, split, server


@contextmanager
def warm_sync_limiter(
    *, buckets: int = 1, service_ms: float = 0, options: Options | None = None
) -> Iterator[tuple[SyncRateLimiter, SyncSplit, Server]]:
    """A limiter that knows so many buckets."""
    table, item = _with_buckets(buckets)
    with _serving(item, service_ms) as server:
        split = SyncSplit(table, SyncDynamoDBStore(TABLE, endpoint_url=server.url, region="us-east-1", read_timeout=30))
        with SyncRateLimiter(SyncRepository.over(split, options or Options())) as limiter:
            for number in range(buckets):
                take_sync(limiter, entity(number))
            server.updates()
            yield limiter, split, server


async def take(limiter: RateLimiter, entity_id: str) -> None:
    """One acquire."""
    async with limiter.acquire(entity_id, RESOURCE, COST):
        pass


def take_sync(limiter: SyncRateLimiter, entity_id: str = entity(0)) -> None:
    """One acquire."""
    with limiter.acquire(entity_id, RESOURCE, COST):
        pass


def _with_buckets(count: int) -> tuple[MemoryTable, Item]:
    table = MemoryTable()
    repository = SyncRepository.over(SyncMemoryStore(table), Options())
    repository.set_resource_defaults(RESOURCE, LIMITS)
    limiter = SyncRateLimiter(repository)
    for number in range(count):
        with limiter.acquire(entity(number), RESOURCE, COST):
            pass
    pk = keys.pk_bucket(repository.namespace_id, entity(0), RESOURCE, 0)
    item: Item = table.execute(Get(Key(pk, keys.sk_state())))
    half = {bucket_attributes(limit.name).tokens: limit._ceiling_milli // 2 for limit in LIMITS}
    return table, item | half | {TTL: item[TTL] + TEN_DAYS}


@contextmanager
def _serving(item: Item, service_ms: float, *, shared: bool = False) -> Iterator[Server]:
    answer = {"Attributes": write_item(item) | {WRITES: {"N": "@2" if shared else "@"}}}
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch, "answer.json")
        file.write_text(json.dumps(answer))
        command = [sys.executable, "-m", "benchmarks.stub", str(file), str(service_ms)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            yield Server(f"http://127.0.0.1:{process.stdout.readline().strip()}")
        finally:
            process.kill()
            process.communicate()
