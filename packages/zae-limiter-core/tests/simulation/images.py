"""Answers of the table that are read once.

Why. Every process that reads a bucket gets a copy of its item and makes a state of it anew, and so does the oracle.
That is a sixth of the time of a history. So all who read one version of an item get the same copy here, and the state
that the first reader made of it: a state is never changed.

Never: what is in an item (bucket_items), whether that is right (oracle).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.operations.plain import copy_of
from zae_limiter.operations.values import BatchGet, Found, Get, Item, Key, Operation, Update
from zae_limiter.schema import items
from zae_limiter.schema.items import BucketState


class Images:
    """The copy of each version of an item that was answered, and the states of those that were read."""

    def __init__(self, table: MemoryTable) -> None:
        self._items = table._items
        self._copies: dict[int, tuple[Item, Item]] = {}  # by the identity of the table's own
        self._states: dict[int, tuple[Item, BucketState]] = {}  # by the identity of the copy

    def of(self, item: Item) -> Item:
        """The copy of an item of the table, which nobody may change."""
        if id(item) not in self._copies:
            self._copies[id(item)] = item, copy_of(item)
        return self._copies[id(item)][1]

    def answer(self, operation: Operation[Any], value: Any) -> Any:
        """The table's answer to an operation, with the copies that others got."""
        if isinstance(operation, Update | Get):
            return self._at(operation.key)
        if isinstance(operation, BatchGet):
            return Found({key: self._at(key) for key in value.items})
        return value

    def _at(self, key: Key) -> Any:
        item = self._items.get(key)
        return None if item is None else self.of(item)

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Have each copy read once meanwhile."""
        real = items._read_anew

        def read(item: Item) -> BucketState:
            known = self._states.get(id(item))
            if known is None or known[0] is not item:
                known = self._states[id(item)] = item, real(item)
            return known[1]

        with patch.object(items, "_read_anew", read):
            yield
