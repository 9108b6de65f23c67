"""The rows of items and of their index entries. All of it is inside a transaction that the caller has begun.

Buckets that were written by a fast clock are brought back to now, when they are read. The problem: a balance counts
from the anchor, so tokens that were taken while the clock was a year fast had been minted in that year. Once the clock
is right again, the bucket looks as if it owed all of them, and no call passes for a year; nothing in the item tells
that from a debt. The choice: each bucket's row has the instant of its last write. If that lies in the future, the
balance of that instant becomes the balance of now: nothing is minted, and nothing is owed that was not. Slots and
windows that began in the future begin now.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NoReturn

from ...clock.system import Clock
from ...operations.values import Item, Key, Query, Scan, Update, is_flat
from ...rules.balances import refill_bucket
from ...runtime.named_tuple import NamedTuple
from ...schema.attributes import CONFIG_AS_OF, PK, SK, TTL, bucket_attributes
from ...schema.items import FUTURE_MS, anchor_attributes, read_bucket
from ...schema.record import UNREADABLE
from ...schema.table import INDEXES, KEY_ATTRIBUTES
from .connection import NUMBERS

MOST_ITEMS: Final = 4_000  # on a page, where DynamoDB has 1 MB
EXPIRY_STEP: Final = 60  # seconds: the expiry of a bucket moves with each acquire, its row in the index does not
MOST_AT_ONCE: Final = 64  # buckets that are brought back in one transaction
_LATEST: Final = 2**62
_KEY_NAMES: Final = frozenset(KEY_ATTRIBUTES)
_PLACES: Final = [name for index in INDEXES.values() for name in index[:2]]

write_json: Final[Callable[[Any], str]] = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
MOST_LEVELS: Final = 32  # of lists and maps in each other, as DynamoDB has them

_ROW: Final = f"item, hour, written, counters, {', '.join(NUMBERS)}"
_SELECT: Final = f"SELECT {_ROW} FROM items WHERE pk = ? AND sk = ?"
_OF_KEY: Final = " WHERE pk = ? AND sk = ?"
_UPDATE: Final = (
    "UPDATE items SET item = ?, written = ?, expires = ?, hour = ?, counters = ?, "
    f"{' = ?, '.join(NUMBERS)} = ?{_OF_KEY}"
)
_INSERT: Final = "INSERT INTO items (item, written, expires, hour, pk, sk) VALUES (?, ?, ?, ?, ?, ?)"
_DROP_HOUR: Final = f"UPDATE items SET hour = NULL{_OF_KEY}"
_DELETE: Final = "DELETE FROM items WHERE pk = ? AND sk = ?"
_ENTER: Final = "INSERT INTO entries (name, pk, sk, item_pk, item_sk) VALUES (?, ?, ?, ?, ?)"
_LEAVE: Final = "DELETE FROM entries WHERE name = ? AND pk = ? AND sk = ? AND item_pk = ? AND item_sk = ?"
MOST_SEEN: Final = 1_000  # buckets that are kept in memory, of some KB each
_UNSEEN: Final = (-1, None)
_INT: Final = {int}
LEAST_NUMBER: Final = -(2**63)  # in a column; what is beyond stays in the JSON
MOST_NUMBER: Final = 2**63 - 1
LONGEST_NAMES: Final = 4_000  # characters of JSON
DAMAGED: Final = (ValueError, TypeError, RecursionError)
BEGINS_WITH: Final = "{0} >= ? AND {0} < ? || CAST(x'ff' AS TEXT)"  # no UTF-8 has the byte ff


class Counters(NamedTuple):
    """The attributes that a row has in columns, in their order."""

    text: str
    names: tuple[str, ...]
    set: frozenset[str]
    update: str
    """The statement that writes the columns alone."""

    def numbers(self, item: Item) -> list[int] | None:
        """Return what the columns have of an item; ``None`` if not all of it is numbers that SQLite has."""
        values = [*map(item.__getitem__, self.names)]
        return (
            values
            if {*map(type, values)} == _INT and min(values) >= LEAST_NUMBER and max(values) <= MOST_NUMBER
            else None
        )


class Row(NamedTuple):
    """An item, and the hour of its uncounted use. ``in_future``: it is stored as a fast clock has left it.

    ``problem``: why the row cannot be read, whose item has its keys alone then.
    """

    item: Item
    hour: int | None
    in_future: bool = False
    problem: str | None = None
    counters: Counters | None = None
    written_ms: int = 0
    text: str = ""
    """The JSON of what is not in columns."""


class Rows:
    """The items of a connection. Nothing else writes into their table."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        self._execute = connection.execute
        self._clock = clock
        # Buckets as they were read or written last, each with the generation of that. Those of the current generation
        # are as the file has them: it ends when somebody else may have written.
        self._seen: dict[Key, tuple[int, Row]] = {}
        self._generation = 0
        self.now_ms = 0
        """The instant of the transaction."""
        self.in_future: set[Key] = set()
        """The buckets that were read as if they had been written now. Time counts once they are."""

    def begin(self, *, unchanged: bool) -> None:
        """Begin a transaction. ``unchanged``: whether the file is as the last one has left it."""
        self.now_ms = self._clock.now_ms()
        if not unchanged:
            self._generation += 1

    def get(self, key: Key) -> Row | None:
        """Return the row of an item, whose values are not to be changed."""
        generation, seen = self._seen.get(key, _UNSEEN)
        if generation == self._generation and seen is not None and seen.written_ms <= self.now_ms + FUTURE_MS:
            return seen
        found = self._execute(_SELECT, key).fetchone()
        if found is None:
            return None
        row = self._row(key, found, seen)
        if row.counters is not None and ((seen is not None and row.text == seen.text) or is_flat(row.item)):
            self._keep(key, row)
        return row

    def _keep(self, key: Key, row: Row) -> None:
        if len(self._seen) >= MOST_SEEN:
            self._seen.clear()
        self._seen[key] = self._generation, row

    def _row(self, key: Key, columns: Sequence[Any], seen: Row | None = None) -> Row:
        """Return a row of columns that begin with ``_ROW``. ``seen``: as it was before, with most of what it has."""
        text, hour, written_ms, names = columns[:4]
        counters = None
        try:
            if seen is not None and seen.counters is not None and text == seen.text and names == seen.counters.text:
                item, counters = seen.item.copy(), seen.counters
            else:
                item = _read(text, key)
                counters = None if names is None else _counters(names)
            if counters is not None:
                numbers = columns[4 : 4 + len(counters.names)]
                if {*map(type, numbers)} != _INT:  # SQLite keeps any type in any column
                    raise TypeError("a column is not a number")
                item.update(zip(counters.names, numbers, strict=True))
            if type(written_ms) is not int and written_ms is not None:
                raise TypeError("the time of its last write is not a number")
        except DAMAGED as error:
            return Row(_keys_of(text, key), hour, problem=f"it has a value that no record has: {error}")
        if written_ms is None or written_ms <= self.now_ms + FUTURE_MS:
            return Row(item, hour, False, None, counters, written_ms or 0, text)
        self.in_future.add(key)
        return Row(_brought_back(item, written_ms, self.now_ms), hour, in_future=True)

    def bring_back(self) -> None:
        """Write some of the buckets that were written in the future."""
        for key in list(islice(self.in_future, MOST_AT_ONCE)):
            self.in_future.remove(key)
            if (row := self.get(key)) is not None and row.in_future:
                self.in_future.remove(key)
                self.replace(key, row, row.item, row.hour, self.now_ms)

    def replace(
        self,
        key: Key,
        before: Row | None,
        item: Item | None,
        hour: int | None,
        written_ms: int | None = None,
        update: Update | None = None,
    ) -> None:
        """Write an item in place of ``before``, or remove it. ``written_ms``: the instant, for a bucket. ``update``:
        the only change, if it removes no attribute.
        """
        seen = self._seen.pop(key, None)
        if item is None:
            if before is not None:
                self._execute(_DELETE, key)
                self._change_entries(key, before.item, {})
            return
        if before is None:
            self._execute(_INSERT, (write_json(item), written_ms, _expiry(item), hour, *key))
            self._change_entries(key, {}, item)
            return
        counters = before.counters
        if (
            counters is not None
            and written_ms is not None
            and update is not None
            and counters.set.issuperset(update.add)
            and counters.set.issuperset(update.set)
            and hour == before.hour
            and (item.get(TTL) == before.item.get(TTL) or _expiry(item) == _expiry(before.item))
            and (numbers := counters.numbers(item)) is not None
        ):  # as nearly every acquire
            self._execute(counters.update, (*numbers, written_ms, *key))  # no index has a number
            if seen is not None:
                self._keep(key, Row(item, hour, False, None, counters, written_ms, before.text))
            return
        # The columns get what acquires have changed: other numbers of a bucket stay in its JSON.
        names = [] if written_ms is None or update is None else _numbers_of(item, counters, update)
        rest = {name: value for name, value in item.items() if name not in names} if names else item
        numbers = [item[name] for name in names] + [None] * (len(NUMBERS) - len(names))
        values = (write_json(rest), written_ms, _expiry(item), hour, write_json(names) if names else None)
        self._execute(_UPDATE, (*values, *numbers, *key))
        self._change_entries(key, before.item, item)

    def drop_hour(self, key: Key) -> None:
        """Note that the use of a bucket is counted."""
        self._seen.pop(key, None)
        self._execute(_DROP_HOUR, key)

    def _change_entries(self, key: Key, before: Item, after: Item) -> None:
        if [*map(before.get, _PLACES)] == [*map(after.get, _PLACES)]:  # as with nearly every update
            return
        for name, index in INDEXES.items():
            old, new = ((item.get(index.pk), item.get(index.sk)) for item in (before, after))
            if old == new:
                continue
            if {*map(type, old)} == {str}:  # a damaged item is in no index by a number
                self._execute(_LEAVE, (name, *old, *key))
            if {*map(type, new)} == {str}:
                self._execute(_ENTER, (name, *new, *key))

    def query(self, query: Query) -> list[Item]:
        """Return the items of a page, in order, at most ``MOST_ITEMS``."""
        sql, values = _of_index(query) if query.index else _of_table(query)
        sql += " LIMIT ?"
        values.append(page_size(query.limit))
        found = self._execute(sql, values)
        if not query.index:
            return [self._row(Key(*row[-2:]), row).item for row in found]
        names = INDEXES[query.index][:2]  # as the index has them, whatever the text of a damaged item has
        return [self._row(Key(*row[-2:]), row).item | dict(zip(names, row[-4:-2], strict=True)) for row in found]

    def scan(self, scan: Scan) -> list[Item]:
        """Return the items of a page, by key."""
        start = (scan.start[PK], scan.start[SK]) if scan.start else ("", "")
        where = f"(pk, sk) > (?, ?) AND {_texts('pk', 'sk')}"
        sql = f"SELECT {_ROW}, pk, sk FROM items WHERE {where} ORDER BY pk, sk LIMIT ?"
        return [self._row(Key(*row[-2:]), row).item for row in self._execute(sql, (*start, page_size(scan.limit)))]

    def expired(self, now_seconds: int, *, at_most: int) -> Iterator[tuple[Key, Row]]:
        """Return items whose ``ttl`` has passed, with their keys."""
        where = f"expires < ? AND {_texts('pk', 'sk')}"
        sql = f"SELECT {_ROW}, pk, sk FROM items WHERE {where} ORDER BY expires LIMIT ?"
        for row in self._execute(sql, (now_seconds, at_most)).fetchall():
            yield (key := Key(*row[-2:])), self._row(key, row)


@lru_cache(maxsize=256)
def _counters(text: str) -> Counters:
    """Return the attributes that a row has in columns. Raises an error of ``DAMAGED``."""
    if len(text) > LONGEST_NAMES:
        raise ValueError("the names of its columns are too long")
    names = json.loads(text)
    if type(names) is not list or {*map(type, names)} != {str} or not len({*names}) == len(names) <= len(NUMBERS):
        raise ValueError("its columns have no names")
    _check(names, 1)
    if not _KEY_NAMES.isdisjoint(names):
        raise ValueError("a column has the name of a key")
    columns = " = ?, ".join(NUMBERS[: len(names)])
    return Counters(text, tuple(names), frozenset(names), f"UPDATE items SET {columns} = ?, written = ?{_OF_KEY}")


def _numbers_of(item: Item, counters: Counters | None, update: Update) -> list[str]:
    """Return the attributes of a bucket that go into columns: those that are there, and what an update has changed."""
    names = dict.fromkeys((*(counters.names if counters else ()), *update.add, *update.set))
    found = [
        name
        for name in names
        if type(item.get(name)) is int and LEAST_NUMBER <= item[name] <= MOST_NUMBER and name not in _KEY_NAMES
    ][: len(NUMBERS)]
    return found if len(write_json(found)) <= LONGEST_NAMES else []


def _brought_back(item: Item, written_ms: int, now_ms: int) -> Item:
    """Return a bucket that was written in the future as if it had been written now; a damaged one as it is."""
    try:
        state = read_bucket(item)
        now = {CONFIG_AS_OF: min(item[CONFIG_AS_OF], now_ms), **anchor_attributes(state.limits, now_ms)}
        for name, shard_limit in state.shard_limits.items():
            at = bucket_attributes(name)
            if name not in state.slots:
                now[at.tokens] = refill_bucket(shard_limit, item[at.tokens], written_ms)
            now |= {begin: min(item[begin], now_ms) for begin in (at.epoch_began, at.begun) if begin in item}
    except UNREADABLE:
        return item
    if TTL in item:  # as long a life as it had
        now[TTL] = item[TTL] - (written_ms - now_ms) // 1000
    return {**item, **now}


def parsed(text: str, key: Key) -> Item:
    """Return the item in a text; the keys alone of one that is damaged: who reads it says so, and lists skip it."""
    try:
        return _read(text, key)
    except DAMAGED:
        return _keys_of(text, key)


def _read(text: str, key: Key) -> Item:
    """Return the item in a text. Raises an error of ``DAMAGED`` for what JSON has and an item has not."""
    item, end = _JSON.raw_decode(text)
    if end != len(text):  # with spaces around it, or damaged
        item = _JSON.decode(text)
    if type(item) is not dict:
        raise TypeError("the text is not a JSON object")
    if "\\" in text or "[" in text or "{" in text[1:]:  # else all is flat, and of whole characters
        _check(item, MOST_LEVELS + 1)
    if item.get(PK) == key.pk and item.get(SK) == key.sk:
        return item
    return {**item, PK: key.pk, SK: key.sk}


def _refuse(_: str) -> NoReturn:
    raise ValueError("a number that is not whole")


# No call for a whole number: every acquire reads an item of mostly those.
_JSON: Final = json.JSONDecoder(parse_float=_refuse, parse_constant=_refuse)


def _check(value: Any, levels: int) -> None:
    if type(value) is str:
        value.encode()  # half of a surrogate pair has no bytes
    if type(value) not in {dict, list}:
        return
    if not levels:
        raise ValueError(f"a value has more than {MOST_LEVELS} levels")
    for part in (*value, *value.values()) if type(value) is dict else value:
        _check(part, levels - 1)


def _keys_of(text: str, key: Key) -> Item:
    """Return the keys of a damaged item, and those by which it is in indexes, to leave them with it."""
    try:
        item = json.loads(text)
        places = {name: item[name] for name in _PLACES if type(item.get(name)) is str and item[name].encode()}
    except (*DAMAGED, AttributeError):
        places = {}
    return {**places, PK: key.pk, SK: key.sk}


def page_size(limit: int | None) -> int:
    """Return the most items of a page."""
    return MOST_ITEMS if limit is None else min(limit, MOST_ITEMS)


def _expiry(item: Item) -> int | None:
    ttl = item.get(TTL)
    if type(ttl) is not int:
        return None
    return max(-_LATEST, min(_LATEST, -(-ttl // EXPIRY_STEP) * EXPIRY_STEP))


def _of_table(query: Query) -> tuple[str, list[Any]]:
    narrowed, values = _narrowed(query, "sk")
    if query.start is not None:
        narrowed += f" AND sk {'<' if query.descending else '>'} ?"
        values.append(query.start[SK])
    order = "sk DESC" if query.descending else "sk"
    return f"SELECT {_ROW}, pk, sk FROM items WHERE pk = ?{narrowed} ORDER BY {order}", [query.pk, *values]


def _of_index(query: Query) -> tuple[str, list[Any]]:
    narrowed, values = _narrowed(query, "e.sk", "item_pk", "item_sk")
    if query.start is not None:
        narrowed += f" AND (e.sk, item_pk, item_sk) {'<' if query.descending else '>'} (?, ?, ?)"
        values += [query.start[INDEXES[query.index or "GSI1"].sk], query.start[PK], query.start[SK]]
    way = " DESC" if query.descending else ""
    joined = "entries e CROSS JOIN items i ON i.pk = item_pk AND i.sk = item_sk"  # CROSS: the entries first
    order = f"e.sk{way}, item_pk{way}, item_sk{way}"
    columns = f"{_ROW}, e.pk, e.sk, i.pk, i.sk"
    sql = f"SELECT {columns} FROM {joined} WHERE e.name = ? AND e.pk = ?{narrowed} ORDER BY {order}"
    return sql, [query.index, query.pk, *values]


def _texts(*columns: str) -> str:
    """Return the condition that columns hold texts: no operation names a key of bytes, which sorts behind all texts."""
    return " AND ".join(f"{column} < x''" for column in columns)


def _narrowed(query: Query, *columns: str) -> tuple[str, list[Any]]:
    """Return the condition of a query, of which the first column is the sort key, and its values."""
    sk, values = columns[0], []
    if query.begins_with or (query.descending and query.start is not None):
        columns = columns[1:]  # that ends at a text: with two ends, SQLite may take the wrong one
    sql = "".join(f" AND {_texts(column)}" for column in columns)
    if query.begins_with:
        sql += f" AND {BEGINS_WITH.format(sk)}"
        values += [query.begins_with, query.begins_with]
    if query.after is not None:
        sql += f" AND {sk} > ?"
        values.append(query.after)
    return sql, values
