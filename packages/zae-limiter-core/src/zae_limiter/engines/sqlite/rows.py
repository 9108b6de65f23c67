"""The rows of items and of their index entries. All of it is inside a transaction that the caller has begun."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from ...operations.values import Item, Key, Query, Scan
from ...schema.attributes import PK, SK, TTL
from ...schema.table import INDEXES

MOST_ITEMS: Final = 4_000  # on a page, where DynamoDB has 1 MB
EXPIRY_STEP: Final = 60  # seconds: the expiry of a bucket moves with each acquire, its row in the index does not
_LATEST: Final = 2**62
_PLACES: Final = [name for index in INDEXES.values() for name in index[:2]]

write_json: Final[Callable[[Any], str]] = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
read_json: Final[Callable[[str], Item]] = json.JSONDecoder().decode

_SELECT: Final = "SELECT item, hour FROM items WHERE pk = ? AND sk = ?"
_UPDATE: Final = "UPDATE items SET item = ? WHERE pk = ? AND sk = ?"
_UPDATE_ALL: Final = "UPDATE items SET item = ?, expires = ?, hour = ? WHERE pk = ? AND sk = ?"
_INSERT: Final = "INSERT INTO items (item, expires, hour, pk, sk) VALUES (?, ?, ?, ?, ?)"
_DELETE: Final = "DELETE FROM items WHERE pk = ? AND sk = ?"
_ENTER: Final = "INSERT INTO entries (name, pk, sk, item_pk, item_sk) VALUES (?, ?, ?, ?, ?)"
_LEAVE: Final = "DELETE FROM entries WHERE name = ? AND pk = ? AND sk = ? AND item_pk = ? AND item_sk = ?"
BEGINS_WITH: Final = "{0} >= ? AND {0} < ? || CAST(x'ff' AS TEXT)"  # no UTF-8 has the byte ff


class Row(NamedTuple):
    """An item, and the hour of its uncounted use."""

    item: Item
    hour: int | None


class Rows:
    """The items of a connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute

    def get(self, key: Key) -> Row | None:
        """Return the row of an item."""
        found = self._execute(_SELECT, key).fetchone()
        return None if found is None else Row(read_json(found[0]), found[1])

    def replace(self, key: Key, before: Row | None, item: Item | None, hour: int | None) -> None:
        """Write an item in place of ``before``, or remove it."""
        if item is None:
            if before is not None:
                self._execute(_DELETE, key)
                self._change_entries(key, before.item, {})
            return
        if before is None:
            self._execute(_INSERT, (write_json(item), _expiry(item), hour, *key))
            self._change_entries(key, {}, item)
            return
        expires = _expiry(item)
        if hour == before.hour and expires == _expiry(before.item):
            self._execute(_UPDATE, (write_json(item), *key))
        else:
            self._execute(_UPDATE_ALL, (write_json(item), expires, hour, *key))
        self._change_entries(key, before.item, item)

    def _change_entries(self, key: Key, before: Item, after: Item) -> None:
        if [*map(before.get, _PLACES)] == [*map(after.get, _PLACES)]:  # as with nearly every update
            return
        for name, index in INDEXES.items():
            old, new = ((item.get(index.pk), item.get(index.sk)) for item in (before, after))
            if old == new:
                continue
            if None not in old:
                self._execute(_LEAVE, (name, *old, *key))
            if None not in new:
                self._execute(_ENTER, (name, *new, *key))

    def query(self, query: Query) -> list[Item]:
        """Return the items of a page, in order, at most ``MOST_ITEMS``."""
        sql, values = _of_index(query) if query.index else _of_table(query)
        sql += " LIMIT ?"
        values.append(page_size(query.limit))
        return [read_json(text) for (text,) in self._execute(sql, values)]

    def scan(self, scan: Scan) -> list[Item]:
        """Return the items of a page, by key."""
        start = (scan.start[PK], scan.start[SK]) if scan.start else ("", "")
        sql = "SELECT item FROM items WHERE (pk, sk) > (?, ?) ORDER BY pk, sk LIMIT ?"
        return [read_json(text) for (text,) in self._execute(sql, (*start, page_size(scan.limit)))]

    def expired(self, now_seconds: int, *, at_most: int) -> Iterator[tuple[Key, Row]]:
        """Return items whose ``ttl`` has passed, with their keys."""
        sql = "SELECT pk, sk, item, hour FROM items WHERE expires < ? ORDER BY expires LIMIT ?"
        for pk, sk, text, hour in self._execute(sql, (now_seconds, at_most)).fetchall():
            yield Key(pk, sk), Row(read_json(text), hour)


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
    return f"SELECT item FROM items WHERE pk = ?{narrowed} ORDER BY {order}", [query.pk, *values]


def _of_index(query: Query) -> tuple[str, list[Any]]:
    narrowed, values = _narrowed(query, "e.sk")
    if query.start is not None:
        narrowed += f" AND (e.sk, item_pk, item_sk) {'<' if query.descending else '>'} (?, ?, ?)"
        values += [query.start[INDEXES[query.index or "GSI1"].sk], query.start[PK], query.start[SK]]
    way = " DESC" if query.descending else ""
    joined = "entries e CROSS JOIN items i ON i.pk = item_pk AND i.sk = item_sk"  # CROSS: the entries first
    order = f"e.sk{way}, item_pk{way}, item_sk{way}"
    sql = f"SELECT item FROM {joined} WHERE e.name = ? AND e.pk = ?{narrowed} ORDER BY {order}"
    return sql, [query.index, query.pk, *values]


def _narrowed(query: Query, sk: str) -> tuple[str, list[Any]]:
    sql, values = "", []
    if query.begins_with:
        sql += f" AND {BEGINS_WITH.format(sk)}"
        values += [query.begins_with, query.begins_with]
    if query.after is not None:
        sql += f" AND {sk} > ?"
        values.append(query.after)
    return sql, values
