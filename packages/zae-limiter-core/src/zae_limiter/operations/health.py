"""Whether a store answers: what its answers and failures say, and whether it is worth asking.

Lives here: the breaker, as a value that is told what happened. Never: asking (drivers), a clock.

The breaker is *closed* while the store answers. It opens when ``FAILURES`` requests in a row had no answer; from then
on requests fail at once, without being sent, while the driver sends one probe at a time. The first answer closes it.
"""

import logging
from threading import Lock
from typing import Final

from ..stats import BreakerState, StoreStats
from .errors import AccessLost, Denied, OutcomeUnknown, StoreError, Unreachable

FAILURES: Final = 3
FIRST_PAUSE: Final = 0.1  # seconds until the first probe; each later one waits twice as long, up to the longest
LONGEST_PAUSE: Final = 1.0

log = logging.getLogger(__name__)


class Health:
    """What is known of a store in this process. Threads may share it."""

    def __init__(self) -> None:
        self.is_open = False
        self.probes = 0
        self._served = self._lost = False
        self._in_a_row = 0
        self._opened = self._unanswered = self._not_sent = self._denied = 0
        self._lock = Lock()

    def check(self) -> None:
        """Raises ``Unreachable`` while the breaker is open."""
        if self.is_open:
            self._not_sent += 1
            raise Unreachable("the store does not answer; it is asked again in the background")

    def served(self) -> None:
        """The store answered a request, one way or the other."""
        self._served, self._lost = True, False
        self._in_a_row = 0
        if self.is_open:
            self._close()

    def failed(self, error: StoreError) -> StoreError:
        """A request failed so; answers the error by what is known of the store."""
        if isinstance(error, Denied):
            return self._refused(error)
        if not isinstance(error, (OutcomeUnknown, Unreachable)):
            self.served()
            return error
        self._unanswered += 1
        self._in_a_row += 1
        if self._in_a_row >= FAILURES and not self.is_open:
            self._open(error)
        return error

    def stats(self) -> StoreStats:
        """The state and the counts."""
        state: BreakerState = "open" if self.is_open else "closed"
        return StoreStats(state, self._opened, self.probes, self._unanswered, self._not_sent, self._denied)

    def reset(self) -> None:
        """Begin again after a fork: nobody probes in the child."""
        self._lock = Lock()
        self.is_open, self._in_a_row = False, 0

    def _refused(self, error: Denied) -> StoreError:
        """A refusal of credentials that worked before is an outage: whoever mends them lets the process go on."""
        self._denied += 1
        if not self._served:
            return error
        if not self._lost:  # a line for each outage, not for each request
            self._lost = True
            log.error("the store served this process before, and now refuses its credentials: %s", error)
        lost = AccessLost(str(error))
        lost.__cause__ = error
        return lost

    def _open(self, error: StoreError) -> None:
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
