"""The breaker: whether a store answers, and whether requests are sent to it. Drivers send the requests.

With a store that hangs, every call takes its whole budget, also one that may go on without a limiter. So the breaker,
*closed* while the store answers, opens after ``FAILURES`` requests in a row without an answer. While it is open,
requests fail at once without being sent, and the driver sends probes in the background; ``guard`` says when, and why
no caller's own request is one. The pattern is the circuit breaker of Nygard ("Release It!", 2007), without its
half-open state.

Reads and writes fail apart: a file whose lock another process holds, a full disk and a table without write capacity
answer every read. So each kind of request has a count of its own, which only an answer to that kind ends: ``FAILURES``
writes in a row open the breaker for writes, however many reads were answered in between. A third count is that of all
requests, which any answer ends: a store that answers nothing is left alone by both kinds after the first ``FAILURES``.
A kind is probed by itself, too: reads by a read, writes by the last failed write under a condition that never holds.

A refusal is an answer, and so is throttling. Only refused credentials, a certificate that does not verify, a missing
table, an answer that is not the store's and an unknown code are an outage if the store served this process before:
a change of a policy or a restored table at night must not stop an application that asked to go on. Before that,
they are a mistake of the deployment, and are raised. Refused credentials and unknown codes do not open the breaker: a
policy, or the content of one request, may be the cause, and the requests of others are served.

The price: three lost answers in a row make the calls of the next tenth of a second unavailable, and tokens that are
given back while the breaker is open are lost. docs/decisions/breaker.md.
"""

import logging
from collections.abc import Iterator
from threading import Lock
from typing import Any, Final

from .. import values
from ..runtime.elapsed import elapsed_ms
from ..runtime.log_throttle import LogThrottle
from .errors import (
    AccessLost,
    Conflict,
    Denied,
    OutcomeUnknown,
    StoreError,
    TableMissing,
    Throttled,
    TrustLost,
    Unreachable,
    Unrecognized,
    Untrusted,
)
from .retry_budget import RetryBudget
from .values import WRITES, CreateTable, DescribeTable, Operation, changing_nothing

FAILURES: Final = 3
NO_TABLE: Final = "finds no table: is it being restored, or was it deleted?"

Refusal = Denied | Untrusted | TableMissing | Unrecognized

log = logging.getLogger(__name__)


class Requests:
    """Reads, or writes. ``in_a_row``: how many have had no answer since the last one that had.

    ``answers``: how many the store has answered; ``retries``: the budget for those that it throttled.
    ``failed``: the last one without an answer.
    """

    __slots__ = ("answers", "failed", "in_a_row", "name", "retries")

    def __init__(self, name: str) -> None:
        self.name = name
        self.answers = self.in_a_row = 0
        self.retries = RetryBudget()
        self.failed: Operation[Any] | None = None


class Health:
    """The health of a store, as this process knows it. Threads may share it.

    ``is_open``: the breaker is open, for one kind of request or for both.
    """

    def __init__(self) -> None:
        self.is_open = False
        self.probes = 0
        self.reads, self.writes = Requests("reads"), Requests("writes")
        self._in_a_row = 0  # requests of both kinds
        self._opened = self._unanswered = self._not_sent = self._denied = self._untrusted = 0
        self._foreign_rows = self._unreadable_rows = 0
        self._lost: dict[str, LogThrottle] = {}  # by what was lost: one line a minute for each
        self._lock = Lock()

    @property
    def outages(self) -> int:
        """How often the breaker has opened."""
        return self._opened

    def kind(self, operation: Operation[Any]) -> Requests:
        """Return the kind of a request."""
        return self.writes if isinstance(operation, WRITES) else self.reads

    def refuses(self, kind: Requests) -> bool:
        """Return whether the breaker is open for this kind of request."""
        return self.is_open and (self._in_a_row >= FAILURES or kind.in_a_row >= FAILURES)

    def check(self, kind: Requests) -> None:
        """Raise ``Unreachable`` if the breaker is open for this kind of request."""
        if self.refuses(kind):
            self._not_sent += 1
            raise Unreachable(f"{self._silence(kind)}; it is asked again in the background")

    def to_probe(self, read: Operation[Any]) -> Iterator[Operation[Any]]:
        """Yield the requests of a probe, each after the one before was answered: ``read`` for reads, and for writes the
        last one that failed, so that it changes nothing.

        While neither is answered, every other probe begins with the write: one kind may be served again long before the
        other.
        """
        kinds = (self.reads, self.writes) if self.probes % 2 else (self.writes, self.reads)
        for kind in kinds:
            if kind is self.reads and self.refuses(kind):
                yield read
            elif kind.failed is not None and self.refuses(kind):
                yield changing_nothing(kind.failed)

    def served(self, operation: Operation[Any]) -> None:
        """Note an answer of the store, good or bad; it closes the breaker for this kind of request."""
        kind = self.writes if isinstance(operation, WRITES) else self.reads
        kind.answers += 1
        kind.in_a_row = self._in_a_row = 0
        if self.is_open:
            self._close_if_answered()

    def failed(self, error: StoreError, operation: Operation[Any], *, proves: bool = True) -> StoreError:
        """Note a failed request, and return its error; return an outage if a refusal comes from a store that served
        before.

        ``proves``: whether a missing answer shows that the store is away now.
        """
        kind = self.kind(operation)
        # A missing table is a valid answer while a table is created or awaited.
        expected = isinstance(error, TableMissing) and isinstance(operation, CreateTable | DescribeTable)
        if isinstance(error, Refusal) and not expected:
            shown = self._refused(error)
            if shown is error:
                self._forget_failures()
                if self.is_open:
                    self._close_if_answered()
                return error
            if isinstance(error, Denied) or (isinstance(error, Unrecognized) and not error.foreign):
                return shown
            error = shown
        if not isinstance(error, (OutcomeUnknown, Unreachable)):
            self.served(operation)
            if isinstance(error, Throttled) and not isinstance(error, Conflict):
                kind.retries.throttled(kind.answers)
                error.budget = kind.retries
            return error
        self._unanswered += 1
        if isinstance(error, OutcomeUnknown):
            kind.retries.unanswered(kind.answers)
            error.budget = kind.retries
        repeats = operation is kind.failed and max(kind.in_a_row, self._in_a_row) == FAILURES - 1
        if not proves or repeats:  # a call alone, sent again, may be to one broken partition: it opens no breaker
            return error
        kind.failed = operation
        kind.in_a_row += 1
        self._in_a_row += 1
        if not self.is_open and max(kind.in_a_row, self._in_a_row) >= FAILURES:
            self._open(kind, error)
        return error

    def dropped(self, foreign: int, unreadable: int) -> None:
        """Count rows of an index that a call dropped."""
        with self._lock:
            self._foreign_rows += foreign
            self._unreadable_rows += unreadable

    def stats(self) -> "values.stats.StoreStats":
        """Return the state of the breaker, and the counts."""
        state: values.stats.BreakerState = "open" if self.is_open else "closed"
        return values.stats.StoreStats(
            breaker=state,
            opened=self._opened,
            probes=self.probes,
            unanswered=self._unanswered,
            not_sent=self._not_sent,
            denied=self._denied,
            untrusted=self._untrusted,
            foreign_rows=self._foreign_rows,
            unreadable_rows=self._unreadable_rows,
        )

    def reset(self) -> None:
        """Close the breaker in a forked child, where no probe runs."""
        self._lock = Lock()
        self._forget_failures()
        self.is_open = False

    def _refused(self, refusal: Refusal) -> StoreError:
        """Return an outage for what was good before, which ends when it is good again; else the error itself: a mistake
        of the deployment, which each call raises, also after an outage.
        """
        lost: type[StoreError] = Unreachable
        if isinstance(refusal, Denied):
            self._denied += 1
            lost, how = AccessLost, "refuses its credentials"
        elif isinstance(refusal, Untrusted):
            self._untrusted += 1
            lost, how = TrustLost, "cannot be trusted"
        elif isinstance(refusal, TableMissing):
            how = NO_TABLE
        elif refusal.foreign:
            lost, how = OutcomeUnknown, "something else answers in its place"
        else:
            how = "refuses a request by a code that this release does not know"
        if not (self.reads.answers or self.writes.answers):
            return refusal
        if (skipped := self._lost.setdefault(how, LogThrottle()).count(int(elapsed_ms()))) is not None:
            more = f" ({skipped} more since the last line)" if skipped else ""
            log.error("the store served this process before, and now %s%s: %s", how, more, refusal)
        error = lost(str(refusal))
        error.__cause__ = refusal
        return error

    def begin_outage(self, error: Exception) -> None:
        """Open the breaker for both kinds of requests."""
        self._in_a_row = FAILURES
        self._open(self.reads, error)

    def _open(self, kind: Requests, error: Exception) -> None:
        with self._lock:
            if self.is_open:
                return
            self.is_open = True
            self._opened += 1
        log.error("%s (%s): they fail at once until it does", self._silence(kind), error)

    def _silence(self, kind: Requests) -> str:
        return f"the store does not answer {'requests' if self._in_a_row >= FAILURES else kind.name}"

    def _close_if_answered(self) -> None:
        with self._lock:
            if not self.is_open or max(self._in_a_row, self.reads.in_a_row, self.writes.in_a_row) >= FAILURES:
                return
            self.is_open = False
        log.warning("the store answers again")

    def _forget_failures(self) -> None:
        self.reads.in_a_row = self.writes.in_a_row = self._in_a_row = 0
