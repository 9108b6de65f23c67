"""What waits for one bucket in one process goes in one write; tasks and threads alike."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from support.core.wires import Wire
from support.core.worlds import Process, World, outcomes, passes, take, until
from zae_limiter import Limit, RateLimiterUnavailable, RateLimitExceeded
from zae_limiter.exceptions import ContentionError
from zae_limiter.operations.errors import OutcomeUnknown, Unreachable
from zae_limiter.operations.values import BatchGet, Get, Operation, Put, Update

RPM = Limit.per_hour("rpm", 100)


async def warm_process(world: World, *, limit: Limit = RPM, **options: Any) -> Process:
    """A process that knows its bucket, of which one token is taken."""
    process = await world.process(default_limits=[limit], config_cache_ttl=10**6, **options)
    await take(process.limiter, "e", "r", rpm=1)
    process.wire.sent()
    return process


def waiting(it: Process) -> int:
    """How many wait in the queue of the bucket."""
    namespace_state = it.repository.namespace_state
    namespace_state = getattr(namespace_state, "_target", namespace_state)
    cached = namespace_state.cached_shards.get(("e", "r", 0))
    assert cached is not None
    return len(cached.waiting)


async def behind_a_write(it: Process, *amounts: int) -> list[asyncio.Task[None]]:
    """Acquires of so many tokens each: the first is in flight and held, the others queue behind it in order."""
    it.wire.hold(Update)
    tasks = [asyncio.create_task(take(it.limiter, "e", "r", rpm=amounts[0]))]
    await until(lambda: it.wire.in_flight == 1)
    for place, amount in enumerate(amounts[1:], start=1):
        tasks.append(asyncio.create_task(take(it.limiter, "e", "r", rpm=amount)))
        await until(lambda place=place: waiting(it) == place)  # type: ignore[misc]
    return tasks


async def results(it: Process, tasks: Sequence[asyncio.Task[Any]]) -> list[Any]:
    """Let go of what is held; how each fared."""
    it.wire.let_go()
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_what_queues_behind_a_write_goes_in_the_next_one(world: World) -> None:
    it = await warm_process(world)
    tasks = await behind_a_write(it, *[1] * 31)
    world.meter.reset()
    assert await results(it, tasks) == [None] * 31
    assert it.wire.sent() == ["Update", "Update"]
    assert world.meter.write_units == 2
    assert await it.limiter.available("e", "r") == {"rpm": 68}


async def test_each_gets_its_own_answer_first_come_first_served(world: World) -> None:
    it = await warm_process(world)
    tasks = await behind_a_write(it, 9, 50, 60, 30, 20)  # 90 are left for the last four
    nine, fifty, sixty, thirty, twenty = await results(it, tasks)
    assert [nine, fifty, thirty] == [None, None, None]
    assert [type(sixty), type(twenty)] == [RateLimitExceeded, RateLimitExceeded]
    assert (sixty.statuses[0].requested, sixty.statuses[0].available) == (60, 10)
    assert (twenty.statuses[0].requested, twenty.statuses[0].available) == (20, 10)
    assert sixty.retry_after_seconds > twenty.retry_after_seconds > 0
    assert await it.limiter.available("e", "r") == {"rpm": 10}
    assert it.wire.sent().count("Update") == 2


async def test_one_that_does_not_fit_does_not_block_a_smaller_one_behind_it(world: World) -> None:
    it = await warm_process(world)
    tasks = await behind_a_write(it, 40, 60, 59)
    assert [type(result) for result in await results(it, tasks)] == [type(None), RateLimitExceeded, type(None)]


@pytest.mark.parametrize("lost_race", [False, True])
async def test_what_others_took_meanwhile_is_refused_to_those_it_does_not_reach(
    world: World, *, lost_race: bool
) -> None:
    it = await warm_process(world)
    other = await world.process(default_limits=[RPM])
    tasks = await behind_a_write(it, 9, 30, 30, 30)
    if lost_race:
        it.wire.let_one_go()
        await until(lambda: waiting(it) == 0 and it.wire.in_flight == 1)  # one write for the three of them
    await take(other.limiter, "e", "r", rpm=50)
    fared = await results(it, tasks)
    assert [type(result) for result in fared] == [type(None), type(None), RateLimitExceeded, RateLimitExceeded]
    for refused in fared[2:]:
        assert [(each.available, each.exceeded) for each in refused.statuses] == [(10, True)]
    assert await it.limiter.available("e", "r") == {"rpm": 10}


async def test_an_amount_of_0_is_admitted_beside_a_debt_that_is_paid_and_made_again(world: World) -> None:
    tpm = Limit.per_hour("tpm", 100)
    it = await world.process(default_limits=[RPM, tpm], config_cache_ttl=10**6, rejection_staleness=0)

    async def corrects(by: int) -> None:
        async with it.limiter.acquire("e", "r", {"rpm": 20}) as lease:
            entered.append(lease)
            await leave.wait()
            await lease.adjust(rpm=by)

    entered: list[Any] = []
    leave = asyncio.Event()
    holders = [asyncio.create_task(corrects(by)) for by in (-15, 15)]
    await until(lambda: len(entered) == 2)
    async with it.limiter.acquire("e", "r", {"rpm": 60}) as lease:
        await lease.adjust(rpm=10)
    it.wire.sent()
    it.wire.hold(Update)
    tasks = [asyncio.create_task(take(it.limiter, "e", "r", tpm=1))]
    await until(lambda: it.wire.in_flight == 1)
    leave.set()
    await until(lambda: waiting(it) == 2)
    tasks.append(asyncio.create_task(take(it.limiter, "e", "r", rpm=0, tpm=1)))
    await until(lambda: waiting(it) == 3)
    assert await results(it, [*tasks, *holders]) == [None] * 4
    assert it.wire.sent() == ["Update", "Update"]
    assert await it.limiter.available("e", "r") == {"rpm": -10, "tpm": 98}


async def test_releases_and_rollbacks_ride_along_and_are_there_for_those_who_ask(world: World) -> None:
    it = await warm_process(world, rejection_staleness=0)

    async def hold_90(leave: asyncio.Event, *, fail: bool) -> None:
        async with it.limiter.acquire("e", "r", {"rpm": 45}) as lease:
            entered.append(lease)
            await leave.wait()
            if fail:
                raise ZeroDivisionError
            await lease.release(rpm=40)

    entered: list[Any] = []
    leave = asyncio.Event()
    holders = [asyncio.create_task(hold_90(leave, fail=fail)) for fail in (False, True)]
    await until(lambda: len(entered) == 2)
    it.wire.sent()
    tasks = await behind_a_write(it, 1)
    leave.set()
    await until(lambda: waiting(it) == 2)
    tasks.append(asyncio.create_task(take(it.limiter, "e", "r", rpm=90)))
    await until(lambda: waiting(it) == 3)
    fared = await results(it, [*tasks, *holders])
    assert [type(result) for result in fared] == [type(None), type(None), type(None), ZeroDivisionError]
    assert it.wire.sent() == ["Update", "Update"]
    assert await it.limiter.available("e", "r") == {"rpm": 100 - 1 - 5 - 1 - 90}


@pytest.mark.parametrize("error", [Unreachable("away"), OutcomeUnknown("slow")])
async def test_a_write_that_fails_fails_for_all_whom_it_carried_and_for_nobody_else(
    world: World, error: Unreachable | OutcomeUnknown
) -> None:
    it = await warm_process(world)
    tasks = await behind_a_write(it, 1, 2, 3)
    it.wire.break_once(error, on=Update)
    fared = await results(it, tasks)
    assert [type(result) for result in fared] == [RateLimiterUnavailable, type(None), type(None)]
    assert await it.limiter.available("e", "r") == {"rpm": 94}


async def test_a_run_that_breaks_leaves_nobody_waiting(world: World) -> None:
    it = await warm_process(world)
    tasks = await behind_a_write(it, 1, 2, 3)
    it.wire.break_once(ZeroDivisionError("a mistake of the store"), on=Update)
    broken, *others = await results(it, tasks)
    assert isinstance(broken, Exception)
    assert others == [None, None]
    assert await it.limiter.available("e", "r") == {"rpm": 94}


class Racing(Wire):
    """Another process moves the anchor of the bucket before each write."""

    def answer(self, operation: Operation[Any]) -> Any:
        if isinstance(operation, Update):
            item = self.table.execute(Get(operation.key))
            self.table.execute(Put({**item, "rf": item["rf"] + 1}))
        return super().answer(operation)


async def test_a_caller_that_loses_every_race_is_told_so_within_a_second(async_world: World) -> None:
    it = await warm_process(async_world, wire=Racing(async_world.table))
    begun = asyncio.get_running_loop().time()
    with pytest.raises(ContentionError):
        await take(it.limiter, "e", "r", rpm=1)
    assert asyncio.get_running_loop().time() - begun < 60, "on a busy machine, too"
    assert 3 <= len(it.wire.sent()) <= 20


async def test_buckets_do_not_wait_for_each_other(world: World) -> None:
    it = await warm_process(world)
    await take(it.limiter, "other", "r", rpm=1)
    it.wire.hold(Update)
    tasks = [asyncio.create_task(take(it.limiter, entity, "r", rpm=1)) for entity in ("e", "other")]
    await until(lambda: it.wire.in_flight == 2)
    assert await results(it, tasks) == [None, None]


async def test_a_bucket_that_nobody_knows_is_read_once_and_made_once_for_all_who_ask(world: World) -> None:
    it = await world.process(default_limits=[RPM])
    it.wire.hold(BatchGet)
    tasks = [asyncio.create_task(take(it.limiter, "e", "r", rpm=1)) for _ in range(20)]
    await until(lambda: it.wire.in_flight == 1)
    await asyncio.sleep(0.05)
    assert await results(it, tasks) == [None] * 20
    sent = it.wire.sent()
    assert (sent.count("BatchGet"), sent.count("Put")) == (1, 1)
    assert await it.limiter.available("e", "r") == {"rpm": 80}


async def test_call_sites_with_other_limits_are_not_mixed_into_one_write(world: World) -> None:
    it = await warm_process(world)
    more = Limit.per_hour("rpm", 200)

    async def take_under_more() -> None:
        async with it.limiter.acquire("e", "r", {"rpm": 100}, [more]):
            pass

    it.wire.hold(Update)
    tasks = [asyncio.create_task(take(it.limiter, "e", "r", rpm=1))]
    await until(lambda: it.wire.in_flight == 1)
    tasks.append(asyncio.create_task(take_under_more()))
    await until(lambda: waiting(it) == 1)
    tasks.append(asyncio.create_task(take(it.limiter, "e", "r", rpm=1)))
    await until(lambda: waiting(it) == 2)
    first, other, last = await results(it, tasks)
    assert (first, type(other), last) == (None, RateLimitExceeded, None)  # 98 were left: the tokens stay


async def test_a_crowd_takes_exactly_what_there_is(world: World) -> None:
    it = await warm_process(world, limit=Limit.custom("rpm", 100, refill_amount=1, refill_period=10**8))
    fared = await outcomes(*(passes(it.limiter, "e", "r", rpm=3) for _ in range(60)))
    assert fared.count(True) == 33
    assert await it.limiter.available("e", "r") == {"rpm": 0}


# cancellation, which only tasks have


async def test_a_caller_cancelled_in_the_queue_leaves_it(async_world: World) -> None:
    it = await warm_process(async_world)
    first, second, third = await behind_a_write(it, 1, 50, 60)
    second.cancel()
    await until(lambda: waiting(it) == 1)
    fared = await results(it, [first, second, third])
    assert [type(result) for result in fared] == [type(None), asyncio.CancelledError, type(None)]
    assert it.wire.sent() == ["Update", "Update"]  # nothing had to be given back
    assert await it.limiter.available("e", "r") == {"rpm": 38}


async def test_a_caller_cancelled_in_flight_gives_back_and_the_others_of_its_write_keep_theirs(
    async_world: World,
) -> None:
    it = await warm_process(async_world)
    first, *others = await behind_a_write(it, 1, 20, 30)
    it.wire.let_one_go()
    await first
    await until(lambda: it.wire.in_flight == 1)  # the two others, in one write
    assert waiting(it) == 0
    others[0].cancel()
    fared = await results(it, others)
    assert [type(result) for result in fared] == [asyncio.CancelledError, type(None)]
    await it.limiter.repository.driver.drain()
    assert await it.limiter.available("e", "r") == {"rpm": 68}


async def test_cancelling_the_one_that_started_the_write_does_not_cancel_it(async_world: World) -> None:
    it = await warm_process(async_world)
    first, second = await behind_a_write(it, 10, 20)
    first.cancel()
    fared = await results(it, [first, second])
    assert [type(result) for result in fared] == [asyncio.CancelledError, type(None)]
    await it.limiter.repository.driver.drain()
    assert await it.limiter.available("e", "r") == {"rpm": 79}


async def test_all_cancelled_at_once_leave_the_bucket_as_it_was(async_world: World) -> None:
    it = await warm_process(async_world)
    tasks = await behind_a_write(it, 10, 20, 30)
    for task in tasks:
        task.cancel()
    fared = await results(it, tasks)
    assert [type(result) for result in fared] == [asyncio.CancelledError] * 3
    await it.limiter.repository.driver.drain()
    assert await it.limiter.available("e", "r") == {"rpm": 99}


async def test_what_gives_back_stays_in_the_queue_though_its_caller_is_cancelled(async_world: World) -> None:
    it = await warm_process(async_world)
    inside, leave = asyncio.Event(), asyncio.Event()

    async def fail_in_the_block() -> None:
        async with it.limiter.acquire("e", "r", {"rpm": 10}):
            inside.set()
            await leave.wait()
            raise ZeroDivisionError

    task = asyncio.create_task(fail_in_the_block())
    await inside.wait()
    [first] = await behind_a_write(it, 1)
    leave.set()
    await until(lambda: waiting(it) == 1)
    task.cancel()
    fared = await results(it, [first, task])
    assert [type(result) for result in fared] == [type(None), asyncio.CancelledError]
    await it.limiter.repository.driver.drain()
    assert await it.limiter.available("e", "r") == {"rpm": 98}


async def test_a_time_out_around_an_acquire_gives_back(async_world: World) -> None:
    it = await warm_process(async_world)
    it.wire.hold(Update)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await take(it.limiter, "e", "r", rpm=10)
    it.wire.let_go()
    await it.limiter.repository.driver.drain()
    assert await it.limiter.available("e", "r") == {"rpm": 99}
