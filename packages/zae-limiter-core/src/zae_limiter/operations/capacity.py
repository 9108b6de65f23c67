"""Capacity units of requests, by the rules that DynamoDB documents, and a meter that counts them.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final

from zae_limiter.schema.table import INDEXES, TABLE_KEYS, Index

from ..schema.reading import UNREADABLE
from .marshal import read_item
from .values import Item, Value

WRITE_UNIT_BYTES: Final = 1024
READ_UNIT_BYTES: Final = 4096
TRANSACTION_FACTOR: Final = 2
READS: Final = frozenset(("GetItem", "BatchGetItem", "Query", "Scan"))
COUNTED: Final = READS | {"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems", "BatchWriteItem"}


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


@dataclass(slots=True)
class Meter:
    """Counts requests by DynamoDB's names, and units, also those of failed conditions. Threads may share it.

    ``write_units`` are the table's, ``index_units`` the indexes'; ``read_units`` are of both.
    """

    requests: Counter[str] = field(default_factory=Counter)
    read_units: float = 0
    write_units: float = 0
    index_units: float = 0
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)
    _seen: float = field(default=0, repr=False, compare=False)

    def newly_written(self) -> float:
        """Return the units written on the table and its indexes since the last call of this method."""
        with self._lock:
            written = self.write_units + self.index_units
            new, self._seen = written - self._seen, written
            return new

    def reset(self) -> None:
        """Set all counts to 0."""
        with self._lock:
            self.requests.clear()
            self.read_units = self.write_units = self.index_units = self._seen = 0

    def snapshot(self) -> "Meter":
        """Return the counts so far, as a new meter."""
        with self._lock:
            return Meter(Counter(self.requests), self.read_units, self.write_units, self.index_units)

    def count_request(self, name: str) -> None:
        """Count one request, whatever its outcome."""
        with self._lock:
            self.requests[name] += 1

    def count_units(self, *, read: float = 0, write: float = 0, index: float = 0) -> None:
        """Count units."""
        with self._lock:
            self.read_units += read
            self.write_units += write
            self.index_units += index

    def count_failed(self, items: Iterable[Item | None], *, transacted: bool) -> None:
        """Count the units of writes that a failed condition stopped, by the stored items."""
        factor = TRANSACTION_FACTOR if transacted else 1
        self.count_units(write=factor * sum(write_units(item, None) for item in items))

    def count_refusal(self, response: Mapping[str, Any]) -> None:
        """Count the units of an error answer: DynamoDB charges for failed conditions, but does not report it."""
        code = response.get("Error", {}).get("Code")
        with suppress(*UNREADABLE):  # the error of a damaged answer is its reader's
            if code == "ConditionalCheckFailedException":
                self.count_failed([read_item(response.get("Item", {}))], transacted=False)
            elif code == "TransactionCanceledException":
                reasons = response.get("CancellationReasons", ())
                self.count_failed([read_item(reason.get("Item", {})) for reason in reasons], transacted=True)

    def count_answer(self, name: str, answer: Mapping[str, Any]) -> None:
        """Count the units that an answer reports, to a request that asked for ``INDEXES``."""
        consumed = answer.get("ConsumedCapacity", [])
        with suppress(*UNREADABLE):
            for each in [consumed] if isinstance(consumed, Mapping) else consumed:
                total = float(each["CapacityUnits"])
                indexes = sum(float(part["CapacityUnits"]) for part in each.get("GlobalSecondaryIndexes", {}).values())
                if name in READS:
                    self.count_units(read=total)
                else:
                    self.count_units(write=total - indexes, index=indexes)


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
        return _number_size(value)
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, Mapping):
        return 3 + sum(1 + len(name.encode()) + _value_size(part) for name, part in value.items())
    return 3 + sum(1 + _value_size(part) for part in value)


def _number_size(value: int) -> int:
    # One byte for two significant digits, one more, and one for a minus sign. Trailing zeros are not significant.
    digits = len(str(abs(value)).rstrip("0"))
    return 1 + -(-digits // 2) + (value < 0)
