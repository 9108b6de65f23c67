"""The table behind its network, for both variants.

Lives here: the conditions of the network, and what they do to a request. Never: waiting (asynchronous, threaded).
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from simulation.kernel import Violation
from simulation.network import bucket_keys
from simulation.oracle import Oracle
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.operations import errors
from zae_limiter.operations.errors import NotApplied, OutcomeUnknown, StoreError, Throttled
from zae_limiter.operations.values import Operation

from .holdings import Holdings
from .timeline import Timeline

TIMEOUT_US = 2_000_000
SLOWEST_US = 1_900_000
UNREACHABLE: type[NotApplied] = getattr(errors, "Unreachable", NotApplied)

Settle = Callable[[Any, StoreError | None], None]


@dataclass(frozen=True, slots=True)
class NetworkConditions:
    """The conditions of the network: chances for each request. ``hung`` ones get no answer, applied or not."""

    typical_us: int = 5_000
    slow: float = 0.0
    throttled: float = 0.0
    refused: float = 0.0
    lost_before: float = 0.0
    lost_after: float = 0.0
    hung: float = 0.0

    @property
    def faultless(self) -> bool:
        """Whether every request is answered."""
        return not (self.throttled or self.refused or self.lost_before or self.lost_after or self.hung)


class Sending:
    """One request under way."""

    def __init__(self, holdings: Holdings, operation: Operation[Any]) -> None:
        self._holdings = holdings
        self._operation = operation

    def doubt(self, why: str) -> None:
        """Mark what it changes, if it is applied, as uncertain."""
        for holding, _ in self._holdings.touched(self._operation):
            holding.doubt(why)

    def came_back(self, error: StoreError | None) -> None:
        """Its sender knows what became of it; a give-back that was not applied may be given up."""
        if isinstance(error, OutcomeUnknown):
            self.doubt("an answer was lost")
        elif isinstance(error, NotApplied):
            for holding, change in self._holdings.touched(self._operation):
                if change < 0 or holding.correcting:
                    holding.doubt("a give-back or a correction was not applied")


class Server:
    """The table, the way to it, and the oracle that watches both. ``limit`` is the one that may refuse."""

    def __init__(
        self, timeline: Timeline, table: MemoryTable, oracle: Oracle, rng: Random, *, holdings: Holdings, limit: str
    ) -> None:
        self.network = NetworkConditions()
        self.requests = 0
        self.problem: Violation | None = None
        self._timeline = timeline
        self._table = table
        self._oracle = oracle
        self._rng = rng
        self._holdings = holdings
        self._limit = limit

    def send(self, operation: Operation[Any], settle: Settle) -> Sending:
        """Send a request; what becomes of it is decided here and now."""
        self.requests += 1
        sending, network, dice = Sending(self._holdings, operation), self.network, self._rng.random()
        there, back = self._delay(), self._delay()
        decided_ms = self._timeline.now_ms

        def fail(error: StoreError, delay_us: int) -> None:
            self._timeline.later(delay_us, lambda: settle(None, error))

        def apply(*, answered: bool) -> None:
            value, error = self._apply(operation, decided_ms)
            if answered:
                self._timeline.later(back, lambda: settle(value, error))

        def lose_answer() -> None:
            fail(OutcomeUnknown("no answer"), TIMEOUT_US)
            self._timeline.later(there, lambda: apply(answered=False))

        def hang() -> None:
            if self._rng.random() < 0.5:
                self._timeline.later(there, lambda: apply(answered=False))

        faults: tuple[tuple[float, Callable[[], None]], ...] = (
            (network.throttled, lambda: fail(Throttled("slow down"), there + back)),
            (network.refused, lambda: fail(UNREACHABLE("no connection"), there)),
            (network.lost_before, lambda: fail(OutcomeUnknown("no answer"), TIMEOUT_US)),
            (network.lost_after, lose_answer),
            (network.hung, hang),
        )
        for chance, outcome in faults:
            if dice < chance:
                outcome()
                return sending
            dice -= chance
        self._timeline.later(there, lambda: apply(answered=True))
        return sending

    def execute(self, operation: Operation[Any]) -> Any:
        """Answer at once, as a table in the same process does. Raises ``StoreError``."""
        self.requests += 1
        value, error = self._apply(operation, self._timeline.now_ms)
        if error is not None:
            raise error
        return value

    def _delay(self) -> int:
        slow = self._rng.random() < self.network.slow
        return self._rng.randint(0, SLOWEST_US // 2 if slow else 2 * self.network.typical_us)

    def _apply(self, operation: Operation[Any], decided_ms: int) -> tuple[Any, StoreError | None]:
        try:
            return self._watched(operation, decided_ms)
        except Violation as violation:  # a driver may take it for an answer
            self.problem = self.problem or violation
            raise

    def _watched(self, operation: Operation[Any], decided_ms: int) -> tuple[Any, StoreError | None]:
        keys = bucket_keys(operation)
        before = {key: self._oracle.look(key) for key in keys}
        try:
            value = self._table.execute(operation)
        except (NotApplied, AssertionError) as error:
            raise Violation(f"DynamoDB would refuse {operation}: {error}") from error
        except StoreError as error:
            return None, error
        for write in self._oracle.saw(before, decided_ms):
            change = write.changes.get(self._limit)
            if change is not None and change.net > 0 and not write.splits:
                write.checked[self._limit] = change.net
        return value, None
