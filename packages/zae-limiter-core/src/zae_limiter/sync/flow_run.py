"""One run of a flow by the sync driver."""

import math
import time

from ..flows.bucket_queue import Waiter


class FlowRun:
    """One run of a flow: its waiters, and the instant of ``time.monotonic`` by which it ends."""

    __slots__ = ("_budget", "until", "waiters")

    def __init__(self, until: float = math.inf, budget: float = math.inf) -> None:
        self.waiters: list[Waiter] = []
        self.until = until
        self._budget = budget

    @classmethod
    def within(cls, budget: float) -> "FlowRun":
        """Return a run that ends in so many seconds."""
        return cls(time.monotonic() + budget, budget)

    def begin_again(self) -> None:
        """Restart the budget."""
        self.until = time.monotonic() + self._budget

    @property
    def is_over(self) -> bool:
        """Whether that instant has passed."""
        return self.until < math.inf and time.monotonic() >= self.until
