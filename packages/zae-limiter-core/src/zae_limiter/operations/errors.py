"""Store errors: the only exceptions that a driver throws into a flow.

Each type says what is certain about the outcome. The reaction is in flows, the public error in ``public_errors``.

StoreError
├── ConditionFailed       not applied: a condition did not hold; has the stored item
├── TransactionCancelled  not applied: has a reason for each write
├── NotApplied            certainly not applied: the store refuses the request for good, except as below
│   ├── Throttled         may be sent again after a pause
│   │   └── Conflict      another transaction holds the item
│   ├── Unreachable       the request did not reach the store, the table is away, or the breaker is open
│   │   ├── AccessLost    the store refuses credentials that worked before
│   │   └── TrustLost     the certificate of a store that served before does not verify
│   ├── Denied            the store refuses the credentials, or there are none
│   ├── Untrusted         the certificate of the store does not verify
│   ├── Unrecognized      the store refuses with an unknown code, or the answer is not the store's
│   ├── Invalid           the request is not valid, or impossible with the stored item
│   ├── Closed            the repository is closed
│   ├── TableMissing      there is no such table
│   └── TableExists       there is one already
├── Unreadable            the stored item is like no record of its key: a repeat reads the same
│   └── ForeignRecord     it is of another product that is called zae-limiter, and so is the table
├── RaceLost              not applied: other processes changed the item during each attempt
└── OutcomeUnknown        may or may not have been applied: no answer, or an unclear one
    └── BudgetSpent       the time budget of the call ended before the answer came

``Throttled`` and ``OutcomeUnknown`` are ``Unserved``: a repeat may be served.

An *outage* may end by itself: ``OUTAGE``. Every other error is raised, whatever ``on_unavailable`` says. ``health``
makes outages of ``Denied``, ``Untrusted``, ``TableMissing`` and ``Unrecognized`` if the store served before.
"""

from typing import Final

from ..runtime.named_tuple import NamedTuple
from ..schema.store_errors import ForeignRecord, StoreError, Unreadable
from .retry_budget import RetryBudget
from .values import Item

__all__ = [
    "OUTAGE", "AccessLost", "BudgetSpent", "Closed", "ConditionFailed", "Conflict", "Denied", "ForeignRecord",
    "Invalid", "NotApplied", "OutcomeUnknown", "RaceLost", "Reason", "ServerFault", "StoreError", "TableExists",
    "TableMissing", "Throttled", "TransactionCancelled", "TrustLost", "Unreachable", "Unreadable", "Unrecognized",
    "Unserved", "Untrusted", "is_invalid",
]  # fmt: skip


HOT_KEY: Final = "TableWriteKeyRangeThroughputExceeded"


class ConditionFailed(StoreError):
    """A condition did not hold. ``item`` is the stored item, ``None`` if there is none."""

    def __init__(self, item: Item | None = None) -> None:
        super().__init__("a condition did not hold")
        self.item = item


class Reason(NamedTuple):
    """The reason of one write in a cancelled transaction: DynamoDB's ``code``, ``None`` if the write did not fail."""

    code: str | None
    item: Item | None = None


class TransactionCancelled(StoreError):
    """A transaction was not applied; one ``Reason`` for each of its writes, in order."""

    def __init__(self, reasons: tuple[Reason, ...]) -> None:
        super().__init__(f"transaction cancelled: {[reason.code for reason in reasons]}")
        self.reasons = reasons


class NotApplied(StoreError):
    """The store certainly did not apply the operation, nor would it apply a repeat; ``__cause__`` has the reason."""


class Unserved(StoreError):
    """The store did not serve the request, and may serve a repeat: after a pause, if ``may_repeat``.

    ``budget``: that of the store's retries, set by the guard of the store.
    """

    budget: RetryBudget | None = None

    def may_repeat(self, *, for_others: bool = False) -> bool:
        """Return whether the budget of retries pays for sending the request again, and take that from it."""
        return self.budget is None or self.budget.take(for_others=for_others)


class Throttled(NotApplied, Unserved):
    """The store throttles the request: it may be sent again after a pause, if ``may_repeat``.

    ``reasons``: DynamoDB's, such as ``TableWriteAccountLimitExceeded``; empty if it gives none.
    """

    def __init__(self, problem: str = "", reasons: tuple[str, ...] = ()) -> None:
        super().__init__(problem)
        self.reasons = reasons

    @property
    def shows_hot_key(self) -> bool:
        """Whether the store refuses writes to this range of keys, and not to the table, the account or an index."""
        return HOT_KEY in self.reasons


class Conflict(Throttled):
    """Another transaction, or a change of the table, holds the item: sent again like a throttled request, at no cost to
    the budget of retries, since the table has capacity.
    """


class Unreachable(NotApplied):
    """The request did not reach the store, or not its table: no connection, no table any more, an open breaker."""


class AccessLost(Unreachable):
    """The store refuses credentials that worked before: an outage until they work again."""


class TrustLost(Unreachable):
    """The certificate of a store that served before does not verify: an outage until it does."""


class Denied(NotApplied):
    """The store refuses the credentials, or they lack a permission, or there are none."""


class Untrusted(NotApplied):
    """The certificate of ``host`` does not verify, for a ``reason``: nothing was sent."""

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(f"the certificate of {host} does not verify: {reason}")
        self.host = host
        self.reason = reason


class Unrecognized(NotApplied):
    """A refusal that DynamoDB does not document. ``foreign``: the answer is not the store's, such as a firewall's page.

    Behind a foreign answer the store may have applied the request: in a process that the store served before, its
    outcome is unknown.
    """

    def __init__(self, problem: str, *, foreign: bool = False) -> None:
        super().__init__(problem)
        self.foreign = foreign


class Invalid(NotApplied):
    """The store calls the request itself invalid, or impossible with the stored item: no repeat can succeed."""


class Closed(NotApplied):
    """The repository is closed."""

    def __init__(self, problem: str = "the repository is closed") -> None:
        super().__init__(problem)


class TableMissing(NotApplied):
    """The table does not exist."""


class TableExists(NotApplied):
    """The table exists already."""


class RaceLost(StoreError):
    """Other processes changed the item, or the limits, during every attempt."""

    def __init__(self, problem: str = "others changed the item during each attempt") -> None:
        super().__init__(problem)


class OutcomeUnknown(Unserved):
    """The operation may have been applied: the answer was lost, or is unclear."""


class ServerFault(OutcomeUnknown):
    """The store answered that it failed, with a 500 or a 503: it may have applied the operation before."""


class BudgetSpent(OutcomeUnknown):
    """The time budget of the call ended before the answer came."""

    def __init__(self, problem: str = "no answer within acquire_timeout") -> None:
        super().__init__(problem)


OUTAGE: Final = (OutcomeUnknown, Unreachable, Throttled)


def is_invalid(error: StoreError) -> bool:
    """Return whether the request, or the item that it is for, is the cause: no repeat can succeed."""
    return isinstance(error, Invalid | Unreadable)
