"""A child and a parent whose buckets are made together, beside others who are at them."""

import asyncio
from contextlib import suppress
from random import Random

import pytest

from support.core.turns import TurningStore, turn
from zae_limiter import Limit, Options, RateLimiter, Repository
from zae_limiter.engines.memory.table import MemoryTable

RPM = Limit.per_hour("rpm", 1000)


class BodyFailed(Exception):
    """Raised in the body of a lease."""


async def fails(limiter: RateLimiter, turns: int) -> None:
    await turn(turns)
    with suppress(BodyFailed):
        async with limiter.acquire("key", "r", {"rpm": 10}):
            raise BodyFailed


async def checks(limiter: RateLimiter, turns: int) -> None:
    await turn(turns)
    async with limiter.acquire("key", "r", {"rpm": 0}):
        pass


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("seed", range(8))
async def test_what_a_failed_body_took_from_cold_buckets_comes_back_whoever_checks_them_beside_it(seed: int) -> None:
    rng = Random(seed)
    for head_start in range(25):
        repository = await Repository.over(TurningStore(MemoryTable(), lambda: rng.randint(0, 3)), Options())
        limiter = RateLimiter(repository, default_limits=[RPM])
        await repository.create_entity("project")
        await repository.create_entity("key", parent_id="project", cascade=True)
        await asyncio.gather(fails(limiter, 0), checks(limiter, head_start))
        left = [(await limiter.available(entity, "r"))["rpm"] for entity in ("key", "project")]
        await repository.close()
        assert left == [1000, 1000], f"where the check comes {head_start} turns later"
