"""Limits that no config names leave a bucket where they are full, and never with what they owe; in both variants."""

import pytest

from support.core.plays import bucket_item
from support.core.shards import aim_at, shard_items, split_into
from support.core.worlds import Process, World, drain, passes, take, until
from zae_limiter import Limit, RateLimiterUnavailable, ValidationError
from zae_limiter.flows.bucket.limit_removal import MAX_IN_BUCKET
from zae_limiter.operations.errors import OutcomeUnknown, StoreError
from zae_limiter.operations.values import Update
from zae_limiter.schema.changes import Consumption, consumption
from zae_limiter.schema.items import read_bucket
from zae_limiter.values.limits import MAX_LIMITS, Policy

MINUTE_RPM = Limit.per_minute("rpm", 60)
TPM = Limit.per_minute("tpm", 6000)
SLOW = Limit.per_day("tpm", 1440)  # one a minute


def limits_in(world: World, process: Process) -> set[str]:
    item = world.bucket_of(process.limiter, "e", "r")
    assert item is not None
    return {*read_bucket(item).shard_limits}


def attributes_in(world: World, process: Process, limit: str) -> list[str]:
    item = world.bucket_of(process.limiter, "e", "r")
    assert item is not None
    return [name for name in item if name.startswith(f"b_{limit}_")]


async def two(world: World, *limits: Limit) -> tuple[Process, Process]:
    """A process that changes limits, and one that uses a bucket under those set first."""
    admin, user = await world.process(), await world.process()
    await admin.limiter.set_resource_defaults("r", limits)
    return admin, user


async def change(world: World, admin: Process, *limits: Limit) -> None:
    await admin.limiter.set_resource_defaults("r", limits)
    world.clock.advance(ms=60_001)


async def test_a_full_limit_that_no_config_names_leaves_with_all_its_attributes(world: World) -> None:
    admin, user = await two(world, MINUTE_RPM, Limit.per_minute("tpm", 6000, burst=9000))
    await take(user.limiter, "e", "r", rpm=1, tpm=5)
    await change(world, admin, MINUTE_RPM)
    await take(user.limiter, "e", "r", rpm=10)  # by the old config: the new one is read beside it
    await take(user.limiter, "e", "r", rpm=1)
    await until(lambda: not attributes_in(world, user, "tpm"))
    assert limits_in(world, user) == {"rpm"}


async def test_what_leaves_takes_nothing_from_the_limits_that_stay(world: World) -> None:
    admin, user = await two(world, Limit.per_hour("rpm", 60), TPM)
    await take(user.limiter, "e", "r", rpm=30, tpm=5)
    await change(world, admin, Limit.per_hour("rpm", 60))
    await take(user.limiter, "e", "r", rpm=1)
    await take(user.limiter, "e", "r", rpm=1)
    await until(lambda: limits_in(world, user) == {"rpm"})
    assert await drain(user.limiter, "e", "r", "rpm") == 29  # one was minted in the minute
    assert not await passes(user.limiter, "e", "r", rpm=1)


async def test_a_limit_that_is_not_full_stays_until_it_is(world: World) -> None:
    admin, user = await two(world, MINUTE_RPM, SLOW)
    await take(user.limiter, "e", "r", rpm=1, tpm=3)
    await change(world, admin, MINUTE_RPM)
    for _ in range(2):  # two minutes are short of one token
        await take(user.limiter, "e", "r", rpm=1)
        await take(user.limiter, "e", "r", rpm=1)
        assert limits_in(world, user) == {"rpm", "tpm"}
        world.clock.advance(ms=59_999)
    world.clock.advance(seconds=2)
    await take(user.limiter, "e", "r", rpm=1)
    await take(user.limiter, "e", "r", rpm=1)
    await until(lambda: limits_in(world, user) == {"rpm"})


async def test_a_debt_stays_until_it_is_paid(world: World) -> None:
    admin, user = await two(world, MINUTE_RPM, SLOW)
    async with user.limiter.acquire("e", "r", {"rpm": 1, "tpm": 1440}) as lease:
        await lease.adjust(tpm=60)
    await change(world, admin, MINUTE_RPM)
    world.clock.advance(seconds=1440 * 60)
    for _ in range(3):
        await take(user.limiter, "e", "r", rpm=1)
    assert limits_in(world, user) == {"rpm", "tpm"}
    await change(world, admin, MINUTE_RPM, SLOW)
    assert (await user.limiter.available("e", "r"))["tpm"] == 1440 - 58


async def test_a_limit_that_left_comes_back_full_and_its_count_begins_at_0(world: World) -> None:
    admin, user = await two(world, MINUTE_RPM, TPM)
    await take(user.limiter, "e", "r", rpm=1, tpm=6000)
    await change(world, admin, MINUTE_RPM)
    await take(user.limiter, "e", "r", rpm=1)
    await take(user.limiter, "e", "r", rpm=1)
    await until(lambda: limits_in(world, user) == {"rpm"})
    await change(world, admin, MINUTE_RPM, TPM)
    assert await drain(user.limiter, "e", "r", "tpm", step=3000) == 6000
    assert not await passes(user.limiter, "e", "r", tpm=3000)
    item = world.bucket_of(user.limiter, "e", "r")
    assert item is not None
    assert item["b_tpm_tc"] == 6_000_000


async def test_who_gives_back_what_has_left_gives_back_nothing(world: World) -> None:
    admin, user = await two(world, MINUTE_RPM, TPM)
    async with user.limiter.acquire("e", "r", {"rpm": 1, "tpm": 100}) as lease:
        await change(world, admin, MINUTE_RPM)
        await take(user.limiter, "e", "r", rpm=1)
        await take(user.limiter, "e", "r", rpm=1)
        await until(lambda: limits_in(world, user) == {"rpm"})
        await lease.release(tpm=100)
    assert not attributes_in(world, user, "tpm")


async def test_a_call_that_gives_limits_takes_none_of_the_others_away(world: World) -> None:
    user = await world.process()
    for _ in range(3):
        async with user.limiter.acquire("e", "r", {"tpm": 1}, limits=[TPM]):
            pass
        async with user.limiter.acquire("e", "r", {"rpm": 1}, limits=[MINUTE_RPM]):
            pass
        world.clock.advance(seconds=61)
    assert limits_in(world, user) == {"rpm", "tpm"}


async def test_default_limits_of_two_limiters_stand_side_by_side(world: World) -> None:
    one = await world.process(default_limits=[MINUTE_RPM])
    other = await world.process(default_limits=[TPM])
    for _ in range(3):
        await take(one.limiter, "e", "r", rpm=1)
        await take(other.limiter, "e", "r", tpm=1)
        world.clock.advance(seconds=50)
    assert limits_in(world, one) == {"rpm", "tpm"}


async def test_a_limit_that_only_a_call_gives_goes_at_most_once_in_a_cache_life(world: World) -> None:
    await (await world.process()).limiter.set_resource_defaults("r", [MINUTE_RPM])
    user, other = await world.process(), await world.process()
    went = 0
    await take(user.limiter, "e", "r", rpm=1)
    for _ in range(180):  # three cache lives
        world.clock.advance(seconds=1)
        async with other.limiter.acquire("e", "r", {"tpm": 1}, limits=[TPM]):
            pass
        before = limits_in(world, user)
        world.clock.advance(seconds=1)  # it is full again
        await take(user.limiter, "e", "r", rpm=1)
        went += len(before - limits_in(world, user))
    assert 1 <= went <= 7


async def test_each_shard_lets_go_of_what_is_full_there(world: World) -> None:
    admin, user = await two(world, MINUTE_RPM, SLOW)
    await take(user.limiter, "e", "r", rpm=1)
    split_into(world, user.limiter, 2)
    await take(user.limiter, "e", "r", rpm=1)  # learns of the shards
    aim_at(user.limiter, 1)
    await take(user.limiter, "e", "r", tpm=600)  # shard 1 will be short of it for long
    await change(world, admin, MINUTE_RPM)
    for shard in (0, 1, 0, 1, 0, 1):
        aim_at(user.limiter, shard)
        await take(user.limiter, "e", "r", rpm=1)

    def held() -> list[set[str]]:
        return [{*read_bucket(item).shard_limits} for _, item in sorted(shard_items(world, user.limiter).items())]

    await until(lambda: held() == [{"rpm"}, {"rpm", "tpm"}])
    await change(world, admin, MINUTE_RPM, SLOW)
    aim_at(user.limiter, 0)
    await take(user.limiter, "e", "r", rpm=1)
    await take(user.limiter, "e", "r", rpm=1)
    assert (await user.limiter.available("e", "r"))["tpm"] == 720 + 120 + 1  # shard 1 has minted for two minutes


# The write


async def ripe(world: World) -> Process:
    """A process behind the call behind which a limit leaves: the writes of that call pass, the next one waits."""
    admin, user = await two(world, MINUTE_RPM, TPM)
    await take(user.limiter, "e", "r", rpm=1, tpm=1)
    await change(world, admin, MINUTE_RPM)
    user.wire.sent()
    user.wire.hold(Update)
    for _ in ("by the former limits", "that given back", "by the new limits"):
        user.wire.let_one_go()
    await take(user.limiter, "e", "r", rpm=1)
    return user


async def test_nobody_waits_for_what_leaves(async_world: World) -> None:
    user = await ripe(async_world)
    assert limits_in(async_world, user) == {"rpm", "tpm"}
    user.wire.let_go()
    await until(lambda: limits_in(async_world, user) == {"rpm"})
    assert user.wire.sent().count("Update") == 4


@pytest.mark.parametrize("error", [OutcomeUnknown("lost"), StoreError("away")])
async def test_a_write_that_fails_fails_nobody(async_world: World, error: StoreError) -> None:
    user = await ripe(async_world)
    user.wire.break_once(error, on=Update)
    user.wire.let_go()
    await user.repository.driver.drain()
    for _ in range(2):
        await take(user.limiter, "e", "r", rpm=1)
    await until(lambda: limits_in(async_world, user) == {"rpm"})


def test_usage_counts_nothing_where_a_limit_leaves_and_from_0_where_it_comes_back() -> None:
    full = bucket_item({MINUTE_RPM: 5000, Limit.per_minute("tpm", 60): 60_000}) | {
        "b_tpm_tc": 7_000_500,
        "b_rpm_tc": 2_000,
        "ev": 3,
    }
    gone = {name: value for name, value in full.items() if not name.startswith("b_tpm_")}
    assert not consumption(full, gone)
    assert consumption(gone, full | {"b_tpm_tc": 4_000}) == Consumption({"tpm": 4})


# A bucket that is too full


def named(letter: str, count: int = MAX_LIMITS) -> list[Limit]:
    return [Limit.per_day(f"{letter}{number}", 1440) for number in range(count)]


async def call(process: Process, limits: list[Limit], amount: int = 1, policy: Policy = "block") -> None:
    consume = {limit.name: amount for limit in limits}
    async with process.limiter.acquire("e", "r", consume, limits=limits, on_unavailable=policy):
        pass


async def test_a_bucket_has_a_place_for_two_whole_sets_of_limits(world: World) -> None:
    user = await world.process()
    await call(user, named("a"))
    await call(user, named("b"))
    assert len(limits_in(world, user)) == MAX_IN_BUCKET


async def test_full_limits_make_room_for_those_of_a_call(world: World) -> None:
    user = await world.process()
    await call(user, named("a"))
    await call(user, named("b"))
    world.clock.advance(seconds=61)
    await call(user, named("b"))
    await call(user, named("c", 2))
    held = limits_in(world, user)
    assert len(held) == MAX_IN_BUCKET
    assert len([name for name in held if name.startswith("a")]) == MAX_LIMITS - 2
    assert {"c0", "c1"} <= held


@pytest.mark.parametrize("policy", ["block", "allow"])
async def test_limits_that_have_no_place_are_refused_and_the_way_out_is_named(world: World, policy: Policy) -> None:
    user = await world.process()
    await call(user, named("a"))
    await call(user, named("b"))
    with pytest.raises(ValidationError, match="holds 64 limits, and has no place for 32 more: at most 64") as caught:
        await call(user, named("c"), policy=policy)
    assert not isinstance(caught.value, RateLimiterUnavailable)
    await user.repository.reset_bucket("e", "r")
    await call(user, named("c"))
    assert len(limits_in(world, user)) == MAX_IN_BUCKET


async def test_who_uses_the_limits_that_a_full_bucket_has_is_served(world: World) -> None:
    user = await world.process()
    await call(user, named("a"))
    await call(user, named("b"))
    with pytest.raises(ValidationError):
        await call(user, named("c"))
    await call(user, named("a"))
    assert (await user.repository.get_bucket("e", "r")).available["a0"] == 1438  # type: ignore[union-attr]
