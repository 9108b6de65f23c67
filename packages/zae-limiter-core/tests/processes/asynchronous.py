"""Histories of the async driver: cancellation at any await, shutdowns, loops that end, close at any instant.

Lives here: the course of events in a loop. Never: a check of the table (world, oracle, holdings).
"""

import asyncio
import gc
import random
from collections.abc import Mapping
from contextlib import suppress
from random import Random
from typing import Any

from simulation.kernel import Violation
from zae_limiter import RateLimiter, RateLimitExceeded, Repository, stores
from zae_limiter.exceptions import InfrastructureError, RateLimiterUnavailable
from zae_limiter.operations.errors import NotApplied, StoreError
from zae_limiter.operations.values import Operation
from zae_limiter.runtime import jitter

from .callers import CLOSED, Caller
from .listening import listening
from .loops import VirtualLoop, end, watched
from .patching import replaced, virtual_time
from .plan import CASCADING, HEALTHY, PARENT, Plan, draw
from .server import Sending
from .timeline import Stuck
from .world import ALL_ENTITIES, DEADLINE, GRACE, QUIET, RESOURCE, World


class Store(stores.Store):
    """One process's way to the table."""

    def __init__(self, world: World) -> None:
        self.immediate = True
        self.awaited: dict[object, asyncio.Future[Any]] = {}
        self._world = world
        self._closed = False

    @property
    def capabilities(self) -> stores.Capabilities:
        return stores.Capabilities(hot_items=True)

    async def perform(self, operation: Operation[Any]) -> Any:
        if self._closed:
            raise NotApplied("the store is closed")
        if self.immediate:
            return self._world.server.execute(operation)
        sending = self._world.server.send(operation, lambda *answer: self._settle(sending, answer))
        self.awaited[sending] = asyncio.get_running_loop().create_future()
        try:
            value, error = await self.awaited[sending]
        except BaseException:
            sending.doubt("its sender was cut off")
            raise
        sending.came_back(error)
        if error is not None:
            raise error
        return value

    async def close(self) -> None:
        self._closed = True

    def _settle(self, sending: Sending, answer: tuple[Any, StoreError | None]) -> None:
        future = self.awaited.pop(sending, None)
        if future is not None and not future.done() and not future.get_loop().is_closed():
            future.set_result(answer)


class Process:
    """One process: a repository, which outlives the loops that it is used in."""

    cuts: tuple[type[BaseException], ...] = (asyncio.CancelledError,)

    def __init__(self, world: World) -> None:
        self.world = world
        self.store = Store(world)
        self.limiter: RateLimiter

    def now(self) -> float:
        return self.world.timeline.now

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def acquire(self, entity_id: str, amounts: Mapping[str, int], on_unavailable: Any) -> Any:
        return self.limiter.acquire(entity_id, RESOURCE, amounts, on_unavailable=on_unavailable)

    async def open(self) -> None:
        """Fill the table, over requests that take no time and never fail."""
        world = self.world
        options = world.plan.options(clock=world.clock, stack="simulated")
        repository = await Repository.over(self.store, options)
        await repository.set_system_defaults([world.plan.limit, *world.holdings.limits])
        for entity in ALL_ENTITIES:
            if entity != CASCADING:
                await repository.create_entity(entity)
        await repository.create_entity(CASCADING, parent_id=PARENT, cascade=True)
        self.limiter = RateLimiter(repository)
        if world.plan.warm:
            for entity in ALL_ENTITIES:
                with suppress(RateLimitExceeded):
                    async with self.acquire(entity, {"rpm": 1}, None):
                        pass
        world.server.network, self.store.immediate = world.plan.network, world.plan.immediate


class History:
    """A history that is to be run once."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        random.seed(seed)  # of the library's own chance
        jitter.chance = Random(seed)
        self.plan: Plan = draw(self.rng)
        self.world = World(seed, self.plan, self.rng)
        self.process = Process(self.world)
        self.loop = VirtualLoop(self.world.timeline, self._turn)
        self._loops = [self.loop]
        self.own: set[asyncio.Task[Any]] = set()
        self.caller_of: dict[asyncio.Task[Any], Caller] = {}
        self.stopped = False
        self._cuts = 0
        self._until_cut = 0
        self._waiting = ""
        self._problems: list[str] = []

    def run(self) -> None:
        """Let everything happen, and check it. Raises ``Violation``."""
        failure = ""
        with replaced(virtual_time(self.world.timeline, None)), listening(self.world.lost) as heard:
            try:
                with watched():
                    self._run_first()
                    if self.plan.ending in {"shutdown", "abandoned"}:
                        self._run_second()
            except (Stuck, Violation) as problem:
                failure = f"{problem}: {self._who_waits()}"
            except Exception as problem:  # noqa: BLE001 - out of the library, past everybody
                failure = f"{problem!r}: {self._who_waits()}"
            self._drop()  # while somebody listens; outside of the handler, whose traceback keeps tasks alive
            del self.process.limiter
        if failure:
            raise Violation(failure)
        complaints = [complaint for loop in self._loops for complaint in loop.complaints]
        for said in [*self._problems, *complaints, *heard]:
            raise Violation(said)
        self.world.check()

    def _run_first(self) -> None:
        loop = self.loop
        loop.run_until_complete(self._main(self._first()))
        if self.plan.ending == "abandoned":
            self._abandon_loop()
            return
        if self.plan.ending == "shutdown":
            self._note_shutdown()
        end(loop)
        self.own.clear()
        self.caller_of.clear()
        gc.collect()

    def _run_second(self) -> None:
        """The repository is used again, in another loop."""
        self.loop = loop = VirtualLoop(self.world.timeline, self._turn)
        self._loops.append(loop)
        self.own, self.caller_of = set(), {}
        loop.run_until_complete(self._main(self._second()))
        end(loop)

    def _drop(self) -> None:
        """Have all that is left go, and what it says unheard."""
        loop = self.loop
        loop.set_exception_handler(lambda _, __: None)
        loop._ready.clear()  # type: ignore[attr-defined]
        loop._scheduled.clear()  # type: ignore[attr-defined]
        left = loop.tasks()
        loop.close()
        for task in left:  # as the garbage collection does
            with suppress(RuntimeError):
                task.get_coro().close()
        self.process.store.awaited.clear()
        self.own.clear()
        self.caller_of.clear()
        gc.collect()

    def _abandon_loop(self) -> None:
        """Close the loop with tasks that still wait in it; none of them gets an answer."""
        self.world.failure_causes.add("abandoned")
        for task, caller in self.caller_of.items():
            if not task.done():
                caller.gone = True
                caller.holding.doubt("its loop was closed")
        self.world.doubt_the_unsettled("its loop was closed")
        self._drop()

    def _note_shutdown(self) -> None:
        """All tasks are about to be cancelled: a caller in a body can still give back, one that is leaving cannot."""
        self.world.failure_causes.add("shutdown")
        done = [caller for task, caller in self.caller_of.items() if task.done() or caller.cut]
        leaving = [caller for caller in self.caller_of.values() if caller.waits.startswith("exit")]
        for caller in self.caller_of.values():
            caller.cut = True
        held = self.world.holdings.held(self.world.buckets())
        for caller in {*done, *leaving}:
            holding, place = caller.holding, self.world.holdings.all.index(caller.holding)
            if any(held.get((entity, place), 0) != holding.expected for entity in holding.entities):
                holding.doubt("a shutdown cut it off")

    async def _main(self, script: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.own.add(task)
        await script

    async def _first(self) -> None:
        await self.process.open()
        callers = self._start(self.plan.callers)
        loopers = [self._task(self._loop()) for _ in range(self.plan.loopers)]
        self._cuts, self._until_cut = self.plan.cuts, self.rng.randint(1, 30)
        match self.plan.ending:
            case "rest":
                await self._all(callers)
                await self._rest_and_close()
            case "close" | "close cut":
                await asyncio.sleep(self.rng.uniform(0, 1.5 * self.plan.span_us / 1e6 + 0.02))
                await self._close_under_load()
                await self._all([*callers, *loopers])
            case _:
                await asyncio.sleep(self.rng.uniform(0, 1.5 * self.plan.span_us / 1e6 + 0.02))
        self._cuts = 0

    async def _second(self) -> None:
        await self._all(self._start(self.plan.callers // 2))
        await self._rest_and_close()

    def _start(self, count: int) -> list[asyncio.Task[Any]]:
        tasks = []
        for _ in range(count):
            caller = self.world.caller(self.process)
            tasks.append(self._task(caller.live()))
            self.caller_of[tasks[-1]] = caller
        return tasks

    def _task(self, script: Any) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(script)
        self.own.add(task)
        return task

    async def _all(self, tasks: list[asyncio.Task[Any]]) -> None:
        self._waiting = "the end of all callers"
        await asyncio.wait(tasks)

    async def _loop(self) -> None:
        """A caller that takes in a loop, until the repository is closed."""
        while not self.stopped:
            try:
                async with self.process.acquire(self.rng.choice(self.plan.entities), {"rpm": 1}, None):
                    await asyncio.sleep(self.rng.choice((0, 0.003)))
            except CLOSED:
                return
            except (RateLimitExceeded, InfrastructureError):
                await asyncio.sleep(0.005)

    async def _close_under_load(self) -> None:
        if self.plan.ending == "close cut":
            closing = self._task(self.process.limiter.close())
            for _ in range(self.rng.randint(0, 5)):
                await asyncio.sleep(self.rng.choice((0, 0, 0.003)))
            closing.cancel()
            with suppress(asyncio.CancelledError):
                await closing
        await self._close()
        self.stopped = True
        self.world.doubt_the_unsettled("it went on behind the close")
        for task, caller in self.caller_of.items():
            if not task.done():
                caller.holding.doubt("it went on behind the close")

    async def _close(self) -> None:
        self._waiting, begun = "close()", self.process.now()
        await self.process.limiter.close()
        took, longest = self.process.now() - begun, (self.plan.budget or 0) + DEADLINE + GRACE
        if self.plan.budget is not None and took > longest:
            self._problems.append(f"close() took {took:.3f} s")
        self._check_tasks("close()")

    async def _rest_and_close(self) -> None:
        self._cuts = 0
        await asyncio.sleep(QUIET)
        self.world.server.network = HEALTHY
        await asyncio.sleep(QUIET)
        self._check_tasks("a pause")
        for entity in ALL_ENTITIES:
            await self._check_works(entity)
        await self._close()

    async def _check_works(self, entity: str) -> None:
        self._waiting, error = f"a fresh acquire of {entity}", None
        for _ in range(5):
            try:
                async with self.process.acquire(entity, {"rpm": 1}, "block"):
                    return
            except (RateLimitExceeded, RateLimiterUnavailable) as problem:
                error = problem
                await asyncio.sleep(2)
        self._problems.append(f"{entity} cannot be acquired any more: {error!r}")

    def _check_tasks(self, behind: str) -> None:
        left = [task for task in self.loop.tasks() if task not in self.own]
        if left:
            self._problems.append(f"a task outlives {behind}: {left[0]!r}")

    def _turn(self) -> None:
        """Cut somebody off, when it is time."""
        self._until_cut -= 1
        if self._cuts <= 0 or self._until_cut > 0:
            return
        self._cuts -= 1
        self._until_cut = self.rng.randint(1, 30)
        victims = [task for task in self.loop.tasks() if task in self.caller_of]
        if self.plan.cuts_library and self.rng.random() < 0.7:
            victims = [task for task in self.loop.tasks() if task not in self.own] or victims
        if victims:
            self._cut(self.rng.choice(victims))

    def _cut(self, victim: asyncio.Task[Any]) -> None:
        if victim in self.caller_of:
            self.caller_of[victim].cut = True
        else:
            self.world.failure_causes.add("a task of the library was cut off")
        victim.cancel()

    def _who_waits(self) -> str:
        waiting = [f"a caller in {caller.waits}" for caller in self.world.callers if caller.waits]
        return ", ".join([self._waiting, *waiting])


def simulate(seed: int) -> History:
    """The history of a seed. Raises ``Violation`` with the command that replays it."""
    history = History(seed)
    try:
        history.run()
    except Violation as violation:
        command = f"just simulate-processes --variant async --replay {seed}"
        raise Violation(f"seed {seed}: {violation}\nreplay: {command}\n{history.plan}") from violation
    return history
