"""What lives here: the shards of a bucket as they are at one instant, with one limit of each.
What never does: a request that changes anything, the arithmetic of the limiter itself.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import boto3

from zae_limiter.engines.dynamodb.marshal import read_item
from zae_limiter.schema.items import BucketId

PAUSE_SECONDS = 0.005  # between two looks, so that those who are looked at have the processor


@dataclass(frozen=True, slots=True)
class Shard:
    """One limit on one shard, in millitokens: what it holds as of its anchor, and what was consumed."""

    number: int
    count: int
    ceiling: int
    minted_at_anchor: int
    tokens: int
    consumed: int
    writes: int

    @classmethod
    def of(cls, item: Mapping[str, Any], limit: str) -> Self:
        """The shard of an item."""
        number, count = int(item["PK"].rpartition("#")[2]), item["shard_count"]
        whole = item.get(f"b_{limit}_bx", item[f"b_{limit}_cp"])
        minted = item[f"b_{limit}_ra"] * item["rf"] // item[f"b_{limit}_rp"]
        return cls(
            number=number,
            count=count,
            ceiling=(whole + number) // count,
            minted_at_anchor=(minted + number) // count,
            tokens=item[f"b_{limit}_tk"],
            consumed=item[f"b_{limit}_tc"],
            writes=item["b_wcu_tc"] // 1000,
        )


@dataclass(frozen=True, slots=True)
class BucketShards:
    """All shards of a bucket at one instant."""

    shards: tuple[Shard, ...]

    @property
    def form(self) -> tuple[tuple[int, int], ...]:
        """Which shards there are, and of how many each is one."""
        return tuple((shard.number, shard.count) for shard in self.shards)

    @property
    def ceiling(self) -> int:
        """What all shards may hold; the limit's own ceiling, whatever the shards."""
        return sum(shard.ceiling for shard in self.shards)

    @property
    def consumed(self) -> int:
        """What was consumed of all shards."""
        return sum(shard.consumed for shard in self.shards)

    @property
    def total(self) -> int:
        """Held and consumed, but not minted: it stays the same as long as no shard runs over."""
        return sum(shard.tokens - shard.minted_at_anchor for shard in self.shards) + self.consumed

    @property
    def writes(self) -> dict[int, int]:
        """How often each shard was written."""
        return {shard.number: shard.writes for shard in self.shards}


class Reader:
    """Reads the shards of buckets in one transaction, aside from every repository."""

    def __init__(self, endpoint_url: str, table_name: str, namespace_id: str) -> None:
        self._client = boto3.client("dynamodb", endpoint_url=endpoint_url, region_name="us-east-1")
        self._table_name = table_name
        self._namespace_id = namespace_id

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def read(self, entity_id: str, resource: str, limit: str) -> BucketShards:
        """The shards of a bucket, with this limit."""
        home, size = BucketId(self._namespace_id, entity_id, resource), 1
        while True:
            items = self._items([home.other(shard) for shard in range(size)])
            count = max((item["shard_count"] for item in items), default=1)
            if count <= size:
                return BucketShards(tuple(Shard.of(item, limit) for item in items))
            size = count

    def _items(self, buckets: list[BucketId]) -> list[dict[str, Any]]:
        gets = [
            {"Get": {"TableName": self._table_name, "Key": {"PK": {"S": bucket.pk}, "SK": {"S": "#STATE"}}}}
            for bucket in buckets
        ]
        while True:
            try:
                answer = self._client.transact_get_items(TransactItems=gets)
            except self._client.exceptions.TransactionCanceledException:
                continue  # somebody wrote one of them just then
            return [read_item(found["Item"]) for found in answer["Responses"] if "Item" in found]


class Watch:
    """Looks at a bucket over and over while its block runs; the block fails if ceiling or total ever changed.

    ``forms`` are those that were seen.
    """

    def __init__(self, reader: Reader, entity_id: str, resource: str, limit: str) -> None:
        self.forms: set[tuple[tuple[int, int], ...]] = set()
        self._look: Callable[[], BucketShards] = lambda: reader.read(entity_id, resource, limit)
        self._wrong: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        first = self._look()
        self._due = first.ceiling, first.total
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(timeout=30)
        assert not self._thread.is_alive(), "the store does not answer"
        assert not self._wrong, self._wrong[0]

    def _watch(self) -> None:
        while not self._over.wait(PAUSE_SECONDS):
            try:
                bucket = self._look()
            except Exception as error:  # noqa: BLE001 - raised by the block
                self._wrong.append(f"not read: {error!r}")
                return
            self.forms.add(bucket.form)
            if (bucket.ceiling, bucket.total) != self._due:
                self._wrong.append(f"ceiling and total were {self._due}, are {bucket.ceiling, bucket.total}: {bucket}")
                return
