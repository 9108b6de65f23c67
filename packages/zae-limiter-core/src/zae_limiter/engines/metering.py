"""Compute the cost that an operation on the memory store would have on DynamoDB, by the items before and after."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from ..operations.errors import ConditionFailed, TransactionCancelled
from ..operations.sizes import TRANSACTION_FACTOR, index_units, item_size, read_units, write_units
from ..operations.values import (
    BatchGet,
    BatchWrite,
    Check,
    Delete,
    Get,
    Item,
    Key,
    Operation,
    Put,
    Query,
    Scan,
    Transact,
    Update,
)
from ..schema.attributes import PK, SK
from .meter import Meter

Lookup = Callable[[Key], Item | None]

_REQUEST_NAMES: Final = {
    Get: "GetItem",
    BatchGet: "BatchGetItem",
    Query: "Query",
    Scan: "Scan",
    Put: "PutItem",
    Update: "UpdateItem",
    Delete: "DeleteItem",
    Transact: "TransactWriteItems",
    BatchWrite: "BatchWriteItem",
}


def metered(meter: Meter, operation: Operation[Any], look_up: Lookup, carry_out: Callable[[Any], Any]) -> Any:
    """Return the answer of ``carry_out(operation)``, and count its cost on ``meter``."""
    if type(operation) in _REQUEST_NAMES:
        meter.count_request(_REQUEST_NAMES[type(operation)])
    keys = _written_keys(operation)
    earlier = [look_up(key) for key in keys]
    try:
        answer = carry_out(operation)
    except (ConditionFailed, TransactionCancelled):
        meter.count_failed(earlier, transacted=type(operation) is Transact)
        raise
    factor = TRANSACTION_FACTOR if type(operation) is Transact else 1
    for before, key in zip(earlier, keys, strict=True):
        after = look_up(key)
        meter.count_units(write=factor * write_units(before, after), index=factor * index_units(before, after))
    meter.count_units(read=_read_units(operation, answer))
    return answer


def _written_keys(operation: Operation[Any] | Check) -> list[Key]:
    match operation:
        case Put(item):
            return [Key(item.get(PK, ""), item.get(SK, ""))]
        case Update() | Delete() | Check():
            return [operation.key]
        case Transact(writes) | BatchWrite(writes):
            return [key for write in writes for key in _written_keys(write)]
        case _:
            return []


def _read_units(operation: Operation[Any], answer: Any) -> float:
    match operation:
        case Get():
            return read_units(_size([answer]))
        case BatchGet(keys):
            return sum(read_units(_size([answer.items.get(key)])) for key in keys)
        case Query():
            return read_units(_size(answer.items), consistent=operation.index is None)
        case Scan():
            return read_units(_size(answer.items))
        case _:
            return 0


def _size(items: Iterable[Item | None]) -> int:
    return sum(item_size(item) for item in items if item is not None)
