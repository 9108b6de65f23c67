"""The breaker: whether a store answers, and whether requests are sent to it. Drivers send the requests.

With a store that hangs, every call takes its whole budget, also one that may go on without a limiter. So the breaker,
*closed* while the store answers, opens after ``FAILURES`` requests in a row without an answer. While it is open,
requests fail at once without being sent, and the driver sends probes in the background; ``probing`` says when, and why
no caller's own request is one. The first answer to anything closes it. The pattern is the circuit breaker of Nygard
("Release It!", 2007), without its half-open state.

A refusal is an answer, and so is throttling. Only refused credentials, and a certificate that does not verify, are an
outage if the store served this process before: whoever changes a policy at night must not stop an application that
asked to go on. Before that, they are a mistake of the deployment, and are raised.

The price: three lost answers in a row make the calls of the next tenth of a second unavailable, and tokens that are
given back while the breaker is open are lost. docs/decisions/breaker.md.
"""

import logging
from threading import Lock
from typing import Final

from ..values.stats import BreakerState, StoreStats
from .errors import AccessLost, Denied, OutcomeUnknown, StoreError, TrustLost, Unreachable, Untrusted

FAILURES: Final = 3

log = logging.getLogger(__name__)


class Health:
    """The health of a store, as this process knows it. Threads may share it."""

    def __init__(self) -> None:
        self.is_open = False
        self.probes = 0
        self._served = self._lost = False
        self._in_a_row = 0
        self._opened = self._unanswered = self._not_sent = self._denied = self._untrusted = 0
        self._foreign_rows = self._unreadable_rows = 0
        self._lock = Lock()

    @property
    def outages(self) -> int:
        """How often the breaker has opened."""
        return self._opened

    def check(self) -> None:
        """Raise ``Unreachable`` if the breaker is open."""
        if self.is_open:
            self._not_sent += 1
            raise Unreachable("the store does not answer; it is asked again in the background")

    def served(self) -> None:
        """Note an answer of the store, good or bad; it closes the breaker."""
        self._served, self._lost = True, False
        self._in_a_row = 0
        if self.is_open:
            self._close()

    def failed(self, error: StoreError, *, proves: bool = True) -> StoreError:
        """Note a failed request, and return its error; return an outage if a refusal comes from a store that served
        before.

        ``proves``: whether a missing answer shows that the store is away now.
        """
        if isinstance(error, Denied | Untrusted):
            error = self._refused(error)
            if not isinstance(error, TrustLost):
                return error
        if not isinstance(error, (OutcomeUnknown, Unreachable)):
            self.served()
            return error
        self._unanswered += 1
        if not proves:
            return error
        self._in_a_row += 1
        if self._in_a_row >= FAILURES and not self.is_open:
            self.open(error)
        return error

    def dropped(self, foreign: int, unreadable: int) -> None:
        """Count rows of an index that a call dropped."""
        with self._lock:
            self._foreign_rows += foreign
            self._unreadable_rows += unreadable

    def stats(self) -> StoreStats:
        """Return the state of the breaker, and the counts."""
        state: BreakerState = "open" if self.is_open else "closed"
        return StoreStats(
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
        self.is_open, self._in_a_row = False, 0

    def _refused(self, error: Denied | Untrusted) -> StoreError:
        """Return an outage for credentials or a certificate that were good before. It ends when they are good again."""
        outage: type[Unreachable]
        if isinstance(error, Denied):
            self._denied += 1
            outage, how = AccessLost, "refuses its credentials"
        else:
            self._untrusted += 1
            outage, how = TrustLost, "cannot be trusted"
        if not self._served:  # a mistake of the deployment, which each call raises, also after an outage
            self._in_a_row = 0
            if self.is_open:
                self._close()
            return error
        if not self._lost:  # a line for each outage, not for each request
            self._lost = True
            log.error("the store served this process before, and now %s: %s", how, error)
        lost = outage(str(error))
        lost.__cause__ = error
        return lost

    def open(self, error: Exception) -> None:
        """Open the breaker."""
        with self._lock:
            if self.is_open:
                return
            self.is_open = True
            self._opened += 1
        log.error("the store does not answer (%s): requests fail at once until it does", error)

    def _close(self) -> None:
        with self._lock:
            if not self.is_open:
                return
            self.is_open = False
        log.warning("the store answers again")
