"""What lives here: one use of each part of a deployed stack, as an operator has it: limits, usage, dead letters.
What never does: every way of a Lambda (test_lambdas), or of a stack of limits (test_limits_template).
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from support.cli.account import eventually
from support.integration.names import own_name
from support.integration.stacks import COMMAND
from support.integration.targets import Target
from zae_limiter import Limit, SyncRateLimiter, SyncRepository
from zae_limiter.schema.items import BucketId

pytestmark = pytest.mark.needs("lambda")

MANIFEST = """
namespace: {namespace}
resources:
  gpt-4:
    limits:
      rpm: {{capacity: 20}}
"""


@pytest.fixture
def repository(target: Target) -> Iterator[SyncRepository]:
    """A namespace of its own."""
    with SyncRepository.open(
        own_name(), stack=target.stack, endpoint_url=target.endpoint_url, read_timeout=30
    ) as repository:
        yield repository


def zael(target: Target, *words: str) -> str:
    """What a command says of the target's stack."""
    place = ["--endpoint-url", target.services_url, "--region", "us-east-1"] if target.services_url else []
    command = [str(COMMAND), *words, "--name", str(target.stack), *place]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_deploy_makes_a_stack_whose_parts_are_all_well(target: Target) -> None:
    *parts, _advice = zael(target, "status").splitlines()
    rows = [row.split() for row in parts]
    assert {part for how, part, *_ in rows if how != "ok"} <= {"alarms"}  # which this AWS may not have
    assert {"stack", "table", "stream", "dead"} <= {part for _, part, *_ in rows}


def test_limits_that_the_provisioner_applies_are_obeyed(
    target: Target, repository: SyncRepository, tmp_path: Path
) -> None:
    file = tmp_path / "limits.yaml"
    file.write_text(MANIFEST.format(namespace=repository.name), encoding="utf-8")
    assert "Applied: 1 created" in zael(target, "limits", "apply", "--yes", "-f", str(file))
    assert SyncRateLimiter(repository).available("key", "gpt-4") == {"rpm": 20}


def test_usage_comes_through_the_stream(repository: SyncRepository) -> None:
    repository.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 100)])
    limiter = SyncRateLimiter(repository)
    for entity in ("a", "b", "b"):
        with limiter.acquire(entity, "gpt-4", {"rpm": 2}):
            pass

    def counted() -> dict[str, int]:
        return {each.limit_name: each.total for each in repository.get_usage_summary(resource="gpt-4").limits}

    assert eventually(lambda: counted() == {"rpm": 6})


def test_a_record_that_nobody_can_read_becomes_a_dead_letter(target: Target, repository: SyncRepository) -> None:
    key = {"PK": BucketId(repository.namespace_id, "bad", "gpt-4").pk, "SK": "#STATE"}
    with closing(target.client("dynamodb")) as client:
        client.put_item(TableName=target.stack, Item={name: {"S": value} for name, value in {**key, "rf": "x"}.items()})
    with closing(target.client("cloudformation")) as client:
        (stack,) = client.describe_stacks(StackName=target.stack)["Stacks"]
    queue = {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}["DeadLettersUrl"]
    with closing(target.client("sqs")) as client:
        letters: list[dict[str, object]] = []

        def came() -> bool:
            for message in client.receive_message(QueueUrl=queue, WaitTimeSeconds=1).get("Messages", []):
                letters.append(json.loads(message["Body"]))
                client.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
            return any(letter.get("key") == key for letter in letters)

        assert eventually(came)
