"""Many callers with two values of ``limits=`` on one bucket, as in every rolling deploy."""

import asyncio
from random import Random

import pytest

from support.core.turns import TurningStore
from zae_limiter import Limit, Options, RateLimiter, Repository
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.operations.values import Get, Key
from zae_limiter.schema import keys

OLD = Limit.per_hour("rpm", 1_000_000)
NEW = Limit.per_hour("rpm", 2_000_000)
TPM = Limit.per_hour("tpm", 1_000_000)


async def acquire(limiter: RateLimiter, limits: list[Limit], times: int) -> None:
    for _ in range(times):
        async with limiter.acquire("e", "r", {limit.name: 1 for limit in limits}, limits=limits):
            await asyncio.sleep(0)


@pytest.mark.parametrize("processes", [2, 20])
@pytest.mark.parametrize("newer", [[NEW], [NEW, TPM]], ids=["another value", "and a limit more"])
async def test_two_values_of_limits_that_meet_on_a_bucket_lose_no_caller_and_count_all(
    processes: int, newer: list[Limit]
) -> None:
    rng, table = Random(processes), MemoryTable()
    stores = [TurningStore(table, lambda: rng.randint(0, 3)) for _ in range(processes)]
    limiters = [RateLimiter(await Repository.over(store, Options())) for store in stores]
    versions = [[OLD] if number % 2 else newer for number in range(processes)]
    callers = [
        acquire(limiter, limits, 10) for limiter, limits in zip(limiters, versions, strict=True) for _ in range(10)
    ]
    answers = await asyncio.gather(*callers, return_exceptions=True)
    assert [answer for answer in answers if answer is not None] == []
    item = table.execute(Get(Key(keys.pk_bucket(limiters[0].repository.namespace_id, "e", "r", 0), keys.sk_state())))
    assert (item["b_rpm_tc"], item["ev"]) == (100 * processes * 1000, 100 * processes)
