"""Histories of runs: processes that share budgets, nested ones too, settle, end them, sleep and die.

Lives here: the course of events, and a ledger of what callers were told. Never: how a bucket counts (simulation).
"""

import asyncio
import gc
import random
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple

from simulation.kernel import Violation
from zae_limiter import RateLimiter, RateLimitExceeded, Repository, RunBudget, RunLease, ValidationError, stores
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.exceptions import BudgetEnded, ContentionError, InfrastructureError
from zae_limiter.operations.errors import OutcomeUnknown, StoreError, Throttled
from zae_limiter.operations.values import Operation, Put
from zae_limiter.runtime import jitter
from zae_limiter.settings import Options

from .loops import VirtualLoop, end, watched
from .patching import replaced, virtual_time
from .timeline import Stuck, Timeline

DAY_S = 24 * 3600
RUNS: tuple[tuple[str, ...], ...] = (("one",), ("two",), ("one", "sub"), ("one", "sub", "leaf"))
TEAM = "team"


class Clock:
    """What a process takes for the time; half a second wrong at most."""

    def __init__(self, timeline: Timeline, offset_ms: int) -> None:
        self._timeline = timeline
        self._offset_ms = offset_ms

    def now_ms(self) -> int:
        return self._timeline.now_ms + self._offset_ms


class Store(stores.Store):
    """One process's way to the table: slow, lossy, and silent once the process is dead."""

    def __init__(self, history: "History") -> None:
        self.history = history
        self.alive = True

    @property
    def capabilities(self) -> stores.Capabilities:
        return stores.Capabilities(lossy=True, hot_items=True)

    async def perform(self, operation: Operation[Any]) -> Any:
        history, rng = self.history, self.history.rng
        await asyncio.sleep(history.delay())
        await self._lives()
        dice = rng.random()
        if dice < history.throttled:
            raise Throttled("slow down")
        if dice < history.throttled + history.lost / 2:
            raise OutcomeUnknown("no answer")
        answer: Any = None
        failure: StoreError | None = None
        try:
            answer = history.apply(operation)
        except StoreError as error:
            failure = error
        await asyncio.sleep(history.delay())
        await self._lives()
        if rng.random() < history.lost / 2:
            raise OutcomeUnknown("no answer")
        if failure is not None:
            raise failure
        return answer

    async def _lives(self) -> None:
        if not self.alive:
            await asyncio.Event().wait()

    async def close(self) -> None:
        """Nothing is open."""


class Life(NamedTuple):
    """One budget from its opening on: the instant of its end tells it from another one of the name."""

    runs: tuple[str, ...]
    until_ms: int


class Process:
    """A limiter with a clock and a store of its own, and the tasks that live in it."""

    def __init__(self, history: "History") -> None:
        self.store = Store(history)
        self.clock = Clock(history.timeline, history.rng.randint(-500, 500))
        self.tasks: list[asyncio.Task[None]] = []
        self.limiter: RateLimiter

    async def open(self, history: "History") -> None:
        timeout = history.rng.choice((None, 5.0))
        options = Options(clock=self.clock, stack="simulated", acquire_timeout=timeout, split_above=history.split_above)
        self.limiter = RateLimiter(await Repository.over(self.store, options))


class History:
    """A history that is to be run once."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        random.seed(seed)
        jitter.chance = Random(seed)
        self.timeline = Timeline()
        self.table = MemoryTable()
        self.lost = self.throttled = 0.0
        self.slow, self.split_above = rng.choice((0.0, 0.0, 0.1)), rng.choice((2**63, 2**63, 3))
        self.budgets = {runs: {"usd": rng.choice((3, 10, 25)), "calls": rng.choice((4, 9, 40))} for runs in RUNS}
        self.of_team = rng.choice((8, 30, 1000))
        self.life_s = rng.choice((2, 5, 20))
        self.late = False  # a machine slept for longer than buckets stay: the names are not used again
        self.admitted: Counter[tuple[object, str]] = Counter()  # by whom, and which limit; give-backs taken off
        self.opened: dict[Life, Mapping[str, int]] = {}
        self.ended: dict[Life, int] = {}
        self.problem: Violation | None = None
        self.processes: list[Process] = []

    def delay(self) -> float:
        """Seconds that a request is on its way."""
        rng = self.rng
        if rng.random() < self.slow / 20:
            self.sleep(40)
            self.late = True
        return rng.choice((1.0, 30.0)) if rng.random() < self.slow / 5 else rng.uniform(0, 0.02)

    def sleep(self, days: int) -> None:
        """All machines sleep, while the table goes on and removes what is over."""
        self.timeline.freeze(days * DAY_S)
        self.table.expire(self.timeline.now_ms // 1000)

    def apply(self, operation: Operation[Any]) -> Any:
        """Let the table answer, and note who has opened a budget with which amounts."""
        answer = self.table.execute(operation)
        if isinstance(operation, Put) and "ru" in operation.item:
            item = operation.item
            runs = tuple(item["entity_id"].removeprefix("run:").partition("@")[0].split("/"))
            self.opened[Life(runs, item["ru"])] = {
                name: item[f"b_{name}_cp"] // 1000 for name in ("usd", "calls") if f"b_{name}_cp" in item
            }
        return answer

    async def main(self) -> None:
        rng = self.rng
        self.processes = [await self.start() for _ in range(rng.randint(2, 4))]
        slow, self.slow = self.slow, 0.0
        await self.processes[0].limiter.set_limits(TEAM, [f"usd: {self.of_team} total"], "r")
        self.slow = slow
        self.lost, self.throttled = rng.choice((0.0, 0.0, 0.05)), rng.choice((0.0, 0.05))
        for _ in range(rng.choice((1, 1, 2))):
            for _ in range(rng.randint(10, 40)):
                process = rng.choice(self.processes)
                process.tasks.append(asyncio.ensure_future(self.live(process)))
                await asyncio.sleep(rng.choice((0.0, 0.01, 0.05, 0.5)))
                if rng.random() < 0.04:
                    await self.kill()
            await asyncio.sleep(rng.choice((1, 30)))
            self.sleep(rng.choice((0, 0, 3)))
            await self.rest()
            self.sleep(40)
        for task in await self.rest():
            if not task.done():
                raise Violation("a caller got no answer")
            if (error := task.exception()) is not None:
                raise Violation(f"a caller got no answer, but {error!r}") from error

    async def rest(self) -> list[asyncio.Task[None]]:
        """The callers of processes that live, all of whom are to have an answer by then."""
        left = [task for process in self.processes for task in process.tasks]
        await asyncio.wait(left, timeout=400) if left else None
        return left

    async def start(self) -> Process:
        process, slow, self.slow = Process(self), self.slow, 0.0
        await process.open(self)
        self.slow = slow
        return process

    async def kill(self) -> None:
        """A process is gone: nothing that it was about to send is sent, and no caller of it goes on."""
        place = self.rng.randrange(len(self.processes))
        faults, self.lost, self.throttled = (self.lost, self.throttled), 0.0, 0.0
        self.processes[place].store.alive = False
        self.processes[place] = await self.start()
        self.lost, self.throttled = faults

    async def live(self, process: Process) -> None:
        rng, runs = self.rng, self.rng.choice(RUNS)
        try:
            run = await self.join(process, runs)
            for _ in range(rng.randint(1, 5)):
                await self.call(process, run, runs)
            if rng.random() < 0.2:
                await run.end()
                life = self.life_of(run, runs)
                self.ended[life] = min(self.ended.get(life, 1 << 62), self.timeline.now_us)
        except (RateLimitExceeded, InfrastructureError, ContentionError):
            return

    async def join(self, process: Process, runs: tuple[str, ...]) -> RunBudget:
        rng, run = self.rng, None
        for depth, name in enumerate(runs, 1):
            if self.late:
                raise BudgetEnded([], TEAM, "r", name, True)
            known = self.budgets[runs[:depth]]
            wrong = {**known, "usd": known["usd"] + 1}
            amounts = rng.choice((known, known, None, wrong))
            life = self.life_s * rng.choice((1, 1, 9))
            if run is None:
                budget = process.limiter.budget(name, amounts, within=TEAM, expires=life)
            else:
                budget = run.budget(name, amounts, expires=life)
            try:
                run = await budget.open()
            except ValidationError:
                run = await self.insist(budget, process, run, name, depth)
            life_of = self.life_of(run, runs[:depth])
            told = {limit.name: limit.capacity for limit in run.limits}
            if self.opened[life_of] != told:
                self.fail(f"{runs[:depth]} was opened with {self.opened[life_of]}, and this process is told {told}")
        assert run is not None
        return run

    async def insist(
        self, refused: RunBudget, process: Process, above: RunBudget | None, name: str, depth: int
    ) -> RunBudget:
        """Open a budget that has other amounts, or none yet: with those that some process gave first."""
        for usd in (0, 1):
            runs = refused.entity_id.removeprefix("run:").partition("@")[0].split("/")
            known = self.budgets[tuple(runs)]
            amounts = {**known, "usd": known["usd"] + usd}
            with suppress(ValidationError):
                if above is None:
                    return await process.limiter.budget(name, amounts, within=TEAM, expires=self.life_s).open()
                return await above.budget(name, amounts).open()
        raise BudgetEnded([], TEAM, "r", name, True)  # its name is that of a leftover: no caller gets it

    def life_of(self, run: RunBudget, runs: tuple[str, ...]) -> Life:
        return Life(runs, run._found.until_ms)

    async def call(self, process: Process, run: RunBudget, runs: tuple[str, ...]) -> None:
        rng, begun_us = self.rng, self.timeline.now_us
        lives = [self.life_of(each, runs[:depth]) for depth, each in enumerate(run._chain, 1)]
        usd = rng.choice((0, 1, 1, 2, 5))
        max_wait = rng.choice((0.5, 100.0)) if rng.random() < 0.1 else 0.0
        try:
            async with run.acquire("r", {"usd": usd}, max_wait=max_wait) as lease:
                self.check_time(process, lives, begun_us)
                self.count(lives, usd, 1)
                held = [usd]
                try:
                    await self.work(process, lease, lives, held)
                except BaseException:
                    self.count(lives, -held[0], -1)  # all of it goes back
                    raise
        except ZeroDivisionError:
            return

    async def work(self, process: Process, lease: RunLease, lives: list[Life], held: list[int]) -> None:
        """The body of a lease; ``held`` is what it has taken."""
        rng = self.rng
        await asyncio.sleep(rng.choice((0.0, 0.01, 1.0, 5.0)))
        if rng.random() < 0.2:
            begun_us, more = self.timeline.now_us, rng.choice((1, 2))
            with suppress(RateLimitExceeded):
                await lease.consume(usd=more)
                held[0] += more
                self.check_time(process, lives, begun_us)
                self.count(lives, more, 0)
        if rng.random() < 0.02:
            self.sleep(3)
        if rng.random() < 0.1:
            raise ZeroDivisionError
        if rng.random() < 0.5:
            used = rng.choice((0, 1, 7))
            await lease.settle(usd=used)
            self.count(lives, min(0, used - held[0]), 0)

    def count(self, lives: list[Life], usd: int, calls: int) -> None:
        """What callers have, in each run and in the team: at most what there is, whoever gave back."""
        for life in lives:
            self.admitted[life, "usd"] += usd
            self.admitted[life, "calls"] += calls
            for name, most in self.opened[life].items():
                if self.admitted[life, name] > most:
                    self.fail(f"{life}: {self.admitted[life, name]} {name} are admitted, its budget is {most}")
        self.admitted[TEAM, "usd"] += usd
        if self.admitted[TEAM, "usd"] > self.of_team:
            self.fail(f"{self.admitted[TEAM, 'usd']} usd are admitted, the team has {self.of_team}")

    def check_time(self, process: Process, lives: list[Life], begun_us: int) -> None:
        for life in lives:
            if process.clock.now_ms() >= life.until_ms:
                self.fail(f"{life}: a call is served behind its end, by its own clock")
            if self.ended.get(life, begun_us) < begun_us:
                self.fail(f"{life}: a call is served that began behind end()")

    def fail(self, problem: str) -> None:
        self.problem = self.problem or Violation(problem)

    def run(self) -> None:
        loop = VirtualLoop(self.timeline)
        loop._clock_resolution = 1e-6  # type: ignore[attr-defined]  # months have passed: no float has more
        with replaced(virtual_time(self.timeline, lambda _: None)), watched(30.0):
            try:
                loop.run_until_complete(self.main())
            finally:
                for process in self.processes:
                    process.store.alive = False
                end(loop)
        if self.problem is not None:
            raise self.problem


def simulate(seed: int) -> History:
    """The history of a seed. Raises ``Violation`` with the seed that replays it."""
    history = History(seed)
    gc.disable()
    try:
        history.run()
    except (Violation, Stuck) as violation:
        raise Violation(f"budgets, seed {seed}: {violation}") from violation
    finally:
        gc.enable()
        gc.collect()
    return history
