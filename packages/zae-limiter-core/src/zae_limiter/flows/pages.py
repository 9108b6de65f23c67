"""Query all pages, and write or delete in batches."""

from collections.abc import Callable, Iterable, Sequence

from ..operations.errors import OutcomeUnknown, StoreError, Throttled
from ..operations.values import BatchWrite, Delete, Item, Key, Put, Query, Unwritten
from ..runtime.dataclass import replace
from .retry import with_retries
from .steps import Flow, Sleep, call_all

WRITES_PER_BATCH = 25
BATCHES_AT_ONCE = 4
PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6)  # seconds, between attempts that write nothing; then the call fails


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
    """Remove items whose keys are never used again: a request that arrives late removes what is there by then.

    A missing item is not an error. ``on_removed`` and errors are as in ``write_all``.
    """
    return (yield from write_all(map(Delete, keys), on_removed))


def write_all(writes: Iterable[Put | Delete], on_written: Callable[[int], None] | None = None) -> Flow[None]:
    """Write the items, some batches at the same time, in no order.

    ``on_written`` gets the number of items written since its last call. Raises ``StoreError`` after several attempts
    that wrote nothing, and ``OutcomeUnknown`` once the answer to a put is lost: the request may still arrive, whatever
    is sent after it, and undo what others wrote to its items by then.
    """
    waiting = list(writes)
    at_once, fruitless = WRITES_PER_BATCH * BATCHES_AT_ONCE, 0
    while waiting:
        wave, waiting = waiting[:at_once], waiting[at_once:]
        left, error = yield from _write(wave)
        if on_written is not None and len(left) < len(wave):
            on_written(len(wave) - len(left))
        if left:
            fruitless = fruitless + 1 if len(left) == len(wave) else 0
            if fruitless > len(PAUSES):
                raise error or Throttled("the store leaves every write undone")
            yield Sleep(PAUSES[max(0, fruitless - 1)])
            waiting = left + waiting


def _write(wave: Sequence[Put | Delete]) -> Flow[tuple[list[Put | Delete], StoreError | None]]:
    """Send the writes; return those left undone, and the error. A delete may be repeated after a lost answer."""
    batches = [tuple(wave[start : start + WRITES_PER_BATCH]) for start in range(0, len(wave), WRITES_PER_BATCH)]
    answers = yield from call_all(map(BatchWrite, batches))
    left: list[Put | Delete] = []
    error: StoreError | None = None
    for batch, answer in zip(batches, answers, strict=True):
        if isinstance(answer, Unwritten):
            left += answer.writes
        elif isinstance(answer, Throttled) or _is_repeatable(batch, answer):
            left, error = left + list(batch), answer
        else:
            raise answer
    return left, error


def _is_repeatable(batch: Sequence[Put | Delete], error: StoreError) -> bool:
    """Return whether a batch whose answer was lost may be sent again, and may arrive late: it has deletes alone."""
    return isinstance(error, OutcomeUnknown) and not any(isinstance(write, Put) for write in batch)
