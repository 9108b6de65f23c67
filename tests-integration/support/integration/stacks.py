"""What lives here: targets that have a stack with Lambdas in it: the local one, LocalStack, a real account.
What never does: how a stack is made (the CLI), or where LocalStack comes from (localstack).
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import boto3

from .embedded import local_stack
from .last_will import afterwards
from .localstack import localstack
from .localstack.health import CUSTOM_RESOURCES, start_scripts
from .names import own_name

COMMAND: Final = Path(sys.executable).with_name("zae-limiter")
DEPLOY_SECONDS: Final = 900


@dataclass(frozen=True, slots=True)
class Place:
    """Where a target answers; ``stack`` is what `deploy` has made there.

    ``services_url`` is for clients of all services; ``None`` leaves it to the SDK. ``lacks`` has the reasons why this
    very place cannot do what its kind can.
    """

    endpoint_url: str
    stack: str
    services_url: str | None
    lacks: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def embedded() -> Iterator[Place]:
    """`zae-limiter local up`, on moto alone, which is there wherever the tests are."""
    with tempfile.TemporaryDirectory() as directory, local_stack(Path(directory)) as stack:
        yield Place(stack.endpoint_url, stack.name, stack.endpoint_url)


@contextmanager
def in_localstack() -> Iterator[Place]:
    """LocalStack with the stack that `zae-limiter deploy` makes of the real template, deleted in the end."""
    with localstack() as url:
        scripted = CUSTOM_RESOURCES in start_scripts(url)
        reason = f"LocalStack at {url} calls no Lambdas of custom resources: it has not run start.d/{CUSTOM_RESOURCES}"
        with _deployed("--endpoint-url", url, "--region", "us-east-1") as name:
            yield Place(url, name, url, {} if scripted else {"custom-resource": reason})


@contextmanager
def aws() -> Iterator[Place]:
    """A stack in the account that the environment names, deleted in the end."""
    client = boto3.client("dynamodb")
    endpoint_url: str = client.meta.endpoint_url
    client.close()
    with _deployed() as name:
        yield Place(endpoint_url, name, None)


@contextmanager
def _deployed(*place: str) -> Iterator[str]:
    """The name of a stack that is there for the block; it is deleted even where this process is killed in it."""
    name = own_name()
    delete = ["delete", "-n", name, "--yes", *place]
    with afterwards([str(COMMAND), *delete]) as last_will:
        _cli("deploy", "--yes", "-n", name, *place)
        yield name
        _cli(*delete)
        last_will.terminate()


def drop(client: Any, table: str) -> None:
    """Delete a table, where it is there."""
    with suppress(client.exceptions.ResourceNotFoundException):
        client.delete_table(TableName=table)


def _cli(*words: str) -> None:
    """Run our command; ``RuntimeError`` where it fails, for then it is what is tested that fails."""
    command = [str(COMMAND), *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=DEPLOY_SECONDS)
    if done.returncode != 0:
        raise RuntimeError(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
