"""Optimistic transactions: read, decide, write, and start again after a lost race."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from ..operations.errors import TransactionCancelled
from ..operations.values import Check, Conditions, Delete, Item, Put, Transact, Update
from ..schema.attributes import EVENT_ID
from ..values.audit import Cause
from .retry import ATTEMPTS, RACE_PAUSES, RaceLost, with_retries
from .steps import Flow, Sleep

T = TypeVar("T")
Write = Put | Update | Delete | Check


def optimistic(cause: Cause, attempt: Callable[[], Flow[tuple[Sequence[Write], T]]]) -> Flow[T]:
    """Apply the writes of ``attempt`` in one transaction, and start again after a lost race; return its result.

    An attempt without writes ends the flow. Each attempt has its own request token, so that a transaction whose answer
    was lost is repeated safely. Raises ``RaceLost``, ``StoreError``.
    """
    for number in range(ATTEMPTS):
        if number > 1:  # let others finish
            yield Sleep(RACE_PAUSES[number])
        writes, result = yield from attempt()
        if not writes:
            return result
        try:
            yield from with_retries(Transact(tuple(writes), cause.request_token(number)))
        except TransactionCancelled as cancelled:
            if not lost_race(cancelled):
                raise
        else:
            return result
    raise RaceLost


def as_read(item: Item, version: str, *others: str) -> Conditions:
    """Return the conditions that a record has the version and the last event that were read, and ``others``.

    The version alone does not distinguish a record from one that was deleted and made again. An older release writes no
    event.
    """
    known = {name: item[name] for name in (version, EVENT_ID, *others) if name in item}
    return Conditions(equals=known, absent=() if EVENT_ID in item else (EVENT_ID,))


def lost_race(cancelled: TransactionCancelled) -> bool:
    """Return whether only failed conditions or conflicts cancelled the transaction, so that a new attempt may pass."""
    codes = {reason.code for reason in cancelled.reasons} - {None, "TransactionConflict"}
    return codes == {"ConditionalCheckFailed"}
