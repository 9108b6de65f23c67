"""What lives here: crossings of thresholds on real streams, by the aggregator's real handler, as its bus gets them.
What never does: what one batch finds (the aggregator's own tests).
"""

import json
import threading
from typing import Any

import pytest

from support.integration.consumers import prepare
from support.integration.stream_reader import Record, records_of
from support.integration.targets import Target
from zae_limiter import Limit, Options, SyncRateLimiter, SyncRepository
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.flows.bucket.splitting import split_shard
from zae_limiter.maintenance import Upkeep
from zae_limiter.schema.items import BucketId
from zae_limiter.sync.driver import SyncDriver
from zae_limiter_aggregator.aggregation import Aggregator
from zae_limiter_aggregator.settings import Settings

pytestmark = [pytest.mark.needs("endpoint", "atomic"), pytest.mark.apart]

BUS = "arn:aws:events:us-east-1:123456789012:event-bus/default"
PARENTS = ("cost-centre", "product")


class Bus:
    """What EventBridge would get; it refuses every ``failing``-th event once."""

    def __init__(self, failing: int = 0) -> None:
        self.details: list[dict[str, Any]] = []
        self._failing = failing
        self._refused: set[str] = set()
        self._turn = threading.Lock()

    def put(self, **request: Any) -> dict[str, Any]:
        with self._turn:
            return {"Entries": [self._take(json.loads(each["Detail"])) for each in request["Entries"]]}

    def _take(self, detail: dict[str, Any]) -> dict[str, str]:
        if self._failing and detail["id"] not in self._refused and int(detail["id"], 16) % self._failing == 0:
            self._refused.add(detail["id"])
            return {"ErrorCode": "ThrottlingException"}
        self.details.append(detail)
        return {"EventId": "1"}


def store_of(target: Target, table_name: str) -> SyncDynamoDBStore:
    return SyncDynamoDBStore(table_name, region="us-east-1", endpoint_url=target.endpoint_url, read_timeout=30)


def environment(target: Target, table_name: str, bus: Bus) -> Aggregator:
    """The aggregator as a new environment of its function has it."""
    store = store_of(target, table_name)
    settings = Settings(stack=table_name, alert_bus=BUS)
    return Aggregator(
        Upkeep(SyncDriver(store).run, store.clock), settings, open_archive=lambda: bus.put, open_bus=lambda: bus.put
    )


def use(target: Target, table_name: str) -> None:
    """Keys of two parents use up a month, and a split bucket a total."""
    month = Limit.per_month("usd", 1_000, timezone="Europe/Berlin", alert=(50, 80))
    with SyncRepository.over(store_of(target, table_name), Options(stack=table_name, read_timeout=30)) as repository:
        for parent in PARENTS:
            repository.create_entity(parent)
            repository.set_limits(parent, [month])
        repository.set_system_defaults([Limit.total("usd", 900, alert=(80,))])
        with SyncRateLimiter(repository) as limiter:
            for number in range(3):
                repository.create_entity(f"api-key-{number}", parent_ids=list(PARENTS), cascade=True)
                for _ in range(6):
                    with limiter.acquire(f"api-key-{number}", "gpt-4", {"usd": 50}):
                        pass
            bucket = BucketId(repository.namespace_id, "split", "gpt-4")
            for step in range(75):
                if step in (5, 15):
                    repository.driver.run(split_shard(repository.namespace_state, bucket))
                with limiter.acquire("split", "gpt-4", {"usd": 10}):
                    pass


def chunks(records: list[Record], size: int) -> list[list[Record]]:
    return [records[first : first + size] for first in range(0, len(records), size)]


async def test_each_crossing_is_told_once_however_the_stream_comes(target: Target, table_name: str) -> None:
    assert target.endpoint_url is not None
    await prepare(target.endpoint_url, table_name)
    use(target, table_name)
    records = records_of(target.endpoint_url, table_name)
    bus = Bus(failing=2)
    first = environment(target, table_name, bus)
    for some in chunks(records, 20):
        assert first.process(some).failures == ()
    assert first.process([]).failures == (), "what the bus refused last comes with the next batch"
    for size in (7, len(records)):  # again, in other batches, by other environments
        other = environment(target, table_name, bus)
        for some in chunks(records, size):
            assert other.process(some).failures == ()
    told = [(each["entity"], each["limit"], each["threshold"], each["capacity"]) for each in bus.details]
    wanted = [(parent, "usd", percent, 1_000) for parent in PARENTS for percent in (50, 80)]
    assert sorted(told) == sorted([*wanted, ("split", "usd", 80, 900)])
    assert {each["namespace"] for each in bus.details} == {"default"}
    assert all(each["used"] * 100 >= each["threshold"] * each["capacity"] for each in bus.details)


async def test_environments_at_once_tell_at_least_once_with_one_id(target: Target, table_name: str) -> None:
    assert target.endpoint_url is not None
    await prepare(target.endpoint_url, table_name)
    use(target, table_name)
    records = records_of(target.endpoint_url, table_name)
    bus = Bus()
    threads = [threading.Thread(target=environment(target, table_name, bus).process, args=(records,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = {(each["entity"], each["threshold"]): each["id"] for each in bus.details}
    assert len(told) == 5
    assert {each["id"] for each in bus.details} == set(told.values())
