"""Sizes of items, and the capacity units of requests, by the rules that DynamoDB documents.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
"""

from collections.abc import Mapping
from typing import Final

from ..schema.table import INDEXES, TABLE_KEYS, Index
from .values import Item, Value

WRITE_UNIT_BYTES: Final = 1024
READ_UNIT_BYTES: Final = 4096
TRANSACTION_FACTOR: Final = 2


def item_size(item: Item) -> int:
    """Return the size of an item in bytes, names and values."""
    return sum(len(name.encode()) + _value_size(value) for name, value in item.items())


def write_units(before: Item | None, after: Item | None) -> int:
    """Return the units of a write on the table: by the larger of the two items, at least one."""
    return _write_units(max(item_size(before or {}), item_size(after or {})))


def index_units(before: Item | None, after: Item | None) -> int:
    """Return the units of a write on all indexes: a changed key is a delete and a put, an equal entry is free."""
    return sum(_one_index_units(index, projected(before, index), projected(after, index)) for index in INDEXES.values())


def read_units(size: int, *, consistent: bool = True) -> float:
    """Return the units of a read of ``size`` bytes: at least one, or half of the units if eventually consistent."""
    units = max(1, -(-size // READ_UNIT_BYTES))
    return units if consistent else units / 2


def projected(item: Item | None, index: Index) -> Item | None:
    """Return the part of ``item`` that ``index`` holds, ``None`` if the item is not in it."""
    if item is None or index.pk not in item or index.sk not in item:
        return None
    if index.projection == "ALL":
        return item
    return {name: item[name] for name in (*TABLE_KEYS, index.pk, index.sk)}


def _one_index_units(index: Index, before: Item | None, after: Item | None) -> int:
    if before is None or after is None:
        request = before or after
        return 0 if request is None else _write_units(item_size(request))
    if before == after:
        return 0
    if (before[index.pk], before[index.sk]) == (after[index.pk], after[index.sk]):
        return _write_units(max(item_size(before), item_size(after)))
    return _write_units(item_size(before)) + _write_units(item_size(after))


def _write_units(size: int) -> int:
    return max(1, -(-size // WRITE_UNIT_BYTES))


def _value_size(value: Value) -> int:
    if isinstance(value, bool) or value is None:
        return 1
    if isinstance(value, int):
        # One byte for two significant digits, one more, and one for a minus sign. Trailing zeros are not significant.
        digits = len(str(abs(value)).rstrip("0"))
        return 1 + -(-digits // 2) + (value < 0)
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, Mapping):
        return 3 + sum(1 + len(name.encode()) + _value_size(part) for name, part in value.items())
    return 3 + sum(1 + _value_size(part) for part in value)
