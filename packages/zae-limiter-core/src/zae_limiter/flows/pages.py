"""Query all pages, and delete in batches."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ..operations.errors import OutcomeUnknown, StoreError, Throttled
from ..operations.values import BatchWrite, Delete, Item, Key, Query, Unwritten
from .retry import with_retries
from .steps import Flow, Sleep, call_all

WRITES_PER_BATCH = 25
BATCHES_AT_ONCE = 4
PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6)  # seconds, between attempts that remove nothing; then the delete fails


def query_all(query: Query) -> Flow[list[Item]]:
    """Return the items of all pages, in order."""
    items: list[Item] = []
    while True:
        page = yield from with_retries(query)
        items += page.items
        if page.next is None:
            return items
        query = replace(query, start=page.next)


def delete_all(keys: Iterable[Key], on_removed: Callable[[int], None] | None = None) -> Flow[None]:
    """Remove the items, some batches at the same time; a missing item is no error.

    ``on_removed`` gets the number of items removed since its last call. Raises ``StoreError`` after several attempts
    that removed nothing.
    """
    waiting = [Delete(key) for key in keys]
    at_once, fruitless = WRITES_PER_BATCH * BATCHES_AT_ONCE, 0
    while waiting:
        wave, waiting = waiting[:at_once], waiting[at_once:]
        left, error = yield from _remove(wave)
        if on_removed is not None and len(left) < len(wave):
            on_removed(len(wave) - len(left))
        if left:
            fruitless = fruitless + 1 if len(left) == len(wave) else 0
            if fruitless > len(PAUSES):
                raise error or Throttled("the store leaves every delete undone")
            yield Sleep(PAUSES[max(0, fruitless - 1)])
            waiting = left + waiting


def _remove(wave: Sequence[Delete]) -> Flow[tuple[list[Delete], StoreError | None]]:
    """Send the deletes; return those left undone, and the error. A delete may be repeated after a lost answer."""
    batches = [tuple(wave[start : start + WRITES_PER_BATCH]) for start in range(0, len(wave), WRITES_PER_BATCH)]
    answers = yield from call_all(map(BatchWrite, batches))
    left: list[Delete] = []
    error: StoreError | None = None
    for batch, answer in zip(batches, answers, strict=True):
        if isinstance(answer, Unwritten):
            left += [write for write in answer.writes if isinstance(write, Delete)]
        elif isinstance(answer, (Throttled, OutcomeUnknown)):
            left, error = left + list(batch), answer
        else:
            raise answer
    return left, error
