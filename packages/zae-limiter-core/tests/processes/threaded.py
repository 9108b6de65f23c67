"""Histories of the sync driver: threads that interleave, and a main thread that signals interrupt.

Lives here: the course of events in a process. Never: a check of the table (world, oracle, holdings).
"""

import random
import sys
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from random import Random
from types import TracebackType
from typing import Any

from simulation.kernel import Violation
from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository, stores
from zae_limiter.exceptions import InfrastructureError, RateLimiterUnavailable
from zae_limiter.operations.errors import NotApplied, OutcomeUnknown, StoreError
from zae_limiter.operations.values import Operation
from zae_limiter.runtime import jitter

from .callers import CLOSED, Caller
from .listening import listening
from .patching import replaced, virtual_time
from .plan import CASCADING, HAS_BUDGET, HEALTHY, PARENT, Plan, draw
from .signals import Signals, Stopped, TimeLimit
from .threads import Actor, Scheduler, stand_in
from .timeline import Stuck
from .world import ALL_ENTITIES, DEADLINE, GRACE, QUIET, RESOURCE, World

try:
    from zae_limiter.engines.time_left import time_left
except ImportError:

    def time_left() -> float:
        return DEADLINE


class Store(stores.SyncStore):
    """One process's way to the table."""

    def __init__(self, world: World, scheduler: Scheduler) -> None:
        self.immediate = True
        self._world = world
        self._scheduler = scheduler
        self._closed = False

    @property
    def capabilities(self) -> stores.Capabilities:
        return stores.Capabilities(hot_items=True)

    def perform(self, operation: Operation[Any]) -> Any:
        if self._closed:
            raise NotApplied("the store is closed")
        self._scheduler.outside += 1
        try:
            if self.immediate:
                return self._world.server.execute(operation)
            answers: list[tuple[Any, StoreError | None]] = []
            me = self._scheduler.current

            def settle(value: Any, error: StoreError | None) -> None:
                answers.append((value, error))
                self._scheduler.notify(me)

            sending = self._world.server.send(operation, settle)
        finally:
            self._scheduler.outside -= 1
        try:
            self._wait(answers)
        except BaseException:
            sending.doubt("its sender was cut off")
            raise
        value, error = answers[0] if answers else (None, OutcomeUnknown("no answer in time"))
        sending.came_back(error)
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        self._closed = True

    def _wait(self, answers: list[Any]) -> None:
        timeline = self._scheduler.timeline
        until = timeline.now + min(DEADLINE, time_left())
        while not answers and (left := until - timeline.now) > 1e-6:
            self._scheduler.wait(left)


class AwaitedLease:
    """A sync lease whose methods are awaited, and never wait for a loop."""

    def __init__(self, lease: Any) -> None:
        self._lease = lease
        self.degraded = False

    async def __aenter__(self) -> "AwaitedLease":
        self._lease.__enter__()
        self.degraded = self._lease.degraded
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lease.__exit__(kind, error, trace)
        self.degraded = self._lease.degraded

    async def consume(self, **amounts: int) -> None:
        self._lease.consume(**amounts)
        self.degraded = self._lease.degraded

    async def adjust(self, **amounts: int) -> None:
        self._lease.adjust(**amounts)

    async def release(self, **amounts: int) -> None:
        self._lease.release(**amounts)

    def keep(self) -> None:
        self._lease.keep()


class Process:
    """One process: a repository, and the threads that use it."""

    cuts: tuple[type[BaseException], ...] = (Stopped, TimeLimit)

    def __init__(self, world: World, scheduler: Scheduler) -> None:
        self.world = world
        self.store = Store(world, scheduler)
        self.limiter: SyncRateLimiter
        self._scheduler = scheduler

    def now(self) -> float:
        return self.world.timeline.now

    async def pause(self, seconds: float) -> None:
        self._scheduler.sleep(seconds)

    def acquire(self, entity_id: str, amounts: Mapping[str, int], on_unavailable: Any) -> Any:
        return AwaitedLease(self.limiter.acquire(entity_id, RESOURCE, amounts, on_unavailable=on_unavailable))

    def open(self) -> None:
        """Fill the table, over requests that take no time and never fail."""
        world = self.world
        options = world.plan.options(clock=world.clock, stack="simulated")
        repository = SyncRepository.over(self.store, options)
        repository.set_system_defaults([world.plan.limit, *world.holdings.limits])
        for entity in ALL_ENTITIES:
            if entity != CASCADING:
                repository.create_entity(entity)
        repository.create_entity(CASCADING, parent_id=PARENT, cascade=True)
        self.limiter = SyncRateLimiter(repository)
        if world.plan.warm:
            for entity in ALL_ENTITIES:
                with suppress(RateLimitExceeded), self.limiter.acquire(entity, RESOURCE, {"rpm": 1}):
                    pass
        world.server.network, self.store.immediate = world.plan.network, world.plan.immediate


class History:
    """A history that is to be run once. ``point``: the main thread is interrupted there, and nowhere else."""

    def __init__(self, seed: int, *, point: int = 0, plan: Plan | None = None) -> None:
        self.rng = Random(seed)
        random.seed(seed)  # of the library's own chance
        jitter.chance = Random(seed)
        self.plan = plan or draw(self.rng, endings=("rest", "rest", "rest", "close"))
        self.world = World(seed, self.plan, self.rng)
        self.scheduler = Scheduler(self.world.timeline, self.rng)
        preempt = self.rng.random() < 0.3
        self.signals = Signals(self.scheduler, self.rng, self._interrupted, preempt=preempt)
        self.process = Process(self.world, self.scheduler)
        self.interrupted: Caller | None = None
        self._point = point
        self._stopped = False
        self._cuts = 0
        self._problems: list[str] = []
        self._waiting = ""
        self._own: set[Actor] = set()

    def run(self) -> None:
        """Let everything happen, and check it. Raises ``Violation``."""
        scheduler = self.scheduler
        values = virtual_time(self.world.timeline, scheduler.sleep) | stand_in(scheduler, lambda: False)
        failure = ""
        with replaced(values), listening(self.world.lost) as heard:
            try:
                scheduler.run(self._main)
            except (Stuck, Violation) as problem:
                failure = f"{problem}: {self._who_waits()}"
            except Exception as problem:  # noqa: BLE001 - out of the library, past everybody
                failure = f"{problem!r}: {self._who_waits()}"
        if failure:
            raise Violation(failure)
        for said in [*self._problems, *scheduler.complaints, *heard]:
            raise Violation(said)
        self.world.check()

    def _main(self) -> None:
        self._own.add(self.scheduler.current)
        self.process.open()
        mine = self.plan.callers // 3 + 1
        for _ in range(self.plan.callers - mine):
            self._spawn(self.world.caller(self.process).live())
        for _ in range(self.plan.loopers):
            self._spawn(self._loop())
        self._cuts = self.plan.cuts
        for _ in range(mine):
            self._visit()
        self.signals.disarm()
        if self.plan.ending == "close":
            self._close_under_load()
        self._await_others()
        if self.plan.ending != "close":
            self._rest_and_close()
        sys.settrace(None)

    def _spawn(self, script: Coroutine[Any, Any, None]) -> None:
        self._own.add(self.scheduler.spawn("a caller", lambda: _drive(script)))

    def _visit(self) -> None:
        """The main thread is a user, too, and signals come."""
        self.interrupted = caller = self.world.caller(self.process)
        if self._point:
            self.signals.arm(Stopped, point=self._point)
            self._point = 0
        elif self._cuts > 0 and not self.signals.armed:
            self._cuts -= 1
            self._arm()
        _drive(caller.live())
        self.interrupted = None

    def _arm(self) -> None:
        rng = self.rng
        what = rng.choice((Stopped, TimeLimit))
        if rng.random() < 0.5:
            self.signals.arm(what, wait=rng.randint(1, 20))
        else:
            self.signals.arm(what, point=int(10 ** rng.uniform(0, 3.3)))

    def _interrupted(self, at_point: bool) -> None:  # noqa: FBT001 - a fact
        caller = self.interrupted
        assert caller is not None
        caller.cut = True
        if at_point:
            caller.holding.doubt("a signal came at a point where it was not waiting")
        if self._cuts > 0 and self.rng.random() < 0.3:
            self._cuts -= 1
            self.signals.arm(self.rng.choice((Stopped, TimeLimit)), wait=self.rng.randint(1, 4))

    def _await_others(self) -> None:
        self._waiting = "the end of all callers"
        while any(actor in self._own for actor in self.scheduler.others()):
            self.scheduler.sleep(0.5)

    async def _loop(self) -> None:
        """A caller that takes in a loop, until the repository is closed."""
        while not self._stopped:
            try:
                async with self.process.acquire(self.rng.choice(self.plan.entities), {"rpm": 1}, None):
                    self.scheduler.sleep(self.rng.choice((0, 0.003)))
            except CLOSED:
                return
            except (RateLimitExceeded, InfrastructureError):
                self.scheduler.sleep(0.05)

    def _close_under_load(self) -> None:
        self.scheduler.sleep(self.rng.uniform(0, 0.02))
        self._close()
        self._stopped = True
        self.world.doubt_the_unsettled("it went on behind the close")
        for caller in self.world.callers:
            if not caller.answer:
                caller.holding.doubt("it went on behind the close")

    def _close(self) -> None:
        self._waiting, begun = "close()", self.process.now()
        self.process.limiter.close()
        took, longest = self.process.now() - begun, (self.plan.budget or 0) + DEADLINE + GRACE
        if self.plan.budget is not None and took > longest:
            self._problems.append(f"close() took {took:.3f} s")

    def _rest_and_close(self) -> None:
        self.scheduler.sleep(QUIET)
        self.world.server.network = HEALTHY
        self.scheduler.sleep(QUIET)
        left = self.scheduler.others()
        if left:
            self._problems.append(f"a thread outlives a pause: {left[0].name}")
        for entity in ALL_ENTITIES:
            self._check_works(entity)
        self._close()

    def _check_works(self, entity: str) -> None:
        self._waiting, error = f"a fresh acquire of {entity}", None
        for _ in range(5):
            try:
                with self.process.limiter.acquire(entity, RESOURCE, {"rpm": 1}, on_unavailable="block"):
                    return
            except (RateLimitExceeded, RateLimiterUnavailable) as problem:
                error = problem
                self.scheduler.sleep(2)
        self._problems.append(f"{entity} cannot be acquired any more: {error!r}")

    def _who_waits(self) -> str:
        waiting = [f"a caller in {caller.waits}" for caller in self.world.callers if caller.waits]
        return ", ".join([self._waiting, *waiting, *self.scheduler.standing, *self._problems])


def _drive(script: Coroutine[Any, Any, None]) -> None:
    """Run to its end what never waits for a loop."""
    try:
        script.send(None)
    except StopIteration:
        return
    raise AssertionError("a sync script waited")


def simulate(seed: int) -> History:
    """The history of a seed. Raises ``Violation`` with the command that replays it."""
    history = History(seed)
    try:
        history.run()
    except Violation as violation:
        command = f"just simulate-processes --variant sync --replay {seed}"
        raise Violation(f"seed {seed}: {violation}\nreplay: {command}\n{history.plan}") from violation
    return history


SMALL = Plan(
    callers=5,
    loopers=0,
    entities=("key",),
    network=HEALTHY,
    limit=Limit.per_minute("rpm", 40),
    ending="rest",
    span_us=2_000,
    budget=5.0 if HAS_BUDGET else None,
)


def simulate_interrupted(point: int, *, warm: bool, seed: int = 1) -> History:
    """A small history whose main thread is interrupted at one point. Raises ``Violation``."""
    history = History(seed, point=point, plan=replace(SMALL, warm=warm))
    try:
        history.run()
    except Violation as violation:
        raise Violation(f"interrupted at point {point}, warm={warm}: {violation}") from violation
    return history


def points(*, warm: bool) -> int:
    """How many points there are at which it can be interrupted."""
    return simulate_interrupted(10**9, warm=warm).signals.points
