"""What lives here: single cases of a stream, made by hand, and an aggregator that dies, on real tables.
What never does: a stream of many processes (test_aggregator), a delivery in memory (the aggregator's own tests).
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from support.aggregator.streams import record
from support.integration.harness import REGION, Harness
from support.integration.stream_reader import Record
from support.integration.targets import Target
from zae_limiter import Repository
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.maintenance import Upkeep
from zae_limiter.operations.values import Operation, Update
from zae_limiter.schema.items import BucketId
from zae_limiter.sync.driver import SyncDriver
from zae_limiter.values.usage import Window
from zae_limiter_aggregator.aggregation import Aggregator
from zae_limiter_aggregator.handler import on_event
from zae_limiter_aggregator.settings import Settings

pytestmark = [
    pytest.mark.needs("endpoint", "atomic"),
    pytest.mark.apart,
    pytest.mark.parametrize("variant", ["async"], indirect=True),
]

DAY_MS = 24 * 3_600_000
MIDNIGHT_MS = time.time_ns() // 1_000_000 // DAY_MS * DAY_MS

Image = dict[str, Any]


@pytest.fixture
async def repository(harness: Harness, target: Target, table_name: str, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A table, which the handler finds in its environment."""
    assert target.endpoint_url is not None
    monkeypatch.setenv("ZAEL_STACK", table_name)
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", target.endpoint_url)
    return (await harness.open()).repository


def image(repository: Repository, entity: str, *, shard: int = 0, tokens: int, events: int) -> Image:
    """A shard of a bucket that has counted so much."""
    place = BucketId(repository.namespace_id, entity, "gpt-4", shard)
    return {**place.attributes(), "rf": MIDNIGHT_MS, "shard_count": 2, "b_tpm_tc": 1000 * tokens, "ev": events}


def stream(*changes: tuple[int, Image | None, Image | None]) -> list[Record]:
    """The records of changes that happened so many seconds from midnight."""
    return [
        record(number, before, after, at_ms=MIDNIGHT_MS + 1000 * seconds, by_ttl=after is None)
        for number, (seconds, before, after) in enumerate(changes, 1)
    ]


async def counted(repository: Repository, entity: str, window: Window) -> list[tuple[datetime, int, int]]:
    """The start, the tokens and the events of each window, oldest first."""
    page = await repository.get_usage_snapshots(entity_id=entity, window=window)
    return sorted((each.window_start, each.consumed.get("tpm", 0), each.total_events) for each in page.snapshots)


def at(hours: int) -> datetime:
    """So many hours from midnight."""
    return datetime.fromtimestamp(MIDNIGHT_MS / 1000 + 3600 * hours, UTC)


def overlapping(records: Sequence[Record]) -> list[str]:
    """Deliver the records whole, and again in every two parts; the numbers of those that failed at last."""
    parts = [(records[:cut], records[max(0, cut - 1) :]) for cut in range(1, len(records))]
    for batch in [records, *(part for pair in parts for part in pair)]:
        on_event({"Records": list(batch)}, None)
    failures = on_event({"Records": list(records)}, None)["batchItemFailures"]
    return [failure["itemIdentifier"] for failure in failures]


async def test_an_hour_and_a_day_may_end_inside_a_batch(repository: Repository) -> None:
    one, two, three = (image(repository, "key", tokens=n, events=e) for n, e in ((500, 1), (700, 2), (600, 2)))
    assert overlapping(stream((-1, None, one), (-1, one, two), (0, two, three))) == []
    assert await counted(repository, "key", "hourly") == [(at(-1), 700, 2), (at(0), -100, 0)]
    assert await counted(repository, "key", "daily") == [(at(-24), 700, 2), (at(0), -100, 0)]


async def test_two_shards_of_a_bucket_are_counted_together(repository: Repository) -> None:
    first = [image(repository, "key", shard=0, tokens=n, events=e) for n, e in ((5, 1), (4, 1))]
    other = [image(repository, "key", shard=1, tokens=n, events=e) for n, e in ((7, 2), (9, 3))]
    records = stream((0, None, first[0]), (0, None, other[0]), (1, other[0], other[1]), (1, first[0], first[1]))
    assert overlapping(records) == []
    for window in ("hourly", "daily"):
        assert await counted(repository, "key", window) == [(at(0), 13, 4)]


async def test_a_record_that_cannot_be_read_comes_again_and_the_others_count(repository: Repository) -> None:
    images = [image(repository, "key", tokens=n, events=n) for n in range(1, 5)]
    records = stream((0, None, images[0]), *((0, *pair) for pair in pairwise(images)))
    del records[2]["dynamodb"]["OldImage"]
    assert overlapping(records) == [records[2]["dynamodb"]["SequenceNumber"]]
    assert await counted(repository, "key", "hourly") == [(at(0), 3, 3)]


async def test_a_bucket_that_ttl_removed_and_that_came_back_counts_on(repository: Repository) -> None:
    before, after = image(repository, "key", tokens=500, events=1), image(repository, "key", tokens=200, events=1)
    assert overlapping(stream((0, None, before), (70, before, None), (80, None, after))) == []
    assert await counted(repository, "key", "daily") == [(at(0), 700, 2)]


class Killed(BaseException):
    """The process is gone."""


class MortalStore(SyncDynamoDBStore):
    """A table whose process dies with its write number ``dies_at`` (from 0), before or after the table applied it."""

    dies_at: int | None = None
    applied = False
    writes = 0

    def perform(self, operation: Operation[Any]) -> Any:
        if not isinstance(operation, Update):
            return super().perform(operation)
        if self.dies_at is not None and self.writes > self.dies_at:
            raise Killed
        self.writes += 1
        dies = self.writes - 1 == self.dies_at
        if dies and not self.applied:
            raise Killed
        answer = super().perform(operation)
        if dies:
            raise Killed
        return answer


@contextmanager
def mortal(target: Target, table_name: str) -> Iterator[tuple[MortalStore, Aggregator]]:
    """An aggregator that writes one after the other, and its store."""
    with closing(MortalStore(table_name, region=REGION, endpoint_url=target.endpoint_url, read_timeout=30)) as store:
        yield (
            store,
            Aggregator(
                Upkeep(SyncDriver(store).run, store.clock),
                Settings(stack=table_name),
                open_archive=no_archive,
                writers=1,
            ),
        )


def no_archive() -> Any:
    raise AssertionError("nothing is to be kept")


def around_midnight(repository: Repository, entity: str) -> list[Record]:
    first = [image(repository, entity, shard=0, tokens=n, events=n) for n in (1, 2, 3)]
    other = [image(repository, entity, shard=1, tokens=n, events=n) for n in (10, 30)]
    return stream(
        (-2, None, first[0]),
        (-1, first[0], first[1]),
        (-1, None, other[0]),
        (0, first[1], first[2]),
        (0, other[0], other[1]),
    )


async def test_an_aggregator_that_is_killed_at_any_write_counts_everything_once(
    repository: Repository, target: Target, table_name: str
) -> None:
    with mortal(target, table_name) as (store, aggregator):
        aggregator.process(around_midnight(repository, "undisturbed"))
        writes = store.writes
    assert writes == 2 * 2 * 2  # shards, windows, before and after midnight
    for dies_at in range(writes):
        for applied in (False, True):
            entity = f"key-{dies_at}-{applied}"
            records = around_midnight(repository, entity)
            with mortal(target, table_name) as (store, aggregator):
                store.dies_at, store.applied = dies_at, applied
                with pytest.raises(Killed):
                    aggregator.process(records)
            for batch in (records[:3], records[2:]):
                assert on_event({"Records": batch}, None) == {"batchItemFailures": []}
            assert await counted(repository, entity, "hourly") == [(at(-1), 12, 12), (at(0), 21, 21)]
            assert await counted(repository, entity, "daily") == [(at(-24), 12, 12), (at(0), 21, 21)]
