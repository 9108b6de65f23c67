"""What lives here: real processes that all take from one bucket whose limits are tried.
What never does: what they may get.
"""

import asyncio
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from zae_limiter import Options, RateLimiter, Repository
from zae_limiter.engines.dynamodb.aio.store import DynamoDBStore

CALLERS = 10


@dataclass(frozen=True, slots=True)
class Trial:
    """So many acquires of one token by each caller, in each process; in the first one by a limiter in shadow."""

    endpoint_url: str
    table_name: str
    acquires: int
    processes: int = 3


def shadowed(trial: Trial) -> int:
    """How many of all acquires shadow limits would have refused; each is admitted, or this raises."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(trial.processes, spawn) as pool:
        return sum(pool.map(_process, [trial] * trial.processes, range(trial.processes)))


def _process(trial: Trial, number: int) -> int:
    return asyncio.run(_callers(trial, shadow=number == 0))


async def _callers(trial: Trial, *, shadow: bool) -> int:
    store = DynamoDBStore(trial.table_name, region="us-east-1", endpoint_url=trial.endpoint_url, read_timeout=30)
    options = Options(read_timeout=30, acquire_timeout=None)
    async with RateLimiter(await Repository.over(store, options), shadow=shadow) as limiter:
        return sum(await asyncio.gather(*(_caller(limiter, trial.acquires) for _ in range(CALLERS))))


async def _caller(limiter: RateLimiter, acquires: int) -> int:
    found = 0
    for _ in range(acquires):
        async with limiter.acquire("key", "gpt-4", {"tpm": 1, "rpm": 1}) as lease:
            found += bool(lease.shadowed)
    return found
