"""A change that depends on what is there: read, decide, write in one transaction, and again where somebody was faster.

Lives here: the repeating. Never: what is read or written (limits, entities, buckets).
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from ..audit import Cause
from ..operations.errors import TransactionCancelled
from ..operations.values import Check, Delete, Put, Transact, Update
from .retry import ATTEMPTS, RaceLost, with_retries
from .steps import Flow

T = TypeVar("T")
Write = Put | Update | Delete | Check


def optimistic(cause: Cause, attempt: Callable[[], Flow[tuple[Sequence[Write], T]]]) -> Flow[T]:
    """The result that came with the writes that were applied; an ``attempt`` without writes has nothing to change.

    Each attempt has a token of its own, so that one whose answer was lost is repeated safely.
    """
    for number in range(ATTEMPTS):
        writes, result = yield from attempt()
        if not writes:
            return result
        try:
            yield from with_retries(Transact(tuple(writes), cause.token(number)))
        except TransactionCancelled as cancelled:
            if not lost_race(cancelled):
                raise
        else:
            return result
    raise RaceLost


def lost_race(cancelled: TransactionCancelled) -> bool:
    """Whether a condition stopped the transaction, and nothing that would stop it again."""
    codes = {reason.code for reason in cancelled.reasons} - {None, "TransactionConflict"}
    return codes == {"ConditionalCheckFailed"}
