"""What lives here: prepaid credits behind a quota as several processes use them up at once, and credits by
key, on real stores.
What never does: each rule of the policy (core's test_on_refused), what it costs (test_cost_tables).
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from support.integration.harness import Harness
from support.integration.load import PROCESSES, Job, Load
from zae_limiter import Limit, OnRefused, RateLimiter, RateLimitExceeded, ValidationError

pytestmark = pytest.mark.needs("atomic")

QUOTA, PREPAID = Limit.total("tpm", 10), Limit.total("tpm", 37, burst=1_000)
OVERFLOW = OnRefused(overflow="credits")


@pytest.fixture(scope="session")
def load() -> Iterator[Load]:
    load = Load()
    yield load
    load.close()


async def opened(harness: Harness, processes: int, **options: Any) -> list[RateLimiter]:
    limiters = [await harness.open(**options) for _ in range(processes)]
    await limiters[0].set_resource_defaults("gpt-4", [QUOTA], on_refused=OVERFLOW)
    await limiters[0].set_resource_defaults("credits", [PREPAID])
    return limiters


async def used(limiter: RateLimiter, most: int) -> list[str]:
    """The resources that served so many calls at once, both for a call that both refused."""

    async def one() -> str:
        try:
            async with limiter.acquire("key", "gpt-4", {"tpm": 1}) as lease:
                return lease.resource
        except RateLimitExceeded as refusal:
            return " and ".join(each.resource for each in (*refusal.statuses, *refusal.overflow))

    return await asyncio.gather(*(one() for _ in range(most)))


async def test_four_processes_use_up_quota_and_credits_exactly(harness: Harness) -> None:
    limiters = await opened(harness, 4)
    served = [each for some in await asyncio.gather(*(used(each, 20) for each in limiters)) for each in some]
    assert (served.count("gpt-4"), served.count("credits"), served.count("gpt-4 and credits")) == (10, 37, 33)
    for resource in ("gpt-4", "credits"):
        assert await limiters[0].available("key", resource) == {"tpm": 0}
    assert harness.consumed("key", "gpt-4", "tpm") == 10_000
    assert harness.consumed("key", "credits", "tpm") == 37_000


async def test_a_credit_that_four_processes_give_under_one_key_is_given_once(harness: Harness) -> None:
    limiters = await opened(harness, 4)
    assert len(await used(limiters[0], 60)) == 60
    give = [each.repository.credit_bucket("key", "credits", {"tpm": 9}, idempotency_key="bill/7") for each in limiters]
    assert await asyncio.gather(*give) == [True] * 4
    assert await limiters[3].available("key", "credits") == {"tpm": 9}
    with pytest.raises(ValidationError, match="stands for a credit of 9 tpm of key/credits"):
        await limiters[2].repository.credit_bucket("key", "credits", {"tpm": 8}, idempotency_key="bill/7")
    [event] = (await limiters[1].repository.get_audit_events("key")).events
    assert event.after == {"credited": {"tpm": 9}, "available": {"tpm": 9}, "idempotency_key": "bill/7"}


async def test_a_block_that_fails_gives_back_to_the_bucket_that_served_it(harness: Harness) -> None:
    [limiter] = await opened(harness, 1)
    await used(limiter, 10)
    with pytest.raises(KeyError):
        async with limiter.acquire("key", "gpt-4", {"tpm": 4}):
            raise KeyError
    async with limiter.acquire("key", "gpt-4", {"tpm": 4}) as lease:
        await lease.settle(tpm=6)
    assert await limiter.available("key", "credits") == {"tpm": 31}
    assert await limiter.available("key", "gpt-4") == {"tpm": 0}


@pytest.mark.needs("endpoint")
async def test_real_processes_get_what_there_was_in_both_buckets(harness: Harness, load: Load) -> None:
    [limiter] = await opened(harness, 1)
    url = harness.target.endpoint_url or ""
    job = Job(url, harness.table_name, "key", "gpt-4", "tpm", harness.variant)
    assert load.take(job, processes=PROCESSES).admitted == 47
    assert await limiter.available("key", "credits") == {"tpm": 0}
