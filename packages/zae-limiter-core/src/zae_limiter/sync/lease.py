"""The sync lease, and the block that it lives in.

Lives here: enter, exit, and a list of methods. Never: a rule.
"""

import logging
from types import TracebackType

from ..exceptions import InfrastructureError
from ..flows.acquire import acquire
from ..flows.lease import Holding, consume, correct, roll_back
from ..flows.scope import Scope
from ..flows.sides import Request
from ..flows.statuses import statuses_after
from ..limits import MILLI, LimitStatus
from .driver import SyncDriver

log = logging.getLogger(__name__)


class SyncLease:
    """What an acquire took, while its block runs."""

    __slots__ = ("_driver", "_holding", "_scope")

    def __init__(self, driver: SyncDriver, scope: Scope, holding: Holding) -> None:
        self._driver = driver
        self._scope = scope
        self._holding = holding

    def consume(self, **amounts: int) -> None:
        """Take more tokens, checked, at once. Raises as ``acquire`` does, and ``LeaseExpiredError``."""
        milli = self._holding.check("consume", amounts)
        self._driver.run(consume(self._scope, self._holding, milli))

    def adjust(self, **amounts: int) -> None:
        """Correct the estimate at the end of the block, up or down; never refused, and may go into debt.

        Raises ``LeaseExpiredError``, and ``ValidationError`` where the lease would hold less than nothing.
        """
        self._holding.adjust("adjust", amounts)

    def release(self, **amounts: int) -> None:
        """Give tokens back at the end of the block. Raises as ``adjust`` does."""
        self._holding.release(amounts)

    def keep(self) -> None:
        """Keep what was taken even if the block raises. Raises ``LeaseExpiredError``."""
        self._holding.check_open()
        self._holding.rollback = False

    @property
    def consumed(self) -> dict[str, int]:
        """What the lease stands for, in tokens by limit, corrections included."""
        return {name: amount // MILLI for name, amount in self._holding.consumed.items()}

    @property
    def degraded(self) -> bool:
        """Whether the store was away, so that what was let through is not counted."""
        return self._holding.grant.unavailable is not None

    @property
    def statuses(self) -> list[LimitStatus]:
        """How the limits stood behind the writes that took from them; none where the store was away."""
        return statuses_after(self._holding.grant.sides)


class SyncAcquisition:
    """``with`` it: takes on entry, corrects or gives back on exit."""

    __slots__ = ("_driver", "_holding", "_request", "_rollback", "_scope")

    def __init__(self, driver: SyncDriver, scope: Scope, request: Request, *, rollback: bool) -> None:
        self._driver = driver
        self._scope = scope
        self._request = request
        self._rollback = rollback
        self._holding: Holding | None = None

    def __enter__(self) -> SyncLease:
        grant = self._driver.run(acquire(self._scope, self._request))
        if grant.unavailable is not None:
            log.warning("not counted, because the store is away: %s", grant.unavailable)
        self._holding = Holding(grant, self._request, rollback=self._rollback)
        return SyncLease(self._driver, self._scope, self._holding)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        holding = self._holding
        if holding is None:
            return
        holding.open = False
        if error is not None and holding.rollback:
            self._driver.run(roll_back(holding))
        elif holding.corrections:
            self._correct(holding, error)

    def _correct(self, holding: Holding, error: BaseException | None) -> None:
        try:
            self._driver.run(correct(self._scope, holding))
        except InfrastructureError:
            if error is None:
                raise
            log.warning("corrections were not written; the block's own error goes on", exc_info=True)
