"""Every acquire ends within its time, whatever the store does; what is cut off is given back and blocks nobody."""

import asyncio
import time
from typing import Any

import pytest

from support.core.worlds import Process, World, outcomes, passes, take, until
from zae_limiter import Limit, Options, RateLimiter, RateLimiterUnavailable, ValidationError
from zae_limiter.operations.errors import BudgetSpent, OutcomeUnknown
from zae_limiter.operations.values import BatchGet, Put, Update

RPM = Limit.per_hour("rpm", 100)
BUDGET, LONGEST = 0.4, 2.5  # seconds; both leave room for a busy computer
TIMES: dict[str, Any] = {"acquire_timeout": BUDGET, "connect_timeout": 0.4, "read_timeout": 0.4}


async def warm(world: World, **options: Any) -> Process:
    process = await world.process(default_limits=[RPM], **{**TIMES, **options})
    await take(process.limiter, "e", "r", rpm=1)
    return process


async def timed(awaitable: Any) -> tuple[float, Any]:
    begun = time.monotonic()
    try:
        answer = await awaitable
    except Exception as error:  # noqa: BLE001 - it is the answer
        answer = error
    return time.monotonic() - begun, answer


async def left_in_the_end(world: World, limiter: RateLimiter, *tokens: int, entity_id: str = "e") -> None:
    """Return once what was cut off is given back; threads do that at any time."""
    if world.variant == "async":
        await limiter.repository.driver.drain()
    async with asyncio.timeout(60):
        while (await limiter.available(entity_id, "r"))["rpm"] not in tokens:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("step", [BatchGet, Put, Update])
async def test_a_store_that_hangs_is_unavailable_when_the_time_is_over(world: World, step: type) -> None:
    process = await (warm(world) if step is Update else world.process(default_limits=[RPM], **TIMES))
    process.wire.hold(step)
    seconds, answer = await timed(take(process.limiter, "e", "r", rpm=1))
    assert isinstance(answer, RateLimiterUnavailable)
    assert BUDGET * 0.9 <= seconds < LONGEST
    process.wire.let_go()


async def test_allow_goes_on_when_the_time_is_over(world: World) -> None:
    limiter, wire = await warm(world, on_unavailable="allow")
    wire.hold(Update)
    async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
        assert lease.degraded
    wire.let_go()


async def test_what_is_confirmed_after_the_caller_left_is_given_back(world: World) -> None:
    limiter, wire = await warm(world)
    first = asyncio.ensure_future(take(limiter, "e", "r", rpm=2))
    wire.hold(Update)
    await until(lambda: wire.in_flight == 1)
    late = await outcomes(*(take(limiter, "e", "r", rpm=3) for _ in range(5)), first)
    assert all(isinstance(answer, RateLimiterUnavailable) for answer in late)
    wire.let_go()
    await until(lambda: wire.in_flight == 0)
    await asyncio.sleep(0.05)
    assert await passes(limiter, "e", "r", rpm=1)
    # what the first one took may be lost where its own thread was cut off while it sent
    await left_in_the_end(world, limiter, *([98] if world.variant == "async" else [98, 96]))


async def test_nobody_waits_behind_those_who_left(world: World) -> None:
    limiter, wire = await warm(world)
    wire.hold(Update)
    await outcomes(*(take(limiter, "e", "r", rpm=1) for _ in range(20)))
    wire.let_go()
    await until(lambda: wire.in_flight == 0)
    seconds, answer = await timed(take(limiter, "e", "r", rpm=1))
    assert answer is None
    assert seconds < LONGEST


@pytest.mark.parametrize("end", ["rollback", "release"])
async def test_the_end_of_a_block_takes_no_longer_either_and_is_written_later(world: World, end: str) -> None:
    limiter, wire = await warm(world)

    async def block() -> None:
        async with limiter.acquire("e", "r", {"rpm": 10}) as lease:
            wire.hold(Update)
            if end == "rollback":
                raise ZeroDivisionError
            await lease.release(rpm=10)

    seconds, answer = await timed(block())
    assert isinstance(answer, ZeroDivisionError if end == "rollback" else RateLimiterUnavailable)
    assert seconds < LONGEST
    wire.let_go()
    if world.variant == "async":  # a thread that sends for itself cannot go on behind its caller
        await until(lambda: wire.in_flight == 0)
        await limiter.repository.driver.drain()
        assert await limiter.available("e", "r") == {"rpm": 99}


async def test_an_operation_has_a_time_of_its_own_where_an_acquire_has_none(world: World) -> None:
    limiter, wire = await warm(world, acquire_timeout=None)
    wire.hold(Update)
    seconds, answer = await timed(take(limiter, "e", "r", rpm=1))
    assert isinstance(answer, RateLimiterUnavailable)
    assert isinstance(answer.__cause__, OutcomeUnknown)
    assert not isinstance(answer.__cause__, BudgetSpent)
    assert 0.7 < seconds < LONGEST
    wire.let_go()


async def test_a_child_and_its_parent_are_both_given_back(world: World) -> None:
    limiter, wire = await warm(world)
    await limiter.create_entity("project")
    await limiter.create_entity("key", parent_id="project", cascade=True)
    await take(limiter, "key", "r", rpm=1)
    wire.hold(Update)
    _, answer = await timed(take(limiter, "key", "r", rpm=10))
    assert isinstance(answer, RateLimiterUnavailable)
    wire.let_go()
    await until(lambda: wire.in_flight == 0)
    if world.variant == "async":
        await left_in_the_end(world, limiter, 99, entity_id="key")
    await left_in_the_end(world, limiter, 99, entity_id="project")


@pytest.mark.parametrize("value", [0, -1, "5", float("nan"), True])
def test_a_time_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(ValidationError, match="acquire_timeout"):
        Options(acquire_timeout=value)
