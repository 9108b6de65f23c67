"""Purge a namespace: remove all its items, then its name; keep its id for two days.

The order of the steps lets an interrupted purge continue.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ...exceptions import NamespaceStateError
from ...operations.errors import ConditionFailed
from ...operations.values import Delete, Put, Query
from ...schema.attributes import PURGING
from ...schema.registry import purged_item
from ...values.naming import check_namespace_id
from ..index_rows import IndexRows, report
from ..pages import delete_all
from ..partitions import everywhere, next_rows
from ..retry import ATTEMPTS, RaceLost, key_of, with_retries
from ..steps import Flow, Sleep
from .registry import applied, as_seen, both, is_live, name_key

KEYS_PER_PAGE = 1000
SETTLE_SECONDS = 1.0  # the index is behind the table: look again until it shows nothing
MOST_LOOKS = 30  # an index is not behind for so long: what it still shows then was written since

Progress = Callable[[int], None]


@dataclass(slots=True)
class _Removed:
    """The number of items removed so far."""

    on_progress: Progress | None
    count: int = 0

    def more(self, count: int) -> None:
        """Add to the number, and report it."""
        self.count += count
        if self.on_progress is not None:
            self.on_progress(self.count)


def purge(namespace_id: str, *, at: str, on_progress: Progress | None) -> Flow[int]:
    """Purge a namespace, and return the number of items removed.

    A purged namespace may be purged again while its record stays, because a process that had it open may have written
    since. Raises ``NamespaceNotFoundError``, and ``NamespaceStateError`` for a namespace in use.
    """
    check_namespace_id("namespace_id", namespace_id)
    yield from _mark(namespace_id, at)
    removed = _Removed(on_progress)
    yield from _remove_all(namespace_id, removed)
    yield from _unregister(namespace_id, at)
    return removed.count


def _remove_all(namespace_id: str, removed: _Removed) -> Flow[None]:
    """Remove items until the index shows none. Raises ``NamespaceStateError`` if there are always new ones."""
    for _ in range(MOST_LOOKS):
        rows = IndexRows(namespace_id)
        before = removed.count
        yield from _remove_items(rows, removed)
        if removed.count == before:
            yield from report(rows)
            return
        yield Sleep(SETTLE_SECONDS)
    problem = f"something still writes to it, after {removed.count} items were removed"
    raise NamespaceStateError(namespace_id, f"{problem}: stop what has it open, then purge it again")


def _mark(namespace_id: str, at: str) -> Flow[None]:
    """Mark that the purge has begun. From now on the namespace cannot be recovered: half of it would come back."""
    for _ in range(ATTEMPTS):
        by_id, by_name = yield from both(namespace_id)
        if is_live(by_id, by_name):
            raise NamespaceStateError(namespace_id, "it is in use: delete it first")
        if by_id.has(PURGING):
            return
        try:
            yield from with_retries(Put(by_id.item | {PURGING: at}, as_seen(by_id)))
        except ConditionFailed:  # a lost race, or our own first answer was lost
            continue
        return
    raise RaceLost


def _remove_items(rows: IndexRows, removed: _Removed) -> Flow[None]:
    """Remove all items of the namespace that the index shows, page by page. Leave the items of other namespaces
    alone.
    """
    queries = everywhere(rows.namespace_id, Query("", "GSI4", limit=KEYS_PER_PAGE))
    while queries:
        items, queries = yield from next_rows(queries)
        yield from delete_all(map(key_of, rows.own(items)), removed.more)


def _unregister(namespace_id: str, at: str) -> Flow[None]:
    """Remove the record of the name, unless another namespace has it by now, and mark that of the id as purged."""
    for _ in range(ATTEMPTS):
        by_id, by_name = yield from both(namespace_id)
        writes: list[Put | Delete] = [Put(purged_item(by_id.item, at), as_seen(by_id))]
        if by_name is not None and by_name.id == namespace_id:
            writes.append(Delete(name_key(by_id.name), as_seen(by_name)))
        if (yield from applied(*writes)):
            return
    raise RaceLost
