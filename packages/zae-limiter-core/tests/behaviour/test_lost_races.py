"""Many callers with two values of ``limits=`` on one bucket, as in every rolling deploy."""

import asyncio
from random import Random

import pytest

from support.core.turns import TurningStore
from support.core.worlds import World
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


async def taken_under(world: World, limiter: RateLimiter, *limits: Limit) -> set[str]:
    """Acquire under limits of the call, or others, a second later; return the limits that the bucket has then."""
    world.clock.advance(seconds=1)
    names = [limit.name for limit in limits] or ["rpm"]
    async with limiter.acquire("e", "r", dict.fromkeys(names, 1), limits=list(limits) or None):
        pass
    bucket = await limiter.repository.get_bucket("e", "r")
    assert bucket is not None
    return {str(each.limit) for each in bucket.limits}


async def test_the_limits_of_the_process_that_began_last_stay(world: World) -> None:
    old, new = (await world.process()).limiter, (await world.process()).limiter
    assert await taken_under(world, old, OLD) == {str(OLD)}
    for _ in range(3):
        assert await taken_under(world, new, NEW) == {str(NEW)}
        assert await taken_under(world, old, OLD) == {str(NEW)}


async def test_limits_that_followed_for_a_minute_hold_again(world: World) -> None:
    new, late = (await world.process()).limiter, (await world.process()).limiter
    await taken_under(world, new, NEW)
    assert await taken_under(world, late, OLD) == {str(OLD)}
    assert await taken_under(world, new, NEW) == {str(OLD)}
    world.clock.advance(seconds=60)
    assert await taken_under(world, new, NEW) == {str(NEW)}


async def test_an_older_process_adds_the_limits_that_the_bucket_lacks(world: World) -> None:
    old, new = (await world.process()).limiter, (await world.process()).limiter
    async with old.acquire("other", "r", {"rpm": 1, "tpm": 1}, limits=[OLD, TPM]):
        pass
    assert await taken_under(world, new, NEW) == {str(NEW)}
    assert await taken_under(world, old, OLD, TPM) == {str(NEW), str(TPM)}
    assert await taken_under(world, new, NEW) == {str(NEW), str(TPM)}


async def test_two_call_sites_of_one_process_each_have_their_limits(world: World) -> None:
    limiter = (await world.process()).limiter
    for _ in range(2):
        assert await taken_under(world, limiter, OLD) == {str(OLD)}
        assert await taken_under(world, limiter, NEW) == {str(NEW)}


async def test_the_default_limits_of_the_process_that_began_last_stay(world: World) -> None:
    old = (await world.process(default_limits=[OLD])).limiter
    await taken_under(world, old)
    new = (await world.process(default_limits=[NEW])).limiter
    for _ in range(3):
        assert await taken_under(world, new) == {str(NEW)}
        assert await taken_under(world, old) == {str(NEW)}


async def test_default_limits_hold_again_once_no_level_has_limits(world: World) -> None:
    limiter = (await world.process(default_limits=[OLD])).limiter
    for _ in range(2):
        assert await taken_under(world, limiter) == {str(OLD)}
        await limiter.repository.set_limits("e", [NEW], "r")
        assert await taken_under(world, limiter) == {str(NEW)}
        await limiter.repository.delete_limits("e", "r")
    other = (await world.process(default_limits=[OLD])).limiter
    assert await taken_under(world, other) == {str(OLD)}


async def test_older_limits_are_shown_as_the_acquire_finds_them(world: World) -> None:
    old, new = (await world.process()).limiter, (await world.process()).limiter
    await taken_under(world, old, OLD)
    await taken_under(world, new, NEW)
    for limiter, limits in ((old, [OLD]), (new, [NEW])):
        check = await limiter.check("e", "r", {"rpm": 1}, limits=limits)
        why = await limiter.explain("e", "r", {"rpm": 1}, limits=limits)
        assert [each.limit for each in check.statuses] == [NEW]
        assert [each.limit for each in why.buckets[0].limits] == [NEW]
