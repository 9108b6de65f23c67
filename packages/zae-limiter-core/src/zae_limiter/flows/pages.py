"""Queries to their end, and deletes by the batch.

Lives here: following pages and what was left unwritten. Never: what is asked for.
"""

from collections.abc import Iterable
from dataclasses import replace

from ..operations.values import BatchWrite, Delete, Item, Key, Page, Query, Unwritten
from .load import patiently
from .steps import Flow

WRITES_PER_BATCH = 25


def query_all(query: Query) -> Flow[list[Item]]:
    """The items of all pages, in order."""
    items: list[Item] = []
    while True:
        page: Page = yield from patiently(query)
        items += page.items
        if page.next is None:
            return items
        query = replace(query, start=page.next)


def delete_all(keys: Iterable[Key]) -> Flow[None]:
    """Remove the items, in as few requests as it takes; what is not there is no error."""
    waiting = tuple(Delete(key) for key in keys)
    while waiting:
        left: Unwritten = yield from patiently(BatchWrite(waiting[:WRITES_PER_BATCH]))
        waiting = tuple(write for write in left.writes if isinstance(write, Delete)) + waiting[WRITES_PER_BATCH:]
