"""A crowd that waits for one bucket: the rate that it gets, its requests, its order.

Lives here: two real processes against dynoxide, crowds of one process in memory, and crowds of several processes on a
distant table, in virtual time. Never: a parent (waiting_families), several children
(waiting_fairness), a caller that gives up, but for those cancelled.
"""

import asyncio
import time
from contextlib import ExitStack
from itertools import pairwise
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from typing import NamedTuple

from zae_limiter import Limit, Options, RateLimiter, Repository, SyncRateLimiter, SyncRepository
from zae_limiter.engines.dynamodb.aio.store import DynamoDBStore
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.engines.meter import Meter

from . import virtual, waiting_fairness, waiting_families
from .emulator import dynoxide
from .report import Row

TABLE = "zae-limiter-benchmarks"
RATE = 50
PROCESSES, WAITERS, CANCELLED = 2, 500, 50  # waiters of each process, and how many of them are cancelled
MAX_WAIT = 120.0
CROWDS, CROWDS_RATE = (1_000, 5_000), 500  # of one process in memory
DISTANT = ((1, 3_000, 500, 0.005), (1, 2_000, 300, 0.01), (1, 1_000, 100, 0.05), (3, 500, 200, 0.01))


class Crowd(NamedTuple):
    """Processes with so many callers each, a bucket of ``rate`` a second, and the seconds that a request takes."""

    processes: int
    callers: int
    rate: int
    seconds: float


class Run(NamedTuple):
    """One process: its admissions as instants of ``time.monotonic``, its requests, the waiters that were overtaken."""

    admitted: list[float]
    requests: int
    overtaken: int
    left_behind: int


def measure() -> list[Row]:
    with ExitStack() as stack:
        url = dynoxide(stack)
        store = SyncDynamoDBStore(TABLE, endpoint_url=url, region="us-east-1")
        with SyncRateLimiter(SyncRepository.over(store, Options(stack=TABLE, create_table=True))) as limiter:
            limiter.set_resource_defaults("gpt-4", [Limit.per_second("rps", RATE)])
        runs = _in_processes(url)
    admitted = sorted(instant for run in runs for instant in run.admitted)
    due = RATE * (admitted[-1] - admitted[0])
    requests = sum(run.requests for run in runs) / len(admitted)
    return [
        Row("granted of what is due", 100 * (len(admitted) - RATE) / due, "%", at_least=98, at_most=100),
        Row("requests of each admission", requests, at_most=1.1),
        Row("waiters that a later one of their process overtook", sum(run.overtaken for run in runs), at_most=0),
        Row("places that cancelled waiters left behind", sum(run.left_behind for run in runs), at_most=0),
        Row("waited in all", admitted[-1] - admitted[0], "s"),
        *(row for callers in CROWDS for row in asyncio.run(_in_memory(callers))),
        *(row for crowd in DISTANT for row in virtual.run(_distant(Crowd(*crowd)))),
        *waiting_families.measure(),
        *waiting_fairness.measure(),
    ]


async def _distant(crowd: Crowd) -> list[Row]:
    """What a crowd gets whose every request takes long, and who is overtaken."""
    meter, time_now = Meter(), asyncio.get_running_loop().time
    table, options = MemoryTable(meter), Options(clock=virtual.VirtualClock())
    limits = [Limit.per_second("rps", crowd.rate)]
    repositories = [
        await Repository.over(virtual.Distant(table, crowd.seconds), options) for _ in range(crowd.processes)
    ]
    limiters = [RateLimiter(repository, default_limits=limits) for repository in repositories]
    served: list[list[int]] = [[] for _ in limiters]

    async def caller(process: int, number: int, amount: int = 1) -> None:
        async with limiters[process].acquire("everyone", "gpt-4", {"rps": amount}, max_wait=MAX_WAIT):
            served[process].append(number)

    await caller(0, 0, crowd.rate)
    meter.reset()
    begun = time_now()
    everyone = [(process, number) for number in range(crowd.callers) for process in range(crowd.processes)]
    await asyncio.gather(*(caller(*each) for each in everyone))
    took = time_now() - begun
    overtaken = sum(later < earlier for numbers in served for earlier, later in pairwise(numbers))
    who = f"{crowd.processes} x {crowd.callers:,} callers, {crowd.rate} a second, {1000 * crowd.seconds:g} ms a request"
    return [
        Row(f"{who}: granted of what is due", 100 * len(everyone) / crowd.rate / took, "%", at_least=98, at_most=100),
        Row(f"{who}: requests of each admission", meter.requests.total() / len(everyone), at_most=1.1),
        Row(f"{who}: overtaken in their process", overtaken, at_most=0),
    ]


async def _in_memory(callers: int) -> list[Row]:
    """CPU of a crowd in one process, whose line is as long as the crowd."""
    limits = [Limit.per_second("rps", CROWDS_RATE)]
    async with RateLimiter(Repository.in_memory(), default_limits=limits) as limiter:

        async def caller(amount: int = 1) -> None:
            async with limiter.acquire("everyone", "gpt-4", {"rps": amount}, max_wait=MAX_WAIT):
                pass

        await caller(CROWDS_RATE)
        begun, cpu = time.monotonic(), time.process_time()
        await asyncio.gather(*(caller() for _ in range(callers)))
        took, cpu = time.monotonic() - begun, time.process_time() - cpu
    who = f"{callers:,} callers of one process, in memory"
    return [
        Row(f"{who}: granted of what is due", 100 * callers / CROWDS_RATE / took, "%", at_least=80),
        Row(f"{who}: CPU of each admission", 1e6 * cpu / callers, "us"),
    ]


def _in_processes(url: str) -> list[Run]:
    context = get_context("spawn")
    start = context.Barrier(PROCESSES)
    results: SimpleQueue[Run] = context.SimpleQueue()
    processes = [context.Process(target=_process, args=(url, start, results)) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    runs = [results.get() for _ in processes]
    for process in processes:
        process.join()
        if process.exitcode:
            raise RuntimeError(f"a process ended with code {process.exitcode}")
    return runs


def _process(url: str, start: Barrier, results: SimpleQueue[Run]) -> None:
    results.put(asyncio.run(_crowd(url, start)))


async def _crowd(url: str, start: Barrier) -> Run:
    meter, served, instants = Meter(), [], []
    store = DynamoDBStore(TABLE, endpoint_url=url, region="us-east-1", meter=meter)
    async with RateLimiter(await Repository.over(store, Options(stack=TABLE))) as limiter:
        await limiter.check("everyone", "gpt-4", {"rps": 1})
        meter.reset()
        start.wait(60)  # nothing else runs in this loop yet

        async def caller(number: int) -> None:
            async with limiter.acquire("everyone", "gpt-4", {"rps": 1}, max_wait=MAX_WAIT):
                instants.append(time.monotonic())
                served.append(number)

        callers = [asyncio.ensure_future(caller(number)) for number in range(WAITERS + CANCELLED)]
        await asyncio.sleep(1)
        for waiting in callers[-CANCELLED:]:
            waiting.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
        left = [cached for cached in limiter.namespace_state.cached_shards._entries.values() if cached.line]
        overtaken = sum(later < earlier for earlier, later in pairwise(served))
        return Run(instants, meter.requests.total(), overtaken, len(left))
