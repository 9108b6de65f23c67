"""Limits with a schedule: other values at other times, which every process finds for itself."""

import asyncio
import math
import random
from contextlib import suppress
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from support.core.owners import maintenance_of
from support.core.shards import split_into
from support.core.worlds import World, drain, passes, take
from zae_limiter import Limit, RateLimiter, RateLimitExceeded, ValidationError, http
from zae_limiter.testing import ManualClock
from zae_limiter.values.timetables import timetable_of

BERLIN = "Europe/Berlin"
NIGHT = "night: 22:00-06:00 Europe/Berlin 10/min"
RPM = Limit.custom("rpm", 600, schedule=[NIGHT])


def go_to(world: World, *at: int, timezone: str = BERLIN) -> None:
    """Move the clock to a time in a zone."""
    instant = datetime(*at, tzinfo=ZoneInfo(timezone))  # type: ignore[misc,arg-type]
    world.clock.advance(ms=round(instant.timestamp() * 1000) - world.clock.now_ms())


def item_of(world: World, limiter: RateLimiter) -> dict[str, Any]:
    """The bucket's item, which is there."""
    item = world.bucket_of(limiter, "e", "r")
    assert item is not None
    return item


async def refusal(limiter: RateLimiter, **consume: int) -> RateLimitExceeded:
    with pytest.raises(RateLimitExceeded) as caught:
        await take(limiter, "e", "r", **consume)
    return caught.value


async def test_the_night_has_its_values_and_the_day_has_its_own(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    go_to(world, 2026, 11, 25, 21, 59)
    assert await drain(limiter, "e", "r", "rpm", step=100) == 600
    go_to(world, 2026, 11, 25, 22)
    assert await limiter.available("e", "r") == {"rpm": 10}
    assert await drain(limiter, "e", "r", "rpm") == 10
    go_to(world, 2026, 11, 26, 6)
    assert await drain(limiter, "e", "r", "rpm") == 10  # what the night has left
    world.clock.advance(1)
    assert await drain(limiter, "e", "r", "rpm") == 10  # 600 a minute


async def test_what_a_lease_settles_behind_a_boundary_is_not_paid_by_what_overflowed_before_it(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    go_to(world, 2026, 11, 25, 21, 30)
    async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
        go_to(world, 2026, 11, 25, 22)
        await lease.adjust(rpm=8)
    assert await limiter.available("e", "r") == {"rpm": 2}
    assert await drain(limiter, "e", "r", "rpm") == 2


async def test_a_lease_that_was_told_of_other_limits_meanwhile_settles_behind_a_boundary_as_well(world: World) -> None:
    (limiter, _), (other, _) = await world.process(), await world.process()
    await limiter.set_resource_defaults("r", [RPM])
    go_to(world, 2026, 11, 25, 21, 30)
    async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
        world.clock.advance(1)
        await other.repository.set_resource_switches("r", bypass=False)
        await maintenance_of(other.repository).invalidate_live_buckets("r", for_switches=True)
        go_to(world, 2026, 11, 25, 22)
        await lease.adjust(rpm=8)
    assert await limiter.available("e", "r") == {"rpm": 2}
    assert await drain(limiter, "e", "r", "rpm") == 2


async def test_a_lease_settles_behind_a_boundary_though_another_limit_has_changed_meanwhile(world: World) -> None:
    (limiter, _), (other, _) = await world.process(), await world.process()
    tpm, more = Limit.per_minute("tpm", 100), Limit.per_minute("tpm", 200)
    await limiter.set_resource_defaults("r", [RPM, tpm])
    go_to(world, 2026, 11, 25, 21, 30)
    async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
        world.clock.advance(1)
        await other.set_resource_defaults("r", [RPM, more])
        await take(other, "e", "r", rpm=1)
        go_to(world, 2026, 11, 25, 22)
        await lease.adjust(rpm=8)
    assert await other.available("e", "r") == {"rpm": 2, "tpm": 200}
    assert await drain(other, "e", "r", "rpm") == 2


async def test_limits_of_the_same_instant_as_the_buckets_bring_it_over_a_boundary_though_others_differ(
    world: World,
) -> None:
    (limiter, _), (other, _) = await world.process(), await world.process()
    tpm, more = Limit.per_minute("tpm", 100), Limit.per_minute("tpm", 200)
    await limiter.set_resource_defaults("r", [RPM, tpm])
    go_to(world, 2026, 11, 25, 21, 59)
    await limiter.available("e", "r")
    await other.set_resource_defaults("r", [RPM, more])
    await take(other, "e", "r", rpm=1)
    go_to(world, 2026, 11, 25, 22)
    assert await drain(limiter, "e", "r", "rpm", step=2) == 10


@pytest.mark.parametrize("before", ["no schedule", "another schedule"])
@pytest.mark.parametrize(("day", "night"), [(600, 60), (60, 600)])
async def test_a_lease_settles_behind_a_boundary_of_a_schedule_that_its_limit_has_got_since(
    world: World, day: int, night: int, before: str
) -> None:
    (limiter, _), (other, _) = await world.process(), await world.process()
    entry = f"night: 22:00-06:00 {BERLIN} {night}/min"
    former = [] if before == "no schedule" else [f"evening: 18:00-23:30 {BERLIN} {day}/min"]
    await limiter.set_limits("e", [Limit.custom("rpm", day, schedule=former)], "r")
    go_to(world, 2026, 11, 25, 21)
    async with limiter.acquire("e", "r", {"rpm": 5}) as lease:
        world.clock.advance(60)
        await other.set_limits("e", [Limit.custom("rpm", day, schedule=[entry])], "r")
        world.clock.advance(60)
        await take(other, "e", "r", rpm=1)
        go_to(world, 2026, 11, 25, 23)
        await lease.settle(rpm=8)
    assert await limiter.available("e", "r") == {"rpm": night - 3}
    assert await drain(limiter, "e", "r", "rpm") == night - 3


async def test_a_bucket_that_nobody_used_over_boundaries_has_what_their_values_make_of_it(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    go_to(world, 2026, 11, 25, 21)
    await take(limiter, "e", "r", rpm=600)
    go_to(world, 2026, 11, 26, 6, 0, 30)
    assert await limiter.available("e", "r") == {"rpm": 310}  # 10 of the night, 300 of half a minute
    assert await limiter.time_until_available("e", "r", {"rpm": 400}) == 9
    assert await drain(limiter, "e", "r", "rpm", step=10) == 310


async def test_the_whole_costs_one_write_at_a_boundary_and_no_read(world: World) -> None:
    limiter, wire = await world.process(config_cache_ttl=86_400.0)
    await limiter.set_resource_defaults("r", [RPM])
    go_to(world, 2026, 11, 25, 21, 59)
    await take(limiter, "e", "r", rpm=1)
    for at in ((25, 22), (26, 6)):
        go_to(world, 2026, 11, *at)
        wire.sent()
        await take(limiter, "e", "r", rpm=1)
        assert wire.sent() == ["Update"], at


async def test_a_refusal_is_over_at_the_boundary_if_that_comes_first(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    go_to(world, 2026, 11, 26, 5, 59)
    await take(limiter, "e", "r", rpm=10)
    refused = await refusal(limiter, rpm=100)
    assert refused.retry_after_seconds == 60 + 9  # ten are there at six, then ten a second
    status = refused.primary_violation
    assert status.schedule == "night until 06:00 Europe/Berlin"
    assert status.limit == Limit.per_minute("rpm", 10)
    assert http.headers(refused)["RateLimit-Policy"] == '"rpm";q=10;w=60'
    world.clock.advance(refused.retry_after_seconds - 0.001)
    assert not await passes(limiter, "e", "r", rpm=100)
    world.clock.advance(0.001)
    assert await passes(limiter, "e", "r", rpm=100)


async def test_no_schedule_ever_allows_more_than_its_largest_burst(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    assert math.isinf((await refusal(limiter, rpm=601)).retry_after_seconds)


async def test_a_limit_that_blocks_at_night_says_when_the_night_ends(world: World) -> None:
    limit = Limit.custom("rpm", 60, schedule=["closed: 20:00-08:00 0/min"])
    limiter, _ = await world.process(default_limits=[limit])
    go_to(world, 2026, 11, 25, 19, 59, timezone="UTC")
    await take(limiter, "e", "r", rpm=1)
    go_to(world, 2026, 11, 25, 20, timezone="UTC")
    assert (await refusal(limiter, rpm=1)).retry_after_seconds == 12 * 3600 + 1


async def test_a_bucket_that_is_not_there_yet_is_full_when_its_night_is_over(world: World) -> None:
    blocked = Limit.custom("rpd", 100, refill_period=86_400, schedule=["night: 22:00-06:00 capacity 0"])
    limiter, _ = await world.process(default_limits=[blocked])
    go_to(world, 2026, 11, 25, 23, timezone="UTC")
    refused = await refusal(limiter, rpd=50)
    assert refused.retry_after_seconds == 7 * 3600
    assert (await limiter.check("e", "r", {"rpd": 50})).retry_after_seconds == 7 * 3600
    world.clock.advance(refused.retry_after_seconds - 0.001)
    assert not await passes(limiter, "e", "r", rpd=50)
    world.clock.advance(0.001)
    assert await passes(limiter, "e", "r", rpd=50)


async def test_a_caller_who_waits_is_served_after_the_boundary(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    go_to(world, 2026, 11, 26, 5, 59, 59)
    await take(limiter, "e", "r", rpm=10)
    before = world.clock.now_ms()
    async with limiter.acquire("e", "r", {"rpm": 20}, max_wait=30):
        pass
    assert 2_900 <= world.clock.now_ms() - before <= 4_000


@pytest.mark.parametrize("values", ["capacity 0", "capacity 1"])
async def test_a_first_call_that_an_entry_refuses_begins_the_bucket_from_which_tokens_are_carried_over(
    world: World, values: str
) -> None:
    hourly = Limit.custom("rpm", 3, burst=6, kind="calendar", window="hour", schedule=[f"n: 06:00-07:00 {values}"])
    other = Limit.per_minute("tpm", 10)
    limiter, _ = await world.process(default_limits=[hourly, other])
    go_to(world, 2026, 5, 5, 6, 30, timezone="UTC")
    refused = await refusal(limiter, rpm=4, tpm=1)
    world.clock.advance(seconds=refused.retry_after_seconds)
    assert await passes(limiter, "e", "r", rpm=4, tpm=1)


async def test_a_refusal_says_that_the_schedule_never_lets_so_many_come(world: World) -> None:
    limit = Limit.custom("rpm", 3, burst=6, kind="calendar", window="day", schedule=["n: 23:00-01:00 capacity 0"])
    limiter, _ = await world.process(default_limits=[limit])
    go_to(world, 2026, 5, 5, 1, 10, timezone="UTC")
    refused = await refusal(limiter, rpm=5)
    assert refused.retry_after_seconds == math.inf
    assert "3 available; never so many come by themselves" in str(refused)
    assert "never so many come by themselves" in http.problem(refused)["detail"]


async def test_a_first_call_that_no_entry_lets_pass_begins_no_bucket(world: World) -> None:
    hourly = Limit.custom("rpm", 3, burst=6, kind="calendar", window="hour", schedule=["n: 06:00-07:00 capacity 1"])
    limiter, _ = await world.process(default_limits=[hourly])
    go_to(world, 2026, 5, 5, 6, 30, timezone="UTC")
    assert (await refusal(limiter, rpm=7)).retry_after_seconds == math.inf
    assert world.bucket_of(limiter, "e", "r") is None


async def test_of_two_entries_the_first_wins(world: World) -> None:
    schedule = ["sale: 2026-11-27 Europe/Berlin 1k/min", "friday: fri Europe/Berlin 5/min", NIGHT]
    limiter, _ = await world.process(default_limits=[Limit.custom("rpm", 600, schedule=schedule)])
    go_to(world, 2026, 11, 20, 12)
    assert await limiter.available("e", "r") == {"rpm": 5}
    go_to(world, 2026, 11, 27, 23)
    assert await limiter.available("e", "r") == {"rpm": 1000}


async def test_a_process_whose_clock_is_behind_goes_by_what_another_one_has_begun(world: World) -> None:
    fast, _ = await world.process(config_cache_ttl=86_400.0)
    await fast.set_resource_defaults("r", [RPM])
    go_to(world, 2026, 11, 25, 21, 59)
    clock = ManualClock(world.clock.now_ms() + 59_995)
    behind, wire = await world.process(config_cache_ttl=86_400.0, clock=clock)
    await take(behind, "e", "r", rpm=1)
    go_to(world, 2026, 11, 25, 22)
    assert await drain(fast, "e", "r", "rpm") == 10
    anchor = item_of(world, fast)["rf"]
    wire.sent()
    assert not await passes(behind, "e", "r", rpm=1)
    bucket = await behind.repository.get_bucket("e", "r")
    assert bucket is not None
    assert [each.limit.capacity for each in bucket.limits] == [10]
    assert bucket.anchor_ms == anchor, "it was not reshaped back"


@pytest.mark.parametrize("by_calls", [False, True])
@pytest.mark.parametrize("seed", range(6))
async def test_no_interval_admits_more_than_the_largest_burst_and_what_its_pieces_mint(
    world: World, seed: int, *, by_calls: bool
) -> None:
    dice = random.Random(seed)
    schedule = ["quiet: 12:00-12:01 6/min burst 7", "sale: 12:02-12:04 60/min burst 90", "off: 12:05-12:06 0/min"]
    limit = Limit.custom("rpm", 30, schedule=schedule)
    stored = [Limit.custom("rpm", 500)] if by_calls else [limit]
    processes = [(await world.process(default_limits=stored)).limiter for _ in range(3)]
    go_to(world, 2026, 11, 25, 11, 59, 30, timezone="UTC")
    begin = world.clock.now_ms()
    admitted: list[tuple[int, int]] = []
    while world.clock.now_ms() < begin + 480_000:
        amount, process = dice.randint(1, 12), dice.choice(processes)
        with suppress(RateLimitExceeded):
            async with process.acquire("e", "r", {"rpm": amount}, limits=[limit] if by_calls else None):
                admitted.append((world.clock.now_ms(), amount))
        world.clock.advance(ms=dice.choice((0, 7, 700, 3_000, 30_000)))
    table, minted = timetable_of(limit), [0]
    for second in range(481):
        values = table.at(begin + 1000 * second).limit
        minted.append(minted[-1] + (0 if values.blocks else values.refill_amount * 1000 // 60))
    for place, (first, _) in enumerate(admitted):
        total = 0
        for at, amount in admitted[place:]:
            total += amount
            come = minted[-(-(at - begin) // 1000)] - minted[(first - begin) // 1000]
            assert total * 1000 <= 90_000 + come, (first - begin, at - begin)


async def test_each_shard_has_its_share_of_the_values_in_force(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    go_to(world, 2026, 11, 25, 21)
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, 4)
    go_to(world, 2026, 11, 25, 22, 0, 30)
    assert await drain(limiter, "e", "r", "rpm") == 10


async def test_a_changed_config_holds_over_the_schedule_that_it_replaces(world: World) -> None:
    old, _ = await world.process(config_cache_ttl=3_600.0)
    new, _ = await world.process(config_cache_ttl=3_600.0)
    await old.set_limits("e", [RPM], "r")
    go_to(world, 2026, 11, 25, 21, 59)
    await take(old, "e", "r", rpm=1)
    await new.set_limits("e", [Limit.per_minute("rpm", 50)], "r")
    world.clock.advance(3)
    assert await drain(old, "e", "r", "rpm") == 50
    go_to(world, 2026, 11, 25, 22, 0, 1)
    await passes(old, "e", "r", rpm=1)
    bucket = await old.repository.get_bucket("e", "r")
    assert bucket is not None
    assert [each.limit.capacity for each in bucket.limits] == [50]


async def test_the_bucket_of_a_schedule_does_not_expire(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    await take(limiter, "e", "r", rpm=1)
    assert "ttl" not in item_of(world, limiter)


async def test_an_explanation_says_which_entry_holds_and_for_how_long(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    go_to(world, 2026, 11, 25, 21)
    await take(limiter, "e", "r", rpm=1)
    go_to(world, 2026, 11, 25, 23)
    found = await limiter.explain("e", "r", {"rpm": 20})
    [limit] = found.buckets[0].limits
    assert (limit.schedule, limit.available) == ("night until 06:00 Europe/Berlin", 10)
    assert limit.in_force == Limit.per_minute("rpm", 10)
    assert limit.wait_seconds == 7 * 3600 + 1


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("night", "it begins with a name"),
        ("night: 100/min", "it has no time"),
        ("night: 06:00-06:00 1/min", "is empty"),
        ("night: 25:00-26:00 1/min", "are not times"),
        ("night: mon", "it has no values"),
        ("night: mon burst 5", "it has no values"),
        ("night: mon 1/min shadow", "of the whole limit"),
        ("night: mon 1/min alert 80", "`alert` is of the whole limit: no entry changes it"),
        ("night: mon 50/week", "`50/week` is of a limit of the calendar, whose window no entry changes: write a rate"),
        (
            "night: mon 50/month",
            "`50/month` is of a limit of the calendar, whose window no entry changes: write a rate",
        ),
        ("night: mon 5/hour UTC", "`5/hour UTC` is of a limit of the calendar"),
        ("night: mon 50/day Europe/Berlin", "such as 50/hour, or `capacity 50`, after the zone"),
        ("night: mon capacity 50 UTC", "`capacity 50 UTC` is of a limit of the calendar"),
        ("night: 2026-02-30 1/min", "is not a date of the calendar"),
        ("night: sat 2026-11-27 1/min", "it never holds"),
        ("night: 2026-11-27..2026-11-20 1/min", "the last date is before the first"),
        ("night: mon capacity 5 burst 2", "for 2 at once write `capacity 2`"),
        ("night: mon Europe/Nowhere 1/min", "is not a time zone"),
        ("night: mon localtime 1/min", "is not a time zone"),
        ("night: mon capacity", "needs a value"),
    ],
)
def test_a_wrong_entry_is_refused_by_its_text(entry: str, problem: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Limit.custom("rpm", 10, schedule=[entry])
    assert str(caught.value).startswith(f"schedule of limit 'rpm' {entry!r}: ")
    assert problem in str(caught.value)


def test_what_goes_with_no_other_is_refused() -> None:
    night = "night: 00:00-06:00 5/min"
    for limit, problem in (
        ({"schedule": [night, night]}, "is the name of two entries"),
        ({"schedule": [night, "late: sat 02:00-03:00 1/min"]}, "never holds: night comes first"),
        ({"schedule": night}, "must be a list of entries"),
        ({"schedule": [7]}, "must have texts"),
        ({"schedule": [f"n{each}: mon {each}/min" for each in range(17)]}, "at most 16"),
        ({"schedule": ["night: mon capacity 5"], "kind": "total"}, "whose kind is total do not come back"),
        ({"schedule": ["night: mon 5/hour"], "kind": "calendar", "window": "day"}, "means nothing"),
    ):
        with pytest.raises(ValidationError, match=problem):
            Limit.from_dict({"name": "rpm", "capacity": 10, **limit})


async def test_the_whole_path_has_the_values_of_the_night(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.repository.create_entity("above")
    await limiter.repository.create_entity("e", parent_id="above", cascade=True)
    await limiter.set_limits("above", [Limit.custom("rpm", 50, schedule=[NIGHT])], "r")
    await limiter.set_limits("e", [Limit.custom("rpm", 600, schedule=["late: 22:00-06:00 Europe/Berlin 20/min"])], "r")
    go_to(world, 2026, 11, 25, 21, 59, 58)
    assert await drain(limiter, "e", "r", "rpm") == 50
    go_to(world, 2026, 11, 25, 22, 0, 1)
    assert await drain(limiter, "e", "r", "rpm") == 1  # of the last two seconds of the day
    refused = await refusal(limiter, rpm=30)
    waits = {status.entity_id: (status.schedule.split()[0], status.retry_after_seconds) for status in refused.statuses}
    night = 8 * 3600 - 1
    assert waits == {"e": ("late", night + 1), "above": ("night", night + 24)}


async def test_prefetch_goes_by_the_values_in_force(world: World) -> None:
    limit = Limit.custom("rpm", 600, prefetch=1, schedule=["night: 22:00-06:00 Europe/Berlin 120/min"])
    limiter, _ = await world.process()
    await limiter.set_resource_defaults("r", [limit])
    go_to(world, 2026, 11, 25, 21, 59, 58)
    assert await drain(limiter, "e", "r", "rpm") == 590
    go_to(world, 2026, 11, 25, 22)
    assert await drain(limiter, "e", "r", "rpm") == 20
    world.clock.advance(1)
    assert await drain(limiter, "e", "r", "rpm") == 2
    go_to(world, 2026, 11, 26, 6, 0, 1)
    assert await drain(limiter, "e", "r", "rpm") == 118 + 10


async def held_of(limiter: RateLimiter) -> int:
    """How many tokens the process holds of the bucket."""
    [rpm] = (await limiter.explain("e", "r")).buckets[0].limits
    return int(rpm.prefetched)


async def test_what_was_held_before_a_boundary_does_not_come_back_behind_it(world: World) -> None:
    sale = ["sale: 12:00-12:01 Europe/Berlin 600/min burst 1000"]
    limit = Limit.custom("rpm", 1, burst=1_000, prefetch=10, schedule=sale)
    limiter, _ = await world.process()
    await limiter.set_resource_defaults("r", [limit])
    go_to(world, 2026, 11, 25, 11, 59, 50)
    for acquires in range(1, 300):
        await take(limiter, "e", "r", rpm=1)
        world.clock.advance(seconds=0.02)
        if acquires > 100 and await held_of(limiter) > 10:
            break
    await asyncio.sleep(0.05)  # a write in the background takes no time by the world's clock
    held = await held_of(limiter)
    assert held > 10
    other, _ = await world.process()
    assert await drain(other, "e", "r", "rpm") == 999 - acquires - held
    go_to(world, 2026, 11, 25, 12, 1, 1)
    assert await drain(limiter, "e", "r", "rpm") in {600, 601}


async def test_a_call_may_pass_a_schedule(world: World) -> None:
    limiter, _ = await world.process()
    go_to(world, 2026, 11, 25, 21, 59)
    for admitted, seconds in ((600, 60), (10, 8 * 3600 + 1), (20, 0)):
        for _ in range(admitted // 10):
            async with limiter.acquire("e", "r", {"rpm": 10}, [RPM]):
                pass
        with pytest.raises(RateLimitExceeded):
            async with limiter.acquire("e", "r", {"rpm": 10}, [RPM]):
                pass
        world.clock.advance(seconds)


@pytest.mark.parametrize("entry", [NIGHT, "night: 22:00-06:00 Europe/Berlin 6000/min"])
async def test_a_schedule_that_a_live_limit_gets_counts_from_then_on(world: World, entry: str) -> None:
    limiter, _ = await world.process(config_cache_ttl=60.0)
    await limiter.set_resource_defaults("r", [Limit.per_minute("rpm", 600)])
    go_to(world, 2026, 11, 25, 21, 59)
    await take(limiter, "e", "r", rpm=600)
    for _ in range(24):
        world.clock.advance(1_800)
        await take(limiter, "e", "r", rpm=600)
    await limiter.set_resource_defaults("r", [Limit.custom("rpm", 600, schedule=[entry])])
    world.clock.advance(61)
    await take(limiter, "e", "r", rpm=600)
    world.clock.advance(1)
    assert await limiter.available("e", "r") == {"rpm": 10}
    assert await drain(limiter, "e", "r", "rpm") == 10
    go_to(world, 2026, 11, 26, 22, 0, 30)
    await passes(limiter, "e", "r", rpm=5)
    await limiter.set_resource_defaults("r", [Limit.per_minute("rpm", 600)])
    world.clock.advance(61)
    await passes(limiter, "e", "r", rpm=1)
    assert not [name for name in item_of(world, limiter) if name.endswith("_si")]


async def test_what_is_read_behind_a_boundary_is_what_the_next_write_finds(world: World) -> None:
    limiter, wire = await world.process()
    repository = limiter.repository
    await repository.set_resource_defaults("r", [RPM])
    await repository.set_tier_limits("gold", [RPM], "r")
    await repository.create_entity("planned", tier="gold")
    go_to(world, 2026, 11, 25, 21, 59)
    for entity_id in ("e", "planned"):
        await take(limiter, entity_id, "r", rpm=1)
    split_into(world, limiter, 2)
    other, wire = await world.process()
    for at in ((2026, 11, 25, 22, 0), (2026, 11, 26, 6, 0, 2)):
        go_to(world, *at)
        for entity_id in ("e", "planned"):
            explained = (await limiter.explain(entity_id, "r")).buckets[0].limits[0]
            bucket = await other.repository.get_bucket(entity_id, "r")
            assert bucket is not None
            assert bucket.limits[0].limit == explained.in_force
            assert bucket.available == {"rpm": explained.available}
            assert await other.repository.get_buckets(entity_id) == [bucket]
            assert await maintenance_of(other.repository).get_buckets_at([(entity_id, "r")]) == [bucket]
    await repository.set_resource_defaults("other", [Limit.per_minute("rpm", 5)])
    await take(limiter, "plain", "other", rpm=1)
    wire.sent()
    await other.repository.get_bucket("plain", "other")
    await other.repository.get_bucket("e", "r")
    assert wire.sent() == ["BatchGet", "BatchGet", "BatchGet"]  # without a schedule one, and no config that is known


async def test_a_bucket_that_does_not_tell_its_schedule_counts_by_the_values_that_it_has(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    go_to(world, 2026, 11, 25, 21, 59)
    await take(limiter, "e", "r", rpm=600)
    [key] = [key for key, item in world.table._items.items() if "b_rpm_si" in item]
    world.table._items[key] = {name: value for name, value in world.table._items[key].items() if name != "b_rpm_si"}
    go_to(world, 2026, 11, 25, 22, 0, 30)
    other, _ = await world.process(default_limits=[RPM])
    assert await drain(other, "e", "r", "rpm") == 10
    assert "b_rpm_si" in item_of(world, other)
