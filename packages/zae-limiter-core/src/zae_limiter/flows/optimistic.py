"""Optimistic transactions: read, decide, write, and start again after a lost race."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from ..operations.errors import TransactionCancelled
from ..operations.values import Check, Conditions, Delete, Item, Put, Transact, Update
from ..runtime.dataclass import replace
from ..schema.attributes import EVENT_ID, SK
from ..schema.keys import AUDIT_PREFIX
from ..values.audit import Cause
from .retry import ATTEMPTS, RACE_PAUSES, RaceLost, with_retries
from .steps import Flow, Sleep

T = TypeVar("T")
Write = Put | Update | Delete | Check


def optimistic(cause: Cause, attempt: Callable[[Cause], Flow[tuple[Sequence[Write], T]]]) -> Flow[T]:
    """Apply the writes of ``attempt`` in one transaction, and start again after a lost race; return its result.

    An attempt without writes ends the flow. Each attempt has its own request token, so that a transaction whose answer
    was lost is repeated safely. One of which no answer came may still arrive, after the next attempt has passed and
    somebody has undone it, and its conditions may hold again: so the attempts behind it put the same audit event, which
    one of them alone can. Raises ``RaceLost``, ``StoreError``.
    """
    cause, sent = replace(cause, once=True), list[T]()  # results of attempts that may still arrive
    for number in range(ATTEMPTS):
        if number > 1:  # let others finish
            yield Sleep(RACE_PAUSES[number])
        writes, result = yield from attempt(cause)
        if not writes:
            return result
        silences: list[T] = []
        try:
            yield from with_retries(
                Transact(tuple(writes), cause.request_token(number)), partial(silences.append, result)
            )
        except TransactionCancelled as cancelled:
            if not lost_race(cancelled):
                raise
            if sent and _has_arrived(writes, cancelled):
                return sent[0]
            sent += silences
            if sent and not cause.is_held:
                cause = cause.held_by(_event_of(writes)[EVENT_ID])
        else:
            return result
    raise RaceLost


def _event_of(writes: Sequence[Write]) -> Item:
    """Return the item of the first audit event."""
    return next(each.item for each in writes if isinstance(each, Put) and each.item[SK].startswith(AUDIT_PREFIX))


def _has_arrived(writes: Sequence[Write], cancelled: TransactionCancelled) -> bool:
    """Return whether the first audit event is there, by the reasons for which its transaction was cancelled."""
    event = _event_of(writes)
    return any(
        isinstance(write, Put) and write.item is event and reason.code == "ConditionalCheckFailed"
        for write, reason in zip(writes, cancelled.reasons, strict=False)  # a store may give fewer
    )


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
