"""What both variants' histories have in common: the table, who watches it, who uses it, and the last judgement.

Lives here: that. Never: a loop (asynchronous), a thread (threaded).
"""

import re
from random import Random

from simulation.kernel import Violation
from simulation.oracle import Oracle
from zae_limiter.memory.table import MemoryTable
from zae_limiter.operations.values import Item
from zae_limiter.settings import NEVER_SPLIT

from .callers import Caller, Variant
from .plan import CALM, ENTITIES, PARENT, Plan
from .server import Server
from .tally import Tally
from .timeline import Timeline, TimelineClock

RESOURCE = "gpt"
DEADLINE = 3.0  # of one operation, in seconds
GRACE = 0.1
QUIET = 100.0  # until all is at rest: longer than any request, any pause, and any limit's refill
PEOPLE = sorted({*ENTITIES, PARENT})
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
        self.tally = Tally(2 * plan.callers)
        self.server = Server(self.timeline, self.table, self.oracle, rng, tally=self.tally, limit=plan.limit.name)
        self.callers: list[Caller] = []
        self.excuses: set[str] = set() if plan.weather.calm else {"the store"}
        if plan.budget is not None and plan.weather != CALM:
            self.excuses.add("the budget")

    def caller(self, variant: Variant) -> Caller:
        """One more user."""
        caller = Caller(variant, self.plan, self.rng, self.tally.take())
        self.callers.append(caller)
        return caller

    def buckets(self) -> dict[str, list[Item]]:
        """All shards of all buckets."""
        items: dict[str, list[Item]] = {entity: [] for entity in PEOPLE}
        for key, item in self.table._items.items():
            if key.sk == "#STATE":
                items[item["entity_id"]].append(item)
        return items

    def doubt_the_unsettled(self, why: str) -> None:
        """What does not stand as it should by now may stay so: whoever was to see to it is gone."""
        held = self.tally.held(self.buckets())
        for place, holding in enumerate(self.tally.holdings):
            if any(held.get((entity, place), 0) != holding.expected for entity in holding.entities):
                holding.doubt(why)

    def lost(self, message: str) -> None:
        """The log says that something was not given back: that may be, where the store is not well."""
        if self.excuses:
            for limit, amount in re.findall(r"'(who\d+)': (\d+)", message):
                self.tally.doubt(limit, int(amount), "it was not given back, says the log")

    def judge(self) -> None:
        """Raises ``Violation``."""
        for caller in self.callers:
            self._judge_answer(caller)
            self._judge_times(caller)
        if self.server.problem is not None:
            raise self.server.problem
        if self.plan.split_above == NEVER_SPLIT:
            self.tally.settle(self.buckets())
        self.oracle.close()

    def _judge_answer(self, caller: Caller) -> None:
        allowed = {
            "unavailable": bool(self.excuses),
            "contended": bool(self.excuses) or self.plan.split_above != NEVER_SPLIT,
            "closed": self.plan.ending.startswith("close"),
            "cut": caller.cut,
            "": caller.cut,  # before he began
        }
        if not caller.gone and caller.answer not in ALWAYS and not allowed.get(caller.answer):
            raise Violation(f"a caller got the answer {caller.answer!r}: {caller.failure!r}") from caller.failure

    def _judge_times(self, caller: Caller) -> None:
        budget = self.plan.budget
        if budget is None:
            return
        for call in caller.calls:
            if call.ended - call.begun > budget + DEADLINE + GRACE:
                raise Violation(f"{call.name} took {call.ended - call.begun:.3f} s, its budget is {budget}")
