"""When a bucket is split, who waits for it, and an anchor that a wrong clock has set; in both variants."""

import asyncio
import logging
from email.utils import formatdate
from typing import Any

import pytest

from support.core.shards import aim_at, played, shard_items, split, split_into
from support.core.worlds import World, outcomes, passes, take, until
from zae_limiter import Limit, RateLimiter, RateLimitExceeded
from zae_limiter.clock.system import SystemClock
from zae_limiter.flows.bucket.splitting import split_shard
from zae_limiter.flows.process.namespace_state import NamespaceState, Settings
from zae_limiter.flows.steps import Log, play
from zae_limiter.operations.errors import (
    Conflict,
    OutcomeUnknown,
    Reason,
    StoreError,
    Throttled,
    TransactionCancelled,
    Unreachable,
)
from zae_limiter.operations.values import BatchGet, Key, Transact, Update
from zae_limiter.schema.items import BucketId

HOT_KEY = ("TableWriteKeyRangeThroughputExceeded",)
DAILY = Limit.per_day("rpm", 100_000)
SECOND = Limit.per_second("rpm", 100)


async def drive(world: World, limiter: RateLimiter, per_second: int, *, seconds: int = 1) -> None:
    """Write the bucket so often, and once more when the time is over."""
    for _ in range(seconds):
        for _ in range(per_second):
            await take(limiter, "e", "r", rpm=1)
        world.clock.advance(1)
    await take(limiter, "e", "r", rpm=1)


def shard_count(world: World, limiter: RateLimiter) -> int:
    return int(shard_items(world, limiter)[0]["shard_count"])


async def test_a_bucket_that_is_written_more_often_than_the_threshold_is_split(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    limiter, _ = await world.process(default_limits=[DAILY], split_above=20)
    with caplog.at_level(logging.INFO, logger="zae_limiter"):
        await drive(world, limiter, 21)
    assert shard_count(world, limiter) == 2
    assert "shard 0 of bucket e/r was split: it is one of 2 now" in caplog.text
    assert await limiter.available("e", "r") == {
        "rpm": 100_000 - 22 + 1
    }  # a little more than one is minted in a second


async def test_one_that_is_written_as_often_as_the_threshold_is_not(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DAILY], split_above=20)
    await drive(world, limiter, 20, seconds=3)
    assert shard_count(world, limiter) == 1


async def test_all_processes_together_count(world: World) -> None:
    processes = [(await world.process(default_limits=[DAILY], split_above=20)).limiter for _ in range(3)]
    for limiter in processes:
        await take(limiter, "e", "r", rpm=1)
    for _ in range(10):
        for limiter in processes:
            await take(limiter, "e", "r", rpm=1)
    world.clock.advance(1)
    await take(processes[0], "e", "r", rpm=1)
    assert shard_count(world, processes[0]) == 2


async def test_a_shard_that_stays_hot_is_split_again_shard_0_first(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DAILY], split_above=5)
    await drive(world, limiter, 100, seconds=8)
    counts = {shard: item["shard_count"] for shard, item in shard_items(world, limiter).items()}
    assert counts[0] == max(counts.values()) >= 8


class SetClock:
    """A clock that somebody sets."""

    at_ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.at_ms


async def test_a_clock_that_is_set_back_makes_no_bucket_hot(world: World) -> None:
    clock = SetClock()
    limiter, _ = await world.process(default_limits=[DAILY], split_above=20, clock=clock)
    other, _ = await world.process(default_limits=[DAILY])
    await take(other, "e", "r", rpm=1)
    clock.at_ms += 3_600_000
    await take(limiter, "e", "r", rpm=1)
    clock.at_ms -= 3_600_000
    for _ in range(25):
        await take(other, "e", "r", rpm=1)
    for _ in range(2):
        await take(limiter, "e", "r", rpm=1)
        clock.at_ms += 1_000
    assert shard_count(world, limiter) == 1


async def test_what_was_written_before_another_process_split_the_bucket_makes_its_half_no_hotter(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DAILY], split_above=20)
    other, _ = await world.process(default_limits=[DAILY])
    for each in (limiter, *[other] * 25):
        await take(each, "e", "r", rpm=1)
    split(world, limiter, "e", "r")
    aim_at(limiter, 0)
    world.clock.advance(1)
    await take(limiter, "e", "r", rpm=1)
    assert shard_count(world, limiter) == 2


async def test_a_key_that_is_throttled_is_split_at_a_tenth_of_the_threshold(world: World) -> None:
    limiter, wire = await world.process(default_limits=[DAILY], split_above=200)
    await take(limiter, "e", "r", rpm=1)
    wire.break_once(Throttled("slow down", HOT_KEY), on=Update)
    await drive(world, limiter, 21)
    assert shard_count(world, limiter) == 2


@pytest.mark.parametrize(
    ("error", "per_second"),
    [
        (Throttled("slow down", HOT_KEY), 10),  # an idle key is not the cause
        (Throttled("slow down", ("TableWriteAccountLimitExceeded",)), 150),
        (Throttled("slow down", ("TableWriteMaxOnDemandThroughputExceeded",)), 150),
        (Throttled("slow down", ("TableWriteProvisionedThroughputExceeded",)), 150),
        (Throttled("slow down", ("IndexWriteKeyRangeThroughputExceeded",)), 150),
        (Throttled("slow down"), 150),  # no reason is given: the rate decides alone
        (Conflict("another transaction"), 150),
    ],
)
async def test_only_a_throttled_key_that_is_written_often_is_split_early(
    world: World, error: StoreError, per_second: int
) -> None:
    limiter, wire = await world.process(default_limits=[DAILY], split_above=200)
    await take(limiter, "e", "r", rpm=1)
    wire.break_once(error, on=Update)
    await drive(world, limiter, per_second)
    assert shard_count(world, limiter) == 1


@pytest.mark.parametrize("error", [OutcomeUnknown("no answer"), Unreachable("no"), Throttled("slow down")])
async def test_a_split_that_fails_is_nobodys_loss_and_is_tried_again(
    world: World, error: StoreError, caplog: pytest.LogCaptureFixture
) -> None:
    limiter, wire = await world.process(default_limits=[DAILY], split_above=20)
    wire.break_down(error, on=Transact)
    await drive(world, limiter, 25)
    await until(lambda: "bucket e/r is written too often, but could not be split" in caplog.text)
    assert shard_count(world, limiter) == 1
    wire.repair()
    world.clock.advance(2)  # the copies of a lost write have opened the breaker
    await drive(world, limiter, 40)  # the pauses of the split that failed were in the time of the clock, too
    assert shard_count(world, limiter) == 2


async def test_a_split_whose_answer_was_lost_is_found_done(world: World) -> None:
    limiter, wire = await world.process(default_limits=[DAILY], split_above=20)
    wire.break_once(OutcomeUnknown("no answer"), on=Transact, applied=True)
    await drive(world, limiter, 25)
    assert shard_count(world, limiter) == 2
    assert await passes(limiter, "e", "r", rpm=90_000)
    assert await limiter.available("e", "r") == {"rpm": 100_000 - 26 - 90_000 + 1}


async def test_several_who_split_at_once_split_it_once(world: World) -> None:
    limiters = [(await world.process(default_limits=[DAILY], split_above=20)).limiter for _ in range(3)]
    for limiter in limiters:
        await take(limiter, "e", "r", rpm=1)
    for _ in range(10):
        await outcomes(*(take(limiter, "e", "r", rpm=1) for limiter in limiters))
    world.clock.advance(1)
    await outcomes(*(take(limiter, "e", "r", rpm=1) for limiter in limiters))
    assert shard_count(world, limiters[0]) == 2
    assert await limiters[0].available("e", "r") == {"rpm": 100_000 - 36 + 1}


async def test_who_was_served_does_not_wait_for_a_split(world: World) -> None:
    limiter, wire = await world.process(default_limits=[DAILY], split_above=20)
    await drive(world, limiter, 19)
    for _ in range(25):
        await take(limiter, "e", "r", rpm=1)
    wire.hold(on=(Transact, Update))
    callers = [asyncio.create_task(take(limiter, "e", "r", rpm=1))]
    await until(lambda: wire.in_flight == 1)
    callers += [asyncio.create_task(take(limiter, "e", "r", rpm=1)) for _ in range(3)]
    cached = limiter.repository.namespace_state.cached_shards.get(("e", "r", 0))
    assert cached is not None
    await until(lambda: len(cached.waiting) == 3)
    world.clock.advance(1)
    wire.hold(on=Transact)
    await until(lambda: sum(caller.done() for caller in callers) >= 3)  # one of a sync process does the splitting
    assert shard_count(world, limiter) == 1
    wire.let_go()
    await asyncio.gather(*callers)
    await until(lambda: shard_count(world, limiter) == 2)


async def test_no_shard_splits_where_the_first_cannot(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, 2)
    ns = limiter.repository.namespace_id
    home = Key(BucketId(ns, "e", "r", 0).pk, "#STATE")
    other = NamespaceState("default", ns, stack="test", now=world.clock.now_ms, settings=Settings())

    def perform(step: Any) -> Any:
        if isinstance(step, Transact) and isinstance(first := step.writes[0], Update) and first.key == home:
            item = shard_items(world, limiter)[0]
            raise TransactionCancelled((Reason("ConditionalCheckFailed", item), Reason("None", None)))
        return None if isinstance(step, Log) else world.table.execute(step)

    assert play(split_shard(other, BucketId(ns, "e", "r", 1)), perform) == 0
    assert {shard: item["shard_count"] for shard, item in shard_items(world, limiter).items()} == {0: 2, 1: 2}


async def test_a_process_that_stood_still_does_not_take_a_slow_bucket_for_a_hot_one(world: World) -> None:
    begun, stood = world.clock.now_ms(), 0

    def monotonic_ms() -> int:
        return world.clock.now_ms() - begun - stood

    clock = SystemClock(wall_ns=lambda: begun * 1_000_000, monotonic_ns=lambda: monotonic_ms() * 1_000_000)
    limiter, wire = await world.process(default_limits=[DAILY], split_above=20, clock=clock)
    other = (await world.process(default_limits=[DAILY], split_above=1000)).limiter
    answer = wire.answer

    def dated(operation: Any) -> Any:
        """An answer that says what time it is."""
        answered = answer(operation)
        clock.on_answer(formatdate(world.clock.now_ms() // 1000, usegmt=True), monotonic_ms(), monotonic_ms())
        return answered

    wire.answer = dated  # type: ignore[method-assign]
    await take(limiter, "e", "r", rpm=1)
    for _ in range(300):
        await take(other, "e", "r", rpm=1)
        world.clock.advance(1)
    stood = 298_500
    assert monotonic_ms() == 1_500
    await take(limiter, "e", "r", rpm=1)
    cached = limiter.repository.namespace_state.cached_shards.get(("e", "r", 0))
    assert cached is not None
    assert cached.write_rate.since_ms == begun + 1_500  # a window ended
    assert shard_count(world, limiter) == 1


async def test_a_shard_that_cannot_be_looked_for_is_the_store_that_is_away(world: World) -> None:
    limiter, wire = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, 2)
    await take(limiter, "e", "r", rpm=1)
    limiter.repository.namespace_state.pick = lambda count: 1 % count
    wire.break_down(Unreachable("no connection"), on=BatchGet)
    async with limiter.acquire("e", "r", {"rpm": 1}, on_unavailable="allow") as lease:
        assert lease.degraded
    wire.repair()
    async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
        assert not lease.degraded


def set_in_future(world: World, limiter: RateLimiter, ms: int) -> None:
    """Have a process whose clock is wrong anchor the bucket."""
    for item in shard_items(world, limiter).values():
        key = Key(item["PK"], item["SK"])
        world.table.execute(Update(key, set={"rf": world.clock.now_ms() + ms, "b_rpm_tk": 100_000}))


@pytest.mark.parametrize("shards", [1, 4])
async def test_an_anchor_far_in_the_future_is_brought_back(
    world: World, caplog: pytest.LogCaptureFixture, shards: int
) -> None:
    limiter, _ = await world.process(default_limits=[SECOND])
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, shards)
    set_in_future(world, limiter, 3_600_000)
    other, _ = await world.process(default_limits=[SECOND])
    for _ in range(20):
        assert not await passes(other, "e", "r", rpm=10)
    assert "shard 0 of bucket e/r was anchored by a fast clock: its anchor was brought back" in caplog.text
    assert {item["rf"] for item in shard_items(world, other).values()} == {world.clock.now_ms()}
    world.clock.advance(ms=500)
    assert await other.available("e", "r") == {"rpm": 50}
    await take(other, "e", "r", rpm=50)
    assert not await passes(other, "e", "r", rpm=1)


@pytest.mark.parametrize("shards", [1, 4])
async def test_nobody_is_judged_by_an_anchor_that_is_to_be_brought_back(world: World, shards: int) -> None:
    limiter, _ = await world.process(default_limits=[SECOND])
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, shards)
    await take(limiter, "e", "r", rpm=1)
    set_in_future(world, limiter, 7_200_000)
    begun = world.clock.now_ms()
    assert await limiter.available("e", "r") == {"rpm": 0}
    assert await limiter.time_until_available("e", "r", {"rpm": 80}) == 0.8
    bucket = await limiter.repository.get_bucket("e", "r")
    assert bucket is not None
    assert (bucket.available, bucket.anchor_ms) == ({"rpm": 0}, world.clock.now_ms())
    capacity = await limiter.repository.get_resource_capacity("r")
    assert capacity.limits[0].available == 0
    with pytest.raises(RateLimitExceeded) as refusal:
        await take(limiter, "e", "r", rpm=80)
    assert refusal.value.retry_after_seconds == 0.8
    world.clock.advance(ms=800)
    while not await passes(limiter, "e", "r", rpm=80):  # a shard mints again from its own repair on
        world.clock.advance(ms=1)
    assert world.clock.now_ms() <= begun + 1_600


async def test_what_is_owed_stays_owed_when_the_anchor_is_brought_back(world: World) -> None:
    limiter, _ = await world.process(default_limits=[SECOND])
    await take(limiter, "e", "r", rpm=1)
    item = shard_items(world, limiter)[0]
    late = {"rf": world.clock.now_ms() + 3_600_000, "b_rpm_tk": -70_000}
    world.table.execute(Update(Key(item["PK"], item["SK"]), set=late))
    other, _ = await world.process(default_limits=[SECOND])
    assert not await passes(other, "e", "r", rpm=1)
    assert await other.available("e", "r") == {"rpm": -70}


@pytest.mark.parametrize("owed", [1, 2, 3, 70_000])  # of a debt of one millitoken or two, one half is nothing
async def test_a_shard_that_owes_is_split(world: World, owed: int) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=1)
    item = shard_items(world, limiter)[0]
    world.table.execute(Update(Key(item["PK"], item["SK"]), set={"b_rpm_tk": -owed, "rf": world.clock.now_ms()}))
    split(world, limiter, "e", "r")
    halves = [item["b_rpm_tk"] for item in shard_items(world, limiter).values()]
    assert len(halves) == 2
    assert sum(halves) == 1 - owed  # one millitoken comes until the new anchor


async def test_a_shard_with_a_blocked_limit_is_split_in_the_millisecond_of_its_anchor(world: World) -> None:
    blocked = Limit.custom("blocked", 0, refill_amount=7, refill_period=13)
    limiter, _ = await world.process(default_limits=[DAILY, blocked])
    for number in range(26):  # in each part of what it would mint
        await take(limiter, f"e{number}", "r", rpm=1)
        split(world, limiter, f"e{number}", "r")
        assert len(shard_items(world, limiter, f"e{number}", "r")) == 2
        world.clock.advance(ms=1)


async def test_an_anchor_slightly_in_the_future_is_used(world: World) -> None:
    limiter, _ = await world.process(default_limits=[SECOND])
    await take(limiter, "e", "r", rpm=1)
    set_in_future(world, limiter, 200)
    other, _ = await world.process(default_limits=[SECOND])
    assert await other.available("e", "r") == {"rpm": 80}
    await take(other, "e", "r", rpm=80)


async def test_a_repair_that_fails_is_the_store_that_is_away(world: World) -> None:
    limiter, _ = await world.process(default_limits=[SECOND])
    await take(limiter, "e", "r", rpm=1)
    set_in_future(world, limiter, 3_600_000)
    other, wire = await world.process(default_limits=[SECOND])
    wire.break_once(Unreachable("no connection"), on=Update)
    async with other.acquire("e", "r", {"rpm": 1}, on_unavailable="allow") as lease:
        assert lease.degraded


async def test_a_repair_that_is_throttled_is_tried_again_before_anything_else(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])  # which refills nothing in the pause
    await take(limiter, "e", "r", rpm=1)
    set_in_future(world, limiter, 3_600_000)
    other, wire = await world.process(default_limits=[Limit.per_day("rpm", 50)])  # it has to reshape the bucket, too
    wire.break_once(Throttled("slow down"), on=Update)
    assert not await passes(other, "e", "r", rpm=1)
    assert shard_items(world, other)[0]["rf"] <= world.clock.now_ms() + 1


async def test_an_anchor_set_in_the_future_again_is_brought_back(world: World) -> None:
    limiter, _ = await world.process(default_limits=[SECOND])
    await take(limiter, "e", "r", rpm=1)
    set_in_future(world, limiter, 3_600_000)
    other, wire = await world.process(default_limits=[SECOND])
    wire.hold(Update)
    waiting = asyncio.create_task(passes(other, "e", "r", rpm=1))
    await until(lambda: wire.in_flight == 1)
    set_in_future(world, limiter, 7_200_000)
    wire.let_go()
    assert not await waiting
    assert shard_items(world, other)[0]["rf"] == world.clock.now_ms()


async def test_a_time_to_live_that_was_set_since_a_split_was_decided_goes_too(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])
    await limiter.set_limits("e", [DAILY])
    await take(limiter, "e", "r", rpm=1)
    item = shard_items(world, limiter)[0]
    assert "ttl" not in item
    repository, table = limiter.repository, world.table
    namespace_state = NamespaceState(
        "default", repository.namespace_id, stack="test", now=world.clock.now_ms, settings=Settings()
    )

    def perform(step: Any) -> Any:
        if isinstance(step, Transact):
            table.execute(Update(Key(item["PK"], item["SK"]), set={"ttl": 1}))
        return None if isinstance(step, Log) else table.execute(step)

    play(split_shard(namespace_state, BucketId(repository.namespace_id, "e", "r")), perform)
    assert [item.get("ttl") for item in shard_items(world, limiter).values()] == [None, None]


@pytest.mark.parametrize("shards", [1, 32])
async def test_who_finds_a_shard_split_where_an_anchor_was_to_be_brought_back_splits_it_no_more(
    world: World, shards: int
) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, shards)
    set_in_future(world, limiter, 3_600_000)
    bucket = BucketId(limiter.repository.namespace_id, "e", "r")
    one, other = (
        NamespaceState("default", bucket.namespace_id, stack="test", now=world.clock.now_ms, settings=Settings())
        for _ in range(2)
    )
    split_by_other: list[int] = []

    def perform(step: Any) -> Any:
        if isinstance(step, Update) and not split_by_other:
            split_by_other.append(played(world.table, split_shard(other, bucket)))
        return None if isinstance(step, Log) else world.table.execute(step)

    assert play(split_shard(one, bucket), perform) == 0
    assert split_by_other == [1]
    assert shard_count(world, limiter) == 2 * shards
