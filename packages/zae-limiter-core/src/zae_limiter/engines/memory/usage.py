"""Count the usage of buckets in memory, as SQLite does: consumption telescopes.

The first change of a bucket in an hour keeps the item as it was. The difference is counted in the snapshots of the hour
and of the day with the first change of another hour, with a change that does not telescope, and before a query that
could read usage. So an acquire pays for one look at a dict, which ``MemoryTable`` has at hand.
"""

import logging
from collections.abc import Callable
from typing import Final

from ...operations.values import Item, Key, Query, Scan, Update
from ...schema import keys
from ...schema.items import BucketId
from ...schema.record import UNREADABLE
from ...values.usage import Window
from ..effects import HOUR_MS, usage_updates

KEPT_DAYS: Final[dict[Window, int]] = {"hourly": 1, "daily": 2}  # for a process has to hold all of them

log = logging.getLogger(__name__)


class Usage:
    """Counts the consumption of buckets in snapshots, which ``update`` writes; ``look`` returns an item.

    ``since``: by bucket an hour, and the item as it was at the first change in it. An update in that hour that removes
    no attribute needs no ``note``.
    """

    def __init__(
        self, look: Callable[[Key], Item | None], update: Callable[[Update], object], now_ms: Callable[[], int]
    ) -> None:
        self._look = look
        self._update = update
        self.now_ms = now_ms
        self.since: dict[Key, tuple[int, Item]] = {}

    def note(self, key: Key, before: Item | None, item: Item | None, *, adds: bool) -> None:
        """Note a change of a bucket; ``adds``: it is an update that removes no attribute."""
        if key.sk != keys.sk_state():
            return
        hour, since = self.now_ms() // HOUR_MS, self.since.get(key)
        if adds and since is not None and since[0] == hour:
            return
        if since is not None and before is not None:
            self._count(key, since[1], before, since[0])
        self.since.pop(key, None)
        if item is not None and (adds or before is None):
            self.since[key] = hour, before or {}
        elif item is not None and before is not None:
            self._count(key, before, item, hour)

    def count_for(self, operation: Query | Scan) -> None:
        """Count everything before an operation that could read usage."""
        if isinstance(operation, Query) and operation.index is None and "/ENTITY#" not in operation.pk:
            return
        since, self.since = self.since, {}
        for key, (hour, before) in since.items():
            if (now := self._look(key)) is not None:
                self._count(key, before, now, hour)

    def _count(self, key: Key, before: Item, after: Item, hour: int) -> None:
        try:
            updates = usage_updates(BucketId.parse(key.pk), before, after, hour, KEPT_DAYS)
        except (ValueError, *UNREADABLE) as error:
            log.warning("the use of a bucket is not counted, because its item is damaged: %r, %s", key.pk, error)
            return
        for update in updates:
            self._update(update)
