"""A config change reaches live buckets within one cache life, and the invariant holds across it; in both variants."""

import asyncio
import math
from collections.abc import Sequence

import pytest

from support.core.worlds import Process, World, drain, passes, take, until
from zae_limiter import Limit, RateLimiter, RateLimitExceeded, ValidationError
from zae_limiter.operations.values import BatchGet, Item, Put, Update
from zae_limiter.testing import ManualClock

OLD = Limit.per_minute("rpm", 60)
RAISED = Limit.per_minute("rpm", 120)
LOWERED = Limit.per_minute("rpm", 30)
TPM = Limit.per_minute("tpm", 6000)


async def two(world: World, limits: Sequence[Limit] = (OLD,)) -> tuple[Process, Process]:
    """A process that changes limits, and one that uses a bucket under the limits set first."""
    admin, user = await world.process(), await world.process()
    await admin.limiter.set_resource_defaults("r", limits)
    return admin, user


async def change(world: World, admin: Process, limits: Sequence[Limit]) -> None:
    """Change the limits; a cache life later, to the millisecond, the change has to be obeyed."""
    await admin.limiter.set_resource_defaults("r", limits)
    world.clock.advance(ms=60_001)


async def test_a_raised_limit_is_obeyed_and_the_tokens_stay(world: World) -> None:
    admin, user = await two(world, [Limit.per_hour("rpm", 60)])
    await take(user.limiter, "e", "r", rpm=50)
    await change(world, admin, [Limit.per_hour("rpm", 120)])
    assert await drain(user.limiter, "e", "r", "rpm") == 11  # one was minted by the old rate
    world.clock.advance(seconds=3600)
    assert await drain(user.limiter, "e", "r", "rpm") == 120


async def test_a_lowered_limit_is_obeyed_by_a_bucket_that_was_full(world: World) -> None:
    admin, user = await two(world)
    await take(user.limiter, "e", "r", rpm=1)
    await change(world, admin, [LOWERED])
    assert await drain(user.limiter, "e", "r", "rpm") == 30


async def test_a_request_above_the_lowered_ceiling_can_never_pass(world: World) -> None:
    admin, user = await two(world)
    await take(user.limiter, "e", "r", rpm=1)
    await change(world, admin, [LOWERED])
    with pytest.raises(RateLimitExceeded, match="can never pass: the limit holds at most 30"):
        await take(user.limiter, "e", "r", rpm=31)
    assert await drain(user.limiter, "e", "r", "rpm") == 30


@pytest.mark.parametrize("reshaped", [False, True])
@pytest.mark.parametrize(("low", "asked"), [(0, 1), (5, 20)])
async def test_a_limit_that_was_lowered_for_a_while_refuses_nobody_later(
    world: World, low: int, asked: int, *, reshaped: bool
) -> None:
    admin, user = await two(world, [OLD, TPM])
    third = await world.process()
    await take(user.limiter, "e", "r", rpm=1, tpm=1)
    world.clock.advance(seconds=1)
    await admin.limiter.set_resource_defaults("r", [Limit.per_minute("rpm", low), TPM])
    await take(third.limiter, "e", "r", tpm=1)  # the bucket follows
    await take(user.limiter, "e", "r", tpm=1)  # and shows it, while the user's own limits are still the old ones
    world.clock.advance(seconds=1)
    await change(world, admin, [OLD, TPM])
    if reshaped:
        await take(third.limiter, "e", "r", tpm=1)
        world.clock.advance(seconds=3600)
        await take(user.limiter, "e", "r", rpm=asked, tpm=1)
    else:
        world.clock.advance(seconds=3600)
        with pytest.raises(RateLimitExceeded) as caught:  # the lowered limit held until now
            await take(user.limiter, "e", "r", rpm=asked, tpm=1)
        assert caught.value.primary_violation.limit == OLD
        assert caught.value.retry_after_seconds == asked - low


async def test_a_new_rate_counts_from_the_change_on(world: World) -> None:
    admin, user = await two(world)
    await take(user.limiter, "e", "r", rpm=60)
    await change(world, admin, [Limit.custom("rpm", 60, refill_amount=60, refill_period=600)])
    await take(user.limiter, "e", "r", rpm=60)
    world.clock.advance(seconds=100)
    assert await drain(user.limiter, "e", "r", "rpm") == 10


async def test_a_limit_that_is_added_starts_full_and_is_held(world: World) -> None:
    admin, user = await two(world)
    await take(user.limiter, "e", "r", rpm=60)
    await change(world, admin, [OLD, TPM])
    await take(user.limiter, "e", "r", rpm=1, tpm=6000)
    assert not await passes(user.limiter, "e", "r", tpm=1)
    assert await user.limiter.available("e", "r") == {"rpm": 59, "tpm": 0}


async def test_a_limit_that_is_removed_is_ignored(world: World) -> None:
    admin, user = await two(world, [OLD, TPM])
    await take(user.limiter, "e", "r", rpm=1, tpm=6000)
    await admin.limiter.set_resource_defaults("r", [OLD])
    world.clock.advance(ms=60_001)
    await take(user.limiter, "e", "r", rpm=10)
    assert await user.limiter.available("e", "r") == {"rpm": 50}
    with pytest.raises(ValidationError, match=r"unknown limit .* on resource .r. \(known: rpm\)"):
        await take(user.limiter, "e", "r", tpm=1)
    assert await user.limiter.available("e", "r") == {"rpm": 50}


async def test_a_key_that_a_change_took_away_leaves_nothing_consumed(world: World) -> None:
    admin, user = await two(world, [OLD, TPM])
    await take(user.limiter, "e", "r", rpm=1, tpm=1)
    await change(world, admin, [OLD])
    with pytest.raises(ValidationError):  # the write rode beside the read that showed the change
        await take(user.limiter, "e", "r", rpm=10, tpm=100)
    assert await user.limiter.available("e", "r") == {"rpm": 60}


async def test_a_limit_that_comes_back_is_as_it_would_be_had_it_stayed(world: World) -> None:
    slow = Limit.per_day("tpm", 1440)  # one a minute
    admin, user = await two(world, [OLD, slow])
    await take(user.limiter, "e", "r", rpm=1, tpm=1440)
    await change(world, admin, [RAISED])
    await take(user.limiter, "e", "r", rpm=1)
    await change(world, admin, [RAISED, slow])
    assert await drain(user.limiter, "e", "r", "tpm") == 2


async def test_a_first_acquire_after_the_cache_expired_obeys_on_an_idle_bucket(world: World) -> None:
    admin, user = await two(world)
    await take(user.limiter, "e", "r", rpm=1)
    await change(world, admin, [LOWERED])
    with pytest.raises(RateLimitExceeded) as caught:  # it fits the old limits, which the write still had
        await take(user.limiter, "e", "r", rpm=40)
    assert caught.value.statuses[0].limit == LOWERED
    assert await user.limiter.available("e", "r") == {"rpm": 30}
    item = world.bucket_of(user.limiter, "e", "r")
    assert item is not None
    assert item["b_rpm_tc"] == 1000  # what the write took was taken back


async def test_a_refusal_by_old_limits_is_decided_again_by_the_new_ones(world: World) -> None:
    admin, user = await two(world, [Limit.per_hour("rpm", 60)])
    await take(user.limiter, "e", "r", rpm=60)
    await change(world, admin, [Limit.per_hour("rpm", 60), TPM])
    assert await passes(user.limiter, "e", "r", tpm=100)
    assert await passes(user.limiter, "e", "r", rpm=1)


async def test_limits_that_are_set_where_there_were_none_are_found_within_a_cache_life(world: World) -> None:
    admin, user = await world.process(), await world.process()
    with pytest.raises(ValidationError, match="no limits are configured"):
        await take(user.limiter, "e", "r", rpm=1)
    await change(world, admin, [OLD])
    assert await passes(user.limiter, "e", "r", rpm=1)


async def test_questions_are_answered_by_the_new_limits_too(world: World) -> None:
    admin, user = await two(world)
    await take(user.limiter, "e", "r", rpm=1)
    await change(world, admin, [LOWERED, TPM])
    assert await user.limiter.available("e", "r") == {"rpm": 30, "tpm": 6000}
    assert (await user.limiter.check("e", "r", {"rpm": 30, "tpm": 6000})).passes
    assert not (await user.limiter.check("e", "r", {"rpm": 31})).passes


async def test_within_the_cache_life_the_old_limits_hold(world: World) -> None:
    admin, user = await two(world)
    await take(user.limiter, "e", "r", rpm=1)
    await admin.limiter.set_resource_defaults("r", [LOWERED])
    assert await passes(user.limiter, "e", "r", rpm=59)


async def test_a_process_with_the_older_config_follows_the_shape_that_another_has_written(world: World) -> None:
    admin, user = await two(world)
    await take(user.limiter, "e", "r", rpm=1)
    world.clock.advance(seconds=10)
    await admin.limiter.set_resource_defaults("r", [LOWERED])
    await take(admin.limiter, "e", "r", rpm=1)  # reshapes
    assert await drain(user.limiter, "e", "r", "rpm") == 29
    world.clock.advance(seconds=3600)
    assert await drain(user.limiter, "e", "r", "rpm") == 30


async def test_who_sees_a_newer_config_reads_it_before_the_acquire_is_decided(world: World) -> None:
    admin, user = await two(world)
    await take(user.limiter, "e", "r", rpm=1)
    world.clock.advance(seconds=10)
    await admin.limiter.set_resource_defaults("r", [LOWERED])
    await take(admin.limiter, "e", "r", rpm=1)
    user.wire.sent()
    await take(user.limiter, "e", "r", rpm=1)
    assert user.wire.sent() == ["Update", "BatchGet", "Update"]
    await take(user.limiter, "e", "r", rpm=1)
    assert user.wire.sent() == ["Update"]
    assert (await user.limiter.repository.resolve_limits("e", "r"))[0] == [LOWERED]


async def test_a_limit_that_the_older_config_lacks_is_found_by_reading_it_again(world: World) -> None:
    admin, user = await two(world, [OLD])
    await take(user.limiter, "e", "r", rpm=1)
    world.clock.advance(seconds=10)
    await admin.limiter.set_resource_defaults("r", [TPM])
    await take(admin.limiter, "e", "r", tpm=1)
    with pytest.raises(ValidationError, match=r"\(known: tpm\)"):
        await take(user.limiter, "e", "r", rpm=1)


async def test_a_limit_that_changes_names_in_a_bucket_made_again_is_decided_again(world: World) -> None:
    admin, user = await two(world, [OLD])
    await take(user.limiter, "e", "r", rpm=1)
    world.clock.advance(seconds=300)
    await take(user.limiter, "e", "r", rpm=1)
    world.clock.advance(seconds=59)
    await admin.limiter.set_resource_defaults("r", [TPM])
    world.clock.advance(seconds=3600)
    assert world.expire() == 1
    await take(admin.limiter, "e", "r", tpm=1)
    with pytest.raises(ValidationError, match=r"\(known: tpm\)"):
        await take(user.limiter, "e", "r", rpm=1)


async def held(world: World, limiter: RateLimiter) -> Item:
    """The bucket's item."""
    item = world.bucket_of(limiter, "e", "r")
    assert item is not None
    return item


async def take_under(limiter: RateLimiter, limit: Limit, amount: int) -> None:
    """Acquire under a limit of the call."""
    async with limiter.acquire("e", "r", {limit.name: amount}, [limit]):
        pass


async def test_calls_in_the_same_millisecond_are_each_held_to_their_own_limits(world: World) -> None:
    limiter, _ = await world.process()
    await take_under(limiter, OLD, 10)
    await take_under(limiter, TPM, 100)
    await take_under(limiter, RAISED, 1)
    assert (await held(world, limiter))["b_rpm_tc"] == 11_000
    with pytest.raises(RateLimitExceeded, match="can never pass: the limit holds at most 30"):
        await take_under(limiter, LOWERED, 31)


@pytest.mark.parametrize(
    ("of_call", "asked", "wait_seconds"), [(Limit.per_minute("rpm", 0), 1, 1.0), (Limit.per_minute("rpm", 2), 3, 2.0)]
)
async def test_who_is_refused_by_limits_that_a_call_left_in_the_same_millisecond_is_told_by_those_that_hold(
    world: World, of_call: Limit, asked: int, wait_seconds: float
) -> None:
    _, user = await two(world)
    async with user.limiter.acquire("e", "r", {"rpm": min(1, of_call.capacity), "tpm": 1}, limits=[of_call, TPM]):
        pass
    world.clock.advance(seconds=2)
    with pytest.raises(RateLimitExceeded) as refusal:
        await take(user.limiter, "e", "r", rpm=asked)
    assert refusal.value.primary_violation.limit == OLD
    assert refusal.value.retry_after_seconds == pytest.approx(wait_seconds, abs=0.2)


async def test_limits_of_a_call_hold_behind_a_fast_clock(world: World) -> None:
    behind = await world.process()
    world.clock = ManualClock(world.clock.now_ms() + 2000)
    fast = await world.process()
    await take_under(fast.limiter, OLD, 60)
    with pytest.raises(RateLimitExceeded) as caught:
        await take_under(behind.limiter, RAISED, 120)
    assert caught.value.statuses[0].limit == RAISED
    await take_under(behind.limiter, TPM, 100)
    assert (await held(world, behind.limiter))["b_tpm_tc"] == 100_000


@pytest.mark.parametrize("level", ["system", "resource", "entity"])
async def test_a_read_under_way_does_not_bring_back_what_this_process_has_changed(world: World, level: str) -> None:
    limiter, wire = await world.process()

    async def set_to(limit: Limit) -> None:
        if level == "system":
            await limiter.set_system_defaults([limit])
        elif level == "resource":
            await limiter.set_resource_defaults("r", [limit])
        else:
            await limiter.set_limits("e", [limit], "r")

    await set_to(OLD)
    wire.hold_answers(BatchGet)
    task = asyncio.create_task(take(limiter, "e", "r", rpm=1))
    await until(lambda: wire.in_flight == 1)
    change = asyncio.create_task(set_to(LOWERED))
    if level == "entity":  # which reads the bucket, to tell it
        await until(lambda: wire.in_flight == 2)
    else:
        await change
    wire.let_go()
    await change
    await task
    assert (await limiter.repository.resolve_limits("e", "r"))[0] == [LOWERED]
    assert await drain(limiter, "e", "r", "rpm") == 29


@pytest.mark.parametrize("new", [RAISED, LOWERED], ids=["raised", "lowered"])
async def test_across_a_change_no_more_is_admitted_than_burst_and_minted(world: World, new: Limit) -> None:
    admin, user = await two(world)
    third = await world.process()
    admitted = 0
    for step in range(300):  # half a minute before the change, two and a half behind it
        if step == 50:
            await admin.limiter.set_resource_defaults("r", [new])
        for process in (user, third):
            admitted += await drain(process.limiter, "e", "r", "rpm")
        world.clock.advance(ms=600)
    seen_by_all = 50 + 101  # steps of 600 ms until each has read again
    before, behind = (seen_by_all * 600 * limit.refill_amount // 60_000 for limit in (OLD, OLD))
    rest = (300 - seen_by_all) * 600 * new.refill_amount // 60_000
    most = OLD.burst + max(before, behind, seen_by_all * 600 * new.refill_amount // 60_000) + rest
    assert admitted <= most
    assert admitted >= OLD.burst + 150 * 600 * min(new.refill_amount, 60) // 60_000 + rest - 2


async def test_a_clock_that_is_set_back_keeps_neither_old_limits_nor_old_refusals(world: World) -> None:
    here, elsewhere = [(await world.process()).limiter for _ in range(2)]
    await elsewhere.set_system_defaults([Limit.per_minute("rpm", 10)])
    assert await drain(here, "e", "r", "rpm") == 10
    world.clock._now_ms -= 3_600_000
    await elsewhere.set_system_defaults([Limit.per_minute("rpm", 20)])
    assert not await passes(here, "e", "r", rpm=15)  # the tokens of an hour later are not there yet
    limits, _, _ = await here.repository.resolve_limits("e", "r")
    assert [limit.capacity for limit in limits] == [20]


async def test_a_capacity_of_nothing_blocks_until_it_is_raised(world: World) -> None:
    limiter, wire = await world.process(config_cache_ttl=0)
    await limiter.set_resource_defaults("r", [Limit.per_minute("rpm", 10)])
    await take(limiter, "e", "r", rpm=1)
    await limiter.set_limits("e", [Limit.per_minute("rpm", 0)], resource="r")
    for _ in range(2):
        with pytest.raises(RateLimitExceeded, match="blocked: the limit has a capacity of 0") as caught:
            await take(limiter, "e", "r", rpm=1)
    assert (caught.value.retry_after_seconds, caught.value.retry_after_header) == (math.inf, None)
    wire.sent()
    with pytest.raises(RateLimitExceeded, match="blocked"):
        await take(limiter, "e", "r", rpm=1)
    assert not any(isinstance(each, Update | Put) for each in wire.sent())  # nothing is written for who is blocked
    world.clock.advance(ms=10)  # each change moved the anchor on by a millisecond, while the clock stood still
    await take(limiter, "e", "r", rpm=0)
    assert await limiter.available("e", "r") == {"rpm": 0}
    await limiter.set_limits("e", [Limit.per_minute("rpm", 10)], resource="r")
    assert not await passes(limiter, "e", "r", rpm=10)  # the bucket begins empty
    world.clock.advance(60, ms=10)  # each change moved the anchor on by a millisecond, while the clock stood still
    await take(limiter, "e", "r", rpm=10)


async def test_what_blocks_at_first_takes_nothing(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.per_minute("rpm", 10), Limit.per_minute("tpm", 0)])
    with pytest.raises(RateLimitExceeded, match="tpm requested, which is blocked"):
        await take(limiter, "e", "r", rpm=1, tpm=1)
    await take(limiter, "e", "r", rpm=10)


@pytest.mark.parametrize("way", ["limits", "raised", "bypass"])
async def test_who_is_refused_without_a_bucket_sees_a_change_within_a_second(world: World, way: str) -> None:
    admin, user = await world.process(), await world.process()
    await admin.repository.set_resource_defaults("r", [Limit.per_minute("rpm", 100)])
    await admin.repository.set_limits("e", [Limit.per_minute("rpm", 0)], "r")
    assert not await passes(user.limiter, "e", "r", rpm=1)
    if way == "limits":
        await admin.repository.delete_limits("e", "r")
    elif way == "raised":
        await admin.repository.set_limits("e", [Limit.per_minute("rpm", 10)], "r")
    else:
        await admin.repository.set_switches("e", resource="r", bypass=True)
    user.wire.sent()
    assert not await passes(user.limiter, "e", "r", rpm=1)
    assert user.wire.sent() == []  # what was read within the last second is good enough to refuse by
    world.clock.advance(seconds=1)
    assert await passes(user.limiter, "e", "r", rpm=1)


async def test_a_refusal_names_no_parent_without_a_bucket_that_no_longer_refuses(world: World) -> None:
    admin, user = await world.process(), await world.process()
    await admin.repository.create_entity("p")
    await admin.repository.create_entity("c", parent_id="p")
    await admin.repository.set_limits("p", [Limit.per_minute("rpm", 0)])
    await admin.repository.set_limits("c", [Limit.per_minute("rpm", 10)])

    async def refusal() -> RateLimitExceeded:
        with pytest.raises(RateLimitExceeded) as caught:
            async with user.limiter.acquire("c", "r", {"rpm": 1}, cascade=True):
                raise AssertionError("admitted")
        return caught.value

    assert (await refusal()).refused_by == "p"
    await admin.repository.set_limits("p", [Limit.per_minute("rpm", 10)])
    world.clock.advance(seconds=1)
    await take(user.limiter, "c", "r", rpm=10)
    assert [each.entity_id for each in (await refusal()).violations] == ["c"]


async def test_who_stays_blocked_without_a_bucket_costs_a_read_a_second(world: World) -> None:
    admin, user = await world.process(), await world.process()
    await admin.repository.set_limits("e", [Limit.per_minute("rpm", 0)], "r")
    for _ in range(3):
        assert not await passes(user.limiter, "e", "r", rpm=1)
    user.wire.sent()
    for _ in range(3):
        world.clock.advance(seconds=1)
        for _ in range(3):
            assert not await passes(user.limiter, "e", "r", rpm=1)
    assert user.wire.sent() == ["BatchGet"] * 3


@pytest.mark.parametrize("of", ["entity", "resource", "parent"])
async def test_a_call_that_names_a_new_limit_reads_the_limits_again(world: World, of: str) -> None:
    admin, user = await two(world)
    await admin.limiter.create_entity("p")
    await admin.limiter.create_entity("e", parent_id="p", cascade=True)
    await take(user.limiter, "e", "r", rpm=1)
    world.clock.advance(seconds=1)
    if of == "resource":
        await admin.limiter.set_resource_defaults("r", [OLD, TPM])
    else:
        await admin.limiter.set_limits("e" if of == "entity" else "p", [OLD, TPM], "r")
    await take(user.limiter, "e", "r", tpm=1)
    user.wire.sent()
    with pytest.raises(ValidationError, match="unknown limit"):
        await take(user.limiter, "e", "r", other=1)
    assert user.wire.sent() == []  # it has just read them
    world.clock.advance(seconds=1)
    for _ in range(3):
        with pytest.raises(ValidationError, match="unknown limit"):
            await take(user.limiter, "e", "r", other=1)
    assert len(user.wire.sent()) in (1, 2)  # of the whole path, once
