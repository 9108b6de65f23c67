"""What lives here: real processes that all take from one bucket, with tasks or with threads.
What never does: what they may get.
"""

import asyncio
import multiprocessing
import random
import time
from collections.abc import Generator, Iterable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier

from zae_limiter import Limit, Options, RateLimiter, RateLimitExceeded, Repository, SyncRateLimiter, SyncRepository
from zae_limiter.engines.dynamodb.aio.store import DynamoDBStore
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore

from .awaited import Variant

PROCESSES = 3
PAUSE_SECONDS = 0.005  # after a refusal, so that those who are refused leave the processor to the others
TIMEOUT = 30.0  # a store that is slow because the machine is busy is not what these tests are about


@dataclass(frozen=True, slots=True)
class Job:
    """Where to take what from, and how: takes of 1 to ``most`` tokens by ``workers`` workers in each process.

    For ``seconds``, else until a single token is refused.
    """

    endpoint_url: str
    table_name: str
    entity_id: str
    resource: str
    limit: str
    variant: Variant
    workers: int = 10
    most: int = 1
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """The tokens that were admitted, the takes that were refused, and between which instants (epoch ms)."""

    admitted: int
    refused: int
    begun_ms: int
    ended_ms: int

    def due(self, limit: Limit, *, at_first: int) -> float:
        """The tokens that ``at_first`` and the refill of this time make; the clocks of processes differ by a few ms."""
        elapsed_ms = self.ended_ms - self.begun_ms + 5
        return at_first + elapsed_ms * limit.refill_amount / (limit.refill_period * 1000)


class Load:
    """Processes that stand by, and begin together."""

    def __init__(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(PROCESSES, spawn, initializer=_meet_at, initargs=(spawn.Barrier(PROCESSES),))

    def take(self, job: Job, *, processes: int = PROCESSES) -> Taken:
        """What one process, or all of them, got."""
        futures = [self._pool.submit(_take, job, seed, together=processes > 1) for seed in range(processes)]
        results = [future.result(timeout=60) for future in futures]
        return Taken(
            sum(result.admitted for result in results),
            sum(result.refused for result in results),
            min(result.begun_ms for result in results),
            max(result.ended_ms for result in results),
        )

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown()


_barrier: Barrier | None = None


def _meet_at(barrier: Barrier) -> None:
    global _barrier
    _barrier = barrier


def _take(job: Job, seed: int, *, together: bool) -> Taken:
    gate = _barrier if together else None
    if job.variant == "async":
        return asyncio.run(_with_tasks(job, seed, gate))
    return _with_threads(job, seed, gate)


def _begin(gate: Barrier | None) -> int:
    if gate is not None:
        gate.wait(timeout=30)
    return time.time_ns() // 1_000_000


async def _with_tasks(job: Job, seed: int, gate: Barrier | None) -> Taken:
    store = DynamoDBStore(job.table_name, region="us-east-1", endpoint_url=job.endpoint_url, read_timeout=TIMEOUT)
    async with RateLimiter(
        repository=await Repository.over(store, Options(read_timeout=TIMEOUT, acquire_timeout=None))
    ) as limiter:
        begun = _begin(gate)
        got = await asyncio.gather(*(_task(limiter, job, seed * job.workers + n) for n in range(job.workers)))
        return _together(got, begun)


def _with_threads(job: Job, seed: int, gate: Barrier | None) -> Taken:
    store = SyncDynamoDBStore(job.table_name, region="us-east-1", endpoint_url=job.endpoint_url, read_timeout=TIMEOUT)
    with SyncRateLimiter(
        repository=SyncRepository.over(store, Options(read_timeout=TIMEOUT, acquire_timeout=None))
    ) as limiter:
        begun = _begin(gate)
        with ThreadPoolExecutor(job.workers) as threads:
            seeds = range(seed * job.workers, (seed + 1) * job.workers)
            got = list(threads.map(lambda each: _thread(limiter, job, each), seeds))
        return _together(got, begun)


def _together(got: Iterable[tuple[int, int]], begun_ms: int) -> Taken:
    admitted, refused = (sum(each) for each in zip(*got, strict=True))
    return Taken(admitted, refused, begun_ms, time.time_ns() // 1_000_000)


async def _task(limiter: RateLimiter, job: Job, seed: int) -> tuple[int, int]:
    takes, admitted, refused = _takes(job, seed), None, 0
    try:
        while True:
            amount = takes.send(admitted)
            admitted = True
            try:
                async with limiter.acquire(job.entity_id, job.resource, {job.limit: amount}):
                    pass
            except RateLimitExceeded:
                admitted, refused = False, refused + 1
                await asyncio.sleep(PAUSE_SECONDS)
    except StopIteration as stop:
        return stop.value, refused


def _thread(limiter: SyncRateLimiter, job: Job, seed: int) -> tuple[int, int]:
    takes, admitted, refused = _takes(job, seed), None, 0
    try:
        while True:
            amount = takes.send(admitted)
            admitted = True
            try:
                with limiter.acquire(job.entity_id, job.resource, {job.limit: amount}):
                    pass
            except RateLimitExceeded:
                admitted, refused = False, refused + 1
                time.sleep(PAUSE_SECONDS)
    except StopIteration as stop:
        return stop.value, refused


def _takes(job: Job, seed: int) -> Generator[int, bool | None, int]:
    """Amounts to take; each gets back whether it was admitted. Returns the sum of those that were."""
    amounts, total = random.Random(seed), 0
    end = None if job.seconds is None else time.monotonic() + job.seconds
    while end is None or time.monotonic() < end:
        amount = amounts.randint(1, job.most)
        if (yield amount):
            total += amount
        elif end is None:
            if not (yield 1):
                return total
            total += 1
    return total
