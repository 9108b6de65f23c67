"""A table in memory, with DynamoDB's outcome for every operation.

The items are in a dict, behind one lock. ``effects`` has the effect of a write, ``meter`` its cost.

Unused items must go, or the table grows with each id that a client makes up. An update moves a ``ttl`` on
the path of every acquire, so a heap or a wheel of instants would make that path dearer. Instead a hand goes round all
keys, like that of the page replacement of this name (Corbato 1968): it removes what has expired and passes the rest.
It looks at four keys for each new item; so of ``n`` items at most ``n / 4`` have expired, and the table holds at most a
third more than what lives. Where it finds something it goes on with the next operation, else it rests for 64.

Usage is counted as in SQLite: consumption telescopes. The first change of a bucket in an hour keeps the item as it was.
The difference is counted in the snapshots of the hour and of the day with the first change of another hour, with a
change that does not telescope, and before a query that could read usage. So an acquire pays for one look at a dict.
"""

import logging
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Any, Final

from ...operations.errors import NotApplied
from ...operations.sizes import projected
from ...operations.values import (
    BatchGet,
    BatchWrite,
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
    copy_of,
    is_flat,
)
from ...runtime import forks
from ...schema.attributes import PK, SK, TTL
from ...schema.items import BucketId
from ...schema.keys import sk_state
from ...schema.record import UNREADABLE
from ...schema.table import INDEXES, TABLE_KEYS
from ...values.usage import Window
from ..effects import HOUR_MS, Write, after, checked_key, distinct, key_of, outcomes, refuse_table, usage_updates
from ..meter import Meter, metered

_REMEMBERED_TOKENS: Final = 10_000
_REST: Final = 64  # operations from one look at the oldest keys to the next
_LOOKS: Final = 4  # keys that such a look is at
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
        self._anew: tuple[int, Item] = 0, {}  # of all buckets that were made in an hour

    def note(self, key: Key, before: Item | None, item: Item | None, *, adds: bool) -> None:
        """Note a change of a bucket; ``adds``: it is an update that removes no attribute."""
        if key.sk != sk_state():
            return
        hour, since = self.now_ms() // HOUR_MS, self.since.get(key)
        if adds and since is not None and since[0] == hour:
            return
        if since is not None and before is not None:
            self._count(key, since[1], before, since[0])
        self.since.pop(key, None)
        if item is None:
            return
        if before is None:
            if self._anew[0] != hour:
                self._anew = hour, {}
            self.since[key] = self._anew
        elif adds:
            self.since[key] = hour, before
        else:
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


class MemoryTable:
    """A table in memory that answers operations as DynamoDB does. Threads may share it.

    ``meter``, if given, counts the cost of the requests on DynamoDB. Items expire by ``expire``, or after
    ``expire_by``. A page of a query ends only at its ``limit``, not at 1 MB.
    """

    def __init__(self, meter: Meter | None = None) -> None:
        self._items: dict[Key, Item] = {}  # an item is never changed, only replaced
        self._nested: set[Key] = set()  # keys of items that may have a list or a map, which a shallow copy would share
        self._round: deque[Key] = deque()  # all keys, each once; the first is where the hand is
        self._removed: set[Key] = set()  # those in it whose item has gone, until the hand comes to them
        self._done = 0  # operations since the last look; a new item counts as many as make one due
        self._expires_by: Callable[[], int] | None = None
        self._usage: Usage | None = None
        self._tokens: dict[str, tuple[Write, ...]] = {}
        self.meter: Meter | None = meter
        """Counts requests and units, if there is one."""
        self.lock = Lock()
        """Held while an item is read or replaced."""
        self.look = self._items.get
        """Returns an item as it is, or ``None``: not to be changed."""
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
        forks.register(self)

    def forget(self) -> None:
        """Take a new lock after a fork: the child goes on with its own copy of the table."""
        self.lock = Lock()

    def execute(self, operation: Operation[Any]) -> Any:
        """Return the answer of ``operation``. Raises the ``StoreError`` of DynamoDB's refusal."""
        handler = self._handlers[type(operation)]
        with self.lock:
            self._done += 1
            if self._done >= _REST:
                self._look()
            if self.meter is None:
                return handler(operation)
            return metered(self.meter, operation, self._items.get, handler)

    def replace(self, key: Key, before: Item, item: Item, now_ms: int) -> None:
        """Replace an item, as the holder of the ``lock`` looked at it, by one with other numbers."""
        self._items[key] = item
        self._count(key, before, item, now_ms)
        self._done += 1
        if self._done >= _REST:
            self._look()

    def expire_by(self, now_ms: Callable[[], int]) -> None:
        """Remove items soon after their ``ttl`` by ``now_ms``, in epoch milliseconds: a few with each operation."""
        self._expires_by = now_ms

    def count_usage(self, now_ms: Callable[[], int]) -> None:
        """Count the usage of buckets in the hours and days of a clock, as the aggregator of a stack does."""
        self._usage = Usage(self._items.get, self._update, now_ms)

    @property
    def counts_usage(self) -> bool:
        """Whether it counts the usage of buckets."""
        return self._usage is not None

    def expire(self, now_seconds: int) -> int:
        """Remove the items whose ``ttl`` has passed, and return their number."""
        with self.lock:
            gone = [key for key, item in self._items.items() if _is_expired(item, now_seconds)]
            for key in gone:
                self._replace(key, None)
            return len(gone)

    def _look(self) -> None:
        """Remove what has expired of the next keys, and pass the others."""
        looks = min(self._done // _REST * _LOOKS, len(self._round))
        self._done = 0
        if self._expires_by is None:
            return
        now_seconds = self._expires_by() // 1000
        keys, items = self._round, self._items
        for _ in range(looks):
            key = keys[0]
            item = items.get(key)
            if item is not None and not _is_expired(item, now_seconds):
                keys.rotate(-1)
                continue
            if item is not None:
                self._replace(key, None)
            keys.popleft()
            self._removed.discard(key)
            self._done = _REST  # there may be more: look again with the next operation

    def _add(self, key: Key, item: Item) -> None:
        self._items[key] = item
        if key in self._removed:  # the hand has not come by since
            self._removed.discard(key)
        else:
            self._round.append(key)
        self._done += _REST

    def _update(self, update: Update) -> Item:
        key = update.key
        before = self._items.get(key)
        item = after(update, checked_key(key) if before is None else key, before)
        assert item is not None  # an update leaves an item
        if before is None:
            self._add(key, item)
        else:
            self._items[key] = item
        if update.remove and self._usage is not None:
            self._usage.note(key, before, item, adds=False)
        else:
            self._count(key, before, item, None)
        if not is_flat(update.set):
            self._nested.add(key)
        return copy_of(item) if key in self._nested else item.copy()

    def _count(self, key: Key, before: Item | None, item: Item, now_ms: int | None) -> None:
        """Count the usage of an update that removes no attribute."""
        usage = self._usage
        if usage is None:
            return
        # `note` knows what to do; asked here whether it has to, for most updates are not the first of their hour
        hour = (usage.now_ms() if now_ms is None else now_ms) // HOUR_MS
        if (since := usage.since.get(key)) is None or since[0] != hour:
            usage.note(key, before, item, adds=True)

    def _put_or_delete(self, write: Put | Delete) -> None:
        key = key_of(write)
        self._replace(key, after(write, key, self._items.get(key)))

    def _get(self, get: Get) -> Item | None:
        item = self._items.get(checked_key(get.key))
        return None if item is None else copy_of(item)

    def _batch_get(self, batch: BatchGet) -> Found:
        keys = distinct([checked_key(key) for key in batch.keys], at_most=100)
        return Found({key: copy_of(item) for key in keys if (item := self._items.get(key)) is not None})

    def _batch_write(self, batch: BatchWrite) -> Unwritten:
        keys = distinct([key_of(write) for write in batch.writes], at_most=25)
        items = [after(write, key, None) for write, key in zip(batch.writes, keys, strict=True)]
        for key, item in zip(keys, items, strict=True):
            self._replace(key, item)
        return Unwritten()

    def _transact(self, transact: Transact) -> None:
        keys = distinct([key_of(write) for write in transact.writes], at_most=100)
        if transact.request_token in self._tokens:
            if self._tokens[transact.request_token] != transact.writes:
                raise NotApplied("the token was used for another transaction")
            return
        items = outcomes(transact.writes, keys, [self._items.get(key) for key in keys])
        for key, item in zip(keys, items, strict=True):
            self._replace(key, item)
        if transact.request_token is not None:
            self._tokens[transact.request_token] = transact.writes
            if len(self._tokens) > _REMEMBERED_TOKENS:
                del self._tokens[next(iter(self._tokens))]

    def _replace(self, key: Key, item: Item | None) -> None:
        if self._usage is not None:
            self._usage.note(key, self._items.get(key), item, adds=False)
        if item is None:
            if self._items.pop(key, None) is not None:
                self._removed.add(key)
            self._nested.discard(key)
            return
        if key in self._items:
            self._items[key] = item
        else:
            self._add(key, item)
        if not is_flat(item):
            self._nested.add(key)

    def _query(self, query: Query) -> Page:
        if self._usage is not None:
            self._usage.count_for(query)
        index = INDEXES[query.index] if query.index else None
        pk, sk = (index.pk, index.sk) if index else TABLE_KEYS
        items = [
            item
            for item in self._items.values()
            if item.get(pk) == query.pk
            and (at := item.get(sk)) is not None
            and at.startswith(query.begins_with or "")
            and (query.after is None or at > query.after)
        ]
        items.sort(key=lambda item: _place(item, sk), reverse=query.descending)
        if query.start is not None:
            start, descends = _place(dict(query.start), sk), query.descending
            items = [item for item in items if (_place(item, sk) < start if descends else _place(item, sk) > start)]
        page = items[: query.limit]
        # As in DynamoDB, a full page has a ``next``, even if it is the last one.
        full = query.limit is not None and len(page) == query.limit
        last = {name: page[-1][name] for name in (*TABLE_KEYS, pk, sk)} if full else None
        states = (projected(item, index) if index else item for item in page)
        return Page([copy_of(state) for state in states if state is not None], last)

    def _scan(self, scan: Scan) -> Page:
        if self._usage is not None:
            self._usage.count_for(scan)
        start = _place(dict(scan.start), SK) if scan.start else ()
        items = sorted(self._items.values(), key=lambda item: _place(item, SK))
        page = [item for item in items if _place(item, SK) > start][: scan.limit]
        last = {name: page[-1][name] for name in TABLE_KEYS} if len(page) == scan.limit else None
        return Page([copy_of(item) for item in page], last)


def _place(item: Item, sk: str) -> tuple[str, ...]:
    return item[sk], item[PK], item[SK]


def _is_expired(item: Item, now_seconds: int) -> bool:
    ttl = item.get(TTL)
    return type(ttl) is int and ttl < now_seconds
