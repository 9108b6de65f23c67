"""The common part of both variants' histories: the table, its oracle, its callers, and the check at the end.

Lives here: that. Never: a loop (asynchronous), a thread (threaded).
"""

import re
from random import Random

from simulation.kernel import Violation
from simulation.oracle import Oracle
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.operations.values import Item
from zae_limiter.values.limits import MILLI

from .callers import Caller, Variant
from .holdings import Holdings
from .plan import ENTITIES, HEALTHY, NEVER_SPLIT, PARENT, Plan
from .server import Server
from .timeline import Timeline, TimelineClock

RESOURCE = "gpt"
DEADLINE = 3.0  # of one operation, in seconds
GRACE = 0.1
QUIET = 100.0  # until all is at rest: longer than any request, any pause, and any limit's refill
ALL_ENTITIES = sorted({*ENTITIES, PARENT})
ALWAYS = {"admitted", "refused", "failed"}


class World:
    """One history's surroundings."""

    def __init__(self, seed: int, plan: Plan, rng: Random) -> None:
        self.plan = plan
        self.rng = rng
        self.timeline = Timeline()
        self.clock = TimelineClock(self.timeline)
        self.table = MemoryTable()
        self.oracle = Oracle(self.timeline, self.table, skew_ms=0, lossless=False)  # type: ignore[arg-type]
        self.holdings = Holdings(2 * plan.callers)
        self.server = Server(self.timeline, self.table, self.oracle, rng, holdings=self.holdings, limit=plan.limit.name)
        self.callers: list[Caller] = []
        self.failure_causes: set[str] = set() if plan.network.faultless else {"the store"}
        if plan.budget is not None and plan.network != HEALTHY:
            self.failure_causes.add("the budget")

    def caller(self, variant: Variant) -> Caller:
        """One more user."""
        caller = Caller(variant, self.plan, self.rng, self.holdings.take())
        self.callers.append(caller)
        return caller

    def buckets(self) -> dict[str, list[Item]]:
        """All shards of all buckets."""
        items: dict[str, list[Item]] = {entity: [] for entity in ALL_ENTITIES}
        for key, item in self.table._items.items():
            if key.sk == "#STATE":
                items[item["entity_id"]].append(item)
        return items

    def doubt_the_unsettled(self, why: str) -> None:
        """Mark the holdings that are not as expected as uncertain: the task that would write them may be gone."""
        held = self.holdings.held(self.buckets())
        for place, holding in enumerate(self.holdings.all):
            if any(held.get((entity, place), 0) != holding.expected for entity in holding.entities):
                holding.doubt(why)

    def lost(self, message: str) -> None:
        """Take note of a log line about tokens that were not given back; allowed where there are causes of failure."""
        if self.failure_causes:
            for amount, limit in re.findall(r"([\d.]+) of (who\d+)", message):
                self.holdings.doubt(limit, round(float(amount) * MILLI), "it was not given back, says the log")

    def check(self) -> None:
        """Raises ``Violation``."""
        for caller in self.callers:
            self._check_answer(caller)
            self._check_times(caller)
        if self.server.problem is not None:
            raise self.server.problem
        if self.plan.split_above == NEVER_SPLIT:
            self.holdings.settle(self.buckets())
        self.oracle.close()

    def _check_answer(self, caller: Caller) -> None:
        allowed = {
            "unavailable": bool(self.failure_causes),
            "contended": bool(self.failure_causes) or self.plan.split_above != NEVER_SPLIT,
            "closed": self.plan.ending.startswith("close"),
            "cut": caller.cut,
            "": caller.cut,  # before he began
        }
        if not caller.gone and caller.answer not in ALWAYS and not allowed.get(caller.answer):
            raise Violation(f"a caller got the answer {caller.answer!r}: {caller.failure!r}") from caller.failure

    def _check_times(self, caller: Caller) -> None:
        budget = self.plan.budget
        if budget is None:
            return
        for call in caller.calls:
            if call.ended - call.begun > budget + DEADLINE + GRACE:
                raise Violation(f"{call.name} took {call.ended - call.begun:.3f} s, its budget is {budget}")
