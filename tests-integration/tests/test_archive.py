"""What lives here: audit events that a table itself removes when their time is over, and what the archive then has.
What never does: records that a test makes up (the aggregator's own tests).
"""

import gzip
import json
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from typing import Any

import pytest
from moto.server import ThreadedMotoServer

from support.integration.stream_reader import records_of
from support.integration.targets import Target
from zae_limiter import Limit, Options, SyncRepository
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.operations.values import EnableTtl
from zae_limiter.schema.table import create_table_request
from zae_limiter.testing import ManualClock
from zae_limiter_aggregator.handler import on_event

pytestmark = pytest.mark.needs("endpoint", "ttl-deletion")

BUCKET = "archive"
A_YEAR = 365 * 86_400
TIMEOUT_SECONDS = 90


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The archive's bucket, in moto."""
    import boto3

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://{host}:{port}")
    monkeypatch.setenv("ZAEL_ARCHIVE_BUCKET", BUCKET)
    with closing(boto3.client("s3")) as client:
        client.create_bucket(Bucket=BUCKET)
        yield client
    server.stop()


CHANGED = "$RESOURCE:gpt-4"  # a change of an entity's limits would ask an index for its buckets


def kept(objects: Any) -> dict[str, dict[str, Any]]:
    """The events of the archive by id; a line each."""
    keys = [each["Key"] for each in objects.list_objects_v2(Bucket=BUCKET).get("Contents", [])]
    lines = [gzip.decompress(objects.get_object(Bucket=BUCKET, Key=key)["Body"].read()) for key in keys]
    events = [json.loads(line) for line in lines]
    assert len({event["event_id"] for event in events}) == len(events)
    return {event["event_id"]: event for event in events}


def test_an_audit_event_that_the_table_removes_is_kept_once(
    target: Target, table_name: str, objects: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert target.endpoint_url is not None
    monkeypatch.setenv("ZAEL_STACK", table_name)
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", target.endpoint_url)
    request = create_table_request(table_name)
    del request["GlobalSecondaryIndexes"]  # DynamoDB Local removes nothing from a table that has some
    keys = {each["AttributeName"] for each in request["KeySchema"]}
    request["AttributeDefinitions"] = [
        each for each in request["AttributeDefinitions"] if each["AttributeName"] in keys
    ]
    with closing(target.client("dynamodb")) as client:
        client.create_table(**request)
    store = SyncDynamoDBStore(table_name, region="us-east-1", endpoint_url=target.endpoint_url, read_timeout=30)
    last_year = ManualClock(round((time.time() - A_YEAR) * 1000))
    with SyncRepository.over(store, Options(clock=last_year, read_timeout=30)) as repository:
        for capacity in (1, 2, 3):
            repository.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", capacity)], principal="alice")
        before = {each.event_id: asdict(each) for each in repository.get_audit_events(CHANGED).events}
        store.perform(EnableTtl())
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while repository.get_audit_events(CHANGED).events:
            assert time.monotonic() < deadline, "the table removes nothing"
            time.sleep(1)
    for _ in range(2):
        assert on_event({"Records": records_of(target.endpoint_url, table_name)}, None) == {"batchItemFailures": []}
    found = kept(objects)
    assert len(before) == 3
    assert {event_id: found[event_id] | {"namespace_id": ""} for event_id in before} == {
        event_id: event | {"namespace_id": ""} for event_id, event in before.items()
    }
