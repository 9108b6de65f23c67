"""What lives here: the calls of AWS that code makes, and what IAM would say to them.
What never does: an expectation.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.client import BaseClient

from support.cli.iam import Request, is_allowed
from zae_limiter.engines.dynamodb.render import render
from zae_limiter.engines.memory.store import SyncMemoryStore
from zae_limiter.operations.values import Operation
from zae_limiter.stores import SyncStore

TRANSACTED = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem"}


@dataclass(frozen=True, slots=True)
class Call:
    """One thing that IAM decides about: ``keys`` are the partition keys that a call of DynamoDB names.

    ``via`` is the service that makes a call of KMS in the caller's name, ``source`` that of an event of EventBridge.
    """

    action: str
    resource: str
    keys: tuple[str, ...] = ()
    via: str = ""
    source: str = ""


@contextmanager
def recorded() -> Iterator[list[Call]]:
    """The calls that clients of boto3 make meanwhile, core's too: it sends them through the SDK."""
    calls: list[Call] = []
    send = BaseClient._make_api_call

    def record(client: Any, operation: str, request: Mapping[str, Any]) -> Any:
        calls.extend(calls_of(client.meta.service_model.service_name, operation, request))
        return send(client, operation, request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseClient, "_make_api_call", record)
        patch.setenv("ZAEL_TRANSPORT", "sdk")
        yield calls


@contextmanager
def answering(operation: str, answer: Callable[[], Any]) -> Iterator[None]:
    """Have clients get another answer to an operation."""
    send = BaseClient._make_api_call

    def ask(client: Any, name: str, request: Any) -> Any:
        return answer() if name == operation else send(client, name, request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseClient, "_make_api_call", ask)
        yield


def calls_of(service: str, operation: str, request: Mapping[str, Any]) -> list[Call]:
    """What IAM decides about for one request: each part of a transaction or a batch on its own."""
    if service == "sqs":
        return [Call(f"sqs:{operation}", request["QueueUrl"].rpartition("/")[2])]
    if service == "events":
        return [Call(f"events:{operation}", each["EventBusName"], source=each["Source"]) for each in request["Entries"]]
    if service == "s3":
        return [Call(f"s3:{operation}", f"{request['Bucket']}/{request['Key']}")]
    if operation == "TransactWriteItems":
        parts = [(kind, part) for item in request["TransactItems"] for kind, part in item.items()]
        return [_item(TRANSACTED[kind], part) for kind, part in parts]
    if operation in {"BatchGetItem", "BatchWriteItem"}:
        return [_batch(operation, table, asked) for table, asked in request["RequestItems"].items()]
    return [_item(operation, request)]


def _item(operation: str, request: Mapping[str, Any]) -> Call:
    index = request.get("IndexName")
    resource = f"{request['TableName']}/index/{index}" if index else request["TableName"]
    if operation == "Query":
        values = request["ExpressionAttributeValues"]
        return Call("dynamodb:Query", resource, (_partition(request["KeyConditionExpression"], values),))
    if operation == "Scan":
        return Call("dynamodb:Scan", resource, ())
    item = request.get("Key") or request["Item"]
    return Call(f"dynamodb:{operation}", resource, (item["PK"]["S"],))


def _partition(condition: str, values: Mapping[str, Any]) -> str:
    placeholder = condition.split(" AND ", maxsplit=1)[0].split("=")[1].strip()
    value: str = values[placeholder]["S"]
    return value


def _batch(operation: str, table: str, asked: Any) -> Call:
    if operation == "BatchGetItem":
        keys = asked["Keys"]
    else:
        keys = [write.get("PutRequest", {}).get("Item") or write["DeleteRequest"]["Key"] for write in asked]
    return Call(f"dynamodb:{operation}", table, tuple(sorted({key["PK"]["S"] for key in keys})))


def allows(statements: Sequence[Mapping[str, Any]], call: Call, tags: Mapping[str, str]) -> bool:
    """Return whether a policy lets a principal with these tags make a call; resources are named as calls name them."""
    return is_allowed([{"Statement": statements}], request_of(call, tags))


def request_of(call: Call, tags: Mapping[str, str]) -> Request:
    """Return a call as IAM sees it, made by a principal with these tags."""
    context: dict[str, tuple[str, ...]] = {f"aws:PrincipalTag/{name}": (value,) for name, value in tags.items()}
    if call.keys:
        context["dynamodb:LeadingKeys"] = call.keys
    if call.via:
        context["kms:ViaService"] = (f"{call.via}.us-east-1.amazonaws.com",)
    if call.source:
        context["events:source"] = (call.source,)
    return Request(call.action, call.resource, context)


def calls_of_key(calls: Iterable[Call], key: str) -> set[Call]:
    """What services ask of a customer's key in the name of who makes these calls, as AWS documents it."""
    needed = {
        "dynamodb": ("Decrypt",),
        "s3": ("GenerateDataKey",),  # of one part; an upload of several would have to decrypt them
        "sqs": ("Decrypt", "GenerateDataKey"),
    }
    services = {call.action.split(":")[0] for call in calls}
    return {Call(f"kms:{each}", key, via=service) for service in services for each in needed[service]}


class RecordingStore(SyncStore):
    """A table in memory that keeps the calls which would have gone to DynamoDB."""

    def __init__(self, table_name: str) -> None:
        self.table_name = table_name
        self.calls: list[Call] = []
        self.operations: list[Operation[Any]] = []
        self._store = SyncMemoryStore()

    def perform(self, operation: Operation[Any]) -> Any:
        self.operations.append(operation)
        self.calls += calls_of("dynamodb", *render(operation, self.table_name))
        return self._store.perform(operation)

    def close(self) -> None:
        self._store.close()
