"""Choose the rows of an index that a call may use: those of its own namespace that it can read.

The policies of a namespace bind the table's key alone, not the keys of indexes: a principal that may write under its
own key can place a row in any partition of an index. So no row of an index is trusted. This module says which rows are
dropped, and logs their number; a reader checks the content of a row. Every list of items reads them through
``IndexRows.read``: it skips an item that cannot be read, and the log record has the error of each, with its key, for
who shows the list.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from ..operations.errors import Unreadable
from ..operations.values import Item, Key, Query
from ..runtime.dataclass import dataclass, field, replace
from ..schema import keys
from ..schema.attributes import PK
from ..schema.record import UNREADABLE, unreadable
from .retry import key_of, with_retries
from .steps import DroppedRows, Flow

T = TypeVar("T")

MOST_NAMED: Final = 100  # unreadable items of one call, by their keys; the others are only counted


@dataclass(slots=True)
class IndexRows:
    """Picks the rows of one namespace, and counts the others: *foreign* ones, and *unreadable* ones of its own."""

    namespace_id: str
    foreign: int = 0
    unreadable: int = 0
    first: Key | None = None
    errors: dict[Key, Unreadable] = field(default_factory=dict)
    unnamed: int = 0

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
            except UNREADABLE as error:
                self._skip(item, error)
        return found

    def _skip(self, item: Item, error: Exception) -> None:
        """Count an item that cannot be read, and keep its error: a new one, whose traceback does not keep the item."""
        self._drop(item, unreadable=1)
        key = key_of(item)
        if key in self.errors:
            return
        if len(self.errors) >= MOST_NAMED:
            self.unnamed += 1
            return
        told = error if isinstance(error, Unreadable) else unreadable(item, error)
        self.errors[key] = Unreadable(*told.args)

    def _drop(self, item: Item, *, foreign: int = 0, unreadable: int = 0) -> None:
        self.foreign += foreign
        self.unreadable += unreadable
        self.first = self.first or key_of(item)


_COUNTS: Final = "foreign_rows=%d unreadable_rows=%d namespace_id=%s first_pk=%s first_sk=%s"
# A filter of logs looks for their beginnings: no key can hide them.
FOREIGN_ROWS: Final = f"dropped foreign rows of an index: {_COUNTS}"
UNREADABLE_ROWS: Final = f"dropped unreadable rows of an index: {_COUNTS}"


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
    foreign, damaged = (sum(getattr(rows, count) for rows in counted) for count in ("foreign", "unreadable"))
    first = next(((rows.namespace_id, rows.first) for rows in counted if rows.first is not None), None)
    if first is None:
        return
    namespace_id, key = first
    values = (foreign, damaged, namespace_id, f"{key.pk!r:.300}", f"{key.sk!r:.300}")
    errors = tuple(error for rows in counted for error in rows.errors.values())
    unnamed = sum(rows.unnamed for rows in counted)
    yield DroppedRows(
        __name__,
        logging.WARNING,
        FOREIGN_ROWS if foreign else UNREADABLE_ROWS,
        foreign,
        damaged,
        errors,
        unnamed,
        values=values,
    )
