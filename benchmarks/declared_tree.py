"""A tree of 5,000 entities below 200 parents, with three plans: what an apply takes, of whom, on two tables.

Lives here: the same handler as in ``declarative``, on a table without a stream and on one with a stream, and the time
that the requests would take DynamoDB. Never: the command line, or Lambda itself.
"""

from collections.abc import Iterator
from contextlib import ExitStack

import boto3

from zae_limiter import Options, SyncRepository
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.schema.table import create_table_request
from zae_limiter_manifest import LimitsManifest, Request

from .declarative import READS, REGION, TABLE, Invocation, create_table, provisioner
from .emulator import dynoxide
from .report import Row

PARENTS, CHILDREN = 200, 25
PLANS = {"free": 10, "pro": 100, "gold": 1_000}
SECONDS_OF_DYNAMODB = 0.005  # for each request, one after the other


def measure() -> list[Row]:
    rows: list[Row] = []
    with ExitStack() as stack:
        url = dynoxide(stack)
        create_table(url)
        asked = stack.enter_context(provisioner(url))
        for what, request in _requests():
            rows += _rows(what, asked.finish(request))
    with ExitStack() as stack:
        url = dynoxide(stack)
        _create_table_with_stream(url)
        asked = stack.enter_context(provisioner(url))
        seconds = sum(each.seconds for each in asked.finish(Request.of("apply", tree())))
        rows.append(Row("first apply, on a table with a stream", seconds, "s"))
    return rows


def tree(*, gold: int = PLANS["gold"], moved: bool = False) -> LimitsManifest:
    """Return the manifest; ``moved``: the first team is below the second one."""
    own = {"resources": {"_default_": {"limits": {"rpm": "5k/min"}}}}
    entities: dict[str, object] = {f"team-{team:03d}": own for team in range(PARENTS)}
    if moved:
        entities["team-000"] = {**own, "parent": "team-001"}
    names = [*PLANS]
    for number in range(PARENTS * CHILDREN):
        team, plan = number // CHILDREN, names[number % len(names)]
        entities[f"key-{number:04d}"] = {"parent": f"team-{team:03d}", "cascade": True, "plan": plan}
    plans = {
        plan: {"resources": {"_default_": {"limits": {"rpm": {"capacity": rpm}}}}}
        for plan, rpm in {**PLANS, "gold": gold}.items()
    }
    return LimitsManifest.from_dict({"namespace": "tenant-tree", "plans": plans, "entities": entities})


def _requests() -> Iterator[tuple[str, Request]]:
    yield "plan", Request.of("plan", tree())
    yield "first apply", Request.of("apply", tree())
    yield "change of a plan", Request.of("apply", tree(gold=2_000))
    yield "move of a parent with 25 children", Request.of("apply", tree(gold=2_000, moved=True))
    yield "way back", Request.of("apply", tree())
    yield "export", Request("export", "tenant-tree")


def _rows(what: str, taken: list[Invocation]) -> list[Row]:
    counts = [(name, count) for each in taken for name, count in each.requests.items()]
    reads = sum(count for name, count in counts if name in READS)
    writes = sum(count for name, count in counts if name not in READS)
    rows = [
        Row(what, sum(each.seconds for each in taken), "s"),
        Row(f"{what}: requests that read", reads),
        Row(f"{what}: requests that write", writes),
    ]
    if not writes:
        return rows
    return [
        *rows,
        Row(f"{what}: units written", sum(each.units for each in taken)),
        Row(f"{what}: its requests, one after the other, 5 ms each", (reads + writes) * SECONDS_OF_DYNAMODB, "s"),
    ]


def _create_table_with_stream(url: str) -> None:
    client = boto3.client("dynamodb", endpoint_url=url, region_name=REGION)
    client.create_table(**create_table_request(TABLE))
    client.close()
    SyncRepository.over(SyncDynamoDBStore(TABLE, endpoint_url=url, region=REGION), Options(stack=TABLE)).close()
