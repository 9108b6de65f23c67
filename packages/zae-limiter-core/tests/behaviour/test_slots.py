"""Slots by the limiter, in both variants: taken at the begin of a lease, free at its end, lost with a lost holder."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.core.owners import maintenance_of
from support.core.worlds import World, take
from zae_limiter import (
    Draw,
    Limit,
    RateLimiter,
    RateLimiterUnavailable,
    RateLimitExceeded,
    Repository,
    SyncRateLimiter,
    SyncRepository,
    ValidationError,
)
from zae_limiter.flows.bucket.splitting import split_shard
from zae_limiter.flows.steps import play
from zae_limiter.observers import Event, LeaseEvent
from zae_limiter.operations.errors import OutcomeUnknown, Unreachable
from zae_limiter.operations.values import Get, Key, Operation
from zae_limiter.schema import keys
from zae_limiter.schema.items import BucketId

SLOTS = Limit.concurrent("parallel", 2, expires=60)
LIMITS = [Limit.per_minute("rpm", 100), SLOTS]
ONE = {"rpm": 1, "parallel": 1}


async def opened(world: World, limits: list[Limit] = LIMITS, **options: Any) -> RateLimiter:
    limiter = (await world.process(**options)).limiter
    await limiter.set_resource_defaults("r", limits)
    return limiter


async def free_slots(limiter: RateLimiter) -> int:
    bucket = await limiter.repository.get_bucket("e", "r")
    assert bucket is not None
    return next(each.available for each in bucket.limits if each.limit.name == "parallel")


async def refused(limiter: RateLimiter, **consume: int) -> RateLimitExceeded:
    with pytest.raises(RateLimitExceeded) as caught:
        await take(limiter, "e", "r", **consume)
    return caught.value


async def test_a_slot_is_held_until_the_end_of_the_block(world: World) -> None:
    limiter = await opened(world)
    async with limiter.acquire("e", "r", ONE) as first:
        assert {each.limit_name: each.available for each in first.statuses} == {"rpm": 99, "parallel": 1}
        async with limiter.acquire("e", "r", ONE):
            error = await refused(limiter, **ONE)
            assert (error.primary_violation.limit_name, error.retry_after_seconds) == ("parallel", 1.0)
        assert await free_slots(limiter) == 1
    assert await free_slots(limiter) == 2


async def test_a_call_is_two_writes_whatever_it_settles(world: World) -> None:
    process = await world.process()
    limiter = process.limiter
    await limiter.set_resource_defaults("r", LIMITS)
    await take(limiter, "e", "r", **ONE)
    process.wire.sent()
    async with limiter.acquire("e", "r", ONE) as lease:
        await lease.adjust(rpm=3)
    assert process.wire.sent() == ["Update", "Update"]
    bucket = await limiter.repository.get_bucket("e", "r")
    assert bucket is not None
    assert {each.limit.name: each.consumed for each in bucket.limits} == {"rpm": 5, "parallel": 2}


async def test_a_block_that_raises_frees_its_slots(world: World) -> None:
    limiter = await opened(world)
    with pytest.raises(ZeroDivisionError):
        async with limiter.acquire("e", "r", {"rpm": 1, "parallel": 2}):
            _ = 1 / 0
    assert await free_slots(limiter) == 2


async def test_rates_that_are_short_take_no_slot(world: World) -> None:
    limiter = await opened(world)
    await refused(limiter, rpm=101, parallel=1)
    await refused(limiter, rpm=1, parallel=3)
    await take(limiter, "e", "r", rpm=100)
    assert await free_slots(limiter) == 2


async def test_a_slot_of_the_parent_comes_back_if_the_own_bucket_refuses(world: World) -> None:
    limiter = await opened(world)
    await limiter.create_entity("p")
    await limiter.create_entity("e", parent_id="p", cascade=True)
    await limiter.set_limits("p", [Limit.concurrent("parallel", 1)], resource="r")
    async with limiter.acquire("e", "r", ONE):
        error = await refused(limiter, **ONE)
        assert error.primary_violation.entity_id == "p"
        assert await free_slots(limiter) == 1
    async with limiter.acquire("e", "r", ONE):
        pass


async def test_release_frees_a_slot_at_once(world: World) -> None:
    limiter = await opened(world)
    async with limiter.acquire("e", "r", {"parallel": 2}) as lease:
        await lease.release(parallel=1)
        assert await free_slots(limiter) == 1
        assert lease.consumed == {"parallel": 1}
        with pytest.raises(ValidationError, match="the lease holds 1"):
            await lease.release(parallel=2)
        await lease.consume(parallel=1)
        assert await free_slots(limiter) == 0
    assert await free_slots(limiter) == 2


async def test_a_release_of_more_slots_than_there_are_gives_nothing_else_back(world: World) -> None:
    limiter = await opened(world)
    async with limiter.acquire("e", "r", {"parallel": 1, "rpm": 10}) as lease:
        with pytest.raises(ValidationError, match="release 'parallel=2': the lease holds 1"):
            await lease.release(rpm=4, parallel=2)
        assert lease.consumed == {"parallel": 1, "rpm": 10}
    assert await limiter.available("e", "r") == {"parallel": 2, "rpm": 90}


async def test_slots_are_not_corrected(world: World) -> None:
    limiter = await opened(world)
    async with limiter.acquire("e", "r", ONE) as lease:
        for correct in (lease.adjust, lease.settle):
            with pytest.raises(ValidationError, match="has slots, which are not corrected"):
                await correct(parallel=1)
    with pytest.raises(ValidationError, match="has slots, which come back from their holders"):
        await limiter.repository.credit_bucket("e", "r", {"parallel": 1})


async def test_the_slots_of_a_lost_holder_come_back_between_expires_and_twice_that(world: World) -> None:
    lost = await opened(world)
    other = (await world.process()).limiter
    lease = lost.acquire("e", "r", {"parallel": 2})
    await lease.__aenter__()
    world.clock.advance(seconds=60)
    await refused(other, parallel=1)
    assert not lease.lost_slots
    world.clock.advance(seconds=60)
    assert await free_slots(other) == 2
    assert lease.lost_slots == ("parallel",)
    async with other.acquire("e", "r", {"parallel": 2}):
        await lease.__aexit__(None, None, None)  # it wakes, and takes nothing from the new holder
        assert lease.lost_slots == ("parallel",)
        assert await free_slots(other) == 0
    assert await free_slots(other) == 2


async def test_a_long_block_renews_its_slots(world: World) -> None:
    limiter = await opened(world, [Limit.concurrent("parallel", 1, expires=1)], clock=None)
    other = (await world.process(clock=None)).limiter
    async with limiter.acquire("e", "r", {"parallel": 1}) as lease:
        for _ in range(15):
            await asyncio.sleep(0.25)
            await refused(other, parallel=1)
        assert lease.lost_slots == ()
    async with other.acquire("e", "r", {"parallel": 1}, max_wait=2):
        pass


async def test_a_slot_ends_with_max_hold_and_its_holder_takes_nothing_from_the_next(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    limits = [Limit.per_minute("rpm", 100), Limit.concurrent("parallel", 1)]
    limiter = await opened(world, limits, clock=None)
    other = (await world.process(clock=None)).limiter
    lease = limiter.acquire("e", "r", ONE, max_hold=1.5)
    await lease.__aenter__()
    await refused(other, parallel=1)
    assert not lease.lost_slots
    async with other.acquire("e", "r", {"parallel": 1}, max_wait=20) as next_one:
        assert lease.lost_slots == ("parallel",)
        with pytest.raises(RateLimitExceeded):
            await lease.consume(parallel=1)
        await lease.__aexit__(None, None, None)
        assert await free_slots(other) == 0
        assert next_one.lost_slots == ()
    assert await free_slots(other) == 1
    assert "slots of parallel are free for others" in caplog.text


async def test_observers_are_told_of_a_slot_that_ended() -> None:
    ends: list[LeaseEvent] = []

    def note(event: Event) -> None:
        if isinstance(event, LeaseEvent):
            ends.append(event)

    limiter = RateLimiter(Repository.in_memory(), default_limits=[Limit.concurrent("parallel", 1)], observers=[note])
    async with (
        limiter.acquire("e", "r", {"parallel": 1}, max_hold=0.3),
        limiter.acquire("e", "r", {"parallel": 1}, max_wait=20),
    ):
        pass
    assert [event.lost_slots for event in ends] == [(), ("parallel",)]


async def test_slots_of_one_bucket_end_each_at_its_own_time(world: World) -> None:
    limiter = await opened(world, [Limit.concurrent("parallel", 4)], clock=None)
    async with (
        limiter.acquire("e", "r", {"parallel": 1}) as unbound,
        limiter.acquire("e", "r", {"parallel": 1}, max_hold=60) as late,
        limiter.acquire("e", "r", {"parallel": 1}, max_hold=0.4) as early,
        limiter.acquire("e", "r", {"parallel": 1}, max_hold=3) as later,
        limiter.acquire("e", "r", {"parallel": 1}, max_wait=20),
    ):
        assert [each.lost_slots for each in (unbound, late, early, later)] == [(), (), ("parallel",), ()]
        async with limiter.acquire("e", "r", {"parallel": 1}, max_wait=20):
            assert [each.lost_slots for each in (unbound, late, later)] == [(), (), ("parallel",)]
            await refused(limiter, parallel=1)
    assert await free_slots(limiter) == 4


async def test_slots_of_parents_and_draws_end_with_max_hold(world: World) -> None:
    limiter = await opened(world, [Limit.concurrent("parallel", 1)], clock=None)
    await limiter.create_entity("p")
    await limiter.create_entity("e", parent_id="p", cascade=True)
    await limiter.create_entity("other", parent_id="p", cascade=True)
    draws = [Draw("drawn")]
    async with (
        limiter.acquire("e", "r", {"parallel": 1}, draws=draws, max_hold=0.5) as lease,
        limiter.acquire("other", "r", {"parallel": 1}, draws=draws, max_wait=20),
    ):
        assert lease.lost_slots == ("parallel",)


@pytest.mark.parametrize("seconds", [0, -1, True, "5", float("nan")])
def test_a_slot_cannot_end_before_it_begins(seconds: Any) -> None:
    limiter = SyncRateLimiter(SyncRepository.in_memory(), default_limits=LIMITS)
    with pytest.raises(ValidationError, match="must be a number of seconds above 0"):
        limiter.acquire("e", "r", ONE, max_hold=seconds)


async def test_slots_that_no_write_could_free_come_back_even_if_the_lease_is_kept(world: World) -> None:
    limits = [Limit.concurrent("parallel", 1, expires=1)]
    limiter, wire = await world.process(clock=None, default_limits=limits)
    other, _ = await world.process(clock=None, default_limits=limits)
    async with limiter.acquire("e", "r", {"parallel": 1}) as lease:
        cached = limiter.repository.namespace_state.cached_shards.get(("e", "r", 0))
        assert cached is not None
        cached.state = None  # as if another queue had made the bucket: it has to be read before a write
        wire.break_down(OutcomeUnknown("no answer"), on=Get)
        wire.sent()
    assert {*wire.sent()} == {"Get"}
    async with other.acquire("e", "r", {"parallel": 1}, max_wait=20):
        assert lease.consumed == {"parallel": 1}


async def test_a_release_wakes_those_that_wait_in_their_order(world: World) -> None:
    limiter = await opened(world, [Limit.concurrent("parallel", 1)], clock=None)
    order: list[int] = []

    async def waiting(number: int) -> None:
        await asyncio.sleep(number / 20)
        async with limiter.acquire("e", "r", {"parallel": 1}, max_wait=20) as lease:
            order.append(number)
            assert lease.waited > 0

    async with limiter.acquire("e", "r", {"parallel": 1}):
        tasks = [asyncio.ensure_future(waiting(number)) for number in range(1, 6)]
        await asyncio.sleep(0.6)
        assert order == []
    await asyncio.gather(*tasks)
    assert order == [1, 2, 3, 4, 5]


async def test_more_or_fewer_slots_leave_holders_theirs(world: World) -> None:
    limiter = await opened(world)
    async with limiter.acquire("e", "r", {"parallel": 2}):
        await limiter.set_resource_defaults("r", [Limit.concurrent("parallel", 5, expires=60)])
        await maintenance_of(limiter.repository).invalidate_live_buckets("r")
        async with limiter.acquire("e", "r", {"parallel": 3}):
            await limiter.set_resource_defaults("r", [Limit.concurrent("parallel", 3, expires=20)])
            await maintenance_of(limiter.repository).invalidate_live_buckets("r")
            await refused(limiter, parallel=1)
        async with limiter.acquire("e", "r", {"parallel": 1}):
            await refused(limiter, parallel=1)
    async with limiter.acquire("e", "r", {"parallel": 3}):
        await refused(limiter, parallel=1)
    assert await free_slots(limiter) == 3


@pytest.mark.parametrize(("slots", "free"), [(5, 3), (1, -1)])
async def test_more_or_fewer_slots_are_told_before_anybody_takes_one(world: World, slots: int, free: int) -> None:
    limiter = await opened(world)
    async with limiter.acquire("e", "r", {"parallel": 2}):
        await limiter.set_resource_defaults("r", [Limit.concurrent("parallel", slots, expires=60)])
        found = await limiter.explain("e", "r", {"parallel": 1})
        (told,) = found.buckets[0].limits
        assert (told.refuses, told.available) == (free < 1, free)


async def test_a_total_becomes_slots_and_slots_become_a_rate(world: World) -> None:
    limiter = await opened(world, [Limit.total("parallel", 4)])
    await take(limiter, "e", "r", parallel=3)
    async with limiter.acquire("e", "r", {"parallel": 2}, limits=[Limit.concurrent("parallel", 2)]):
        async with limiter.acquire("e", "r", {"parallel": 0}, limits=[Limit.per_minute("parallel", 5)]):
            pass
        await take(limiter, "e", "r", parallel=0)
    pk = keys.pk_bucket(limiter.repository.namespace_id, "e", "r", 0)
    assert world.table.execute(Get(Key(pk, keys.sk_state()))) is not None


async def test_a_total_that_becomes_slots_is_shown_as_its_next_write_has_it(world: World) -> None:
    limiter = await opened(world)
    await limiter.set_limits("e", [Limit.total("parallel", 4)], "r")
    await take(limiter, "e", "r", parallel=4)
    await limiter.set_limits("e", [Limit.concurrent("parallel", 3)], "r")
    bucket = await limiter.repository.get_bucket("e", "r")
    assert bucket is not None
    assert bucket.available == await limiter.available("e", "r") == {"parallel": 3}
    assert (await limiter.check("e", "r", {"parallel": 3})).passes
    await take(limiter, "e", "r", parallel=3)


async def test_a_reset_leaves_slots_with_their_holders(world: World) -> None:
    limiter = await opened(world)
    async with limiter.acquire("e", "r", ONE):
        assert await limiter.repository.reset_bucket("e", "r")
        assert await free_slots(limiter) == 1
    assert await free_slots(limiter) == 2


async def test_slots_of_a_block_that_outlives_its_repository_expire(world: World) -> None:
    limiter = await opened(world)
    other = (await world.process()).limiter
    lease = limiter.acquire("e", "r", {"parallel": 2})
    await lease.__aenter__()
    await limiter.repository.close()
    await lease.__aexit__(None, None, None)
    assert await free_slots(other) == 0
    world.clock.advance(seconds=120)
    assert await free_slots(other) == 2


async def test_a_cancelled_caller_leaves_no_slot_taken(async_world: World) -> None:
    limiter = await opened(async_world)

    async def body() -> None:
        async with limiter.acquire("e", "r", {"parallel": 2}):
            await asyncio.sleep(60)

    for pause in (0, 0, 0.05):
        task = asyncio.ensure_future(body())
        await asyncio.sleep(pause)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0.01)
    async with limiter.acquire("e", "r", {"parallel": 2}):
        assert await free_slots(limiter) == 0


async def test_slots_go_with_prefetched_limits(world: World) -> None:
    limiter = await opened(world, [Limit.per_minute("rpm", 6000, prefetch=1.0), SLOTS])
    for _ in range(10):
        await take(limiter, "e", "r", rpm=1)
    async with limiter.acquire("e", "r", ONE):
        assert await free_slots(limiter) == 1
    assert await free_slots(limiter) == 2


async def test_a_bucket_of_several_shards_has_its_slots_whole(world: World) -> None:
    process = await world.process()
    limiter = process.limiter
    await limiter.set_resource_defaults("r", [Limit.per_minute("rpm", 100)])
    await take(limiter, "e", "r", rpm=1)
    state = limiter.repository.namespace_state
    play(split_shard(state, BucketId(limiter.repository.namespace_id, "e", "r")), _performing(world))
    await limiter.set_resource_defaults("r", LIMITS)
    await maintenance_of(limiter.repository).invalidate_live_buckets("r")
    async with limiter.acquire("e", "r", {"rpm": 80, "parallel": 1}), limiter.acquire("e", "r", ONE):
        await refused(limiter, **ONE)
    assert await free_slots(limiter) == 2


async def test_a_bucket_with_slots_does_not_split(world: World) -> None:
    limiter = await opened(world)
    await take(limiter, "e", "r", **ONE)
    state, bucket = limiter.repository.namespace_state, BucketId(limiter.repository.namespace_id, "e", "r")
    assert play(split_shard(state, bucket), _performing(world)) == 0


def _performing(world: World) -> Callable[[Any], Any]:
    return lambda step: world.table.execute(step) if isinstance(step, Operation) else None


async def test_shadow_slots_refuse_nobody_and_are_freed(world: World) -> None:
    limiter = await opened(world, [Limit.concurrent("parallel", 1, shadow=True)])
    async with limiter.acquire("e", "r", {"parallel": 1}) as first:
        assert first.shadowed == ()
        async with limiter.acquire("e", "r", {"parallel": 1}) as second:
            assert [each.limit_name for each in second.shadowed] == ["parallel"]
    assert await free_slots(limiter) == 1


async def test_nobody_counts_slots_without_the_store(world: World) -> None:
    process = await world.process(on_unavailable="share")
    await process.limiter.set_resource_defaults("r", LIMITS)
    await take(process.limiter, "e", "r", **ONE)
    process.wire.break_down(Unreachable("away"))
    with pytest.raises(RateLimiterUnavailable):
        await take(process.limiter, "e", "r", **ONE)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"expires": 0}, "must be whole seconds"),
        ({"expires": 1.5}, "must be whole seconds"),
        ({"expires": 86_401}, "must be whole seconds"),
        ({"expires": True}, "must be whole seconds"),
    ],
)
def test_bad_slots_are_refused(values: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Limit.concurrent("parallel", 5, **values)


@pytest.mark.parametrize(
    "values",
    [
        {"prefetch": 1.0},
        {"burst": 9},
        {"weights": {"input": 1}},
        {"refill_amount": 3},
        {"refill_period": 5},
        {"window": "day"},
    ],
)
def test_what_means_nothing_for_slots_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Limit.custom("parallel", 5, kind="concurrent", **values)
    with pytest.raises(ValidationError, match="belongs to a total or to concurrent slots"):
        Limit.custom("rpm", 5, expires=60)


def test_slots_are_written_and_read_in_every_form() -> None:
    limit = Limit.concurrent("parallel", 5)
    assert str(limit) == "parallel: 5 concurrent"
    for each in (limit, Limit.concurrent("parallel", 3, expires=90, shadow=True)):
        assert Limit.parse(str(each)) == each == Limit.from_dict(each.to_dict())
    assert Limit.from_dict({"name": "parallel", "capacity": 5, "kind": "concurrent"}) == limit


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_frees_no_slot_of_its_parent(tmp_path: Path) -> None:
    limits = [Limit.concurrent("parallel", 1)]
    with SyncRateLimiter(SyncRepository.sqlite(tmp_path / "limits.db"), default_limits=limits) as limiter:
        with limiter.acquire("e", "r", {"parallel": 1}) as lease:
            child = os.fork()
            if child == 0:
                try:
                    lease.release(parallel=1)
                finally:
                    os._exit(0)
            os.waitpid(child, 0)
            assert limiter.available("e", "r") == {"parallel": 0}
        assert limiter.available("e", "r") == {"parallel": 1}
