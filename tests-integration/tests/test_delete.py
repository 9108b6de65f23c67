"""What lives here: what an account has before `deploy` and after `delete`, in the embedded AWS.
What never does: what `delete` asks and says (the CLI's own tests).
"""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from support.integration.embedded import COMMAND, NAME, Embedded, local_stack

OTHER = "a-second-stack"
# Of each service: how its things are listed, under which word, and what tells one from another.
LISTS: dict[str, tuple[str, Callable[[Any], Any], str, str]] = {
    "stacks": ("cloudformation", lambda client: client.describe_stacks(), "Stacks", "StackId"),
    "tables": ("dynamodb", lambda client: client.list_tables(), "TableNames", ""),
    "functions": ("lambda", lambda client: client.list_functions(), "Functions", "FunctionArn"),
    "mappings": ("lambda", lambda client: client.list_event_source_mappings(), "EventSourceMappings", "UUID"),
    "roles": ("iam", lambda client: client.list_roles(), "Roles", "Arn"),
    "policies": ("iam", lambda client: client.list_policies(Scope="Local"), "Policies", "Arn"),
    "logs": ("logs", lambda client: client.describe_log_groups(), "logGroups", "logGroupName"),
    "queues": ("sqs", lambda client: client.list_queues(), "QueueUrls", ""),
    "buckets": ("s3", lambda client: client.list_buckets(), "Buckets", "Name"),
    "alarms": ("cloudwatch", lambda client: client.describe_alarms(), "MetricAlarms", "AlarmArn"),
}


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Embedded]:
    with local_stack(tmp_path) as stack:
        yield stack


def everything(stack: Embedded) -> dict[str, list[str]]:
    """What the account has, by kind."""
    return {kind: sorted(_listed(stack, *how)) for kind, how in LISTS.items()}


def _listed(stack: Embedded, service: str, listed: Callable[[Any], Any], word: str, name: str) -> list[str]:
    with closing(stack.client(service)) as client:
        return [str(each[name] if name else each) for each in listed(client).get(word, ())]


def zael(stack: Embedded, *words: str) -> None:
    environment = {**os.environ, **stack.environment}
    subprocess.run([COMMAND, *words], env=environment, check=True, capture_output=True, timeout=120)


@pytest.mark.long
def test_delete_leaves_nothing_behind_and_takes_nothing_of_another_stack(stack: Embedded) -> None:
    before = everything(stack)
    zael(stack, "deploy", "--yes", "--name", OTHER, "--app-roles")
    made = everything(stack)
    assert [kind for kind in LISTS if len(made[kind]) <= len(before[kind])] == ["alarms"]  # moto makes none
    (bucket,) = {*made["buckets"]} - {*before["buckets"]}
    with closing(stack.client("s3")) as client:
        client.put_object(Bucket=bucket, Key="audit/one", Body=b"1")
    zael(stack, "delete", "--name", OTHER, "--yes")
    assert everything(stack) == before
    zael(stack, "delete", "--name", NAME, "--yes")
    assert everything(stack) == {kind: [] for kind in LISTS}
