"""A manifest of 50,000 entities: how long the provisioner takes over it, what it asks of the table, and its memory.

Lives here: its actions against dynoxide, on a table without a stream. Never: the command line, or Lambda itself.
"""

import json
import resource
import time
from contextlib import ExitStack

import boto3

from zae_limiter import Options, SyncRepository
from zae_limiter.operations.capacity import Meter
from zae_limiter.schema import create_table_request
from zae_limiter.sync.store import SyncDynamoDBStore
from zae_limiter_manifest import Answer, LimitsManifest, Request, pack
from zae_limiter_provisioner.actions import perform
from zae_limiter_provisioner.table import Table

from .emulator import dynoxide
from .report import Row

TABLE = "zae-limiter-benchmarks"
REGION = "us-east-1"
NAMESPACE = "tenant-alpha"
ENTITIES = 50_000
LAMBDA_MB = 512  # what `deploy` gives the provisioner
LAMBDA_SECONDS = 900


def measure() -> list[Row]:
    with ExitStack() as stack:
        url = dynoxide(stack)
        _create_table(url)
        meter = Meter()
        SyncRepository.over(SyncDynamoDBStore(TABLE, endpoint_url=url, region=REGION), Options(stack=TABLE)).close()
        store = SyncDynamoDBStore(TABLE, endpoint_url=url, region=REGION, read_timeout=30, meter=meter)
        table = Table(store, TABLE)
        wanted = _manifest(capacity=10)
        rows = [Row("the request, packed", len(json.dumps(pack(Request.of("apply", wanted).to_dict()))) / 1e6, "MB")]
        for what, request in (
            ("plan", Request.of("plan", wanted)),
            ("apply", Request.of("apply", wanted)),
            ("unchanged apply", Request.of("apply", wanted)),
            ("diff", Request.of("diff", wanted)),
            ("export", Request("export", NAMESPACE)),
        ):
            rows += _asked(what, table, request, meter)
        rows.append(Row("memory, at most", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000, "MB"))
        return rows


def _asked(what: str, table: Table, request: Request, meter: Meter) -> list[Row]:
    meter.reset()
    begun = time.monotonic()
    answer: Answer = perform(table, request)
    seconds = time.monotonic() - begun
    if answer.errors:
        raise RuntimeError(f"{what}: {answer.errors[:3]}")
    reads = sum(count for name, count in meter.requests.items() if name in {"BatchGetItem", "GetItem", "Query"})
    writes = sum(meter.requests.values()) - reads
    return [
        Row(what, seconds, "s", at_most=LAMBDA_SECONDS),
        Row(f"{what}: requests that read", reads),
        Row(f"{what}: requests that write", writes, at_most={"apply": None, "unchanged apply": 1}.get(what, 0)),
        Row(f"{what}: units written", meter.write_units + meter.index_units),
    ]


def _manifest(capacity: int) -> LimitsManifest:
    limits = {"limits": {"rpm": {"capacity": capacity}, "tpm": {"capacity": 1000 * capacity}}}
    ids = (f"123e4567-e89b-12d3-a456-{number:012d}" for number in range(ENTITIES))
    return LimitsManifest.from_dict(
        {"namespace": NAMESPACE, "entities": {each: {"resources": {"gpt-4": limits}} for each in ids}}
    )


def _create_table(url: str) -> None:
    """Without a stream: the more records one has, the longer a write takes the emulator."""
    request = {name: value for name, value in create_table_request(TABLE).items() if name != "StreamSpecification"}
    client = boto3.client("dynamodb", endpoint_url=url, region_name=REGION)
    client.create_table(**request)
    client.close()
