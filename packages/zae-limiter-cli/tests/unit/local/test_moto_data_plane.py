import json
import socket
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.backends import get_backend

from support.cli.account import Account, addition
from zae_limiter_cli.local import moto_items
from zae_limiter_cli.local.moto_data_plane import MotoDataPlane
from zae_limiter_cli.local.moto_items import ITEMS_ACCOUNT
from zae_limiter_cli.local.moto_server import application
from zae_limiter_cli.local.wsgi import call, dynamodb_request

REGION = "us-east-1"


@pytest.fixture
def dynamodb(account: Account) -> Any:
    return account.client("dynamodb")


@pytest.fixture
def ranged(dynamodb: Any) -> str:
    """A table with a range key and a stream."""
    name = f"ranged-{uuid.uuid4().hex[:8]}"
    dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "PK", "KeyType": "HASH"}, {"AttributeName": "SK", "KeyType": "RANGE"}],
        AttributeDefinitions=[{"AttributeName": each, "AttributeType": "S"} for each in ("PK", "SK")],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )
    return name


class Stream:
    """A table's stream, read from its oldest record."""

    def __init__(self, account: Account, table: str) -> None:
        self.client = account.client("dynamodbstreams")
        (self.stream,) = self.client.list_streams(TableName=table)["Streams"]
        (shard,) = self.client.describe_stream(StreamArn=self.stream["StreamArn"])["StreamDescription"]["Shards"]
        self.start = {"StreamArn": self.stream["StreamArn"], "ShardId": shard["ShardId"]}

    def iterator(self, kind: str = "TRIM_HORIZON", **more: str) -> str:
        found: str = self.client.get_shard_iterator(ShardIteratorType=kind, **self.start, **more)["ShardIterator"]
        return found

    def read(self, iterator: str | None = None) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = self.client.get_records(ShardIterator=iterator or self.iterator())["Records"]
        return records


def contents(dynamodb: Any, table: str) -> list[str]:
    return sorted(json.dumps(item, sort_keys=True) for item in dynamodb.scan(TableName=table)["Items"])


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("kind", ["hash key", "hash and range key"])
def test_a_transaction_that_fails_leaves_items_stream_and_iterators_as_they_were(
    account: Account, dynamodb: Any, ranged: str, kind: str
) -> None:
    table = ranged if kind == "hash and range key" else account.table()[0]

    def key(name: str) -> dict[str, Any]:
        return {"PK": {"S": name}, **({"SK": {"S": "1"}} if table == ranged else {})}

    for name in ("replaced", "updated", "deleted"):
        dynamodb.put_item(TableName=table, Item={**key(name), "n": {"N": "1"}})
    stream = Stream(account, table)
    first = stream.iterator()
    before, records = contents(dynamodb, table), stream.read()
    changes: list[dict[str, Any]] = [
        {"Put": {"TableName": table, "Item": {**key("new"), "n": {"N": "2"}}}},
        {"Put": {"TableName": table, "Item": {**key("replaced"), "n": {"N": "2"}}}},
        {"Update": {**addition(table, "updated"), "Key": key("updated")}},
        {"Update": {**addition(table, "made"), "Key": key("made")}},
        {"Delete": {"TableName": table, "Key": key("deleted")}},
    ]
    impossible = {"TableName": table, "Key": key("nobody"), "ConditionExpression": "attribute_exists(PK)"}
    with pytest.raises(ClientError, match="ConditionalCheckFailed"):
        dynamodb.transact_write_items(TransactItems=[*changes, {"ConditionCheck": impossible}])
    assert (contents(dynamodb, table), stream.read(first)) == (before, records)

    dynamodb.transact_write_items(TransactItems=changes)
    assert contents(dynamodb, table) != before
    assert len(stream.read(first)) > len(records)


def test_a_transaction_copies_no_table(account: Account, dynamodb: Any) -> None:
    name, _ = account.table()
    before = get_backend("dynamodb")[ITEMS_ACCOUNT][REGION].tables[name]
    impossible = {**addition(name, "other"), "ConditionExpression": "attribute_exists(nothing)"}
    with pytest.raises(ClientError, match="ConditionalCheckFailed"):
        dynamodb.transact_write_items(TransactItems=[{"Update": addition(name, "a")}, {"Update": impossible}])
    assert get_backend("dynamodb")[ITEMS_ACCOUNT][REGION].tables[name] is before


def test_a_transaction_without_a_key_or_a_table_is_refused(account: Account, dynamodb: Any, ranged: str) -> None:
    half = {"Put": {"TableName": ranged, "Item": {"PK": {"S": "a"}}}}
    with pytest.raises(ClientError, match=r"ValidationException|TransactionCanceled"):
        dynamodb.transact_write_items(TransactItems=[half])
    with pytest.raises(ClientError, match="ResourceNotFound"):
        dynamodb.transact_write_items(TransactItems=[{"Update": addition("nowhere", "a")}])
    assert contents(dynamodb, ranged) == []


@pytest.fixture
def connection() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The ends of the server and the caller."""
    server, caller = socket.socketpair()
    with server, caller:
        yield server, caller


@pytest.mark.parametrize("caller_does", ["waits", "sends more", "hangs up"])
def test_a_request_is_dropped_whose_caller_hung_up_before_its_turn(
    account: Account, dynamodb: Any, connection: tuple[socket.socket, socket.socket], caller_does: str
) -> None:
    name, _ = account.table()
    server, caller = connection
    if caller_does == "hangs up":
        caller.close()
    elif caller_does == "sends more":
        caller.send(b"POST")
    request = dynamodb_request("UpdateItem", addition(name, "a"), region=REGION)
    status, _, _ = call(MotoDataPlane(application()), {**request, "werkzeug.socket": server})
    done = caller_does != "hangs up"
    assert (status, len(contents(dynamodb, name))) == ((200, 1) if done else (500, 0))


@pytest.mark.long
def test_a_stream_keeps_its_newest_records_and_says_which_are_gone(
    account: Account, dynamodb: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moto_items, "RECORDS_KEPT", 10)
    monkeypatch.setattr(moto_items, "RECORDS_TRIMMED", 5)
    name, _ = account.table()
    dynamodb.put_item(TableName=name, Item={"PK": {"S": "0"}})
    stream = Stream(account, name)
    first = stream.iterator()
    (oldest,) = stream.read(first)
    for number in range(1, 40):
        dynamodb.put_item(TableName=name, Item={"PK": {"S": str(number)}})
    kept = stream.read()
    assert 10 <= len(kept) < 15
    told = [record["dynamodb"]["Keys"]["PK"]["S"] for record in kept]
    assert told == [str(number) for number in range(40 - len(kept), 40)]
    numbers = [int(record["dynamodb"]["SequenceNumber"]) for record in kept]
    assert numbers == list(range(numbers[0], numbers[0] + len(kept)))
    after = stream.iterator("AFTER_SEQUENCE_NUMBER", SequenceNumber=kept[-2]["dynamodb"]["SequenceNumber"])
    assert stream.read(after) == kept[-1:]
    behind = stream.iterator("AFTER_SEQUENCE_NUMBER", SequenceNumber=oldest["dynamodb"]["SequenceNumber"])
    for iterator in (first, behind):
        with pytest.raises(ClientError, match="TrimmedDataAccessException"):
            stream.read(iterator)


def test_the_oldest_iterators_expire(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moto_items, "ITERATORS_KEPT", 5)
    stream = Stream(account, account.table()[0])
    first = stream.iterator()
    for _ in range(5):
        last = stream.iterator()
    with pytest.raises(ClientError, match="ExpiredIteratorException"):
        stream.read(first)
    assert stream.read(last) == []
