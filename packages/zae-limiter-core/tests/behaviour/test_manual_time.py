"""A test's own clock has the waits of the limiter, too: no test sleeps."""

import asyncio

import pytest

from support.core.worlds import World, take, until
from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter.operations.errors import Throttled, Unreachable
from zae_limiter.testing import ManualClock

LIMITS = [Limit.per_minute("rpm", 1)]


async def test_a_call_that_waits_moves_the_clock_to_its_tokens(world: World) -> None:
    limiter = (await world.process(default_limits=LIMITS)).limiter
    await take(limiter, "ann", "api", rpm=1)
    begun = world.clock.now_ms()
    async with limiter.acquire("ann", "api", {"rpm": 1}, max_wait=90) as lease:
        assert round(lease.waited) == 60
    assert world.clock.now_ms() - begun == pytest.approx(60_000, abs=100)


async def test_those_who_wait_are_served_in_the_order_of_their_instants(world: World) -> None:
    limiter = (await world.process(default_limits=LIMITS)).limiter
    served: list[tuple[str, int]] = []
    begun = world.clock.now_ms()

    async def call(entity: str, wait_for: int) -> None:
        async with limiter.acquire(
            entity, "api", {"rpm": 1}, [Limit.custom("rpm", 1, refill_period=wait_for)], max_wait=900
        ):
            served.append((entity, round((world.clock.now_ms() - begun) / 1000)))

    waits = {"ann": 300, "bob": 100, "cid": 200}
    for entity, seconds in waits.items():
        await call(entity, seconds)
    served.clear()
    await asyncio.gather(*(call(entity, seconds) for entity, seconds in waits.items()))
    assert [entity for entity, _ in served] == ["bob", "cid", "ann"]
    instants = [at for _, at in served]
    assert all(at >= due - 2 for at, due in zip(instants, (100, 200, 300), strict=True))
    if world.variant == "async":  # a thread that the machine lets wait asks once more, however late
        assert instants == pytest.approx([100, 200, 300], abs=2)


async def test_a_call_after_the_clock_has_moved_asks_a_store_that_was_away(world: World) -> None:
    limiter, wire = await world.process(default_limits=LIMITS, on_unavailable="allow")
    wire.break_down(Unreachable("away"))
    for _ in range(3):
        async with limiter.acquire("ann", "api", {"rpm": 1}) as lease:
            assert lease.degraded
    assert limiter.repository.get_store_stats().breaker == "open"
    wire.repair()
    world.clock.advance(600)
    async with limiter.acquire("ann", "api", {"rpm": 1}) as lease:
        assert not lease.degraded
    assert limiter.repository.get_store_stats().breaker == "closed"


async def test_a_wait_that_is_too_long_is_refused_and_moves_nothing(world: World) -> None:
    limiter = (await world.process(default_limits=LIMITS)).limiter
    await take(limiter, "ann", "api", rpm=1)
    begun = world.clock.now_ms()
    with pytest.raises(RateLimitExceeded):
        async with limiter.acquire("ann", "api", {"rpm": 1}, max_wait=5):
            pytest.fail("entered")
    assert world.clock.now_ms() == begun


async def test_a_clock_that_does_not_jump_wakes_a_call_when_the_test_advances_it(world: World) -> None:
    world.clock = ManualClock(jumps=False)
    limiter = (await world.process(default_limits=LIMITS)).limiter
    await take(limiter, "ann", "api", rpm=1)

    async def call() -> int:
        async with limiter.acquire("ann", "api", {"rpm": 1}, max_wait=90):
            return world.clock.now_ms()

    calling = asyncio.create_task(call())
    begun = world.clock.now_ms()
    for _ in range(60):
        await until(lambda: world.clock.waiting == 1)
        assert not calling.done()
        world.clock.advance(seconds=1)
    world.clock.advance(seconds=1)  # it may have looked a moment before
    assert await calling == begun + 61_000


async def test_the_pauses_before_a_request_is_repeated_are_in_manual_time(world: World) -> None:
    process = await world.process(default_limits=LIMITS)
    begun = world.clock.now_ms()
    process.wire.break_once(Throttled("slow down"))
    await process.limiter.set_limits("ann", LIMITS)
    assert world.clock.now_ms() > begun


async def test_a_cancelled_wait_does_not_hold_up_the_clock() -> None:
    clock = ManualClock(jumps=False)
    waiting = asyncio.create_task(clock.sleep_async(5))
    await until(lambda: clock.waiting == 1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert clock.waiting == 0


def test_buckets_expire_in_manual_time() -> None:
    clock = ManualClock()
    limiter = SyncRateLimiter(SyncRepository.in_memory(clock=clock), default_limits=LIMITS)
    with limiter.acquire("ann", "api", {"rpm": 1}):
        pass
    clock.advance(seconds=60 + 7 * 60 - 1)
    assert limiter.repository.get_buckets("ann")
    clock.advance(seconds=3)
    assert limiter.repository.get_buckets("ann") == []
