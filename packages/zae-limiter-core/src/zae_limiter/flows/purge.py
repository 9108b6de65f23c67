"""The end of a namespace: everything of it is removed, then its registration.

Lives here: in which order, so that a purge that was killed goes on. Never: what a namespace consists of (schema).
"""

from collections.abc import Callable
from dataclasses import replace

from ..exceptions import NamespaceStateError
from ..operations.errors import ConditionFailed
from ..operations.values import Delete, Key, Page, Put, Query
from ..schema import keys
from ..schema.registry import PURGING
from .commit import ATTEMPTS, RaceLost
from .load import patiently
from .pages import WRITES_PER_BATCH, delete_all
from .registry import applied, as_seen, both, id_key, is_live, name_key
from .steps import Flow, Sleep

KEYS_PER_PAGE = 1000
SETTLE_SECONDS = 1.0  # the index lags behind the table; until it shows nothing any more, there may be more

Progress = Callable[[int], None]


def purge(namespace_id: str, *, at: str, on_progress: Progress | None) -> Flow[int]:
    """How many items were removed. Raises ``NamespaceNotFoundError``, ``NamespaceStateError`` for one in use."""
    yield from _mark(namespace_id, at)
    removed = 0
    while (passed := (yield from _pass(namespace_id, removed, on_progress))) > removed:
        removed = passed
        yield Sleep(SETTLE_SECONDS)
    yield from _unregister(namespace_id)
    return removed


def _mark(namespace_id: str, at: str) -> Flow[None]:
    """From here on it cannot be recovered: half of a namespace would come back."""
    for _ in range(ATTEMPTS):
        by_id, by_name = yield from both(namespace_id)
        if is_live(by_id, by_name):
            raise NamespaceStateError(namespace_id, "it is in use: delete it first")
        if PURGING in by_id:
            return
        try:
            yield from patiently(Put(by_id | {PURGING: at}, as_seen(by_id)))
        except ConditionFailed:  # somebody was faster, or our own first answer was lost
            continue
        return
    raise RaceLost


def _pass(namespace_id: str, removed: int, on_progress: Progress | None) -> Flow[int]:
    """Remove what the index shows, page by page; ``removed`` and how many more that were."""
    query = Query(keys.gsi4_pk(namespace_id), "GSI4", limit=KEYS_PER_PAGE)
    while True:
        page: Page = yield from patiently(query)
        found = [Key(item["PK"], item["SK"]) for item in page.items]
        for start in range(0, len(found), WRITES_PER_BATCH):
            batch = found[start : start + WRITES_PER_BATCH]
            yield from delete_all(batch)
            removed += len(batch)
            if on_progress is not None:
                on_progress(removed)
        if page.next is None:
            return removed
        query = replace(query, start=page.next)


def _unregister(namespace_id: str) -> Flow[None]:
    """Remove both records; that of the name stays where it is another namespace's by now."""
    for _ in range(ATTEMPTS):
        by_id, by_name = yield from both(namespace_id)
        writes = [Delete(id_key(namespace_id), as_seen(by_id))]
        if by_name is not None and by_name["namespace_id"] == namespace_id:
            writes.append(Delete(name_key(by_id["name"]), as_seen(by_name)))
        if (yield from applied(*writes)):
            return
    raise RaceLost
