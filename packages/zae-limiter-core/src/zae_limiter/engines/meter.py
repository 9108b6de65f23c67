"""Count requests and their capacity units, as DynamoDB charges for them: by its answers, or, for engines that perform
operations themselves, by the items before and after each.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from threading import Lock
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
from ..runtime.dataclass import dataclass, field
from ..schema.attributes import PK, SK

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
