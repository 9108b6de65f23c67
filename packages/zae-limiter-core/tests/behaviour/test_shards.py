"""A bucket in several shards: what is there stays there, and who asks gets what all shards have; in both variants."""

import asyncio
from typing import Any

import pytest

from support.core.shards import aim_at, shard_items, split, split_into, states
from support.core.worlds import World, drain, passes, take
from zae_limiter import Limit, RateLimiter, RateLimiterUnavailable, RateLimitExceeded
from zae_limiter.operations.errors import Conflict, OutcomeUnknown
from zae_limiter.operations.values import BatchGet, Delete, Key, Operation, Put, Transact, Update
from zae_limiter.rules.sharding import NEVER
from zae_limiter.testing import ManualClock

DAILY = Limit.per_day("rpm", 100)
RPM = Limit.per_minute("rpm", 60)
TPM = Limit.per_minute("tpm", 6_000, burst=9_000)


async def whole(limiter: RateLimiter) -> dict[str, int]:
    return await limiter.available("e", "r")


@pytest.mark.parametrize("taken", [0, 1, 37, 100])
async def test_a_split_neither_makes_nor_loses_a_token(world: World, taken: int) -> None:
    limiter, _ = await world.process(default_limits=[DAILY, TPM])
    await take(limiter, "e", "r", rpm=taken, tpm=7)
    before = await whole(limiter)
    for count in (2, 4, 8):
        split_into(world, limiter, 2) if count == 2 else split(world, limiter, "e", "r", *range(count // 2))
        assert await whole(limiter) == before
        assert {state.shard_count for state in states(world, limiter).values()} == {count}
    assert await drain(limiter, "e", "r", "rpm") == 100 - taken


async def test_a_debt_is_divided_too(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])
    async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
        await lease.adjust(rpm=150)
    split_into(world, limiter, 4)
    assert await whole(limiter) == {"rpm": -51}
    assert all(state.tokens_milli("rpm") < 0 for state in states(world, limiter).values())


async def test_a_half_done_split_counts_as_whole(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=20)
    split(world, limiter, "e", "r", 0, 0, 0)  # 0 of 8, 1 of 2, 2 of 4, 4 of 8
    assert {shard: state.shard_count for shard, state in states(world, limiter).items()} == {0: 8, 1: 2, 2: 4, 4: 8}
    assert await whole(limiter) == {"rpm": 80}
    assert await drain(limiter, "e", "r", "rpm") == 80


async def test_no_shard_but_the_first_splits_before_it(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=1)
    split(world, limiter, "e", "r", 0, 1)
    assert {shard: state.shard_count for shard, state in states(world, limiter).items()} == {0: 4, 1: 4, 2: 4, 3: 4}


async def test_there_are_at_most_64_shards(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, 128)
    assert sorted(shard_items(world, limiter)) == [*range(64)]
    assert await whole(limiter) == {"rpm": 99}


async def test_a_split_bucket_does_not_expire(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, 2)
    for _ in range(8):
        await take(limiter, "e", "r", rpm=1)
    assert not [item for item in shard_items(world, limiter).values() if "ttl" in item]


async def test_who_has_not_heard_of_a_split_obeys_after_one_lost_race(world: World) -> None:
    limiter, wire = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=10)
    split(world, limiter, "e", "r")
    wire.sent()
    await take(limiter, "e", "r", rpm=10)
    assert wire.sent() == ["Update", "Update"]
    home, other = states(world, limiter).values()
    assert (home.tokens_milli("rpm"), other.tokens_milli("rpm")) == (35_000, 45_000)
    assert await drain(limiter, "e", "r", "rpm") == 80


async def test_an_acquire_on_a_split_bucket_is_one_write(world: World) -> None:
    limiter, wire = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, 4)
    for _ in range(80):
        await passes(limiter, "e", "r", rpm=1)
    wire.sent()
    await take(limiter, "e", "r", rpm=1)
    assert wire.sent() == ["Update"]


async def test_acquires_spread_over_the_shards(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, 4)
    for _ in range(60):
        await take(limiter, "e", "r", rpm=1)
    consumed = [item["b_rpm_tc"] // 1000 for item in shard_items(world, limiter).values()]
    assert sum(consumed) == 61
    assert min(consumed) >= 1


async def test_where_a_shard_is_short_two_others_are_asked(world: World) -> None:
    limiter, wire = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, 4)
    for shard in range(4):
        aim_at(limiter, shard)
        await take(limiter, "e", "r", rpm=20 if shard < 3 else 1)
    aim_at(limiter, 0)  # the first, then the first of those that are not known to be short
    wire.sent()
    await take(limiter, "e", "r", rpm=15)
    assert wire.sent() == ["Update"]
    assert states(world, limiter)[3].tokens_milli("rpm") < 10_000


async def test_a_request_of_most_of_the_capacity_passes_on_four_shards(world: World) -> None:
    limiter, wire = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=10)
    split_into(world, limiter, 4)
    await take(limiter, "e", "r", rpm=1)
    wire.sent()
    async with limiter.acquire("e", "r", {"rpm": 80}) as lease:
        [status] = lease.statuses
        assert (status.available, status.requested, status.exceeded) == (9, 80, False)
    assert wire.sent().count("Update") == 4
    assert await whole(limiter) == {"rpm": 9}
    assert sum(item["ev"] for item in shard_items(world, limiter).values()) == 3


def counted(world: World, limiter: RateLimiter, entity_id: str = "e") -> int:
    return sum(item["ev"] for item in shard_items(world, limiter, entity_id).values())


async def use_each_shard(limiter: RateLimiter, entity_id: str = "e") -> None:
    """Let the process see all four shards, as its last answers show them."""
    for shard in range(4):
        aim_at(limiter, shard)
        await take(limiter, entity_id, "r", rpm=1)


@pytest.mark.parametrize("short", range(4))
async def test_a_call_in_parts_counts_once_and_where_it_is_refused_nowhere(world: World, short: int) -> None:
    limiter, wire = await world.process(default_limits=[DAILY])
    other, _ = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, 4)
    await use_each_shard(other)
    await use_each_shard(limiter)
    aim_at(other, short)
    await take(other, "e", "r", rpm=20)
    wire.sent()
    with pytest.raises(RateLimitExceeded):  # three shards give their parts, and get them back
        await take(limiter, "e", "r", rpm=85)
    assert wire.sent() == ["Update"] * 7
    assert (await whole(limiter), counted(world, limiter)) == ({"rpm": 71}, 10)
    await use_each_shard(limiter)
    aim_at(other, (short + 1) % 4)
    await take(other, "e", "r", rpm=2)
    await take(limiter, "e", "r", rpm=60)  # what one shard no longer has, others give
    assert wire.sent().count("Update") >= 4 + 3
    assert (await whole(limiter), counted(world, limiter)) == ({"rpm": 5}, 16)


async def test_a_call_that_its_own_shards_refuse_is_not_counted_on_those_of_the_parent(world: World) -> None:
    limiter, wire = await world.process(default_limits=[DAILY])
    other, _ = await world.process(default_limits=[DAILY])
    await limiter.create_entity("p")
    await limiter.create_entity("e", parent_id="p", cascade=True)
    await limiter.set_limits("p", [Limit.per_day("rpm", 200)])
    await take(limiter, "e", "r", rpm=1)
    for entity_id in ("e", "p"):
        split_into(world, limiter, 4, entity_id)
    for process in (other, limiter):
        await use_each_shard(process)
    await take(other, "e", "r", rpm=10)
    wire.sent()
    with pytest.raises(RateLimitExceeded):
        await take(limiter, "e", "r", rpm=85)
    assert wire.sent() == ["Update"] * 11
    for entity_id, left in (("e", 81), ("p", 181)):
        assert await limiter.available(entity_id, "r") == {"rpm": left}
        assert counted(world, limiter, entity_id) == 10
    assert sum(item.get("eb", 0) for item in shard_items(world, limiter, "p").values()) == 10


async def test_what_the_shards_do_not_have_together_is_refused_with_their_sum_and_takes_nothing(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    await take(limiter, "e", "r", rpm=20)
    split_into(world, limiter, 4)
    with pytest.raises(RateLimitExceeded) as refusal:
        await take(limiter, "e", "r", rpm=50)
    [status] = refusal.value.statuses
    assert (status.available, status.requested, status.limit, status.exceeded) == (40, 50, RPM, True)
    assert await whole(limiter) == {"rpm": 40}
    world.clock.advance(status.retry_after_seconds)
    await take(limiter, "e", "r", rpm=50)


async def test_more_than_the_ceiling_never_passes(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    await take(limiter, "e", "r", rpm=20)
    split_into(world, limiter, 4)
    with pytest.raises(RateLimitExceeded) as refusal:
        await take(limiter, "e", "r", rpm=61)
    assert refusal.value.retry_after_seconds == NEVER


async def test_a_time_until_available_is_the_one_of_all_shards(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    await take(limiter, "e", "r", rpm=60)
    split_into(world, limiter, 4)
    assert await limiter.time_until_available("e", "r", {"rpm": 10}) == 10.0
    world.clock.advance(ms=9_999)
    assert not await passes(limiter, "e", "r", rpm=10)
    world.clock.advance(ms=1)
    assert (await limiter.check("e", "r", {"rpm": 10})).passes
    await take(limiter, "e", "r", rpm=10)


async def test_a_refusal_by_copies_that_are_fresh_asks_nobody(world: World) -> None:
    limiter, wire = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, 4)
    assert await drain(limiter, "e", "r", "rpm") == 99
    wire.sent()
    assert not await passes(limiter, "e", "r", rpm=1)
    assert wire.sent() == []


async def test_correction_and_release_go_to_the_shard_that_was_consumed(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, 4)
    aim_at(limiter, 0)
    await take(limiter, "e", "r", rpm=1)
    aim_at(limiter, 2)
    before = shard_items(world, limiter)
    async with limiter.acquire("e", "r", {"rpm": 5}) as lease:
        aim_at(limiter, 1)
        await lease.adjust(rpm=7)
    async with limiter.acquire("e", "r", {"rpm": 0}):
        aim_at(limiter, 3)
    consumed = {
        shard: item["b_rpm_tc"] - before[shard]["b_rpm_tc"] for shard, item in shard_items(world, limiter).items()
    }
    assert consumed == {0: 0, 1: 0, 2: 12_000, 3: 0}


@pytest.mark.parametrize("way", ["rollback", "release"])
async def test_what_came_from_several_shards_goes_back_to_each(world: World, way: str) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, 4)
    before = {shard: item["b_rpm_tk"] for shard, item in shard_items(world, limiter).items()}
    try:
        async with limiter.acquire("e", "r", {"rpm": 90}) as lease:
            if way == "rollback":
                raise KeyError
            await lease.release(rpm=90)
    except KeyError:
        pass
    assert {shard: item["b_rpm_tk"] for shard, item in shard_items(world, limiter).items()} == before
    assert counted(world, limiter) == (1 if way == "rollback" else 2)


@pytest.mark.parametrize("way", ["rollback", "release"])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("count", [2, 4, 8])
async def test_what_was_taken_before_a_split_comes_back_whole(
    world: World, way: str, count: int, *, known: bool
) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=1)
    try:
        async with limiter.acquire("e", "r", {"rpm": 98}) as lease:
            split_into(world, limiter, count)
            if known:
                await limiter.available("e", "r")
                await take(limiter, "e", "r", rpm=0)
            if way == "rollback":
                raise KeyError
            await lease.release(rpm=98)
    except KeyError:
        pass
    assert await whole(limiter) == {"rpm": 99}
    assert {state.tokens_milli("rpm") for state in states(world, limiter).values()} == {99_000 // count}


async def test_the_end_of_a_block_waits_for_each_shard_that_gets_something_back(world: World) -> None:
    limiter, wire = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=1)
    async with limiter.acquire("e", "r", {"rpm": 98}) as lease:
        split_into(world, limiter, 8)
        await lease.release(rpm=98)
        bucket = states(world, limiter)[0].id
        # Of the shards that get something from the first one, the caller's thread serves 1, which gives to 3, and
        # another one serves 2, which gives to 6.
        wire.slow = {bucket.other(3).pk: 0.1, bucket.other(6).pk: 0.5}
    assert await whole(limiter) == {"rpm": 99}


async def test_what_was_taken_in_parts_before_and_after_a_split_comes_back_whole(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])
    async with limiter.acquire("e", "r", {"rpm": 40}) as lease:
        split_into(world, limiter, 2)
        aim_at(limiter, 0)
        await lease.consume(rpm=20)
        split(world, limiter, "e", "r", 0, 1)
        await lease.release(rpm=60)
    assert await whole(limiter) == {"rpm": 100}
    assert {state.tokens_milli("rpm") for state in states(world, limiter).values()} == {25_000}


async def test_limits_that_the_call_gives_hold_on_every_shard_whatever_clocks_said(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, 4)
    fast = ManualClock(world.clock.now_ms() + 30_000)
    other = (await world.process(default_limits=[DAILY], clock=fast)).limiter
    for shard in range(1, 4):
        await take(other, "e", "r", rpm=1)
        aim_at(other, shard)
        async with other.acquire("e", "r", {"rpm": 1}, limits=[Limit.per_day("rpm", 400)]):
            pass
    for shard in (0, 1, 1, 2, 2, 3, 3):  # the first call sees the fast clock, the second one is behind it
        aim_at(limiter, shard)
        async with limiter.acquire("e", "r", {"rpm": 1}, limits=[Limit.per_day("rpm", 200)]):
            pass
    assert {state.shard_limits["rpm"].limit.capacity for state in states(world, limiter).values()} == {200}


async def test_more_is_consumed_from_the_shard_of_the_lease(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, 4)
    await take(limiter, "e", "r", rpm=1)
    aim_at(limiter, 2)
    async with limiter.acquire("e", "r", {"rpm": 5}) as lease:
        aim_at(limiter, 1)
        await lease.consume(rpm=3)
        assert shard_items(world, limiter)[2]["b_rpm_tc"] == 8_000
        await lease.consume(rpm=70)  # what no shard has alone
        assert lease.consumed == {"rpm": 78}
        with pytest.raises(RateLimitExceeded):
            await lease.consume(rpm=30)
    assert await whole(limiter) == {"rpm": 20}


async def test_a_debt_blocks_only_the_shard_that_carries_it(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, 2)
    await take(limiter, "e", "r", rpm=1)
    aim_at(limiter, 1)
    async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
        await lease.adjust(rpm=100)
    before = await whole(limiter)
    assert await passes(limiter, "e", "r", rpm=30)
    assert await passes(limiter, "e", "r", rpm=0)
    assert await whole(limiter) == {"rpm": before["rpm"] - 30}


async def test_an_amount_of_nothing_is_refused_where_all_shards_are_in_debt(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])
    async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
        await lease.adjust(rpm=150)
    split_into(world, limiter, 8)
    with pytest.raises(RateLimitExceeded) as refusal:
        await take(limiter, "e", "r", rpm=0)
    assert refusal.value.primary_violation.available == -51


async def test_a_child_draws_on_the_shards_of_its_parent(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])
    await limiter.create_entity("p")
    await limiter.create_entity("e", parent_id="p", cascade=True)
    await take(limiter, "e", "r", rpm=10)
    split_into(world, limiter, 4, "p")
    await take(limiter, "e", "r", rpm=80)
    assert await limiter.available("p", "r") == {"rpm": 10}
    with pytest.raises(RateLimitExceeded) as refusal:
        await take(limiter, "p", "r", rpm=11)
    assert refusal.value.primary_violation.available == 10
    await take(limiter, "p", "r", rpm=5)
    with pytest.raises(RateLimitExceeded) as refusal:
        await take(limiter, "e", "r", rpm=9)
    assert [(each.entity_id, each.available, each.exceeded) for each in refusal.value.statuses] == [
        ("e", 10, False),
        ("p", 5, True),
    ]
    assert await limiter.available("e", "r") == {"rpm": 10}


async def test_a_changed_limit_reaches_every_shard(world: World) -> None:
    limiter, _ = await world.process(config_cache_ttl=0)
    await limiter.set_system_defaults([DAILY])
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, 4)
    await limiter.set_system_defaults([Limit.per_day("rpm", 200)])
    for _ in range(60):
        await passes(limiter, "e", "r", rpm=1)
    assert {state.shard_limits["rpm"].limit.capacity for state in states(world, limiter).values()} == {200}
    assert {state.shard_limits["rpm"].ceiling_milli for state in states(world, limiter).values()} == {50_000}
    world.clock.advance(ms=100)  # the anchors of splits are some milliseconds in the future
    assert await whole(limiter) == {"rpm": 39}


@pytest.mark.parametrize("changed", [0, 1])
@pytest.mark.parametrize(("capacity", "amount"), [(200, 160), (20, 75)], ids=["raised", "lowered"])
async def test_who_has_not_seen_the_one_shard_whose_limits_are_newer_is_told_by_these(
    world: World, capacity: int, amount: int, changed: int
) -> None:
    limiter, _ = await world.process()
    await limiter.set_system_defaults([Limit.per_minute("rpm", 100)])
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, 2)
    await take(limiter, "e", "r", rpm=1)
    other, _ = await world.process()
    aim_at(other, 0)
    await take(other, "e", "r", rpm=1)  # by shard 0: it has not seen the other one
    aim_at(other, 1 - changed)
    world.clock.advance(seconds=1)
    await limiter.set_system_defaults([Limit.per_minute("rpm", capacity)])
    aim_at(limiter, changed)
    await take(limiter, "e", "r", rpm=1)
    held = {shard: state.shard_limits["rpm"].limit.capacity for shard, state in states(world, limiter).items()}
    assert held == {changed: capacity, 1 - changed: 100}
    world.clock.advance(seconds=2)
    with pytest.raises(RateLimitExceeded) as refusal:
        await take(other, "e", "r", rpm=amount)
    told = refusal.value.primary_violation
    assert told.limit.capacity == capacity
    if amount > capacity:
        assert "which can never pass: the limit holds at most 20" in str(refusal.value)
    else:
        assert told.retry_after_seconds < 60
        world.clock.advance(seconds=told.retry_after_seconds)
        await take(other, "e", "r", rpm=amount)


@pytest.mark.parametrize("max_wait", [0.0, 5.0])
@pytest.mark.parametrize("changed", [0, 1])
async def test_who_asks_for_more_than_the_shards_hold_that_have_an_older_limit_is_told_when_it_is_there(
    world: World, changed: int, max_wait: float
) -> None:
    limiter, _ = await world.process()
    await limiter.set_system_defaults([Limit.per_minute("rpm", 100)])
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, 2)
    for shard in (0, 1, 0, 1):
        aim_at(limiter, shard)
        await take(limiter, "e", "r", rpm=1)
    world.clock.advance(seconds=0.1)
    await limiter.set_system_defaults([Limit.per_minute("rpm", 200)])
    aim_at(limiter, changed)
    await take(limiter, "e", "r", rpm=1)
    with pytest.raises(RateLimitExceeded) as refusal:
        async with limiter.acquire("e", "r", {"rpm": 190}, max_wait=max_wait):
            pass
    told = refusal.value.primary_violation
    assert (told.limit.capacity, told.available) == (200, 94)
    assert 28 < told.retry_after_seconds < 58  # by the new rate; a line still counts what a shard gains by the old one


async def test_a_limit_that_is_new_to_the_shards_starts_full_on_each(world: World) -> None:
    limiter, _ = await world.process(config_cache_ttl=0)
    await limiter.set_system_defaults([DAILY])
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, 4)
    await limiter.set_system_defaults([DAILY, TPM])
    world.clock.advance(seconds=1)
    assert await whole(limiter) == {"rpm": 99, "tpm": 9_000}
    await take(limiter, "e", "r", tpm=8_000)
    assert await whole(limiter) == {"rpm": 99, "tpm": 1_000}


async def lose(world: World, limiter: RateLimiter, *shards: int) -> None:
    for shard, item in shard_items(world, limiter).items():
        if shard in shards:
            world.table.execute(Delete(Key(item["PK"], item["SK"])))


async def test_a_missing_shard_is_split_off_its_parent_when_it_is_asked(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=1)
    split(world, limiter, "e", "r", 0, 0, 0)
    await take(limiter, "e", "r", rpm=1)
    aim_at(limiter, 7)  # a half of 3, which is a half of 1
    await take(limiter, "e", "r", rpm=1)
    assert {shard: state.shard_count for shard, state in states(world, limiter).items()} == {
        0: 8,
        1: 4,
        2: 4,
        3: 8,
        4: 8,
        7: 8,
    }
    assert await whole(limiter) == {"rpm": 97}


async def test_a_shard_that_is_lost_is_made_again_full(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=80)
    split_into(world, limiter, 4)
    await lose(world, limiter, 3)
    await take(limiter, "e", "r", rpm=1)
    assert await limiter.time_until_available("e", "r", {"rpm": 35}) == 0.0
    aim_at(limiter, 3)
    await take(limiter, "e", "r", rpm=20)
    assert states(world, limiter)[3].tokens_milli("rpm") == 5_000


async def test_the_statuses_of_a_lease_count_no_shard_that_was_not_seen(world: World) -> None:
    one, other = [await world.process(default_limits=[DAILY]) for _ in range(2)]
    await take(one.limiter, "e", "r", rpm=80)
    split_into(world, one.limiter, 4)
    await take(other.limiter, "e", "r", rpm=1)
    aim_at(other.limiter, 0)
    async with other.limiter.acquire("e", "r", {"rpm": 1}) as lease:
        (status,) = lease.statuses
    assert status.available <= 20


async def test_a_bucket_that_is_gone_with_all_its_shards_begins_anew(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=80)
    split_into(world, limiter, 4)
    await take(limiter, "e", "r", rpm=1)
    await lose(world, limiter, 0, 1, 2, 3)
    world.clock.advance(1)
    assert await drain(limiter, "e", "r", "rpm") == 100
    assert sorted(shard_items(world, limiter)) == [0]


async def test_what_is_adjusted_upwards_on_a_shard_that_is_gone_is_taken_from_the_bucket_as_it_begins_anew(
    world: World,
) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])
    other, _ = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, 4)
    await take(limiter, "e", "r", rpm=1)
    aim_at(limiter, 3)
    async with limiter.acquire("e", "r", {"rpm": 5}) as lease:
        await lose(world, limiter, 0, 1, 2, 3)
        await take(other, "e", "r", rpm=1)
        await lease.adjust(rpm=7)
    assert await whole(other) == {"rpm": 92}


async def test_a_shard_that_outlived_its_bucket_is_replaced_by_the_next_split(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=10)
    split_into(world, limiter, 2)
    await lose(world, limiter, 0)
    other, _ = await world.process(default_limits=[DAILY])
    await take(other, "e", "r", rpm=40)
    assert await whole(other) == {"rpm": 60}
    split(world, other, "e", "r")
    assert await whole(other) == {"rpm": 60}


async def test_a_write_that_meets_a_transaction_is_decided_again(world: World) -> None:
    limiter, wire = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=10)
    wire.sent()
    wire.break_once(Conflict("another transaction"), on=Update)
    await take(limiter, "e", "r", rpm=10)
    assert wire.sent() == ["Update", "Update"]
    assert await whole(limiter) == {"rpm": 80}


async def test_without_the_store_nothing_stays_taken_from_other_shards(world: World) -> None:
    limiter, wire = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=10)
    split_into(world, limiter, 4)
    await take(limiter, "e", "r", rpm=1)
    wire.break_once(OutcomeUnknown("no answer"), on=Update)
    with pytest.raises(RateLimiterUnavailable):
        await take(limiter, "e", "r", rpm=80)
    assert await whole(limiter) == {"rpm": 89}


async def test_where_the_other_shards_cannot_be_read_the_policy_decides(world: World) -> None:
    limiter, wire = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=10)
    split_into(world, limiter, 4)
    await take(limiter, "e", "r", rpm=1)
    wire.break_down(OutcomeUnknown("no answer"), on=BatchGet)
    with pytest.raises(RateLimiterUnavailable):
        await take(limiter, "e", "r", rpm=80)
    async with limiter.acquire("e", "r", {"rpm": 80}, on_unavailable="allow") as lease:
        assert lease.degraded
    wire.repair()
    while not await limiter.repository.ping():  # noqa: ASYNC110 - until a probe has found the store
        await asyncio.sleep(0.01)
    assert await whole(limiter) == {"rpm": 89}


async def test_reset_and_credit_reach_every_shard(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=100)
    split_into(world, limiter, 4)
    await limiter.repository.credit_bucket("e", "r", {"rpm": 10})
    assert await whole(limiter) == {"rpm": 10}
    await limiter.repository.reset_bucket("e", "r")
    assert await whole(limiter) == {"rpm": 100}


def kinds(operations: list[Any]) -> list[type]:
    return [type(operation) for operation in operations]


async def test_a_split_is_one_transaction_of_two_writes(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=10)
    before = shard_items(world, limiter)[0]
    seen: list[Any] = []
    execute = world.table.execute

    def noted(operation: Operation[Any]) -> Any:
        seen.append(operation)
        return execute(operation)

    world.table.execute = noted  # type: ignore[method-assign]
    split(world, limiter, "e", "r")
    [transaction] = [operation for operation in seen if isinstance(operation, Transact)]
    assert kinds([*transaction.writes]) == [Update, Put]
    home, other = shard_items(world, limiter).values()
    assert home["rf"] == other["rf"] > before["rf"]
    assert (other["b_rpm_tc"], other["ev"], other["cv"]) == (0, 0, before["cv"])
    assert home["b_wcu_tc"] - before["b_wcu_tc"] == other["b_wcu_tc"] == 1000


async def test_an_amount_of_nothing_beside_a_large_one_is_refused_where_it_is_in_debt(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DAILY, Limit.per_day("tpm", 100)])
    async with limiter.acquire("e", "r", {"tpm": 1}) as lease:
        await lease.adjust(tpm=150)
    split_into(world, limiter, 4)
    await passes(limiter, "e", "r", rpm=1)
    assert not await passes(limiter, "e", "r", rpm=5, tpm=0)
    assert not await passes(limiter, "e", "r", rpm=80, tpm=0)
