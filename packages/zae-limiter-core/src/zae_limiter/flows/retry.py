"""Repeat requests: the numbers of attempts, the pauses, and reads.

A write whose answer was lost may have been applied: only writes that are safe to repeat go through ``with_retries``.
Those of buckets have tokens, by which ``commit_run`` repeats them. Drivers sleep between half of a pause and all of it.
All pauses together are less than the time of an acquire.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from ..operations.errors import OutcomeUnknown, RaceLost, ServerFault, Throttled
from ..operations.values import BatchGet, Get, Item, Key, Operation
from ..schema.attributes import PK, SK
from .steps import Flow, Sleep, call

__all__ = ["ATTEMPTS", "PAUSES", "RaceLost", "key_of", "parts", "read", "read_all", "with_retries"]

R = TypeVar("R")
T = TypeVar("T")

ATTEMPTS: Final = 16
PAUSES: Final = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 1.6)
CAPPED_PAUSES: Final = PAUSES[3:]  # where the table is at its limit, or an index: a moment changes nothing
RACE_PAUSES: Final = (0.0, 0.0, *(0.005 * 1.3**more for more in range(ATTEMPTS - 2)))
KEYS_PER_READ: Final = 100


def key_of(item: Item) -> Key:
    """Return the key of an item."""
    return Key(item[PK], item[SK])


def parts(whole: Sequence[T], size: int) -> list[Sequence[T]]:
    """Return the parts of a list, each but the last one of this size."""
    return [whole[start : start + size] for start in range(0, len(whole), size)]


def read_all(keys: Sequence[Key]) -> Flow[dict[Key, Item]]:
    """Return the items that exist, by key, in batches of 100; those that a batch leaves unread after a pause."""
    items: dict[Key, Item] = {}
    waiting, pauses = tuple(keys), iter(PAUSES)
    while waiting:
        asked = waiting[:KEYS_PER_READ]
        found = yield from with_retries(BatchGet(asked))
        items |= found.items
        waiting = found.unread + waiting[KEYS_PER_READ:]
        if found.unread:  # throttled as well, in part
            if len(found.unread) < len(asked):
                pauses = iter(PAUSES)
            if (pause := next(pauses, None)) is None:
                raise Throttled("the store leaves every read undone")
            yield Sleep(pause)
    return items


def read(key: Key) -> Flow[Item | None]:
    """Return the item, ``None`` if it does not exist."""
    return with_retries(Get(key))


def with_retries(operation: Operation[R], on_silence: Callable[[], object] | None = None) -> Flow[R]:
    """Send an operation that may be repeated, after a pause each time, if the budget of retries has room: if it is
    throttled or the store fails, and once if no answer came, because each silence takes as long as a request may.

    ``on_silence`` is called then: what was sent first may still arrive.
    """
    silent = False
    for pause in PAUSES:
        try:
            answer: R = yield operation
            return answer
        except (Throttled, ServerFault) as error:
            if not error.may_repeat():
                raise
        except OutcomeUnknown as error:
            if silent or not error.may_repeat():
                raise
            silent = True
            if on_silence is not None:
                on_silence()
        yield Sleep(pause)
    return (yield from call(operation))
