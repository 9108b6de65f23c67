"""Choose the rows of an index that a call may use: those of its own namespace that it can read.

The policies of a namespace bind the table's key alone, not the keys of indexes: whoever may write under its own key can
place a row in any partition of an index. So no row of an index is trusted. This module says which rows are dropped, and
logs their number; a reader checks the content of a row.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from ..operations.values import Item, Key, Query
from ..schema import keys
from ..schema.attributes import PK
from ..schema.reading import UNREADABLE
from .retry import key_of, with_retries
from .steps import DroppedRows, Flow

T = TypeVar("T")


@dataclass(slots=True)
class IndexRows:
    """Picks the rows of one namespace, and counts the others: *foreign* ones, and *unreadable* ones of its own."""

    namespace_id: str
    foreign: int = 0
    unreadable: int = 0
    first: Key | None = None

    def own(self, items: Iterable[Item]) -> list[Item]:
        """Return the items whose table key is of the namespace."""
        return self.read(items, lambda item: item)

    def read(self, items: Iterable[Item], reader: Callable[[Item], T]) -> list[T]:
        """Return what the reader makes of the namespace's own items; leave out those that it cannot read."""
        prefix = keys.pk_prefix(self.namespace_id)
        found: list[T] = []
        for item in items:
            if not item[PK].startswith(prefix):
                self._drop(item, foreign=1)
                continue
            try:
                found.append(reader(item))
            except UNREADABLE:
                self._drop(item, unreadable=1)
        return found

    def _drop(self, item: Item, *, foreign: int = 0, unreadable: int = 0) -> None:
        self.foreign += foreign
        self.unreadable += unreadable
        self.first = self.first or key_of(item)


def query_rows(query: Query, rows: IndexRows, reader: Callable[[Item], T]) -> Flow[list[T]]:
    """Return what the reader makes of the rows of all pages, in order."""
    found: list[T] = []
    while True:
        page = yield from with_retries(query)
        found += rows.read(page.items, reader)
        if page.next is None:
            return found
        query = replace(query, start=page.next)


def report(*counted: IndexRows) -> Flow[None]:
    """Log the rows that a call dropped, if any: one line with the table key of the first row, and no other
    attribute.
    """
    foreign, unreadable = (sum(getattr(rows, count) for rows in counted) for count in ("foreign", "unreadable"))
    first = next(((rows.namespace_id, rows.first) for rows in counted if rows.first is not None), None)
    if first is None:
        return
    namespace_id, key = first
    kind = "foreign" if foreign else "unreadable"  # a filter of logs looks for it: no key can hide it
    told = (
        f"dropped {kind} rows of an index: foreign_rows={foreign} unreadable_rows={unreadable} "
        f"namespace_id={namespace_id} first_pk={key.pk!r:.300} first_sk={key.sk!r:.300}"
    )
    yield DroppedRows(__name__, logging.WARNING, told, foreign, unreadable)
