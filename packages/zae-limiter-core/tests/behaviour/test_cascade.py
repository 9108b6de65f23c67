"""A child and its parent, in both variants."""
# ruff: noqa: PT012 - a block under a lease that raises takes more than one line

import asyncio

import pytest

from support.core.shards import aim_at, split_into
from support.core.worlds import Process, World, drain, outcomes, passes, take, until
from zae_limiter import Limit, RateLimitExceeded, ValidationError
from zae_limiter.operations.errors import OutcomeUnknown, Throttled, Unreachable
from zae_limiter.operations.values import Put, Transact, Update

CHILD = Limit.per_minute("rpm", 60)
PARENT = Limit.per_minute("rpm", 90)


async def family(world: World, *, cascade: bool = True, parent_limit: Limit = PARENT) -> Process:
    """A project of two keys; the project has limits of its own."""
    process = await world.process(default_limits=[CHILD])
    repository = process.repository
    await repository.create_entity("project")
    for key in ("key-1", "key-2"):
        await repository.create_entity(key, parent_id="project", cascade=cascade)
    await repository.set_limits("project", [parent_limit])
    process.wire.sent()
    return process


async def both(process: Process, child: str = "key-1") -> tuple[int, int]:
    """What the child and the project have."""
    limiter = process.limiter
    return (await limiter.available(child, "r"))["rpm"], (await limiter.available("project", "r"))["rpm"]


async def test_an_acquire_of_the_child_consumes_from_both_each_by_its_own_limits(world: World) -> None:
    it = await family(world)
    await take(it.limiter, "key-1", "r", rpm=10)
    assert await both(it) == (50, 80)
    assert await drain(it.limiter, "key-1", "r", "rpm", step=10) == 50
    assert await drain(it.limiter, "key-2", "r", "rpm", step=10) == 30  # the project is exhausted
    assert await both(it, "key-2") == (30, 0)


async def test_the_parent_by_itself_consumes_from_nobody_else(world: World) -> None:
    it = await family(world)
    await take(it.limiter, "project", "r", rpm=10)
    assert await both(it) == (60, 80)


@pytest.mark.parametrize("seen", ["unseen", "fresh", "stale"])
async def test_a_child_whose_parent_is_exhausted_keeps_its_tokens(world: World, seen: str) -> None:
    it = await family(world)
    if seen != "unseen":
        await take(it.limiter, "key-1", "r", rpm=1)
    other = await world.process(default_limits=[CHILD])
    await take(other.limiter, "project", "r", rpm=90 if seen == "unseen" else 89)
    world.clock.advance(ms=900 if seen == "fresh" else 0)
    before = await both(it) if seen == "fresh" else (60 if seen == "unseen" else 59, 0)
    with pytest.raises(RateLimitExceeded) as caught:
        await take(it.limiter, "key-1", "r", rpm=5)
    assert [(each.entity_id, each.exceeded) for each in caught.value.statuses] == [("key-1", False), ("project", True)]
    assert await both(it) == before
    item = world.bucket_of(it.limiter, "key-1", "r")
    assert item is None or (item["b_rpm_tc"], item["ev"]) == ((1000, 1) if seen != "unseen" else (0, 0))


async def test_a_parent_keeps_its_tokens_where_the_child_is_exhausted(world: World) -> None:
    it = await family(world)
    await take(it.limiter, "key-1", "r", rpm=60)
    other = await world.process(default_limits=[CHILD])  # knows nothing of it yet
    with pytest.raises(RateLimitExceeded) as caught:
        await take(other.limiter, "key-1", "r", rpm=5)
    assert {each.entity_id: each.available for each in caught.value.statuses} == {"key-1": 0, "project": 30}
    assert caught.value.primary_violation.entity_id == "key-1"
    assert await both(it) == (0, 30)


async def test_who_waits_for_both_waits_for_the_later(world: World) -> None:
    it = await family(world, parent_limit=Limit.per_hour("rpm", 90))
    await take(it.limiter, "key-1", "r", rpm=60)
    await take(it.limiter, "key-2", "r", rpm=30)
    with pytest.raises(RateLimitExceeded) as caught:
        await take(it.limiter, "key-1", "r", rpm=1)
    assert caught.value.retry_after_seconds == 40.0  # of the project: 90 an hour
    assert caught.value.primary_violation.entity_id == "project"
    assert await it.limiter.time_until_available("key-1", "r", {"rpm": 1}) == 40.0
    assert not (await it.limiter.check("key-2", "r", {"rpm": 1})).passes


async def test_a_fresh_refusal_of_a_parent_sends_nothing(world: World) -> None:
    it = await family(world)
    await take(it.limiter, "project", "r", rpm=90)
    assert not await passes(it.limiter, "key-1", "r", rpm=1)
    it.wire.sent()
    assert not await passes(it.limiter, "key-1", "r", rpm=1)
    assert it.wire.sent() == []


async def test_without_buckets_child_and_parent_are_made_in_one_transaction(world: World) -> None:
    it = await family(world)
    await take(it.limiter, "key-1", "r", rpm=10)
    kinds = it.wire.sent()
    assert kinds.count("Transact") == 1
    assert not {"Put", "Update"} & set(kinds)


async def test_warm_each_costs_one_write(world: World) -> None:
    it = await family(world)
    await take(it.limiter, "key-1", "r", rpm=1)
    it.wire.sent()
    world.meter.reset()
    await take(it.limiter, "key-1", "r", rpm=1)
    assert it.wire.sent() == ["Update", "Update"]
    assert (world.meter.write_units, world.meter.read_units) == (2, 0)


async def test_many_that_begin_at_once_take_from_both_exactly_what_they_ask(world: World) -> None:
    it = await family(world)
    results = await outcomes(*(take(it.limiter, "key-1", "r", rpm=2) for _ in range(20)))
    assert results == [None] * 20
    assert await both(it) == (20, 50)


async def test_another_process_that_makes_the_buckets_first_is_no_obstacle(world: World) -> None:
    it = await family(world)
    other = await world.process(default_limits=[CHILD])
    for process in (it, other):  # both learn that there are no buckets
        assert not await passes(process.limiter, "key-1", "r", rpm=61)
    await take(other.limiter, "key-1", "r", rpm=10)
    await take(it.limiter, "key-1", "r", rpm=10)
    assert await both(it) == (40, 70)


async def test_a_failed_body_gives_back_to_both(world: World) -> None:
    it = await family(world)
    with pytest.raises(RuntimeError):
        async with it.limiter.acquire("key-1", "r", {"rpm": 10}) as lease:
            await lease.consume(rpm=5)
            assert await both(it) == (45, 75)
            raise RuntimeError
    assert await both(it) == (60, 90)


async def test_consume_adjust_and_release_hold_for_both(world: World) -> None:
    it = await family(world)
    async with it.limiter.acquire("key-1", "r", {"rpm": 10}) as lease:
        await lease.consume(rpm=5)
        await lease.adjust(rpm=3)
        await lease.release(rpm=1)
        assert [each.entity_id for each in lease.statuses] == ["key-1", "project"]
    assert await both(it) == (43, 73)


@pytest.mark.parametrize("seen", ["here", "elsewhere"])
async def test_a_consume_in_the_block_that_the_parent_refuses_leaves_the_child_as_it_was(
    world: World, seen: str
) -> None:
    it = await family(world)
    other = it if seen == "here" else await world.process(default_limits=[CHILD])
    async with it.limiter.acquire("key-1", "r", {"rpm": 10}) as lease:
        await take(other.limiter, "project", "r", rpm=80)
        with pytest.raises(RateLimitExceeded):
            await lease.consume(rpm=1)
        assert await both(it) == (50, 0)


async def test_a_call_can_add_the_cascade(world: World) -> None:
    it = await family(world, cascade=False)
    await take(it.limiter, "key-1", "r", rpm=10)
    assert await both(it) == (50, 90)
    async with it.limiter.acquire("key-1", "r", {"rpm": 10}, cascade=True):
        pass
    assert await both(it) == (40, 80)


async def test_no_call_can_take_it_away(world: World) -> None:
    it = await family(world)
    async with it.limiter.acquire("key-1", "r", {"rpm": 10}, cascade=False):
        pass
    assert await both(it) == (50, 80)


async def test_limits_of_the_call_hold_for_both(world: World) -> None:
    it = await family(world)
    async with it.limiter.acquire("key-1", "r", {"tpm": 10}, [Limit.per_minute("tpm", 15)]):
        pass
    with pytest.raises(RateLimitExceeded) as caught:
        async with it.limiter.acquire("key-2", "r", {"tpm": 10}, [Limit.per_minute("tpm", 15)]):
            pass
    assert [(each.entity_id, each.available) for each in caught.value.statuses] == [("key-2", 15), ("project", 5)]


async def test_a_limit_that_only_one_of_both_has_is_taken_from_that_one(world: World) -> None:
    it = await family(world, parent_limit=Limit.per_minute("tpm", 100))
    async with it.limiter.acquire("key-1", "r", {"rpm": 1, "tpm": 30}):
        assert await it.limiter.available("key-1", "r") == {"rpm": 59}
        assert await it.limiter.available("project", "r") == {"tpm": 70}
    with pytest.raises(ValidationError, match=r"\(known: rpm, tpm\)"):
        await take(it.limiter, "key-1", "r", rps=1)


async def test_a_parent_that_the_first_amounts_do_not_name_stays_with_the_lease(world: World) -> None:
    it = await family(world, parent_limit=Limit.per_minute("tpm", 1000))
    await it.repository.set_limits("key-1", [CHILD, Limit.per_minute("tpm", 5000)])
    async with it.limiter.acquire("key-1", "r", {"rpm": 1}) as lease:
        await lease.consume(tpm=400)
        with pytest.raises(RateLimitExceeded) as caught:
            await lease.consume(tpm=601)
        assert caught.value.primary_violation.entity_id == "project"
        await lease.adjust(tpm=300)
    assert await it.limiter.available("key-1", "r") == {"rpm": 59, "tpm": 4300}
    assert await it.limiter.available("project", "r") == {"tpm": 300}
    async with it.limiter.acquire("key-1", "r", {"rpm": 1}) as lease:
        await lease.adjust(tpm=50)
    assert await it.limiter.available("project", "r") == {"tpm": 250}


async def test_amounts_of_zero_make_no_buckets(world: World) -> None:
    it = await family(world)
    await take(it.limiter, "key-1", "r", rpm=0)
    assert not {"Put", "Update", "Transact"} & set(it.wire.sent())
    assert await both(it) == (60, 90)


@pytest.mark.parametrize("error", [Unreachable("away"), OutcomeUnknown("slow")])
async def test_a_parent_whose_write_fails_leaves_nothing_consumed_that_was_confirmed(
    world: World, error: Unreachable | OutcomeUnknown
) -> None:
    it = await family(world)
    await take(it.limiter, "key-1", "r", rpm=1)
    project = it.repository.namespace_id + "/BUCKET#project#"

    class OnlyTheProject(type):
        def __instancecheck__(cls, operation: object) -> bool:
            return isinstance(operation, Update) and operation.key.pk.startswith(project)

    it.wire.break_once(error, on=OnlyTheProject("Project", (), {}))
    async with it.limiter.acquire("key-1", "r", {"rpm": 10}, on_unavailable="allow") as lease:
        assert lease.degraded
    assert await both(it) == (59, 89)


async def test_a_transaction_that_is_throttled_is_decided_again_on_each_side(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    it = await family(world)
    it.wire.break_down(Throttled("another transaction holds the item"), on=Transact)
    await take(it.limiter, "key-1", "r", rpm=10)
    assert await both(it) == (50, 80)
    assert caplog.records == []


async def test_a_transaction_whose_answer_is_lost_is_not_repeated(world: World) -> None:
    it = await family(world)
    it.wire.break_once(OutcomeUnknown("slow"), on=Transact, applied=True)
    async with it.limiter.acquire("key-1", "r", {"rpm": 10}, on_unavailable="allow") as lease:
        assert lease.degraded
    assert it.wire.sent().count("Transact") == 1
    assert await both(it) == (50, 80)  # may leak, never admits twice


async def test_an_acquire_that_is_cancelled_while_both_are_written_gives_back_to_both(async_world: World) -> None:
    it = await family(async_world)
    await take(it.limiter, "key-1", "r", rpm=1)
    it.wire.hold(Update)
    task = asyncio.create_task(take(it.limiter, "key-1", "r", rpm=10))
    await until(lambda: it.wire.in_flight == 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    it.wire.let_go()
    await it.limiter.repository.driver.drain()
    assert await both(it) == (59, 89)


async def test_so_does_one_that_is_cancelled_while_both_are_made(async_world: World) -> None:
    it = await family(async_world)
    it.wire.hold((Transact, Put))
    task = asyncio.create_task(take(it.limiter, "key-1", "r", rpm=10))
    await until(lambda: bool(it.wire.seen) and it.wire.holds(it.wire.seen[-1]))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    it.wire.let_go()
    await it.limiter.repository.driver.drain()
    assert await both(it) == (60, 90)


@pytest.mark.parametrize("end", ["rollback", "adjust"])
async def test_a_cancellation_in_the_turn_in_which_the_block_ends_leaves_no_side_out(
    async_world: World, end: str
) -> None:
    it = await family(async_world)

    async def work() -> None:
        async with it.limiter.acquire("key-1", "r", {"rpm": 10}) as lease:
            await lease.adjust(rpm=7)
            task = asyncio.current_task()
            assert task is not None
            asyncio.get_running_loop().call_soon(task.cancel)  # before a task that the exit makes has begun
            if end == "rollback":
                raise RuntimeError

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(work())
    await it.limiter.repository.driver.drain()
    assert await both(it) == ((60, 90) if end == "rollback" else (43, 73))


async def test_a_child_whose_shards_were_not_all_seen_is_not_said_never_to_pass(world: World) -> None:
    it = await family(world, parent_limit=Limit.per_minute("rpm", 100))
    await take(it.limiter, "key-1", "r", rpm=1)
    split_into(world, it.limiter, 4, "key-1")
    await take(it.limiter, "key-2", "r", rpm=60)  # leaves the project 39
    aim_at(it.limiter, 0)
    await take(it.limiter, "key-1", "r", rpm=1)  # sees that there are four, and one of them
    with pytest.raises(RateLimitExceeded) as caught:
        await take(it.limiter, "key-1", "r", rpm=40)
    child, parent = caught.value.statuses
    assert (child.entity_id, child.available, child.exceeded) == ("key-1", 58, False)
    assert (parent.entity_id, parent.available, parent.exceeded) == ("project", 38, True)
    assert caught.value.retry_after_seconds == pytest.approx(1.2, abs=0.001)
