"""What lives here: a deployed stack with its Lambdas at work, as plain clients of AWS see it.
What never does: what the Lambdas decide (their own tests), or how a local stack is handled (test_local).
"""

import asyncio
import re
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import cycle, islice
from typing import Any

import pytest

from support.cli.account import eventually
from support.integration.functions import Record, Workshop
from support.integration.targets import Target
from zae_limiter import Limit, RateLimiter, Repository, SyncRateLimiter, SyncRepository
from zae_limiter.engines.dynamodb.marshal import write_item
from zae_limiter.schema.attributes import bucket_attributes
from zae_limiter.schema.items import BucketId
from zae_limiter_manifest import Answer

pytestmark = pytest.mark.needs("lambda")

ENTITIES = [f"key-{number}" for number in range(10)]
MILLI = 1000
PATIENT: dict[str, Any] = {
    "connect_timeout": 30,
    "read_timeout": 30,
    "acquire_timeout": None,
}  # a busy machine is not what this is about


@pytest.fixture
def workshop(target: Target) -> Iterator[Workshop]:
    with ExitStack() as stack:
        yield Workshop(target, stack)


@pytest.fixture
def namespace() -> str:
    return f"tests-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def repository(target: Target, namespace: str) -> Iterator[SyncRepository]:
    with SyncRepository.open(namespace, stack=target.stack, endpoint_url=target.endpoint_url, **PATIENT) as repository:
        yield repository


def test_the_provisioner_applies_a_manifest_that_a_plain_client_sends(
    workshop: Workshop, target: Target, repository: SyncRepository
) -> None:
    manifest = {"namespace": repository.name, "resources": {"gpt-4": {"limits": {"rpm": {"capacity": 20}}}}}
    event = {"action": "apply", "manifest": manifest}
    failed, answer = workshop.invoke(f"{target.stack}-limits-provisioner", event)
    assert (failed, answer["status"], len(answer["changes"])) == (None, "applied", 1)
    assert repository.get_resource_defaults("gpt-4") == [Limit.per_minute("rpm", 20)]
    _, again = workshop.invoke(f"{target.stack}-limits-provisioner", event)
    assert (again["status"], again["changes"]) == ("applied", [])


def test_a_request_that_the_provisioner_cannot_do_is_its_answer_and_no_error_of_lambda(
    workshop: Workshop, target: Target
) -> None:
    failed, answer = workshop.invoke(f"{target.stack}-limits-provisioner", {"action": "nothing"})
    assert (failed, answer["status"]) == (None, "failed")
    assert "nothing" in answer["errors"][0]["message"]


def test_the_planner_plans_what_the_provisioner_applies_and_changes_nothing_itself(
    workshop: Workshop, target: Target, repository: SyncRepository
) -> None:
    planner, provisioner = (f"{target.stack}-limits-{name}" for name in ("planner", "provisioner"))
    manifest = {"namespace": repository.name, "resources": {"gpt-4": {"limits": {"rpm": {"capacity": 20}}}}}
    _, refused = workshop.invoke(planner, {"action": "apply", "manifest": manifest})
    assert [error["code"] for error in refused["errors"]] == ["read_only"]
    _, planned = workshop.invoke(planner, {"action": "plan", "manifest": manifest})
    assert workshop.invoke(provisioner, {"action": "plan", "manifest": manifest}) == (None, planned)
    assert repository.get_resource_defaults("gpt-4") == []
    plan = Answer.from_dict(planned).plan
    assert plan
    exactly = {"expected_serial": plan.serial, "expected_plan": plan.changes_hash()}
    _, applied = workshop.invoke(provisioner, {"action": "apply", "manifest": manifest, **exactly})
    assert (applied["status"], applied["changes"]) == ("applied", planned["changes"])
    _, drift = workshop.invoke(planner, {"action": "diff", "manifest": manifest})
    assert drift["changes"] == []


@pytest.mark.needs("endpoint")
@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("raise ValueError('no')", "ValueError", "no"),
        ("sys.exit(3)", "Runtime.ExitError", r"RequestId: \S+ Error: Runtime exited with error: exit status 3"),
        ("time.sleep(60)", "Sandbox.Timedout", r"RequestId: \S+ Error: Task timed out after 1.00 seconds"),
    ],
    ids=["raises", "exits", "overruns"],
)
def test_a_handler_that_fails_gives_what_lambda_gives(workshop: Workshop, body: str, kind: str, message: str) -> None:
    seconds = 1 if kind == "Sandbox.Timedout" else 60
    name = workshop.function(f"import sys, time\ndef handler(event, context):\n    {body}", timeout=seconds)
    failed, answer = workshop.invoke(name, {})
    assert (failed, answer["errorType"]) == ("Unhandled", kind)
    assert re.fullmatch(message, answer["errorMessage"])


@pytest.mark.needs("streams")
async def test_all_acquires_reach_the_stream_s_functions_each_once_and_in_order(
    workshop: Workshop, target: Target, repository: SyncRepository, table_name: str
) -> None:
    repository.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 100_000)])
    assert target.stack is not None
    wanted = target.quirks.streamed
    with workshop.witness(target.stack, table_name) as seen:
        in_turn = wanted * 3 // 10
        await take_together(target, repository.name, wanted - in_turn)
        take_in_turn(repository, in_turn)

        def records() -> list[Record]:
            return [record for record in seen() if is_bucket_of(record, repository.namespace_id)]

        assert eventually(lambda: sum(map(consumed, records())) >= wanted * MILLI)
        found = records()
    numbers = [record["dynamodb"]["SequenceNumber"] for record in found]
    assert (sum(map(consumed, found)), len(set(numbers))) == (wanted * MILLI, len(numbers))
    for changes in by_item(found).values():
        assert [tc(change, "OldImage") for change in changes] == [0, *(tc(each, "NewImage") for each in changes[:-1])]

    # The aggregator has read the same records.
    assert eventually(lambda: counted(repository) == {"rpm": wanted})


@pytest.mark.needs("endpoint")
def test_the_deployed_aggregator_passes_a_busy_window_s_usage_on_in_its_state(
    workshop: Workshop, target: Target, repository: SyncRepository
) -> None:
    """Events as a mapping with a tumbling window sends them: the stream of a local stack has none."""
    no_bucket = {"Keys": write_item({"PK": f"{repository.namespace_id}/ENTITY#a", "SK": "#META"})}
    others = [{"eventName": "MODIFY", "dynamodb": {**no_bucket, "SequenceNumber": str(each)}} for each in range(95)]
    records = [*others, *(first_use(repository.namespace_id, number) for number in range(5))]
    event = {"window": {"start": "2026-03-02T08:14:00Z", "end": "2026-03-02T08:14:30Z"}, "shardId": "shardId-1"}
    flags = {"isFinalInvokeForWindow": False, "isWindowTerminatedEarly": False}
    aggregator = f"{target.stack}-aggregator"
    failed, held = workshop.invoke(aggregator, {**event, **flags, "Records": records, "state": {}})
    assert (failed, held["batchItemFailures"], list(held["state"])) == (None, [], ["uses"]), held
    assert counted(repository) == {}
    end = {**event, **flags, "isFinalInvokeForWindow": True, "Records": [], "state": held["state"]}
    for _ in range(2):  # as it comes again if the answer was lost; a failed one is repeated, too
        assert eventually(lambda: workshop.invoke(aggregator, end) == (None, {"batchItemFailures": [], "state": {}}))
    assert counted(repository) == {"rpm": 5}


def first_use(namespace_id: str, number: int) -> Record:
    """The record of a new bucket of which one token was taken."""
    at = int(time.time())
    bucket = BucketId(namespace_id, f"busy-{number:03}", "gpt-4")
    image = {
        **bucket.attributes(),
        "rf": at * 1000,
        "shard_count": 1,
        "ev": 1,
        bucket_attributes("rpm").consumed: MILLI,
    }
    return {
        "eventName": "INSERT",
        "eventSourceARN": "arn:aws:dynamodb:us-east-1:123456789012:table/demo/stream/2026-03-02T08:00:00.000",
        "dynamodb": {
            "ApproximateCreationDateTime": at,
            "Keys": write_item({name: image[name] for name in ("PK", "SK")}),
            "NewImage": write_item(image),
            "SequenceNumber": str(10**23 + number),
        },
    }


async def take_together(target: Target, namespace: str, times: int) -> None:
    """By one process that has many calls at once, of which some share a write."""
    opened = await Repository.open(namespace, stack=target.stack, endpoint_url=target.endpoint_url, **PATIENT)
    async with RateLimiter(repository=opened) as limiter:

        async def take(entity: str) -> None:
            async with limiter.acquire(entity, "gpt-4", {"rpm": 1}):
                pass

        callers = islice(cycle(ENTITIES), times)
        while at_once := list(islice(callers, 50)):
            await asyncio.gather(*map(take, at_once))


def take_in_turn(repository: SyncRepository, times: int) -> None:
    """One after the other."""
    limiter = SyncRateLimiter(repository=repository)
    for entity in islice(cycle(ENTITIES), times):
        with limiter.acquire(entity, "gpt-4", {"rpm": 1}):
            pass


def counted(repository: SyncRepository) -> dict[str, int]:
    return {limit.limit_name: limit.total for limit in repository.get_usage_summary(resource="gpt-4").limits}


def is_bucket_of(record: Record, namespace_id: str) -> bool:
    keys = record["dynamodb"]["Keys"]
    return bool(keys["SK"]["S"] == "#STATE" and keys["PK"]["S"].startswith(f"{namespace_id}/"))


def tc(record: Record, image: str) -> int:
    return int(record["dynamodb"].get(image, {}).get(bucket_attributes("rpm").consumed, {"N": "0"})["N"])


def consumed(record: Record) -> int:
    return tc(record, "NewImage") - tc(record, "OldImage")


def by_item(records: list[Record]) -> dict[str, list[Record]]:
    found: defaultdict[str, list[Record]] = defaultdict(list)
    for record in records:
        found[record["dynamodb"]["Keys"]["PK"]["S"]].append(record)
    return found
