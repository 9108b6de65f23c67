"""The write rate of an item, by all processes, as one process measures it."""

from typing import Final

from ...operations.values import Item
from ...schema.attributes import SHARD_COUNT
from ...schema.items import WRITES

WINDOW_MS: Final = 1000
THROTTLED_PART: Final = 10


class WriteRate:
    """Writes a second between two own answers at least a second apart; 0 before there were two.

    The item counts its writes in thousandths. So the difference over the milliseconds between is writes a second.
    """

    __slots__ = ("_counted", "_from_ms", "_shards", "_throttled", "_writes", "due_ms", "per_second", "since_ms")

    def __init__(self) -> None:
        self.since_ms = self.due_ms = 0
        self.per_second = 0.0
        self._writes = self._shards = self._counted = self._from_ms = 0
        self._throttled = False

    def measure(self, item: Item, at_ms: int) -> None:
        """End a window, and begin the next. A window with a split, or with a step back of the clock, has no rate."""
        elapsed_ms = at_ms - self.since_ms
        if self.due_ms and elapsed_ms >= WINDOW_MS and self._shards == item[SHARD_COUNT]:
            self._counted, self._from_ms = item[WRITES] - self._writes, self.since_ms
            self.per_second = self._counted / elapsed_ms
        self._writes, self._shards = item[WRITES], item[SHARD_COUNT]
        self.since_ms, self.due_ms = at_ms, at_ms + WINDOW_MS

    def throttled(self) -> None:
        """Note that the store throttled a write because of its key: no other reason is evidence of a hot item."""
        self._throttled = True

    def exceeds(self, most: int, now_ms: int) -> bool:
        """Return whether the last window had more than ``most`` writes a second; clears the measurement.

        The window ends at ``now_ms``, because a late answer also counts the writes made while it was under way. After
        throttling a tenth of ``most`` is enough; an item with fewer writes is not the cause.
        """
        lasted_ms = max(now_ms - self._from_ms, WINDOW_MS)
        seen, throttled = (self._counted / lasted_ms if self.per_second else 0.0), self._throttled
        self.per_second, self._throttled = 0.0, False
        return seen > (most / THROTTLED_PART if throttled else most)
