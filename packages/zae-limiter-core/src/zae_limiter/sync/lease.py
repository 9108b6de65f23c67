"""The sync lease.

Lives here: enter, exit, and a list of methods. Never: a rule.
"""

import logging
from threading import Lock
from types import TracebackType
from typing import Self, TypeVar

from ..exceptions import InfrastructureError, LeaseExpiredError
from ..flows.acquire.acquire import acquire
from ..flows.acquire.claims import AcquireRequest, Grant
from ..flows.acquire.lease import adjust, check_open, checked, consume, correct, release, roll_back
from ..flows.acquire.statuses import statuses_after
from ..flows.process.namespace_state import NamespaceState
from ..flows.steps import Flow
from ..limits import MILLI, LimitStatus
from ..runtime import forks
from .driver import SyncDriver

T = TypeVar("T")
log = logging.getLogger(__name__)


class SyncLease:
    """What an acquire takes for the time of a block: ``with`` it. Corrects or gives back when the block ends.

    It is entered once: for another block, acquire again.
    """

    __slots__ = ("_driver", "_granted", "_namespace_state", "_once", "_process", "_request")

    def __init__(self, driver: SyncDriver, namespace_state: NamespaceState, request: AcquireRequest) -> None:
        self._driver = driver
        self._namespace_state = namespace_state
        self._request = request
        self._granted: Grant | None = None
        self._once = Lock()
        self._process = forks.generation

    def consume(self, /, **amounts: int) -> None:
        """Take more tokens, checked, at once. Raises as ``acquire`` does, and ``LeaseExpiredError``.

        So it does where the block ends before the store has answered: what was taken then goes back.
        """
        milli = checked(self._grant, "consume", amounts)
        self._run(consume(self._namespace_state, self._grant, milli))

    def adjust(self, /, **amounts: int) -> None:
        """Correct the estimate at the end of the block, up or down; never refused, and may go into debt.

        Raises ``LeaseExpiredError``, and ``ValidationError`` where the lease would hold less than nothing.
        """
        adjust(self._grant, "adjust", amounts)

    def release(self, /, **amounts: int) -> None:
        """Give tokens back at the end of the block. Raises as ``adjust`` does."""
        release(self._grant, amounts)

    def keep(self) -> None:
        """Keep what was taken even if the block raises. Raises ``LeaseExpiredError``."""
        check_open(self._grant)
        self._grant.rollback = False

    @property
    def consumed(self) -> dict[str, int]:
        """What the lease stands for, in tokens by limit, corrections included."""
        return {name: amount // MILLI for name, amount in self._grant.consumed.items()}

    @property
    def degraded(self) -> bool:
        """Whether the store was away, so that what was let through is not counted."""
        return self._grant.unavailable is not None

    @property
    def statuses(self) -> list[LimitStatus]:
        """How the limits stood behind the writes that took from them; none where the store was away."""
        return statuses_after(self._namespace_state, self._grant.claims)

    @property
    def _grant(self) -> Grant:
        if self._granted is None:
            raise LeaseExpiredError(self._request.entity_id, self._request.resource)
        return self._granted

    def __enter__(self) -> Self:
        if not self._once.acquire(blocking=False):  # never let go of: a lease is entered once, whatever comes of it
            raise LeaseExpiredError(self._request.entity_id, self._request.resource)
        self._granted = self._run(acquire(self._namespace_state, self._request))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        grant = self._grant
        grant.close()
        if self._process != forks.generation:
            return  # a child has the block of its parent, not what it took
        if error is not None and grant.rollback:
            self._roll_back(grant)
        elif grant.corrections:
            self._correct(grant, error)

    def _correct(self, grant: Grant, error: BaseException | None) -> None:
        try:
            self._run(correct(self._namespace_state, grant))
        except InfrastructureError:
            if error is None:
                raise
            log.warning("corrections were not written; the block's own error goes on", exc_info=True)

    def _roll_back(self, grant: Grant) -> None:
        try:
            self._run(roll_back(grant))
        except InfrastructureError:
            log.warning("what the lease took was not given back; the block's own error goes on", exc_info=True)

    def _run(self, flow: Flow[T]) -> T:
        """Every request, and every way out, within the time that an acquire may take."""
        return self._driver.run(flow, budget=self._namespace_state.settings.acquire_timeout)
