"""An acquire with ``max_wait`` waits for its turn: in order, within its time, with few requests."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial, wraps
from typing import Any

import pytest

from support.core.shards import aim_at, split_into
from support.core.worlds import Process, World, go_on, outcomes, stand_still, take, until
from zae_limiter import Limit, RateLimiter, RateLimitExceeded, SyncRateLimiter, SyncRepository, ValidationError
from zae_limiter.clock.system import SystemClock
from zae_limiter.exceptions import RepositoryClosedError
from zae_limiter.operations.values import Update
from zae_limiter.testing import ManualClock

FAST = Limit.custom("rpm", 5, refill_amount=50, refill_period=1)  # 5 at once, then one every 20 ms
LONG = 60.0  # a busy machine is held up for seconds


async def drained(world: World, limit: Limit = FAST, **options: Any) -> Process:
    """A process whose bucket is empty."""
    process = await world.process(default_limits=[limit], clock=SystemClock(), **options)
    await take(process.limiter, "e", "r", rpm=limit.burst)
    process.wire.sent()
    return process


async def waits(
    limiter: RateLimiter, amount: int = 1, max_wait: float = LONG, entity_id: str = "e", limit: str = "rpm"
) -> float:
    async with limiter.acquire(entity_id, "r", {limit: amount}, max_wait=max_wait) as lease:
        return lease.waited


async def in_line(limiter: RateLimiter, number: int, entity_id: str = "e") -> None:
    """Return once so many wait for a bucket."""
    buckets = limiter.namespace_state.cached_shards
    await until(lambda: (bucket := buckets.get((entity_id, "r", 0))) is not None and len(bucket.line) >= number)


async def test_a_caller_sleeps_until_its_tokens_are_due(world: World) -> None:
    limiter, _ = await drained(world, Limit.custom("rpm", 5, refill_amount=10, refill_period=1))
    begun = time.monotonic()
    waited = await waits(limiter, 3)
    assert 0 < waited <= time.monotonic() - begun
    assert waited < LONG / 4


async def test_without_need_nobody_waits(world: World) -> None:
    process = await world.process(default_limits=[FAST], clock=SystemClock())
    assert await waits(process.limiter) == 0


async def test_a_wait_that_is_too_long_is_refused_at_once(world: World) -> None:
    limiter, _ = await drained(world, Limit.per_minute("rpm", 6))
    begun = time.monotonic()
    with pytest.raises(RateLimitExceeded) as caught:
        await waits(limiter, 6, max_wait=LONG / 2)
    assert time.monotonic() - begun < LONG / 4
    assert caught.value.retry_after_seconds > LONG / 2


async def test_an_amount_that_can_never_pass_is_refused_at_once(world: World) -> None:
    limiter, _ = await drained(world)
    with pytest.raises(RateLimitExceeded, match="can never pass"):
        await waits(limiter, 6, max_wait=math.inf)


async def test_the_wait_of_the_whole_line_counts(world: World) -> None:
    limiter, _ = await drained(world, Limit.per_minute("rpm", 6))
    first = [asyncio.ensure_future(waits(limiter, max_wait=10 * LONG)) for _ in range(6)]
    await in_line(limiter, 6)
    begun = time.monotonic()
    with pytest.raises(RateLimitExceeded) as caught:
        await waits(limiter, max_wait=LONG / 2)
    assert time.monotonic() - begun < LONG / 4
    assert caught.value.retry_after_seconds > LONG / 2
    for each in first:
        each.cancel()
    await asyncio.gather(*first, return_exceptions=True)


async def test_who_comes_first_is_served_first(world: World) -> None:
    stand_still(world)
    limiter, _ = await world.process(default_limits=[FAST])
    await take(limiter, "e", "r", rpm=FAST.burst)
    order: list[int] = []

    async def caller(number: int) -> int:
        await waits(limiter)
        order.append(number)
        return world.clock.now_ms()

    callers = []
    for number in range(1, 31):
        callers.append(asyncio.create_task(caller(number)))
        await in_line(limiter, number)
    await until(lambda: world.clock.waiting == 30)
    assert await go_on(world, callers, 3, 0.01)
    served = await asyncio.gather(*callers)
    assert served == sorted(served)
    assert len({*served}) > 10, "they come one after the other"
    assert order == sorted(order) or world.variant == "sync", "threads of one instant go on in any order"


async def test_a_crowd_costs_about_one_request_for_each_admission(world: World) -> None:
    limiter, wire = await drained(world)
    await asyncio.gather(*(waits(limiter) for _ in range(60)))
    assert wire.sent().count("Update") <= 66


async def test_one_of_many_leaves_small_parts_of_shards_to_ripen(world: World) -> None:
    stand_still(world)
    limiter, wire = await world.process(default_limits=[Limit.per_second("rpm", 20)])
    await take(limiter, "e", "r", rpm=4)
    split_into(world, limiter, 4)
    for shard in range(4):  # 1 token of 5 stays on each
        aim_at(limiter, shard)
        await take(limiter, "e", "r", rpm=3)
    wire.sent()
    wire.hold(Update)
    alone = asyncio.ensure_future(waits(limiter, 2))
    await until(lambda: wire.in_flight == 2)
    others = [asyncio.ensure_future(waits(limiter, 2)) for _ in range(2)]
    await until(lambda: world.clock.waiting == 2)
    wire.let_go()
    assert await alone == 0
    assert await go_on(world, others, 2)
    assert wire.sent() == ["Update"] * 4


async def test_two_processes_grant_the_rate_and_no_more(world: World) -> None:
    limit, begun = Limit.per_second("rpm", 50), time.monotonic()
    one, other = await drained(world, limit), await world.process(default_limits=[limit], clock=SystemClock())
    await asyncio.gather(*(waits(process.limiter) for process in (one, other) for _ in range(25)))
    assert time.monotonic() - begun >= 50 / 50 - 0.1
    requests = len(one.wire.sent()) + len(other.wire.sent())
    assert requests <= 2 * 50  # `just bench waiting` measures it: here, the computer may be busy


async def test_another_process_does_not_change_the_order(world: World) -> None:
    if world.variant == "sync":
        pytest.skip("threads wake in any order")
    limit = Limit.per_second("rpm", 50)
    one, other = await drained(world, limit), await world.process(default_limits=[limit], clock=SystemClock())
    served: list[tuple[Process, int]] = []

    async def caller(process: Process, number: int) -> None:
        await waits(process.limiter, 1 if number else 20)
        served.append((process, number))

    first = [asyncio.ensure_future(caller(process, 0)) for process in (one, other)]
    for process in (one, other):
        await in_line(process.limiter, 1)
    await asyncio.gather(*first, *(caller(process, number) for number in range(1, 20) for process in (one, other)))
    for process in (one, other):
        assert [number for of, number in served if of is process] == list(range(20))


async def test_a_cancelled_waiter_leaves_nothing(world: World) -> None:
    if world.variant == "sync":
        pytest.skip("a thread cannot be cancelled")
    stand_still(world)
    limiter, _ = await world.process(default_limits=[Limit.per_second("rpm", 2)])
    await take(limiter, "e", "r", rpm=2)
    first, second = asyncio.create_task(waits(limiter, 2)), asyncio.create_task(waits(limiter, 1))
    await until(lambda: world.clock.waiting == 2)
    first.cancel()
    assert await go_on(world, [second], 1.9)
    assert await second > 0
    assert (await limiter.available("e", "r"))["rpm"] <= 1


async def test_a_child_waits_in_the_line_of_its_parent(world: World) -> None:
    limiter, _ = await world.process(clock=SystemClock())
    await limiter.create_entity("parent")
    await limiter.create_entity("a", parent_id="parent", cascade=True)
    await limiter.create_entity("b", parent_id="parent", cascade=True)
    await limiter.set_resource_defaults("r", [Limit.per_second("rpm", 1000)])
    await limiter.set_limits("parent", [Limit.per_second("rpm", 10)], resource="r")
    await take(limiter, "a", "r", rpm=10)
    waited = await asyncio.gather(*(waits(limiter, entity_id=each) for each in ("a", "b") * 5))
    assert sorted(waited)[4] > 0
    assert max(waited) < 5


async def family(world: World, *, own: Limit, of_parent: Limit) -> RateLimiter:
    """The children a and b of a parent; the buckets of a and of the parent are empty."""
    limiter, _ = await world.process(clock=SystemClock())
    await limiter.create_entity("parent")
    for child in ("a", "b"):
        await limiter.create_entity(child, parent_id="parent", cascade=True)
    await limiter.set_resource_defaults("r", [Limit.per_second("rpm", 1000)])
    await limiter.set_limits("a", [own], resource="r")
    await limiter.set_limits("parent", [of_parent], resource="r")
    await take(limiter, "a", "r", rpm=own.capacity)
    if of_parent.capacity > own.capacity:
        await take(limiter, "b", "r", rpm=of_parent.capacity - own.capacity)
    return limiter


async def test_who_comes_first_is_served_first_where_child_and_parent_are_short(world: World) -> None:
    if world.variant == "sync":
        pytest.skip("threads wake in any order")
    limiter = await family(world, own=Limit.per_second("rpm", 30), of_parent=Limit.per_second("rpm", 30))
    served: list[int] = []

    async def caller(number: int) -> None:
        await waits(limiter, 1 + number % 3, entity_id="a")
        served.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(caller(number))
            await asyncio.sleep(0.002)
    assert served == list(range(20))


async def test_a_crowd_of_one_child_does_not_hold_up_the_others_of_its_parent(world: World) -> None:
    limiter = await family(world, own=Limit.per_minute("rpm", 1), of_parent=Limit.per_second("rpm", 20))
    crowd = [asyncio.ensure_future(waits(limiter, entity_id="a", max_wait=600)) for _ in range(5)]
    await in_line(limiter, 5, "a")
    await asyncio.gather(*(waits(limiter, entity_id="b") for _ in range(10)))
    assert not any(each.done() for each in crowd)
    await limiter.close()
    assert all(isinstance(answer, RepositoryClosedError) for answer in await outcomes(*crowd))


async def test_who_waits_for_its_own_bucket_does_not_hold_up_who_waits_for_the_parent_before_it(world: World) -> None:
    limiter = await family(world, own=Limit.per_minute("rpm", 1), of_parent=Limit.per_second("rpm", 20))
    first = asyncio.ensure_future(waits(limiter, 10, entity_id="b"))
    await in_line(limiter, 1, "b")
    crowd = [asyncio.ensure_future(waits(limiter, entity_id="a", max_wait=600)) for _ in range(3)]
    await in_line(limiter, 3, "a")
    await asyncio.gather(first, *(waits(limiter, entity_id="b", max_wait=LONG / 2) for _ in range(10)))
    assert not any(each.done() for each in crowd)
    await limiter.close()
    await outcomes(*crowd)


async def test_a_crowd_shares_its_writes_though_each_takes_long(world: World) -> None:
    process = await drained(world, Limit.per_second("rpm", 200))
    process.wire.seconds = 0.05
    begun = time.monotonic()
    await asyncio.gather(*(waits(process.limiter) for _ in range(100)))
    seconds = time.monotonic() - begun  # 0.6 on an idle machine
    assert len(process.wire.sent()) <= 30 * max(1, seconds)  # one for each moment, and the refused ones


async def test_who_asks_for_shadow_limits_alone_is_admitted_behind_a_refused_one(world: World) -> None:
    limits = [FAST, Limit.per_second("tpm", 10, shadow=True)]
    limiter, wire = await world.process(default_limits=limits, clock=SystemClock(), rejection_staleness=0)
    await take(limiter, "e", "r", rpm=FAST.burst, tpm=1)
    wire.hold(Update)
    refused = asyncio.ensure_future(waits(limiter, FAST.burst))
    await until(lambda: wire.in_flight == 1)
    behind = asyncio.ensure_future(waits(limiter, limit="tpm"))
    await asyncio.sleep(0.05)
    wire.let_go()
    await behind
    await refused


async def test_a_lease_that_consumes_more_is_not_refused_with_another_one_before_it(world: World) -> None:
    limits = [Limit.custom("rpm", 3, refill_amount=1, refill_period=1), Limit.per_second("tpm", 1000)]
    limiter, wire = await world.process(default_limits=limits, clock=SystemClock(), rejection_staleness=0)
    await take(limiter, "e", "r", rpm=3)
    async with (
        limiter.acquire("e", "r", {"rpm": 1, "tpm": 1}, max_wait=LONG) as first,
        limiter.acquire("e", "r", {"rpm": 1, "tpm": 1}, max_wait=LONG) as second,
    ):
        wire.hold(Update)
        refused = asyncio.ensure_future(first.consume(rpm=3))
        await until(lambda: wire.in_flight == 1)
        behind = asyncio.ensure_future(second.consume(tpm=1))
        await asyncio.sleep(0.05)
        wire.let_go()
        with pytest.raises(RateLimitExceeded):
            await refused
        await behind


async def test_who_can_never_pass_is_refused_at_once_though_others_wait(world: World) -> None:
    limiter, _ = await drained(world)
    first = asyncio.ensure_future(waits(limiter, 5))
    await asyncio.sleep(0.02)
    with pytest.raises(RateLimitExceeded, match="can never pass"):
        await waits(limiter, 50)
    assert await waits(limiter) < LONG / 4
    await first


@pytest.mark.parametrize("changed", ["in this process", "in another one"])
async def test_a_whole_line_learns_that_its_limit_blocks_now(world: World, changed: str) -> None:
    process = await world.process(clock=SystemClock(), config_cache_ttl=1)
    admin = process if changed == "in this process" else await world.process(clock=SystemClock())
    await admin.limiter.set_resource_defaults("r", [Limit.per_minute("rpm", 1)])
    await take(process.limiter, "e", "r", rpm=1)
    line = [asyncio.ensure_future(waits(process.limiter, max_wait=600)) for _ in range(5)]
    await asyncio.sleep(0.05)
    await admin.limiter.set_resource_defaults("r", [Limit.custom("rpm", 0)])
    answers = await asyncio.wait_for(outcomes(*line), LONG)
    assert all(isinstance(each, RateLimitExceeded) and math.isinf(each.retry_after_seconds) for each in answers)
    with pytest.raises(RateLimitExceeded, match="is blocked"):
        await waits(process.limiter)


async def test_a_line_learns_that_its_limit_was_raised(world: World) -> None:
    process, admin = [await world.process(clock=SystemClock(), config_cache_ttl=1) for _ in range(2)]
    await admin.limiter.set_resource_defaults("r", [Limit.per_hour("rpm", 2)])
    await take(process.limiter, "e", "r", rpm=2)
    line = [asyncio.ensure_future(waits(process.limiter, max_wait=600_000)) for _ in range(3)]
    await asyncio.sleep(0.05)
    await admin.limiter.set_resource_defaults("r", [Limit.per_second("rpm", 1000)])
    assert len(await asyncio.wait_for(asyncio.gather(*line), LONG)) == 3


async def test_the_budget_of_an_acquire_does_not_run_while_it_waits(world: World) -> None:
    limiter, _ = await drained(world, Limit.per_second("rpm", 2), acquire_timeout=0.9)
    assert await waits(limiter, 2) > 0  # on an idle machine, a second


async def test_closing_ends_the_wait(world: World) -> None:
    limiter, _ = await drained(world, Limit.per_minute("rpm", 6))
    waiting = asyncio.ensure_future(waits(limiter, 6, max_wait=100))
    await asyncio.sleep(0.05)
    await limiter.close()
    [answer] = await outcomes(waiting)
    assert isinstance(answer, RepositoryClosedError)


@pytest.mark.parametrize("wrong", [-1, math.nan, "5", True, None])
async def test_a_wrong_max_wait_is_refused(world: World, wrong: Any) -> None:
    limiter, wire = await world.process(default_limits=[FAST])
    with pytest.raises(ValidationError, match="max_wait"):
        await waits(limiter, max_wait=wrong)
    assert not wire.sent()


def decorated(world: World, limiter: RateLimiter, function: Any, *arguments: Any, **options: Any) -> Any:
    """The function under ``limiter.limit``, to be awaited."""
    if world.variant == "async":

        @limiter.limit(*arguments, **options)
        @wraps(function)
        async def decorated(*args: Any) -> Any:
            return function(*args)

        return decorated
    limited = limiter._target.limit(*arguments, **options)(function)  # type: ignore[attr-defined]
    return wraps(limited)(partial(asyncio.to_thread, limited))


def use(user: str, tokens: int) -> str:
    """Use tokens."""
    return f"{user}: {tokens}"


async def test_a_decorated_function_runs_in_the_block_of_an_acquire(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.per_hour("rpm", 3)])
    call = decorated(world, limiter, use, lambda user, _: user, "r", lambda _, tokens: {"rpm": tokens})
    assert (call.__name__, call.__doc__) == ("use", "Use tokens.")
    assert await call("e", 2) == "e: 2"
    with pytest.raises(RateLimitExceeded):
        await call("e", 2)
    assert await call("other", 3) == "other: 3"


async def test_a_decorated_function_waits(world: World) -> None:
    limiter, _ = await drained(world)
    begun = time.monotonic()
    assert await decorated(world, limiter, time.monotonic, "e", "r", {"rpm": 2}, max_wait=LONG)() - begun > 0.01


async def test_a_function_of_the_other_variant_is_refused(world: World) -> None:
    limiter, _ = await world.process(default_limits=[FAST])
    target: Any = limiter if world.variant == "async" else limiter._target  # type: ignore[attr-defined]

    async def asynchronous() -> None: ...

    with pytest.raises(ValidationError, match="function"):
        target.limit("e", "r", {"rpm": 1})(use if world.variant == "async" else asynchronous)


async def test_a_function_that_yields_is_refused(world: World) -> None:
    limiter, _ = await world.process(default_limits=[FAST])
    target: Any = limiter if world.variant == "async" else limiter._target  # type: ignore[attr-defined]

    def generator() -> Iterator[int]:
        yield 1

    async def asynchronous() -> AsyncIterator[int]:
        yield 1

    for function in (generator, asynchronous):
        with pytest.raises(ValidationError, match="yields"):
            target.limit("e", "r", {"rpm": 1})(function)


async def test_a_wait_of_ages_has_no_bound(world: World) -> None:
    limiter, _ = await drained(world)
    assert await waits(limiter, max_wait=10**400) < LONG


@pytest.mark.parametrize("wait_ms", [1001, 1003, 2007, 4001])
def test_a_caller_may_wait_for_exactly_as_long_as_its_refusal_said(wait_ms: int) -> None:
    """1.001 s are 1000.9999999999999 ms."""
    clock = ManualClock(1_700_000_040_000 - wait_ms)  # so long before a minute begins
    limits = [Limit.per_minute("rpm", 1, window="calendar")]
    limiter = SyncRateLimiter(SyncRepository.in_memory(clock=clock), default_limits=limits)
    with limiter.acquire("e", "r", {"rpm": 1}):
        pass
    with pytest.raises(RateLimitExceeded) as caught, limiter.acquire("e", "r", {"rpm": 1}):
        pass
    with limiter.acquire("e", "r", {"rpm": 1}, max_wait=caught.value.retry_after_seconds) as lease:
        assert lease.waited == pytest.approx(wait_ms / 1000)
