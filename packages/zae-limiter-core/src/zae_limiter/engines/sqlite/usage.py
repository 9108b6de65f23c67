"""Count usage exactly, at almost no cost for an acquire.

On DynamoDB the aggregator counts each change of a bucket in the snapshots of its hour and its day. Here every change is
in a transaction, so it could do the same: two more items to read and write for each acquire, which doubles its cost.
But consumption telescopes: that of an hour is the difference between the bucket at its end and at its beginning. So the
first change of an hour keeps a copy of the bucket as it was (a row of ``uncounted``), and the difference is counted in
one transaction with the next event that needs it: the first change of another hour, a change that does not telescope
(a limit leaves, a whole item is put), the end of the bucket (deleted, or expired), and any query that could read usage.
"""

import logging
import sqlite3
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from ...operations.errors import StoreError
from ...operations.values import Item, Key, Operation, Query, Scan, Update
from ...schema import keys
from ...schema.attributes import GSI2PK, PURGING
from ...schema.items import BucketId
from ...schema.record import UNREADABLE
from ...values.usage import KEPT_DAYS, Window
from ..effects import usage_updates
from .rows import BEGINS_WITH, Row, Rows, parsed, write_json

AT_ONCE: Final = 500  # buckets that are counted in one transaction
_EVERYTHING: Final = ("1", ())

log = logging.getLogger(__name__)


class Usage:
    """Counts the consumption of buckets in snapshots, which ``update`` writes."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        rows: Rows,
        update: Callable[[Update], object],
        days: Mapping[Window, int] = KEPT_DAYS,
    ) -> None:
        self._execute = connection.execute
        self._rows = rows
        self._update = update
        self._days = days

    def note(self, key: Key, before: Row | None, item: Item | None, *, hour: int, adds: bool) -> int | None:
        """Note a change of a bucket, and return the hour of its uncounted use, which its row has to keep.

        ``adds``: the change is an update that removes no attribute.
        """
        if before is None:
            return None if item is None else self._begin(key, item, {}, hour)
        if adds and before.hour == hour:
            return hour
        if before.hour is not None:
            self._count_row(key.pk, before.item)
        if adds:
            return self._begin(key, before.item, before.item, hour)
        if item is not None:
            self._count(key.pk, before.item, item, hour)
        return None

    def _begin(self, key: Key, item: Item, counted: Item, hour: int) -> int | None:
        if _bucket(key.pk) is None:
            return None
        sql = "INSERT INTO uncounted (pk, resource, hour, counted) VALUES (?, ?, ?, ?)"
        self._execute(sql, (key.pk, str(item.get(GSI2PK)), hour, write_json(counted)))
        return hour

    def count_for(self, operation: Operation[Any]) -> bool:
        """Count some of what an operation could read; return whether there may be more, for another transaction."""
        where, values = _read_by(operation) or ("0", ())
        joined = "uncounted u CROSS JOIN items i ON i.pk = u.pk AND i.sk = ?"  # CROSS: not all items first
        sql = f"SELECT u.pk FROM {joined} WHERE {where} LIMIT ?"
        found = self._execute(sql, (keys.sk_state(), *values, AT_ONCE)).fetchall()
        for (pk,) in found:
            if (row := self._rows.get(Key(pk, keys.sk_state()))) is not None:
                self._count_row(pk, row.item)
            self._rows.drop_hour(Key(pk, keys.sk_state()))
        return len(found) == AT_ONCE

    def _count_row(self, pk: str, now: Item) -> None:
        """Count what a bucket has used since its row of ``uncounted``, and remove the row."""
        found = self._execute("SELECT counted, hour FROM uncounted WHERE pk = ?", (pk,)).fetchone()
        if found is not None:
            self._count(pk, parsed(found[0], Key(pk, keys.sk_state())), now, found[1])
            self._execute("DELETE FROM uncounted WHERE pk = ?", (pk,))

    def _count(self, pk: str, before: Item, after: Item, hour: int) -> None:
        bucket = _bucket(pk)
        if bucket is None:
            return
        namespace = self._rows.get(Key(keys.pk_system(keys.REGISTRY), keys.sk_nsid(bucket.namespace_id)))
        if namespace is not None and PURGING in namespace.item:
            return
        try:
            updates = usage_updates(bucket, before, after, hour, self._days)
        except UNREADABLE as error:
            log.warning("the use of a bucket is not counted, because its item is damaged: %r, %s", pk, error)
            return
        for update in updates:
            try:
                self._update(update)
            except StoreError as error:  # of a damaged snapshot: it must not refuse the acquire, half of which is done
                log.warning("the use of a bucket is not counted: %r, %s", pk, error)


def reads_usage(operation: Operation[Any]) -> bool:
    """Return whether an operation could read snapshots, so that they have to be counted first."""
    return isinstance(operation, Query | Scan) and _read_by(operation) is not None


def _read_by(operation: Operation[Any]) -> tuple[str, tuple[str, ...]] | None:
    """Return the condition for buckets whose snapshots an operation could read; ``None`` if it reads none."""
    if isinstance(operation, Scan):
        return _EVERYTHING
    if not isinstance(operation, Query):
        return None
    if operation.index == "GSI4":
        begin = operation.begins_with or ""
        if not (begin.startswith(keys.INDEX_USAGE_PREFIX) or keys.INDEX_USAGE_PREFIX.startswith(begin)):
            return None
        prefix = keys.pk_prefix(operation.pk)
    elif operation.index == "GSI2":
        return "resource = ?", (operation.pk,)
    elif operation.index is None and "/ENTITY#" in operation.pk:
        prefix = keys.pk_buckets(operation.pk)
    else:
        return None
    return BEGINS_WITH.format("u.pk"), (prefix, prefix)


@lru_cache(maxsize=1024)
def _bucket(pk: str) -> BucketId | None:
    try:
        return BucketId.parse(pk)
    except ValueError:
        return None
