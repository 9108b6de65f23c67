"""A meter: it counts requests and their capacity units, as DynamoDB charges for them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import Lock

from ..operations.sizes import TRANSACTION_FACTOR, write_units
from ..operations.values import Item


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
