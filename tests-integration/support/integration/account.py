"""What lives here: a run on a real account: what it will cost, what it has left behind, and a report to paste.
What never does: a test, or the making of a stack (stacks).
"""

import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from .names import run_prefix

REGION: Final = "us-east-1"  # which many tests name
REPORT: Final = Path("aws-report.md")

# Of a whole run on a data plane that counts, rounded up; the prices are those of us-east-1.
WRITES, READS, CALLS = 500_000, 500_000, 10_000
WRITE_USD, READ_USD, CALL_USD = 0.625e-6, 0.125e-6, 0.2e-6 + 1.0 * 0.25 * 16.7e-6  # a call of a second with 256 MB
OTHERS_USD: Final = 0.25  # alarms, logs, objects of S3, messages of SQS


def estimate_usd(stacks: int) -> float:
    """What a whole run costs at most, each of whose processes has a stack of its own."""
    return WRITES * WRITE_USD + READS * READ_USD + CALLS * CALL_USD + stacks * OTHERS_USD


def question(stacks: int) -> str:
    """What a run will do, for who pays it. Raises ``ValueError`` where no account is there."""
    try:
        with closing(boto3.client("sts")) as client:
            account = client.get_caller_identity()["Account"]
    except (BotoCoreError, ClientError) as error:
        raise ValueError(f"--aws needs credentials of an account: {error}") from error
    return (
        f"The tests will run on the AWS account {account} in {REGION}.\n"
        f"They make {stacks} stack(s) and their own tables, functions and roles, all named {run_prefix()}-…,\n"
        f"and delete them in the end. A whole run costs about {estimate_usd(stacks):.2f} USD at most."
    )


def use() -> None:
    """Let this process, and those that it starts, use one region."""
    os.environ.update(AWS_REGION=REGION, AWS_DEFAULT_REGION=REGION)


def left_by(prefix: str) -> list[str]:
    """What a run has left and is deleted now, or why that is not known."""
    try:
        return sweep(prefix)
    except (BotoCoreError, ClientError) as error:
        return [f"look for {prefix} yourself, for this failed: {error}"]


def sweep(prefix: str) -> list[str]:
    """Delete what has names with the prefix; what that was."""
    return [
        f"{kind} {name}" for kind, name in [*_stacks(prefix), *_tables(prefix), *_functions(prefix), *_roles(prefix)]
    ]


def _stacks(prefix: str) -> Iterator[tuple[str, str]]:
    with closing(boto3.client("cloudformation")) as client:
        for stack in _all(client, "describe_stacks", "Stacks"):
            if stack["StackName"].startswith(prefix):
                client.delete_stack(StackName=stack["StackName"])
                client.get_waiter("stack_delete_complete").wait(StackName=stack["StackName"])
                yield "stack", stack["StackName"]


def _tables(prefix: str) -> Iterator[tuple[str, str]]:
    with closing(boto3.client("dynamodb")) as client:
        for name in _all(client, "list_tables", "TableNames"):
            if name.startswith(prefix):
                client.delete_table(TableName=name)
                yield "table", name


def _functions(prefix: str) -> Iterator[tuple[str, str]]:
    with closing(boto3.client("lambda")) as client:
        for function in _all(client, "list_functions", "Functions"):
            if function["FunctionName"].startswith(prefix):
                client.delete_function(FunctionName=function["FunctionName"])
                yield "function", function["FunctionName"]


def _roles(prefix: str) -> Iterator[tuple[str, str]]:
    with closing(boto3.client("iam")) as client:
        for role in _all(client, "list_roles", "Roles"):
            name = role["RoleName"]
            if name.startswith(prefix):
                for policy in client.list_role_policies(RoleName=name)["PolicyNames"]:
                    client.delete_role_policy(RoleName=name, PolicyName=policy)
                client.delete_role(RoleName=name)
                yield "role", name


def _all(client: Any, operation: str, key: str) -> list[Any]:
    return [each for page in client.get_paginator(operation).paginate() for each in page[key]]


def report(outcome: Sequence[str], failures: Sequence[str], left: Sequence[str], seconds: float) -> str:
    """What a run has shown, without the number of the account."""
    packages = ("core", "manifest", "provisioner", "aggregator", "cli")
    versions = ", ".join(f"{name} {version(f'zae-limiter-{name}')}" for name in packages)
    text = [
        "# zae-limiter on AWS",
        "",
        f"- {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}, {REGION}, {seconds:.0f} s",
        f"- {versions}; Python {platform.python_version()}, {platform.system()}",
        f"- left by the tests and deleted afterwards: {', '.join(left) or 'nothing'}",
        "",
        "```",
        *outcome,
        *(f"failed: {each}" for each in failures),
        "```",
        "",
    ]
    return "\n".join(text)


if __name__ == "__main__":  # the last will of a run that was killed
    use()
    sweep(sys.argv[1])
