"""Why a store did not do what it was asked: the only exceptions that a driver throws into a flow.

Lives here: what is certain about the outcome, in types. Never: what to do about it (flows), what users see.

StoreError
├── ConditionFailed       not applied: a condition did not hold; carries the item as it is
├── TransactionCancelled  not applied: carries a reason for each write
├── NotApplied            certainly not applied: the store refuses the request for good, but for these
│   ├── Throttled         may be asked again after a pause
│   │   └── Conflict      another transaction holds the item
│   ├── Unreachable       the request did not reach the store, or was not sent because nothing does
│   │   └── AccessLost    the store refuses the credentials, but served this process before
│   ├── Denied            the store refuses the credentials, or there are none
│   ├── Closed            the repository is closed
│   ├── TableMissing      there is no such table
│   └── TableExists       there is one already
├── RaceLost              not applied: others changed the item during each attempt
└── OutcomeUnknown        may or may not have been applied: no answer, or one that does not tell
    └── BudgetSpent       the caller's time was over before the answer came

An *outage* is what may be over by itself: ``OUTAGE``. Everything else is raised, whatever ``on_unavailable`` says.
"""

from typing import Final, NamedTuple

from .values import Item


class StoreError(Exception):
    """A store did not carry out an operation."""


class ConditionFailed(StoreError):
    """A condition did not hold. ``item`` is the item as the store has it, ``None`` where there is none."""

    def __init__(self, item: Item | None = None) -> None:
        super().__init__("a condition did not hold")
        self.item = item


class Reason(NamedTuple):
    """Why one write of a transaction stopped it: ``code`` as DynamoDB spells it, ``None`` where it did not."""

    code: str | None
    item: Item | None = None


class TransactionCancelled(StoreError):
    """A transaction was not applied; one ``Reason`` for each of its writes, in order."""

    def __init__(self, reasons: tuple[Reason, ...]) -> None:
        super().__init__(f"transaction cancelled: {[reason.code for reason in reasons]}")
        self.reasons = reasons


class NotApplied(StoreError):
    """The store certainly did not apply the operation, and would not the next time; ``__cause__`` tells why."""


class Throttled(NotApplied):
    """The store asks for a pause."""


class Conflict(Throttled):
    """Another transaction, or a change of the table, holds what is asked for: it may be asked again at once."""


class Unreachable(NotApplied):
    """The request did not reach the store: no connection, or the breaker is open and it was not sent."""


class AccessLost(Unreachable):
    """The store refuses the credentials, although it served this process before: an outage until that is mended."""


class Denied(NotApplied):
    """The store refuses the credentials, what they may do is too little, or there are none."""


class Closed(NotApplied):
    """The repository is closed."""

    def __init__(self, problem: str = "the repository is closed") -> None:
        super().__init__(problem)


class TableMissing(NotApplied):
    """The table does not exist."""


class TableExists(NotApplied):
    """The table exists already."""


class RaceLost(StoreError):
    """Other processes changed the item, or the limits, between every attempt and the next."""

    def __init__(self, problem: str = "others changed the item during each attempt") -> None:
        super().__init__(problem)


class OutcomeUnknown(StoreError):
    """The operation may have been applied: the answer was lost, or does not tell."""


class BudgetSpent(OutcomeUnknown):
    """The time that the caller gives was over before the answer came."""

    def __init__(self, problem: str = "no answer within acquire_timeout") -> None:
        super().__init__(problem)


OUTAGE: Final = (OutcomeUnknown, Unreachable, Throttled)
