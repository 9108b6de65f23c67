"""When a bucket expires, and what becomes of those who knew it; in both variants."""

from contextlib import suppress

import pytest

from support.core.worlds import Process, World, drain, passes, take
from zae_limiter import Limit, RateLimiter, RateLimiterUnavailable, Repository, SyncRateLimiter, SyncRepository
from zae_limiter.operations.errors import OutcomeUnknown
from zae_limiter.operations.values import Update

RPM = Limit.per_minute("rpm", 60)


def ttl_of(world: World, process: Process) -> int | None:
    """Seconds from now until the bucket expires."""
    item = world.bucket_of(process.limiter, "e", "r")
    assert item is not None
    return None if "ttl" not in item else item["ttl"] - world.clock.now_ms() // 1000


async def test_a_bucket_lives_a_minute_and_seven_times_its_time_to_fill(world: World) -> None:
    process = await world.process(default_limits=[RPM])
    await take(process.limiter, "e", "r", rpm=10)
    assert ttl_of(world, process) == 60 + 7 * 10
    await take(process.limiter, "e", "r", rpm=20)
    assert ttl_of(world, process) == 60 + 7 * 60  # others may have been at it: from empty


async def test_the_slowest_limit_counts_and_debt_too(world: World) -> None:
    process = await world.process(default_limits=[RPM, Limit.per_hour("tph", 3600)], bucket_ttl_multiplier=2)
    async with process.limiter.acquire("e", "r", {"rpm": 60, "tph": 100}) as lease:
        await lease.adjust(tph=4000)
    assert ttl_of(world, process) == 60 + 2 * 4100


@pytest.mark.parametrize("why", ["multiplier 0", "limits of its own", "default limits of its own"])
async def test_it_never_expires(world: World, why: str) -> None:
    process = await world.process(default_limits=[RPM], bucket_ttl_multiplier=0 if why == "multiplier 0" else 7)
    if "own" in why:
        await process.limiter.set_limits("e", [RPM], "_default_" if "default" in why else "r")
    for _ in range(2):
        await take(process.limiter, "e", "r", rpm=10)
        assert ttl_of(world, process) is None


async def test_limits_of_a_call_do_not_make_an_entity_with_limits_of_its_own_expire(world: World) -> None:
    process = await world.process()
    await process.limiter.set_limits("e", [RPM], "r")
    await take(process.limiter, "e", "r", rpm=1)
    async with process.limiter.acquire("e", "r", {"rpm": 1}, [Limit.per_minute("rpm", 120)]):
        pass
    assert ttl_of(world, process) is None


async def test_an_entity_that_gets_limits_of_its_own_expires_no_more_and_again_without_them(world: World) -> None:
    process = await world.process()
    await process.limiter.set_system_defaults([RPM])
    await take(process.limiter, "e", "r", rpm=1)
    await process.limiter.set_limits("e", [RPM])
    await take(process.limiter, "e", "r", rpm=1)
    assert ttl_of(world, process) is None
    await process.limiter.delete_limits("e")
    await take(process.limiter, "e", "r", rpm=1)
    assert ttl_of(world, process) == 60 + 7 * 60


async def test_a_bucket_that_expired_was_full_and_is_made_again(world: World) -> None:
    limiter, wire = await world.process(default_limits=[RPM], config_cache_ttl=10**6)
    await take(limiter, "e", "r", rpm=60)
    world.clock.advance(seconds=60 + 7 * 60)
    assert world.expire() == 0
    world.clock.advance(seconds=1)
    assert world.expire() == 1
    wire.sent()
    assert await drain(limiter, "e", "r", "rpm") == 60
    assert wire.sent()[:3] == ["Update", "Put", "Update"]


@pytest.mark.parametrize("how", ["release", "adjust down", "rollback"])
async def test_what_goes_back_to_a_bucket_that_expired_creates_no_item(world: World, how: str) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    try:
        async with limiter.acquire("e", "r", {"rpm": 10}) as lease:
            world.clock.advance(seconds=3600)
            assert world.expire() == 1
            if how == "release":
                await lease.release(rpm=10)
            elif how == "adjust down":
                await lease.adjust(rpm=-5)
            else:
                raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    assert world.bucket_of(limiter, "e", "r") is None
    assert await drain(limiter, "e", "r", "rpm") == 60


async def test_so_it_is_where_this_process_has_seen_that_it_expired(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    async with limiter.acquire("e", "r", {"rpm": 10}) as lease:
        world.clock.advance(seconds=3600)
        world.expire()
        assert await limiter.available("e", "r") == {"rpm": 60}
        await lease.release(rpm=10)
    assert world.bucket_of(limiter, "e", "r") is None


async def test_a_debt_on_a_bucket_that_expired_is_a_debt(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    async with limiter.acquire("e", "r", {"rpm": 10}) as lease:
        world.clock.advance(seconds=3600)
        world.expire()
        await lease.adjust(rpm=100)
    assert await limiter.available("e", "r") == {"rpm": -40}
    assert not await passes(limiter, "e", "r", rpm=1)


async def test_a_ttl_that_did_not_know_of_others_is_written_again_by_who_sees_it(world: World) -> None:
    one, other = [await world.process(default_limits=[RPM], bucket_ttl_multiplier=1) for _ in range(2)]
    await take(other.limiter, "e", "r", rpm=1)
    async with one.limiter.acquire("e", "r", {"rpm": 1}) as lease:
        async with other.limiter.acquire("e", "r", {"rpm": 1}) as others:
            await others.adjust(rpm=6000)
        await lease.adjust(rpm=1)  # thinks that nearly all is there
        one.wire.sent()
    assert one.wire.sent() == ["Update", "Update"]
    assert ttl_of(world, one) == 60 + 6004


async def test_no_ttl_is_shortened_by_who_has_not_seen_the_debt_of_others_and_gets_no_answer(world: World) -> None:
    one, other = [await world.process(default_limits=[RPM], bucket_ttl_multiplier=1) for _ in range(2)]
    await take(other.limiter, "e", "r", rpm=1)
    with suppress(RateLimiterUnavailable):
        async with one.limiter.acquire("e", "r", {"rpm": 1}) as lease:
            async with other.limiter.acquire("e", "r", {"rpm": 1}) as others:
                await others.adjust(rpm=6000)
            one.wire.break_once(OutcomeUnknown("no answer"), on=Update, applied=True)
            await lease.adjust(rpm=1)
    ttl = ttl_of(world, one)
    assert ttl is not None
    assert ttl >= 60 + 6002


class SetClock:
    """A clock that moves without telling anybody, as the system's does."""

    at_ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.at_ms


@pytest.mark.long
async def test_a_repository_in_memory_forgets_the_buckets_of_those_who_left() -> None:
    clock, sync_clock = SetClock(), SetClock()
    limiter = RateLimiter(Repository.in_memory(clock=clock), default_limits=[RPM])
    sync_limiter = SyncRateLimiter(SyncRepository.in_memory(clock=sync_clock), default_limits=[RPM])
    names = [f"user-{number}" for number in range(1_000)]
    for name in names:
        clock.at_ms += 1_000
        async with limiter.acquire(name, "r", {"rpm": 1}):
            sync_clock.at_ms += 1_000
            with sync_limiter.acquire(name, "r", {"rpm": 1}):
                pass
    kept = [name for name in names if await limiter.repository.get_bucket(name, "r")]
    sync_kept = [name for name in names if sync_limiter.repository.get_bucket(name, "r")]
    assert kept == sync_kept
    # A bucket lives a minute and the seven seconds of one token. Of all items, two of usage each, a quarter is to go.
    assert 60 <= len(kept) <= 240
