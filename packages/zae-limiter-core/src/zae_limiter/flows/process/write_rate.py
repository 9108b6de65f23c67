"""How often an item is written, by all processes together.

Lives here: one process's measurement of it. Never: what comes of it (splitting).
"""

from typing import Final

from ...operations.values import Item
from ...schema.attributes import SHARD_COUNT
from ...schema.items import WRITES

WINDOW_MS: Final = 1000
THROTTLED_PART: Final = 10


class WriteRate:
    """Writes a second between two own answers at least a second apart; 0 until there were two.

    An item counts its own writes, in thousandths: by the milliseconds between, that is writes a second.
    """

    __slots__ = ("_begun_ms", "_counted", "_shards", "_throttled", "_writes", "due_ms", "per_second", "since_ms")

    def __init__(self) -> None:
        self.since_ms = self.due_ms = 0
        self.per_second = 0.0
        self._writes = self._shards = self._counted = self._begun_ms = 0
        self._throttled = False

    def measure(self, item: Item, at_ms: int) -> None:
        """End a window, and begin the next; one in which the shard was split, or a clock set back, tells nothing."""
        elapsed_ms = at_ms - self.since_ms
        if self.due_ms and elapsed_ms >= WINDOW_MS and self._shards == item[SHARD_COUNT]:
            self._counted, self._begun_ms = item[WRITES] - self._writes, self.since_ms
            self.per_second = self._counted / elapsed_ms
        self._writes, self._shards = item[WRITES], item[SHARD_COUNT]
        self.since_ms, self.due_ms = at_ms, at_ms + WINDOW_MS

    def throttled(self) -> None:
        """The store refused a write of the item: there were too many."""
        self._throttled = True

    def exceeds(self, most: int, now_ms: int) -> bool:
        """Whether the last window saw more than ``most`` writes a second; asked once, when it is over.

        An answer that was long in coming counts what was written on its way: the window lasts until ``now_ms``. A
        tenth is enough where the store refused writes: an item that is hardly written is not why it did.
        """
        lasted_ms = max(now_ms - self._begun_ms, WINDOW_MS)
        seen, throttled = (self._counted / lasted_ms if self.per_second else 0.0), self._throttled
        self.per_second, self._throttled = 0.0, False
        return seen > (most / THROTTLED_PART if throttled else most)
