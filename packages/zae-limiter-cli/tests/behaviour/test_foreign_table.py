"""The table of another product that is called zae-limiter: each command says so, and writes nothing."""

from collections.abc import Sequence
from typing import Any

import boto3
import pytest
from click.testing import CliRunner

from support.core.namesake import FOREIGN, TOLD
from zae_limiter import SyncRepository
from zae_limiter.maintenance import create_table_request
from zae_limiter_cli.main import main

NAME = ("--name", "my-app")
COMMANDS = [
    ("namespace", "list"),
    ("namespace", "register", "ours"),
    ("namespace", "list", "prod"),
    ("namespace", "list", "--deleted"),
    ("deploy", "--yes", "-q"),
    ("deploy", "--dry-run"),
    ("usage", "list", "--entity", "key-1"),
    ("usage", "top", "-N", "prod"),
    ("usage", "cost"),
    ("resource", "set-defaults", "gpt-4", "-l", "rpm:50/min"),
    ("why", "key-1", "-r", "gpt-4"),
    ("status",),
    ("doctor",),
]


@pytest.fixture
def client(aws: str) -> Any:
    client = boto3.client("dynamodb")
    client.create_table(**create_table_request("my-app"))
    client.put_item(TableName="my-app", Item={name: {"S": value} for name, value in FOREIGN.items()})
    return client


@pytest.mark.long(keep=3)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_says_whose_table_it_is_and_changes_nothing(client: Any, command: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, [*command, *NAME])
    assert done.exit_code not in (0, 2), done.output
    told = " ".join((done.stdout + done.stderr).split())
    assert TOLD in told
    assert "run: zae-limiter deploy" not in told
    _is_as_it_was(client)
    assert boto3.client("cloudformation").describe_stacks()["Stacks"] == []


@pytest.mark.parametrize("places", [("--from", "my-app", "--to", "{file}"), ("--from", "{file}", "--to", "my-app")])
def test_a_copy_reads_and_writes_no_table_of_another_product(client: Any, places: Sequence[str], tmp_path: Any) -> None:
    SyncRepository.sqlite(tmp_path / "limits.db").close()
    done = CliRunner().invoke(
        main, ["copy", "-y", *(each.format(file=f"sqlite:///{tmp_path}/limits.db") for each in places)]
    )
    assert done.exit_code == 1
    assert "the table of another product named zae-limiter" in done.stderr
    _is_as_it_was(client)


def _is_as_it_was(client: Any) -> None:
    assert client.scan(TableName="my-app")["Count"] == 1
    assert client.describe_time_to_live(TableName="my-app")["TimeToLiveDescription"] == {"TimeToLiveStatus": "DISABLED"}
