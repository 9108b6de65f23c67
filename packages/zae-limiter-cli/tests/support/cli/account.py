"""What lives here: an AWS of the tests' own process, and what they put into it.
What never does: a claim.
"""

import json
import time
import uuid
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from zae_limiter_cli.local.aws import Aws

TIMEOUT_SECONDS: Final = 120


def zipped(source: str) -> bytes:
    """The code of a Lambda: one module, `index`."""
    content = BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("index.py", source)
    return content.getvalue()


@dataclass(frozen=True, slots=True)
class Account:
    """What tests do in the AWS of this process."""

    aws: Aws
    clients: dict[str, Any] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        """One client for all that is asked of a service."""
        if service not in self.clients:
            self.clients[service] = self.aws.connection("any").client(service)
        return self.clients[service]

    def close(self) -> None:
        """Close all clients."""
        for client in self.clients.values():
            client.close()

    def function(self, source: str, *, name: str = "", **configuration: Any) -> str:
        """A new function with this handler; its name."""
        name = name or f"function-{uuid.uuid4().hex[:8]}"
        trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "lambda.amazonaws.com"}}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
        role = self.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=policy)["Role"]["Arn"]
        self.client("lambda").create_function(
            FunctionName=name,
            Role=role,
            Runtime="python3.13",
            Handler="index.handler",
            Code={"ZipFile": zipped(source)},
            **configuration,
        )
        return name

    def update(self, table: str, key: str, **more: Any) -> None:
        """Add one to an item, which is made where it is missing."""
        self.client("dynamodb").update_item(**addition(table, key), **more)

    def table(self) -> tuple[str, str]:
        """A new table; its name, and the ARN of its stream."""
        name = f"table-{uuid.uuid4().hex[:8]}"
        made = self.client("dynamodb").create_table(
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "PK", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "PK", "AttributeType": "S"}],
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
        )
        return name, made["TableDescription"]["LatestStreamArn"]

    def mapping(self, stream: str, function: str, **configuration: Any) -> str:
        """A new event source mapping; its id."""
        found = self.client("lambda").create_event_source_mapping(
            EventSourceArn=stream, FunctionName=function, StartingPosition="TRIM_HORIZON", **configuration
        )
        self.aws.pump.look()
        uuid: str = found["UUID"]
        return uuid

    def tally(self, table: str) -> dict[str, Any]:
        """What the reader of a table's stream has done."""
        return next(each for each in self.aws.pump.tallies() if each["table"] == table)


def at_once(*works: Callable[[], None]) -> None:
    """Do all of it, each in a thread; what one of them raises is raised."""
    with ThreadPoolExecutor(len(works)) as threads:
        for done in [threads.submit(work) for work in works]:
            done.result()


def addition(table: str, key: str) -> dict[str, Any]:
    """The update that adds one to an item."""
    return {
        "TableName": table,
        "Key": {"PK": {"S": key}},
        "UpdateExpression": "ADD n :one",
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }


@dataclass(frozen=True, slots=True)
class Witness:
    """A function that writes down what it gets: each batch as a line. It fails a batch with a key of ``bad``."""

    path: Path

    def source(self, *, bad: Sequence[str] = (), partial: bool = False) -> str:
        """Its handler; with ``partial`` it names the records that failed."""
        return f"""
import json

def handler(event, context):
    records = event["Records"]
    with open({str(self.path)!r}, "a") as file:
        file.write(json.dumps(records) + "\\n")
    bad = [r["dynamodb"]["SequenceNumber"] for r in records if r["dynamodb"]["Keys"]["PK"]["S"] in {list(bad)!r}]
    if bad and not {partial!r}:
        raise ValueError("bad records")
    return {{"batchItemFailures": [{{"itemIdentifier": number}} for number in bad]}}
"""

    def batches(self) -> list[list[dict[str, Any]]]:
        """What it got so far."""
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def records(self) -> list[dict[str, Any]]:
        """The same without the batches."""
        return [record for batch in self.batches() for record in batch]

    def seen(self) -> list[str]:
        """The keys of the items."""
        return [record["dynamodb"]["Keys"]["PK"]["S"] for record in self.records()]


def eventually(holds: Callable[[], bool]) -> bool:
    """Whether something comes to hold before the time-out."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.05)
    return False
