"""A table in SQLite, with DynamoDB's outcome for every operation.

``effects`` has the effect of a write, ``rows`` the form of what is stored. Every method is inside
a transaction that the caller has begun.
"""

import sqlite3
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final

from ...clock.system import Clock
from ...operations.errors import ConditionFailed, NotApplied, Unreadable
from ...operations.sizes import projected
from ...operations.values import (
    BatchGet,
    BatchWrite,
    Check,
    CreateTable,
    Delete,
    DescribeTable,
    EnableTtl,
    Found,
    Get,
    Item,
    Key,
    Operation,
    Page,
    Put,
    Query,
    Scan,
    Transact,
    Unwritten,
    Update,
    changes_nothing,
    copy_of,
)
from ...schema.items import FUTURE_MS
from ...schema.keys import sk_state
from ...schema.table import INDEXES, TABLE_KEYS
from ...values.usage import KEPT_DAYS, Window
from ..effects import HOUR_MS, after, checked_key, distinct, key_of, outcomes, refuse_table
from ..meter import Meter, metered
from .connection import VERSION
from .rows import Row, Rows, page_size
from .usage import Usage

TOKENS_KEPT_MS: Final = 15 * 60_000  # DynamoDB: ten minutes
SWEPT_AT_ONCE: Final = 64
FREE_PAGES: Final = 1_000  # that the file keeps for what comes: 4 MB
GIVEN_AT_ONCE: Final = 64  # pages by which a sweep shrinks the file
_STATE: Final = sk_state()


class SQLiteTable:
    """The table of one connection. ``meter``, if given, counts what the requests would cost on DynamoDB."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        clock: Clock,
        meter: Meter | None = None,
        usage_days: Mapping[Window, int] = KEPT_DAYS,
    ) -> None:
        self._execute = connection.execute
        self._rows = Rows(connection, clock)
        self.in_future = self._rows.in_future
        """The buckets that were read as if they had been written now; time counts once they are."""
        self._usage = Usage(connection, self._rows, self._update, usage_days)
        self._meter = meter
        self._version: int | None = None  # of the file's content, which other connections change
        self.committed = False
        """Whether the last transaction was committed; set by its end."""
        self._handlers: dict[type, Callable[[Any], Any]] = {
            Update: self._update,
            Get: self._get,
            BatchGet: self._batch_get,
            Query: self._query,
            Scan: self._scan,
            Put: self._put_or_delete,
            Delete: self._put_or_delete,
            Transact: self._transact,
            BatchWrite: self._batch_write,
            CreateTable: refuse_table,
            DescribeTable: lambda _: "ACTIVE",
            EnableTtl: lambda _: None,
        }

    def execute(self, operation: Operation[Any]) -> Any:
        """Return the answer of ``operation``. Raises the ``StoreError`` of DynamoDB's refusal, and writes nothing
        then.
        """
        handler = self._handlers[type(operation)]
        try:
            if self._meter is None:
                return handler(operation)
            return metered(self._meter, operation, self._look_up, handler)
        except ConditionFailed:
            if changes_nothing(operation):  # it asks for the disk, too: this puts a page into the log, as it was
                self._execute(f"PRAGMA user_version = {VERSION}")
            raise

    def begin(self) -> bool:
        """Begin a transaction, which ends by ``committed`` or is undone; return whether no other process has written
        since the last one.
        """
        version: int = self._execute("PRAGMA data_version").fetchone()[0]
        unchanged = self.committed and version == self._version
        self.committed, self._version = False, version
        self._rows.begin(unchanged=unchanged)
        return unchanged

    def bring_back(self) -> None:
        """Bring some of these buckets back to now."""
        self._rows.bring_back()

    def count_usage_for(self, operation: Operation[Any]) -> bool:
        """Count usage that ``operation`` could read; return whether there may be more, for another transaction."""
        return self._usage.count_for(operation)

    def sweep(self) -> int:
        """Remove some of what has expired, and return the number of items."""
        # Sweep by what a clock showed a minute ago or earlier: one that jumps into the future and is corrected within a
        # minute removes nothing; one that went back is followed at once.
        now_ms = self._rows.now_ms
        seen, by_ms = self._execute("SELECT seen, before FROM file").fetchone() or (None, None)
        if type(seen) is not int or type(by_ms) is not int:
            raise NotApplied("the file is damaged: its table `file` has no times; restore a copy")
        if not seen <= now_ms < seen + FUTURE_MS:
            by_ms = min(seen, now_ms)
            self._execute("UPDATE file SET seen = ?, before = ?", (now_ms, by_ms))
        self._execute("DELETE FROM tokens WHERE used < ?", (by_ms - TOKENS_KEPT_MS,))
        gone = list(self._rows.expired(by_ms // 1000, at_most=SWEPT_AT_ONCE))
        for key, row in gone:
            self._replace(key, row, None)
        (free,) = self._execute("PRAGMA freelist_count").fetchone()
        for _ in range(min(free - FREE_PAGES, GIVEN_AT_ONCE)):  # Python's module takes one step of a pragma
            self._execute("PRAGMA incremental_vacuum(1)")
        return len(gone)

    def _look_up(self, key: Key) -> Item | None:
        row = self._rows.get(key)
        return None if row is None else row.item

    def _replace(self, key: Key, before: Row | None, item: Item | None, write: object = None) -> None:
        """Write an item in place of ``before``. ``write``: the only one of it."""
        hour = now_ms = None
        update = write if isinstance(write, Update) and not write.remove else None
        if key.sk == _STATE:
            now_ms = self._rows.now_ms
            hour = self._usage.note(key, before, item, hour=now_ms // HOUR_MS, adds=update is not None)
        self._rows.replace(key, before, item, hour, now_ms, update)

    def _update(self, update: Update) -> Item:
        key = checked_key(update.key)
        before = _readable(key, self._rows.get(key))
        item = after(update, key, None if before is None else before.item)
        assert item is not None  # an update leaves an item
        self._replace(key, before, item, update)
        return item.copy()  # a row may be kept in memory

    def _put_or_delete(self, write: Put | Delete) -> None:
        key = key_of(write)
        before = self._rows.get(key)
        self._replace(key, before, after(write, key, None if before is None else before.item))

    def _get(self, get: Get) -> Item | None:
        key = checked_key(get.key)
        row = _readable(key, self._rows.get(key))
        return None if row is None else copy_of(row.item)

    def _batch_get(self, batch: BatchGet) -> Found:
        keys = distinct([checked_key(key) for key in batch.keys], at_most=100)
        return Found({key: copy_of(item) for key in keys if (item := self._look_up(key)) is not None})

    def _batch_write(self, batch: BatchWrite) -> Unwritten:
        keys = distinct([key_of(write) for write in batch.writes], at_most=25)
        items = [after(write, key, None) for write, key in zip(batch.writes, keys, strict=True)]
        for key, item in zip(keys, items, strict=True):
            self._replace(key, self._rows.get(key), item)
        return Unwritten()

    def _transact(self, transact: Transact) -> None:
        keys = distinct([key_of(write) for write in transact.writes], at_most=100)
        if (token := transact.request_token) is not None:
            found = self._execute("SELECT digest FROM tokens WHERE token = ?", (token,)).fetchone()
            if found is not None and found[0] != _digest(transact):
                raise NotApplied("the token was used for another transaction")
            if found is not None:
                return
        rows = [self._rows.get(key) for key in keys]
        for write, key, row in zip(transact.writes, keys, rows, strict=True):
            if not isinstance(write, Put | Delete):
                _readable(key, row)
        items = outcomes(transact.writes, keys, [None if row is None else row.item for row in rows])
        for write, key, row, item in zip(transact.writes, keys, rows, items, strict=True):
            if type(write) is not Check:
                self._replace(key, row, item, write)
        if token is not None:
            values = (token, _digest(transact), self._rows.now_ms)
            self._execute("INSERT INTO tokens (token, digest, used) VALUES (?, ?, ?)", values)

    def _query(self, query: Query) -> Page:
        index = INDEXES[query.index] if query.index else None
        items = self._rows.query(query)
        names = (*TABLE_KEYS, *(index[:2] if index else ()))
        following = _next(items, names, query.limit)
        return Page([projected(item, index) or {} for item in items] if index else items, following)

    def _scan(self, scan: Scan) -> Page:
        items = self._rows.scan(scan)
        return Page(items, _next(items, TABLE_KEYS, scan.limit))


def _readable(key: Key, row: Row | None) -> Row | None:
    """Return the row. Raises ``Unreadable``: what keeps a part of an item needs the whole of it."""
    if row is not None and row.problem is not None:
        raise Unreadable(*key, row.problem)
    return row


def _next(items: list[Item], names: tuple[str, ...], limit: int | None) -> dict[str, str] | None:
    """Return the start of the next page: as in DynamoDB, a full page has one, even if it is the last."""
    if not items or len(items) < page_size(limit):
        return None
    return {name: items[-1][name] for name in names}


def _digest(transact: Transact) -> bytes:
    return sha256(repr(transact.writes).encode("utf-8", "surrogatepass")).digest()
