"""Rolling deploys: processes whose calls pass other limits than those before them, and stored limits that change.

Lives here: who comes when, and which limits the buckets end with. Never: what may be admitted meanwhile (oracle).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Protocol

from zae_limiter.flows.process.namespace_state import bucket_key
from zae_limiter.schema.items import BucketId, read_bucket
from zae_limiter.values.limits import Limit

from .callers import Process
from .kernel import Kernel, Violation
from .oracle import Oracle
from .plan import STORED, Plan

SECOND_US = 1_000_000
PAUSE_S = 4, 30  # between two processes that are replaced
FOLLOWS_US = 60 * SECOND_US  # after so long limits of calls are born again
LATE_S = 0, 3, 20  # for so long a process that is replaced still gets calls


class History(Protocol):
    """A history with a deploy."""

    kernel: Kernel
    plan: Plan
    rng: Random
    oracle: Oracle

    @property
    def processes(self) -> Sequence[Process]:
        """Those that were ever there."""

    def start(self) -> Process:
        """Start one more process."""

    def come(self, process: Any, place: tuple[str, str]) -> None:
        """Somebody comes to a process, for a bucket."""

    def change(self) -> None:
        """Store other limits for everybody."""


class Deploys:
    """The deploy of one history: all processes are replaced, one after the other.

    A process of before may start once more meanwhile, as one does that crashed, and end without a successor.
    ``serving``: until when each process gets calls.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._rng = history.rng
        self._settled_us = 0
        self.serving: dict[Process, int] = {}

    @property
    def _places(self) -> list[tuple[str, str]]:
        plan = self._history.plan
        return [(entity, resource) for entity in plan.entities for resource in plan.resources]

    def schedule(self) -> None:
        """Have everything happen."""
        history, plan, rng, later = self._history, self._history.plan, self._rng, self._history.kernel.later
        old, new = plan.limits[0], plan.limits[-1]
        begin_us = at_us = rng.choice((1, 10, 90)) * SECOND_US
        ends = []
        for process in history.processes:
            at_us += rng.randint(*PAUSE_S) * SECOND_US
            self._serve(process, old, at_us + rng.choice(LATE_S) * SECOND_US)
            ends.append(self.serving[process])
            later(at_us, partial(self._start, new))
        if rng.random() < 0.5:
            from_us = rng.randint(begin_us, at_us)
            ends.append(from_us + rng.randint(1, 60) * SECOND_US)
            later(from_us, partial(self._start, old, ends[-1]))
        if plan.deploys == STORED:
            for _ in range(rng.choice((1, 1, 3))):
                later(rng.randint(begin_us, at_us), history.change)
        end_us = max(ends)
        self._settled_us = end_us + 2 * FOLLOWS_US
        for _ in range(plan.callers):
            later(rng.randint(0, end_us), self._arrive)
        for _ in range(plan.callers // 2):
            later(rng.randint(end_us, self._settled_us), self._arrive)
        for turn in range(1, 6):
            later(self._settled_us + turn * SECOND_US, self._arrive_everywhere)

    def _start(self, limits: tuple[Limit, ...], until_us: int | None = None) -> None:
        self._serve(self._history.start(), limits, until_us)

    def _serve(self, process: Process, limits: tuple[Limit, ...], until_us: int | None) -> None:
        process.given = limits if self._history.plan.deploys != STORED else ()
        self.serving[process] = 1 << 60 if until_us is None else until_us

    def _alive(self) -> list[Process]:
        now_us = self._history.kernel.now_us
        return [process for process, until_us in self.serving.items() if until_us > now_us]

    def _arrive(self) -> None:
        self._history.come(self._rng.choice(self._alive()), self._rng.choice(self._places))

    def _arrive_everywhere(self) -> None:
        for process in self._alive():
            for place in self._places:
                self._history.come(process, place)

    def flips(self) -> Counter[str]:
        """How often each bucket got other limits."""
        rules: dict[tuple[str, str], Any] = {}
        flips = Counter[str]()
        for write in self._history.oracle.applications:
            other = False
            for name, change in write.changes.items():
                rule = change.state.rule
                other |= rules.get((write.pk, name), rule) != rule
                rules[write.pk, name] = rule
            flips[write.pk] += other
        return flips

    def check(self, look: Callable[..., Any]) -> None:
        """Raise ``Violation`` if a bucket ends with other limits than the newest, or had others too often."""
        plan = self._history.plan
        newest = plan.limits[-1]
        for place in self._places:
            item = look(bucket_key(BucketId("ns", *place)))
            if item is not None and plan.faultless and not read_bucket(item).has(limit._rule for limit in newest):
                raise Violation(f"{place} ends with {read_bucket(item).limits}, and the newest are {newest}")
        most = len(self.serving) + 2 * self._settled_us // FOLLOWS_US
        for pk, times in self.flips().items():
            if times > most:
                raise Violation(f"{pk} got other limits {times} times, and at most {most} are to be")
