"""Render operations as DynamoDB's requests, and read its answers as values.

``expressions`` writes the texts, ``faults`` reads errors, clients send.
"""

from collections.abc import Callable, Mapping
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, Final

from ...operations.errors import OutcomeUnknown, StoreError
from ...operations.values import (
    BatchGet,
    BatchWrite,
    Check,
    CreateTable,
    Delete,
    DescribeTable,
    EnableTtl,
    Found,
    Get,
    Key,
    Operation,
    Page,
    Put,
    Query,
    Scan,
    Transact,
    Unwritten,
    Update,
)
from ...schema.attributes import PK, SK, TTL
from ...schema.record import UNREADABLE
from ...schema.table import INDEXES, TABLE_KEYS, create_table_request
from .expressions import condition_parameters, query_parameters, update_json, update_parameters
from .faults import headers_of, request_id
from .marshal import read_item, read_key, read_one, read_row, write_item

Request = dict[str, Any]
Answer = Mapping[str, Any]


def render(operation: Operation[Any], table_name: str) -> tuple[str, Request]:
    """Return DynamoDB's name of the operation, and its request. Raises ``TypeError`` for an unstorable value."""
    name, build = _RENDERERS[type(operation)]
    return name, build(operation, table_name)


def render_body(operation: Operation[Any], table_name: str) -> tuple[str, Request | bytes]:
    """Return what ``render`` does; the commonest request, an update of numbers, as its JSON body at once."""
    if type(operation) is Update and (parameters := update_json(operation)) is not None:
        pk, sk = quoted(operation.key.pk), quoted(operation.key.sk)
        body = (
            f'{{"TableName":{quoted(table_name)},"Key":{{"{PK}":{{"S":{pk}}},"{SK}":{{"S":{sk}}}}},{parameters},'
            f'"ReturnValues":"ALL_NEW"}}'
        )
        return "UpdateItem", body.encode()
    return render(operation, table_name)


def read_answer(operation: Operation[Any], answer: Answer) -> Any:
    """Return the answer in the type of ``operation``.

    Raises ``OutcomeUnknown`` for a damaged answer, and ``Unreadable`` for an item that no record can be.
    """
    reader = _READERS.get(type(operation))
    try:
        return None if reader is None else reader(operation, answer)
    except StoreError:
        raise
    except KeyError as error:
        raise OutcomeUnknown(f"the answer has no {error}{request_id(headers_of(answer))}") from error
    except UNREADABLE as error:
        raise OutcomeUnknown(f"the answer cannot be read: {error}{request_id(headers_of(answer))}") from error


def read_date(answer: Answer) -> str | None:
    """Return the HTTP ``Date`` header of an answer, good or bad; ``None`` without headers."""
    return headers_of(answer).get("date")


def _update(update: Update, table: str) -> Request:
    return {"TableName": table, "Key": _key(update.key), **update_parameters(update)}


def _put(put: Put, table: str) -> Request:
    return {"TableName": table, "Item": write_item(put.item), **condition_parameters(put.when)}


def _delete_or_check(write: Delete | Check, table: str) -> Request:
    return {"TableName": table, "Key": _key(write.key), **condition_parameters(write.when)}


def _query(query: Query, table: str) -> Request:
    request: Request = {"TableName": table}
    if query.index is None:
        request |= {**query_parameters(query, *TABLE_KEYS), "ConsistentRead": True}
    else:
        index = INDEXES[query.index]
        request |= {"IndexName": query.index, **query_parameters(query, index.pk, index.sk)}
    if query.limit is not None:
        request["Limit"] = query.limit
    if query.descending:
        request["ScanIndexForward"] = False
    if query.start is not None:
        request["ExclusiveStartKey"] = write_item(query.start)
    return request


def _scan(scan: Scan, table: str) -> Request:
    start = {} if scan.start is None else {"ExclusiveStartKey": write_item(scan.start)}
    return {"TableName": table, "Limit": scan.limit, "ConsistentRead": True, **start}


def _transact(transact: Transact, table: str) -> Request:
    kinds = [(*_IN_TRANSACTIONS[type(write)], write) for write in transact.writes]
    request: Request = {"TransactItems": [{name: build(write, table)} for name, build, write in kinds]}
    if transact.request_token is not None:
        request["ClientRequestToken"] = transact.request_token
    return request


def _batch_item(write: Put | Delete) -> Request:
    if isinstance(write, Put):
        return {"PutRequest": {"Item": write_item(write.item)}}
    return {"DeleteRequest": {"Key": _key(write.key)}}


def _read_found(batch: BatchGet, answer: Answer) -> Found:
    # One table, called by its name or by its ARN.
    items = [read_row(item) for rows in answer["Responses"].values() for item in rows]
    found = {Key(item[PK], item[SK]): item for item in items}
    unread = [read_key(key) for rest in answer.get("UnprocessedKeys", {}).values() for key in rest["Keys"]]
    if not {*found, *unread} <= set(batch.keys):
        raise OutcomeUnknown("the answer has keys that were not asked for")
    return Found(found, tuple(unread))


def _read_page(query: Query | Scan, answer: Answer) -> Page:
    last = answer.get("LastEvaluatedKey")
    following = read_row(last) if last else None
    if following is not None and following == query.start:
        raise OutcomeUnknown("the answer leads to itself as the next page")
    items = [read_row(item) for item in answer["Items"]]
    if isinstance(query, Query) and query.index is None and any(item[PK] != query.pk for item in items):
        raise OutcomeUnknown("the answer has items of another partition")
    return Page(items, following)


def _read_unwritten(batch: BatchWrite, answer: Answer) -> Unwritten:
    """Return the writes of the batch that the answer names; ignore any other that it names."""
    rest = {
        read_key(write["PutRequest"]["Item"] if "PutRequest" in write else write["DeleteRequest"]["Key"])
        for writes in answer.get("UnprocessedItems", {}).values()
        for write in writes
    }
    keys = [Key(each.item[PK], each.item[SK]) if isinstance(each, Put) else each.key for each in batch.writes]
    return Unwritten(tuple(write for write, key in zip(batch.writes, keys, strict=True) if key in rest))


def _key(key: Key) -> Request:
    return {PK: {"S": key.pk}, SK: {"S": key.sk}}


_IN_TRANSACTIONS: Final[dict[type, tuple[str, Callable[[Any, str], Request]]]] = {
    Put: ("Put", _put),
    Update: ("Update", _update),
    Delete: ("Delete", _delete_or_check),
    Check: ("ConditionCheck", _delete_or_check),
}

_RENDERERS: Final[dict[type, tuple[str, Callable[[Any, str], Request]]]] = {
    Get: ("GetItem", lambda get, table: {"TableName": table, "Key": _key(get.key), "ConsistentRead": True}),
    BatchGet: (
        "BatchGetItem",
        lambda batch, table: {"RequestItems": {table: {"Keys": [*map(_key, batch.keys)], "ConsistentRead": True}}},
    ),
    Query: ("Query", _query),
    Scan: ("Scan", _scan),
    Put: ("PutItem", _put),
    Update: ("UpdateItem", lambda update, table: {**_update(update, table), "ReturnValues": "ALL_NEW"}),
    Delete: ("DeleteItem", _delete_or_check),
    Transact: ("TransactWriteItems", _transact),
    BatchWrite: ("BatchWriteItem", lambda batch, table: {"RequestItems": {table: [*map(_batch_item, batch.writes)]}}),
    CreateTable: ("CreateTable", lambda _, table: create_table_request(table)),
    DescribeTable: ("DescribeTable", lambda _, table: {"TableName": table}),
    EnableTtl: (
        "UpdateTimeToLive",
        lambda _, table: {"TableName": table, "TimeToLiveSpecification": {"Enabled": True, "AttributeName": TTL}},
    ),
}

_READERS: Final[dict[type, Callable[[Any, Answer], Any]]] = {
    Get: lambda get, answer: read_one(get.key, answer["Item"]) if "Item" in answer else None,
    BatchGet: _read_found,
    Query: _read_page,
    Scan: _read_page,
    Update: lambda update, answer: read_one(update.key, answer["Attributes"], read_item),
    BatchWrite: _read_unwritten,
    DescribeTable: lambda _, answer: str(answer["Table"]["TableStatus"]),
}
