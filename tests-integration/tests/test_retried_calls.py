"""What lives here: tries of one key at once, from several processes, on real stores.
What never does: each order of tries (core's test_retried_calls and its simulation).
"""

import asyncio

import pytest

from support.integration.harness import Harness
from zae_limiter import Limit, RateLimiter, RunBudget
from zae_limiter.exceptions import BudgetEnded, IdempotencyKeyError

pytestmark = pytest.mark.needs("atomic")

TOKENS = Limit.total("tpm", 100_000)


async def one(limiter: RateLimiter, key: str, *, amount: int = 100, used: int | None = None) -> bool:
    async with limiter.acquire("key", "gpt-4", {"tpm": amount}, idempotency_key=key) as lease:
        if used is not None:
            await lease.settle(tpm=used)
        return lease.repeated


async def test_tries_of_four_processes_count_once_and_settle_once(harness: Harness) -> None:
    limiters = [await harness.open() for _ in range(4)]
    await limiters[0].set_resource_defaults("gpt-4", [TOKENS])
    for number in range(5):
        repeated = await asyncio.gather(*(one(each, f"k#{number}/é", used=40) for each in limiters * 2))
        assert sorted(repeated) == [False] + [True] * 7
    assert harness.consumed("key", "gpt-4", "tpm") == 5 * 40_000
    with pytest.raises(IdempotencyKeyError):
        await one(limiters[1], "k#0/é", amount=101)
    assert harness.consumed("key", "gpt-4", "tpm") == 5 * 40_000


async def test_a_failed_try_gives_back_and_frees_its_key(harness: Harness) -> None:
    first, other = [await harness.open() for _ in range(2)]
    await first.set_resource_defaults("gpt-4", [TOKENS])
    with pytest.raises(ZeroDivisionError):
        async with first.acquire("key", "gpt-4", {"tpm": 100}, idempotency_key="k"):
            raise ZeroDivisionError
    assert harness.consumed("key", "gpt-4", "tpm") == 0
    assert [await one(each, "k") for each in (other, first)] == [False, True]
    assert harness.consumed("key", "gpt-4", "tpm") == 100_000


async def test_tries_of_a_run_count_once_in_it_and_in_its_entity(harness: Harness) -> None:
    limiters = [await harness.open() for _ in range(3)]
    await limiters[0].set_resource_defaults("gpt-4", [TOKENS])
    runs = [await each.budget("run-1", {"calls": 50}, within="key", expires=600).open() for each in limiters]

    async def step(run: RunBudget, key: str) -> bool:
        async with run.acquire("gpt-4", {"tpm": 100}, idempotency_key=key) as lease:
            await lease.settle(tpm=40)
            return lease.repeated

    for number in range(3):
        repeated = await asyncio.gather(*(step(each, f"step-{number}") for each in runs * 2))
        assert sorted(repeated) == [False] + [True] * 5
    assert await runs[0].left() == {"calls": 47}
    assert harness.consumed("key", "gpt-4", "tpm") == 3 * 40_000
    await runs[0].end()
    for run in runs:
        with pytest.raises(BudgetEnded):
            await step(run, "step-0")
