"""What lives here: functions of the tests' own on a target, and what they have seen of a stream.
What never does: a claim.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from support.cli.account import eventually, zipped

from .names import own_name, run_prefix
from .targets import Target

Record = dict[str, Any]

TRUST = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "lambda.amazonaws.com"}}

# It keeps each batch as an item of a table, which every target has.
WITNESS = """
import boto3, json, os

items = boto3.client("dynamodb")

def handler(event, context):
    first = event["Records"][0]["dynamodb"]["SequenceNumber"]
    batch = {"PK": {"S": f"{first} {context.aws_request_id}"}, "records": {"S": json.dumps(event["Records"])}}
    items.put_item(TableName=os.environ["WITNESS_TABLE"], Item=batch)
    return {"batchItemFailures": []}
"""


@dataclass(frozen=True, slots=True)
class Workshop:
    """Makes functions on a target, which end with the block that it was made for."""

    target: Target
    open: ExitStack

    def client(self, service: str) -> Any:
        """A client of a service there."""
        client = self.target.client(service)
        self.open.callback(client.close)
        return client

    def function(self, source: str, *, timeout: int = 10, **variables: str) -> str:
        """The name of a function whose module is ``source``, and whose handler is ``handler``."""
        name, functions = own_name(), self.client("lambda")
        settings = {
            "FunctionName": name,
            "Role": self._role(name),
            "Runtime": "python3.13",
            "Handler": "index.handler",
            "Code": {"ZipFile": zipped(source)},
            "Timeout": timeout,
            "Environment": {"Variables": variables},
        }
        eventually(lambda: _created(functions, settings))
        self.open.callback(functions.delete_function, FunctionName=name)
        functions.get_waiter("function_active_v2").wait(FunctionName=name)
        return name

    def invoke(self, name: str, event: object) -> tuple[str | None, Any]:
        """The kind of error, if any, and the answer."""
        answer = self.client("lambda").invoke(FunctionName=name, Payload=json.dumps(event).encode())
        return answer.get("FunctionError"), json.loads(answer["Payload"].read())

    @contextmanager
    def witness(self, table: str, keeps: str) -> Iterator[Callable[[], list[Record]]]:
        """What a function has got of a table's stream so far, which keeps it in a table named ``keeps``."""
        items, functions = self.client("dynamodb"), self.client("lambda")
        key = {"AttributeName": "PK", "AttributeType": "S"}
        schema = [{"AttributeName": "PK", "KeyType": "HASH"}]
        items.create_table(TableName=keeps, BillingMode="PAY_PER_REQUEST", AttributeDefinitions=[key], KeySchema=schema)
        items.get_waiter("table_exists").wait(TableName=keeps)
        stream = items.describe_table(TableName=table)["Table"]["LatestStreamArn"]
        mapping = functions.create_event_source_mapping(
            EventSourceArn=stream,
            FunctionName=self.function(WITNESS, WITNESS_TABLE=keeps),
            StartingPosition="TRIM_HORIZON",
            BatchSize=100,
        )["UUID"]
        eventually(lambda: functions.get_event_source_mapping(UUID=mapping)["State"] == "Enabled")
        try:
            yield lambda: _records(items, keeps)
        finally:
            functions.delete_event_source_mapping(UUID=mapping)

    def _role(self, name: str) -> str:
        """A role that may read the streams of this run's tables, and write to them."""
        roles = self.client("iam")
        arn: str = roles.create_role(RoleName=name, AssumeRolePolicyDocument=_policy(TRUST))["Role"]["Arn"]
        self.open.callback(roles.delete_role, RoleName=name)
        tables = f"arn:aws:dynamodb:*:*:table/{run_prefix()}-*"
        allowed = {"Effect": "Allow", "Action": "dynamodb:*", "Resource": tables}
        roles.put_role_policy(RoleName=name, PolicyName=name, PolicyDocument=_policy(allowed))
        self.open.callback(roles.delete_role_policy, RoleName=name, PolicyName=name)
        return arn


def _policy(statement: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def _created(functions: Any, settings: dict[str, Any]) -> bool:
    """Whether there is a function now: on AWS a new role is not there for Lambda in its first seconds."""
    try:
        functions.create_function(**settings)
    except functions.exceptions.InvalidParameterValueException as error:
        if "cannot be assumed" not in str(error):
            raise
        return False
    return True


def _records(items: Any, table: str) -> list[Record]:
    pages = items.get_paginator("scan").paginate(TableName=table, ConsistentRead=True)
    batches = [json.loads(item["records"]["S"]) for page in pages for item in page["Items"]]
    return sorted((record for batch in batches for record in batch), key=_place)


def _place(record: Record) -> int:
    return int(record["dynamodb"]["SequenceNumber"])
