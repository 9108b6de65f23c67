"""What lives here: the aggregator's zip in a local stack, fed by the stack's own stream.
What never does: every way to deliver a stream (test_aggregator).
"""

import asyncio
import gzip
import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from support.aggregator.streams import record
from support.integration.consumers import ENTITIES, Ledger, consume, prepare
from support.integration.embedded import COMMAND, Embedded, local_stack
from support.integration.stream_reader import Record, records_of
from zae_limiter import Limit, Options, SyncRateLimiter, SyncRepository
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.schema.audit import audit_item
from zae_limiter.values.audit import AuditEvent
from zae_limiter.values.usage import WINDOW_SECONDS, Window

ACQUIRES = 40  # moto does some twenty a second; test_aggregator has more on faster stores
TIMEOUT_SECONDS = 180
BATCH = 500


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    with local_stack(tmp_path_factory.mktemp("state")) as stack:
        yield stack


def counted(stack: Embedded, window: Window) -> Ledger:
    """What the stack's snapshots say."""
    store = SyncDynamoDBStore(stack.name, region="us-east-1", endpoint_url=stack.endpoint_url, read_timeout=30)
    ledger: Ledger = Counter()
    with SyncRepository.over(store, Options(read_timeout=30)) as repository:
        for entity in ENTITIES:
            for each in repository.get_usage_snapshots(entity_id=entity, window=window, limit=1000).snapshots:
                ledger[entity, each.resource, "events"] += each.total_events
                for limit, amount in each.consumed.items():
                    ledger[entity, each.resource, limit] += amount
    return +ledger


def invoke(stack: Embedded, records: Sequence[Record]) -> None:
    """Hand the function a batch, beside what the stream hands it."""
    name, payload = f"{stack.name}-aggregator", json.dumps({"Records": records})
    answer = stack.client("lambda").invoke(FunctionName=name, Payload=payload)
    assert json.load(answer["Payload"]) == {"batchItemFailures": []}


@pytest.mark.long
def test_usage_is_exact_when_every_record_comes_again(embedded: Embedded) -> None:
    asyncio.run(prepare(embedded.endpoint_url, embedded.name))
    consumed = +consume(embedded.endpoint_url, embedded.name, acquires=ACQUIRES, callers=20)
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while any(counted(embedded, window) != consumed for window in WINDOW_SECONDS) and time.monotonic() < deadline:
        time.sleep(1)
    records = records_of(embedded.endpoint_url, embedded.name)
    for begin in range(0, len(records), BATCH):
        invoke(embedded, records[begin : begin + BATCH])
    for window in WINDOW_SECONDS:
        assert counted(embedded, window) == consumed


def test_an_audit_event_that_expired_is_one_object_however_often_it_comes(embedded: Embedded) -> None:
    at = "2024-01-01T10:00:00.000Z"
    event = AuditEvent(f"{at}-1", "key-abc", "limits_set", "alice", at, None, None, {"limits": {}})
    removal = record(7, audit_item("ns", event, expires_at=1_700_000_000), None, by_ttl=True)
    objects = embedded.client("s3")
    for _ in range(2):
        invoke(embedded, [removal])
    ((bucket, key),) = _objects(objects)
    assert key == f"audit/date=2024-01-01/ns/key-abc/{at}-1.jsonl.gz"
    body = objects.get_object(Bucket=bucket, Key=key)["Body"].read()
    assert json.loads(gzip.decompress(body))["principal"] == "alice"


@pytest.mark.long
def test_a_plan_is_tried_on_the_trace_that_the_stack_keeps(embedded: Embedded, tmp_path: Path) -> None:
    def zael(*args: str) -> dict[str, Any]:
        command = [COMMAND, *args, "--name", embedded.name, "-o", "json"]
        environment = embedded.environment
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=180)
        found: dict[str, Any] = json.loads(done.stdout)
        assert found.pop("schema_version") == 1
        assert found.pop("kind")
        return found

    store = SyncDynamoDBStore(embedded.name, region="us-east-1", endpoint_url=embedded.endpoint_url, read_timeout=30)
    with SyncRateLimiter(SyncRepository.over(store, Options(read_timeout=30))) as limiter:
        limiter.repository.set_resource_defaults("traced", [Limit.per_hour("rpm", 100)])
        assert zael("namespace", "trace", "default", "--share", "1") == {"namespace": "default", "trace": 1.0}
        for number in range(7):
            with limiter.acquire("ann", "traced", {"rpm": 1 + number % 2}):
                pass
    (tmp_path / "limits.yaml").write_text("namespace: default\nresources: {traced: {limits: {rpm: 5/hour}}}\n")
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        (found,) = zael("limits", "plan", "-f", f"{tmp_path}/limits.yaml", "--replay", "24h", "--take-over")["replays"]
        if found["source"] == "trace" and found["calls"] == 7:
            break
        time.sleep(1)
    # of the calls of 1, 2, 1, 2, 1, 2, 1 tokens an hourly 5 admits 1, 2, 1 and, after a call of 2 that is refused, 1
    assert (found["calls"], found["refused_after"]) == (7, {"at_least": 3, "at_most": 3}), found


def _objects(client: Any) -> list[tuple[str, str]]:
    """Every object that was archived."""
    names = [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]
    found = [(name, client.list_objects_v2(Bucket=name, Prefix="audit/").get("Contents", [])) for name in names]
    return [(name, each["Key"]) for name, contents in found for each in contents]
