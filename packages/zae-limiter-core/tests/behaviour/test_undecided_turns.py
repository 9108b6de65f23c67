"""A caller whose turn has come, and whose store stops answering in the middle: what was decided stays decided."""

from typing import Any

import pytest

from support.core.shards import split_into
from support.core.worlds import Process, World, passes, take
from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter
from zae_limiter.operations.errors import OutcomeUnknown
from zae_limiter.operations.values import BatchGet, Query, Update

FAST = Limit.custom("rpm", 5, refill_amount=50, refill_period=1)  # 5 at once, then one every 20 ms
LARGE = Limit.per_day("rpm", 1000)


async def key_of_a_project(world: World, taken: int, **options: Any) -> Process:
    """A process that has just taken so many of the five tokens of a key."""
    process = await world.process(**options)
    await process.limiter.create_entity("project")
    await process.limiter.create_entity("key", parent_id="project", cascade=True)
    await process.limiter.set_limits("project", [LARGE])
    await process.limiter.set_limits("key", [FAST])
    await take(process.limiter, "key", "r", rpm=taken)
    return process


def rob(world: World) -> None:
    """Have another process take the tokens of the key."""
    with SyncRateLimiter(world.rival()) as rival, rival.acquire("key", "r", {"rpm": 1}):
        pass


async def test_a_refusal_stays_one_if_its_give_back_hangs(async_world: World) -> None:
    limiter, wire = await key_of_a_project(async_world, 5, acquire_timeout=0.3)

    def before_the_write_of_the_key() -> None:
        rob(async_world)
        wire.hold(Update)  # from the next one on, which gives back to the project

    wire.first(lambda: wire.first(before_the_write_of_the_key, on=Update), on=Update)
    with pytest.raises(RateLimitExceeded):
        async with limiter.acquire("key", "r", {"rpm": 1}, max_wait=0.05):
            pass
    wire.let_go()


async def test_what_a_bucket_above_gave_goes_back_if_shards_cannot_be_read(world: World) -> None:
    limiter, wire = await key_of_a_project(world, 3, on_unavailable="allow")
    split_into(world, limiter, 2, "key")
    await take(limiter, "key", "r", rpm=1)
    assert not await passes(limiter, "key", "r", rpm=2)  # it has read both shards
    before = await limiter.available("project", "r")

    def before_the_write_of_the_project() -> None:
        split_into(world, limiter, 4, "key")
        wire.break_down(OutcomeUnknown("lost"), on=(BatchGet, Query))

    wire.first(before_the_write_of_the_project, on=Update)
    async with limiter.acquire("key", "r", {"rpm": 2}, max_wait=60) as lease:
        assert lease.degraded
    wire.repair()
    assert await limiter.available("project", "r") == before
