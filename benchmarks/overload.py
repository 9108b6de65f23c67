"""How much of what is due a bucket hands out under three overloading processes.

Lives here: real processes against dynoxide, fetched like the tests' own. Never: simulated time (overload_simulated).
"""

import asyncio
import time
from contextlib import ExitStack
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier

from zae_limiter import Limit, Options, RateLimiter, Repository, SyncRepository
from zae_limiter.engines.dynamodb.aio.store import DynamoDBStore
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore

from .emulator import dynoxide
from .overload_simulated import PROCESSES, RATE, SECONDS, due, press
from .report import Row

TABLE = "zae-limiter-benchmarks"
Run = tuple[int, float, float]  # how many were admitted, from when, until when


def measure() -> list[Row]:
    with ExitStack() as stack:
        url = dynoxide(stack)
        with SyncRepository.over(
            SyncDynamoDBStore(TABLE, endpoint_url=url, region="us-east-1"), Options(stack=TABLE, create_table=True)
        ) as repository:
            repository.set_resource_defaults("gpt-4", [Limit.per_second("rps", RATE)])
        runs = _in_processes(url)
    admitted = sum(count for count, _, _ in runs)
    seconds = max(ended for *_, ended in runs) - min(begun for _, begun, _ in runs)
    return [
        Row("granted of what is due", 100 * admitted / due(seconds), "%", at_least=98, at_most=100),
        Row("admitted in all", admitted),
    ]


def _in_processes(url: str) -> list[Run]:
    context = get_context("spawn")
    start = context.Barrier(PROCESSES)
    results: SimpleQueue[Run] = context.SimpleQueue()
    processes = [context.Process(target=_process, args=(url, start, results)) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        if process.exitcode:
            raise RuntimeError(f"a process ended with code {process.exitcode}")
    return [results.get() for _ in processes]


def _process(url: str, start: Barrier, results: SimpleQueue[Run]) -> None:
    results.put(asyncio.run(_pressed(url, start)))


async def _pressed(url: str, start: Barrier) -> Run:
    store = DynamoDBStore(TABLE, endpoint_url=url, region="us-east-1")
    async with RateLimiter(await Repository.over(store, Options(stack=TABLE))) as limiter:
        start.wait(60)  # nothing else runs in this loop yet
        begun = time.monotonic()
        admitted = await press(limiter, SECONDS)
        return admitted, begun, time.monotonic()
