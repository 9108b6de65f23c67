"""Lives with idle times: an outage, an idle time in which it may end, and then a crowd of calls at once.

Lives here: the ways in which a process is idle, in virtual time. Never: what the crowd has to get (the tests).
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from zae_limiter import (
    Limit,
    Options,
    RateLimiter,
    RateLimiterUnavailable,
    RateLimitExceeded,
    Repository,
    SyncRateLimiter,
    SyncRepository,
    stores,
)
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.engines.time_left import time_left
from zae_limiter.operations.errors import OutcomeUnknown, Unreachable
from zae_limiter.operations.values import Operation
from zae_limiter.runtime import jitter
from zae_limiter.values.limits import Policy

from .loops import VirtualLoop, end
from .patching import replaced, virtual_time
from .threads import Scheduler, stand_in
from .timeline import Timeline, TimelineClock

Outage = Literal["none", "hung", "refused", "slow"]
Way = Literal["running", "frozen", "between invocations", "a loop for each job"]

CAPACITY = 5
CROWD = 40
SLOW_SECONDS = 1.2  # of each answer: within the time of a request
LASTING_SECONDS = 7.3  # of an outage that has begun: a probe hangs when it ends
REQUEST_SECONDS = 3.0
BUDGET_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Life:
    """One life. ``mended``: the store answers again when the idle time begins.

    ``under_way``: calls whose requests hang when a process is frozen.
    """

    way: Way
    outage: Outage
    policy: Policy
    idle: float
    mended: bool
    lasting: float = 0.0
    under_way: int = 0


@dataclass(frozen=True, slots=True)
class Told:
    """What a crowd was told, how long the slowest call took, and how many requests it and the probes sent."""

    answers: Counter[str]
    seconds: float
    requests: int


class Table:
    """A table behind an outage. A request that hangs goes on hanging when the outage ends."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.outage: Outage = "none"
        self.requests = 0
        self._table = MemoryTable()

    def arrives(self) -> Outage:
        """Count a request, and say what becomes of it. Raises ``Unreachable``."""
        self.requests += 1
        if self.outage == "refused":
            raise Unreachable("connection refused")
        return self.outage

    def answer(self, operation: Operation[Any]) -> Any:
        return self._table.execute(operation)


class Store(stores.Store):
    """The way to the table of an async process."""

    def __init__(self, table: Table) -> None:
        self._table = table

    async def perform(self, operation: Operation[Any]) -> Any:
        outage = self._table.arrives()
        if outage == "hung":
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(SLOW_SECONDS if outage == "slow" else 0.002)
        return self._table.answer(operation)

    async def close(self) -> None:
        """Do nothing."""


class SyncStore(stores.SyncStore):
    """The way to the table of a sync process."""

    def __init__(self, table: Table, sleep: Callable[[float], None]) -> None:
        self._table = table
        self._sleep = sleep

    def perform(self, operation: Operation[Any]) -> Any:
        outage = self._table.arrives()
        if outage == "hung":
            self._sleep(max(0.0, time_left()))
            raise OutcomeUnknown("no answer in time")
        self._sleep(SLOW_SECONDS if outage == "slow" else 0.002)
        return self._table.answer(operation)

    def close(self) -> None:
        """Do nothing."""


def options(table: Table) -> Options:
    return Options(clock=TimelineClock(table.timeline), acquire_timeout=BUDGET_SECONDS)


LIMITS = [Limit.per_day("rpd", CAPACITY)]


# async


@contextmanager
def _time_of(timeline: Timeline) -> Iterator[None]:
    jitter.chance = Random(7)
    with replaced(virtual_time(timeline, None)):
        yield


class AsyncLife:
    """One process whose calls are coroutines; ``way`` says what its event loops do in the idle time."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._table = Table(Timeline())
        self._loop = VirtualLoop(self._table.timeline)
        self._limiter: RateLimiter

    def run(self) -> list[Told]:
        """What two crowds were told, one behind the other."""
        with _time_of(self._table.timeline):
            self._do(self._open)
            self._table.outage = self._life.outage
            for _ in range(3):
                self._do(self._acquire)
            self._do(lambda: asyncio.sleep(self._life.lasting))
            if self._life.mended and self._life.outage != "slow":
                self._table.outage = "none"
            if self._life.way == "running":
                self._do(lambda: asyncio.sleep(self._life.idle))
            elif self._life.way != "frozen":
                self._table.timeline.freeze(self._life.idle)
            told: list[Told] = self._do(self._crowds)
            self._do(self._limiter.close)
            end(self._loop)
        assert not self._loop.complaints, self._loop.complaints
        return told

    def _do(self, work: Callable[[], Any]) -> Any:
        result = self._loop.run_until_complete(work())
        if self._life.way == "a loop for each job":
            end(self._loop)
            self._loop = VirtualLoop(self._table.timeline)
        return result

    async def _open(self) -> None:
        repository = await Repository.over(Store(self._table), options(self._table))
        self._limiter = RateLimiter(repository, default_limits=LIMITS)
        assert await self._acquire() == "counted"

    async def _crowds(self) -> list[Told]:
        if self._life.way == "frozen":
            await self._stand_still()
        return [await self._crowd(), await self._crowd()]

    async def _stand_still(self) -> None:
        outage, self._table.outage = self._table.outage, "hung"
        calls = [asyncio.create_task(self._acquire(f"e{n}")) for n in range(self._life.under_way)]
        await asyncio.sleep(0.01 if calls else 0)
        self._table.outage = outage
        self._table.timeline.freeze(self._life.idle)
        if calls:
            await asyncio.wait(calls)

    async def _crowd(self) -> Told:
        begun, before = self._table.timeline.now, self._table.requests
        answers = await asyncio.gather(*(self._acquire() for _ in range(CROWD)))
        return Told(Counter(answers), self._table.timeline.now - begun, self._table.requests - before)

    async def _acquire(self, entity: str = "ann") -> str:
        try:
            async with self._limiter.acquire(entity, "gpt", {"rpd": 1}, on_unavailable=self._life.policy) as lease:
                return "uncounted" if lease.degraded else "counted"
        except RateLimitExceeded:
            return "refused"
        except RateLimiterUnavailable:
            return "unavailable"


# sync


class SyncLife:
    """One process of threads."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._table = Table(Timeline())
        self._scheduler = Scheduler(self._table.timeline, Random(7))
        self._told: list[Told] = []
        self._limiter: SyncRateLimiter

    def run(self) -> list[Told]:
        """What two crowds were told, one behind the other."""
        scheduler, jitter.chance = self._scheduler, Random(7)
        with replaced(virtual_time(self._table.timeline, scheduler.sleep) | stand_in(scheduler, lambda: False)):
            scheduler.run(self._main)
        assert not scheduler.complaints, scheduler.complaints
        return self._told

    def _main(self) -> None:
        table, life = self._table, self._life
        repository = SyncRepository.over(SyncStore(table, self._scheduler.sleep), options(table))
        self._limiter = SyncRateLimiter(repository, default_limits=LIMITS)
        assert self._acquire() == "counted"
        table.outage = life.outage
        for _ in range(3):
            self._acquire()
        self._scheduler.sleep(life.lasting)
        if life.mended and life.outage != "slow":
            table.outage = "none"
        if life.way == "running":
            self._scheduler.sleep(life.idle)
        else:
            self._stand_still()
        self._told = [self._crowd(), self._crowd()]
        self._limiter.close()

    def _stand_still(self) -> None:
        outage, self._table.outage = self._table.outage, "hung"
        calls = [self._begin(f"e{n}") for n in range(self._life.under_way)]
        self._scheduler.sleep(0.01 if calls else 0)
        self._table.outage = outage
        self._table.timeline.freeze(self._life.idle)
        self._ends(calls)

    def _crowd(self) -> Told:
        begun, before = self._table.timeline.now, self._table.requests
        answers = self._ends([self._begin("ann") for _ in range(CROWD)])
        return Told(Counter(answers), self._table.timeline.now - begun, self._table.requests - before)

    def _begin(self, entity: str) -> list[str]:
        """The answer of a call in a thread of its own, when it has come."""
        answer: list[str] = []
        self._scheduler.spawn("a caller", lambda: answer.append(self._acquire(entity)))
        return answer

    def _ends(self, calls: list[list[str]]) -> list[str]:
        while not all(calls):
            self._scheduler.wait(0.001)
        return [answer for (answer,) in calls]

    def _acquire(self, entity: str = "ann") -> str:
        try:
            with self._limiter.acquire(entity, "gpt", {"rpd": 1}, on_unavailable=self._life.policy) as lease:
                return "uncounted" if lease.degraded else "counted"
        except RateLimitExceeded:
            return "refused"
        except RateLimiterUnavailable:
            return "unavailable"
