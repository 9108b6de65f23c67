"""Why a store did not do what it was asked: the only exceptions that a driver throws into a flow.

Lives here: what is certain about the outcome, in types. Never: what to do about it (flows), what users see.

StoreError
├── ConditionFailed       not applied: a condition did not hold; carries the item as it is
├── TransactionCancelled  not applied: carries a reason for each write
├── NotApplied            certainly not applied, for a reason outside the request
│   ├── Throttled         may be asked again after a pause
│   │   └── Conflict      another transaction holds the item
│   ├── TableMissing      there is no such table
│   └── TableExists       there is one already
└── OutcomeUnknown        may or may not have been applied: no answer, or one that does not tell
"""

from typing import NamedTuple

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
    """The store certainly did not apply the operation; ``__cause__`` tells why."""


class Throttled(NotApplied):
    """The store asks for a pause."""


class Conflict(Throttled):
    """Another transaction, or a change of the table, holds what is asked for: it may be asked again at once."""


class TableMissing(NotApplied):
    """The table does not exist."""


class TableExists(NotApplied):
    """The table exists already."""


class OutcomeUnknown(StoreError):
    """The operation may have been applied: the answer was lost, or does not tell."""
