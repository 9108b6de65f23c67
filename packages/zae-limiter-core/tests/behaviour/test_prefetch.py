"""A process prefetches tokens: acquires without a request, by tokens that left the table no longer before than that."""

import asyncio
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import pytest

from support.core.prefetching import RPM, TPM, held, item_of, live_by_the_worlds_clock, until_written, use, warm
from support.core.shards import split_into
from support.core.worlds import Process, World, drain, take, until
from zae_limiter import (
    Limit,
    RateLimiterUnavailable,
    RateLimitExceeded,
    SyncRateLimiter,
    SyncRepository,
)
from zae_limiter.operations.errors import Unreachable
from zae_limiter.runtime import forks
from zae_limiter.testing import ManualClock


@pytest.fixture(autouse=True)
def _no_real_time(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    live_by_the_worlds_clock(request, monkeypatch)


async def test_a_busy_caller_sends_a_request_per_second_and_not_per_acquire(world: World) -> None:
    limiter, wire = process = await warm(world, RPM, TPM)
    for _ in range(250):
        await use(world, limiter, 1, rpm=1, tpm=1)
        await until_written(process)
    assert len(wire.sent()) <= 1.2 * 5 + 1


async def test_without_prefetch_every_acquire_is_a_request(world: World) -> None:
    limiter, wire = await warm(world, Limit.per_minute("rpm", 6_000))
    await use(world, limiter, 50, rpm=1)
    assert wire.sent() == ["Update"] * 50


async def test_what_is_held_is_void_after_that_time(world: World) -> None:
    process = await warm(world, RPM)
    limiter, wire = process
    await take(limiter, "e", "r", rpm=1)
    await until_written(process)
    wire.sent()
    await take(limiter, "e", "r", rpm=1)
    assert wire.sent() == []
    world.clock.advance(seconds=1)
    await take(limiter, "e", "r", rpm=1)
    assert wire.sent() == ["Update"]


async def test_it_is_void_if_the_process_was_stopped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    process = await warm(world, RPM)
    limiter, wire = process
    await until_written(process)
    wire.sent()
    later = (world.clock.now_ms() + 60_000) * 1_000_000
    monkeypatch.setattr(time, "clock_gettime_ns", lambda _: later)  # by the clock that nobody sets
    await take(limiter, "e", "r", rpm=1)
    assert wire.sent() == ["Update"]


async def test_a_child_process_holds_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    process = await warm(world, RPM)
    limiter, wire = process
    await until_written(process)
    wire.sent()
    monkeypatch.setattr(forks, "generation", forks.generation + 1)
    async with limiter.acquire("e", "r", {"rpm": 1}):
        assert wire.sent() == ["Update"]


async def test_two_processes_never_admit_more_than_the_burst(world: World) -> None:
    one, two = await warm(world, RPM), await world.process()
    await use(world, two.limiter, 50, rpm=1)
    world.clock.advance(seconds=60)
    for each in (one, two):  # both hold some of a full bucket
        await use(world, each.limiter, 10, rpm=1)
    admitted = 0
    for each in (one, two):
        admitted += await drain(each.limiter, "e", "r", "rpm")
    assert admitted + 20 <= 6_000 + 100 * 0.4


async def test_usage_is_exact_when_the_block_is_over(world: World) -> None:
    limiter, _ = process = await warm(world, RPM, TPM)
    await use(world, limiter, 37, rpm=1, tpm=10)
    await limiter.repository.close()
    item = await item_of(world, limiter)
    assert (item["b_rpm_tc"], item["b_tpm_tc"], item["ev"]) == (137_000, 470_000, 137)
    del process


async def test_a_write_of_its_own_counts_the_usage_of_a_process_that_rests(world: World) -> None:
    limit = Limit.per_minute("rpm", 6_000, prefetch=0.2)
    process = await world.process(clock=None)
    limiter, _ = process
    await limiter.set_resource_defaults("r", [limit])
    for _ in range(40):
        await take(limiter, "e", "r", rpm=1)
    await until(lambda: (world.bucket_of(limiter, "e", "r") or {})["ev"] == 40)
    assert (await item_of(world, limiter))["b_rpm_tc"] == 40_000


async def test_statuses_are_those_of_an_acquire_by_a_request(world: World) -> None:
    process = await warm(world, RPM)
    limiter, wire = process
    world.clock.advance(seconds=60)
    for _ in range(20):  # they take no time
        await take(limiter, "e", "r", rpm=1)
    await until_written(process)
    wire.sent()
    async with limiter.acquire("e", "r", {"rpm": 5}) as lease:
        assert len(wire.sent()) <= 1  # in the background
        [status] = lease.statuses
        assert (status.limit_name, status.requested, status.exceeded) == ("rpm", 5, False)
        assert (
            5_875 <= status.available <= 5_900
        )  # a reservation that another thread takes may be seen before what it paid
        assert lease.consumed == {"rpm": 5}
        assert not lease.degraded
    assert (await limiter.available("e", "r"))["rpm"] == 5_875


async def test_a_correction_is_taken_from_what_is_held_and_brought_back_to_it(world: World) -> None:
    process = await warm(world, RPM)
    limiter, wire = process
    await until_written(process)
    wire.sent()
    async with limiter.acquire("e", "r", {"rpm": 2}) as lease:
        await lease.adjust(rpm=3)
    async with limiter.acquire("e", "r", {"rpm": 4}) as lease:
        await lease.settle(rpm=1)
    with pytest.raises(ZeroDivisionError):
        async with limiter.acquire("e", "r", {"rpm": 7}):
            raise ZeroDivisionError
    async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
        await lease.consume(rpm=1)
    assert len(wire.sent()) <= 1  # in the background
    await limiter.repository.close()
    item = await item_of(world, limiter)
    called = 100 + 4  # without the call that failed, which did not take place; what a lease takes more counts as one
    assert (item["b_rpm_tc"], item["ev"]) == (100_000 + 5_000 + 1_000 + 2_000, called)


async def test_a_hold_takes_no_more_back_than_it_had(world: World) -> None:
    process = await warm(world, RPM)
    limiter, wire = process
    async with limiter.acquire("e", "r", {"rpm": 1_000}) as lease:
        await until_written(process)
        wire.sent()
        await lease.settle(rpm=0)
    assert wire.sent() == ["Update"]
    assert held(world, limiter) <= 1_100_000


async def test_child_and_parent_are_both_held(world: World) -> None:
    limiter, wire = process = await child_and_parent(world)
    await until_written(process)
    wire.sent()
    await use(world, limiter, 50, rpm=1)
    assert len(wire.sent()) <= 4
    await limiter.repository.close()
    for entity in ("e", "p"):
        item = world.bucket_of(limiter, entity, "r")
        assert item is not None
        assert (item["b_rpm_tc"], item["ev"]) == (150_000, 150)


async def test_a_held_call_that_fails_is_counted_by_no_bucket_of_its_path(world: World) -> None:
    limiter, wire = process = await child_and_parent(world)
    await until_written(process)
    wire.sent()
    with pytest.raises(ZeroDivisionError):
        async with limiter.acquire("e", "r", {"rpm": 2}):
            raise ZeroDivisionError
    await take(limiter, "e", "r", rpm=1)
    assert len(wire.sent()) <= 2  # in the background
    await limiter.repository.close()
    for entity, below in (("e", None), ("p", 101)):
        item = world.bucket_of(limiter, entity, "r")
        assert item is not None
        assert (item["b_rpm_tc"], item["ev"], item.get("eb")) == (101_000, 101, below)


async def child_and_parent(world: World) -> Process:
    """A process that has used both for two seconds."""
    process = await world.process()
    limiter, _ = process
    await limiter.set_resource_defaults("r", [RPM])
    await limiter.create_entity("p")
    await limiter.create_entity("e", parent_id="p", cascade=True)
    await use(world, limiter, 100, rpm=1)
    return process


async def test_a_refusal_of_the_parent_gives_the_child_its_tokens_back(world: World) -> None:
    limiter, wire = await world.process()
    await limiter.set_resource_defaults("r", [RPM])
    await limiter.create_entity("p")
    await limiter.set_limits("p", [Limit.per_minute("rpm", 110)], resource="r")
    await limiter.create_entity("e", parent_id="p", cascade=True)
    await use(world, limiter, 100, rpm=1)
    refused = 0
    for _ in range(50):
        try:
            await take(limiter, "e", "r", rpm=1)
        except RateLimitExceeded:
            refused += 1
    assert refused > 20
    await limiter.repository.close()
    item = await item_of(world, limiter)
    assert (item["b_rpm_tc"], item["ev"]) == (1000 * (150 - refused), 150 - refused)
    del wire


async def test_a_changed_limit_ends_what_is_held(world: World) -> None:
    process = await warm(world, RPM)
    limiter, wire = process
    await until_written(process)
    await limiter.set_resource_defaults("r", [Limit.per_minute("rpm", 1)])
    with pytest.raises(RateLimitExceeded):
        await take(limiter, "e", "r", rpm=1_000)
    wire.sent()


async def test_a_shadow_limit_does_not_take_what_was_held_by_other_limits(world: World) -> None:
    before, changed = (Limit.per_minute("rpm", rate, prefetch=1, shadow=True) for rate in (6_000, 20))
    process, (other, _) = await warm(world, before), await world.process()
    await until_written(process)
    assert held(world, process.limiter) > 2_000
    await process.limiter.set_resource_defaults("r", [changed])
    await take(other, "e", "r", rpm=19)
    await take(process.limiter, "e", "r", rpm=2)
    assert await process.limiter.available("e", "r") == {"rpm": 0}


async def test_what_is_held_pays_for_one_limit_although_another_is_in_debt(world: World) -> None:
    process = await warm(world, RPM, TPM)
    limiter, wire = process
    await until_written(process)
    assert held(world, limiter) > 10_000
    async with limiter.acquire("e", "r", {"rpm": 1_000, "tpm": 1}) as lease:
        await lease.adjust(tpm=1_000_000)
    await until_written(process)
    left = (await limiter.available("e", "r"))["rpm"]
    wire.sent()
    await take(limiter, "e", "r", rpm=left)
    assert wire.sent() == ["Update"]
    assert (await limiter.available("e", "r"))["rpm"] == 0


async def test_every_shard_is_drawn_on(world: World) -> None:
    process = await warm(world, RPM)
    limiter, wire = process
    split_into(world, limiter, 4)
    await use(world, limiter, 200, rpm=1)
    wire.sent()
    await use(world, limiter, 100, rpm=1)
    assert len(wire.sent()) <= 10
    await limiter.repository.close()


async def test_nothing_is_held_of_a_bucket_that_is_short(world: World) -> None:
    limiter, wire = await world.process()
    await limiter.set_resource_defaults("r", [Limit.per_minute("rpm", 60, prefetch=1)])
    await drain(limiter, "e", "r", "rpm")
    assert held(world, limiter) < 1_000
    del wire


async def test_what_is_held_outlives_an_outage_by_its_own_time(world: World) -> None:
    process = await warm(world, RPM)
    limiter, wire = process
    await until_written(process)
    wire.break_down(Unreachable("away"))
    await take(limiter, "e", "r", rpm=1)
    world.clock.advance(seconds=1)
    with pytest.raises(RateLimiterUnavailable):
        await take(limiter, "e", "r", rpm=1)
    wire.repair()
    await limiter.repository.close()


async def test_a_change_of_the_entity_reaches_what_another_process_holds_within_that_time(world: World) -> None:
    admin = await world.process()
    process = await warm(world, RPM)
    limiter, _ = process
    await until_written(process)
    await admin.limiter.set_limits("e", [Limit.per_minute("rpm", 0)], resource="r")
    admitted = 0
    for _ in range(60):
        try:
            await take(limiter, "e", "r", rpm=1)
            admitted += 1
        except RateLimitExceeded:
            break
        await until_written(process)
        world.clock.advance(seconds=0.02)
    assert admitted <= 50


async def test_a_bucket_that_is_used_now_and_then_is_not_held(world: World) -> None:
    limiter, wire = await world.process()
    await limiter.set_resource_defaults("r", [RPM])
    for _ in range(6):
        await take(limiter, "e", "r", rpm=2)
        world.clock.advance(seconds=3)
    wire.sent()
    await take(limiter, "e", "r", rpm=2)
    assert wire.sent() == ["Update"]
    assert held(world, limiter) == 0
    item = await item_of(world, limiter)
    assert (item["b_rpm_tc"], item["ev"]) == (14_000, 7)


def test_a_reminder_outlives_its_event_loop() -> None:
    world, limit = World("async"), Limit.per_minute("rpm", 6_000, prefetch=0.2)

    async def begin() -> Process:
        process = await world.process(clock=None)
        await process.limiter.set_resource_defaults("r", [limit])
        for _ in range(40):
            await take(process.limiter, "e", "r", rpm=1)
        return process

    async def go_on(process: Process) -> None:
        await take(process.limiter, "another", "r", rpm=1)
        await until(lambda: (world.bucket_of(process.limiter, "e", "r") or {})["ev"] == 40)

    process = asyncio.run(begin())
    asyncio.run(go_on(process))


def test_a_closed_repository_leaves_no_thread() -> None:
    before = {*threading.enumerate()}
    limiter = SyncRateLimiter(SyncRepository.in_memory())
    limiter.set_resource_defaults("r", [Limit.per_minute("rpm", 600, burst=6_000, prefetch=30)])
    for _ in range(400):
        with limiter.acquire("e", "r", {"rpm": 1}):
            pass
    new = [each for each in threading.enumerate() if each not in before]
    assert new, "a reminder of what is held waits in a thread"
    limiter.close()
    for each in new:
        each.join(5)
        assert not each.is_alive()


async def test_callers_with_other_limits_in_turn_lose_no_tokens(world: World) -> None:
    limiter, _ = await world.process()
    some, more = Limit.per_day("rpd", 50_000, prefetch=1), Limit.per_day("rpd", 51_000, prefetch=1)
    for number in range(600):
        async with limiter.acquire("e", "r", {"rpd": 1}, limits=[more if number // 20 % 2 else some]):
            pass
        world.clock.advance(seconds=0.01)
    left = (await limiter.available("e", "r", limits=[some]))["rpd"]
    assert left >= 49_999 - 600 - 100


def test_an_exception_of_a_signal_handler_leaves_the_hold_in_order() -> None:
    """The exception comes at each line of a change in turn; afterwards calls go on, and no token is made."""
    for line in range(1, 60):
        clock = ManualClock()
        limiter = SyncRateLimiter(SyncRepository.in_memory(clock=clock))
        limiter.set_resource_defaults("r", [RPM])
        for _ in range(100):
            with limiter.acquire("e", "r", {"rpm": 1}):
                clock.advance(seconds=0.02)
        with suppress(InterruptedError), interrupted(line):
            for _ in range(60):
                with limiter.acquire("e", "r", {"rpm": 1}):
                    clock.advance(seconds=0.02)
        for _ in range(60):
            with limiter.acquire("e", "r", {"rpm": 1}):
                clock.advance(seconds=0.02)
        assert limiter.available("e", "r")["rpm"] <= RPM.burst
        limiter.close()


@contextmanager
def interrupted(line: int) -> Iterator[None]:
    """Raise an exception before that line of code that runs in ``flows.prefetch``, counted from now."""
    left = line

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.endswith("flows/prefetch.py"):
            return None
        if event == "line" and frame.f_code.co_name != "__exit__":
            left -= 1
            if left == 0:
                raise InterruptedError
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)
