"""Limits whose tokens come at the begin of a calendar window, and limits whose tokens never come back."""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from support.core.shards import shard_items, split_into
from support.core.worlds import World, drain, passes, take
from zae_limiter import Limit, RateLimiter, RateLimitExceeded, ValidationError, http
from zae_limiter.engines.dynamodb.images import BucketImages
from zae_limiter.engines.dynamodb.marshal import write_item
from zae_limiter.values.limits import MILLI

BERLIN = "Europe/Berlin"


def go_to(world: World, *at: int, timezone: str = "UTC") -> None:
    """Move the clock on to a time in a zone."""
    instant = datetime(*at, tzinfo=ZoneInfo(timezone))  # type: ignore[misc,arg-type]
    world.clock.advance(ms=round(instant.timestamp() * 1000) - world.clock.now_ms())


async def refusal(limiter: RateLimiter, **consume: int) -> RateLimitExceeded:
    with pytest.raises(RateLimitExceeded) as caught:
        await take(limiter, "e", "r", **consume)
    return caught.value


async def drained(limiter: RateLimiter, given: list[Limit], name: str = "usd") -> int:
    admitted = 0
    try:
        while True:
            async with limiter.acquire("e", "r", {name: 1}, given):
                admitted += 1
    except RateLimitExceeded:
        return admitted


async def test_the_quota_of_a_month_comes_on_its_first_day_in_its_zone(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.per_month("usd", 5, timezone=BERLIN, starts_on=15)])
    go_to(world, 2026, 3, 20)
    assert await drain(limiter, "e", "r", "usd") == 5
    refused = await refusal(limiter, usd=2)
    begin = datetime(2026, 4, 14, 22, tzinfo=UTC)  # summer time has begun
    assert refused.retry_after_seconds == (begin - datetime(2026, 3, 20, tzinfo=UTC)).total_seconds()
    assert http.headers(refused)["RateLimit-Policy"] == '"usd";q=5;w=2678400'
    world.clock.advance(refused.retry_after_seconds - 0.001)
    assert not await passes(limiter, "e", "r", usd=1)
    world.clock.advance(0.001)
    assert await drain(limiter, "e", "r", "usd") == 5


async def test_the_quota_of_a_leap_year_lasts_until_january(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.per_year("calls", 5, timezone=BERLIN)])
    go_to(world, 2028, 2, 29)
    assert await drain(limiter, "e", "r", "calls") == 5
    refused = await refusal(limiter, calls=1)
    assert refused.reason == "quota"
    world.clock.advance(refused.retry_after_seconds - 0.001)
    assert world.expire() == 0
    assert not await passes(limiter, "e", "r", calls=1)
    world.clock.advance(0.001)
    assert await drain(limiter, "e", "r", "calls") == 5
    begin = datetime(2028, 12, 31, 23, tzinfo=UTC)
    assert refused.retry_after_seconds == (begin - datetime(2028, 2, 29, tzinfo=UTC)).total_seconds()


async def test_an_unused_quota_ends_with_its_window(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.per_day("usd", 5, window="calendar", timezone=BERLIN)])
    go_to(world, 2026, 3, 28, 12, timezone=BERLIN)
    await take(limiter, "e", "r", usd=1)
    for day in (29, 30, 31):
        go_to(world, 2026, 3, day, timezone=BERLIN)
        assert await limiter.available("e", "r") == {"usd": 5}
    assert await drain(limiter, "e", "r", "usd") == 5


async def test_up_to_the_bound_is_carried_over_and_a_new_bucket_has_carried_nothing(world: World) -> None:
    limit = Limit.per_month("usd", 10, carry_over=4)
    limiter, _ = await world.process(default_limits=[limit])
    go_to(world, 2026, 1, 10)
    assert await limiter.available("e", "r") == {"usd": 10}
    await take(limiter, "e", "r", usd=3)
    assert await limiter.available("e", "r") == {"usd": 7}
    go_to(world, 2026, 2, 1)
    assert await limiter.available("e", "r") == {"usd": 14}
    await take(limiter, "e", "r", usd=12)
    go_to(world, 2026, 3, 1)
    assert await drain(limiter, "e", "r", "usd") == 12
    go_to(world, 2026, 4, 1)
    assert await drain(limiter, "e", "r", "usd") == 10


@pytest.mark.parametrize("staleness", [0, 1])
async def test_a_new_bucket_admits_no_more_than_it_begins_with(world: World, staleness: float) -> None:
    limits = [Limit.per_month("usd", 10, carry_over=4), Limit.total("credits", 5, burst=9)]
    limiter, _ = await world.process(default_limits=limits, rejection_staleness=staleness)
    for _ in range(2):
        refused = await refusal(limiter, usd=11)
        assert refused.violations[0].available == 10
        assert 0 < refused.retry_after_seconds < 32 * 86_400
    assert (await refusal(limiter, credits=6)).retry_after_seconds == math.inf
    assert not (await limiter.check("e", "r", {"usd": 11})).passes
    await take(limiter, "e", "r", usd=10, credits=5)
    await limiter.repository.create_entity("parent")
    await limiter.repository.create_entity("child", parent_id="parent", cascade=True)
    assert not await passes(limiter, "child", "r", usd=11)
    assert not await passes(limiter, "child", "r", credits=6)
    await take(limiter, "child", "r", usd=10, credits=5)
    assert await limiter.available("parent", "r") == {"usd": 0, "credits": 0}


async def test_a_first_call_for_more_than_a_bucket_begins_with_begins_it_so_that_its_wait_ends(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.per_day("usd", 10, window="calendar", carry_over=4)])
    go_to(world, 2026, 1, 10, 12)
    refused = await refusal(limiter, usd=12)
    assert refused.retry_after_seconds == 12 * 3600
    world.clock.advance(refused.retry_after_seconds - 0.001)
    assert not await passes(limiter, "e", "r", usd=12)
    world.clock.advance(0.001)
    assert await passes(limiter, "e", "r", usd=12)
    go_to(world, 2026, 1, 12, 23, 59)
    async with limiter.acquire("another", "r", {"usd": 12}, max_wait=90.0) as lease:
        assert lease.waited == 60
    assert (await refusal(limiter, usd=15)).retry_after_seconds == math.inf  # no bucket ever holds that


async def test_a_total_whose_first_call_asks_for_more_than_it_begins_with_can_be_credited(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.total("credits", 2, burst=10)])
    assert "credit the bucket" in str(await refusal(limiter, credits=3))
    assert await limiter.repository.credit_bucket("e", "r", {"credits": 1})
    assert await passes(limiter, "e", "r", credits=3)


async def test_a_reset_gives_one_quota_and_not_what_may_be_carried_over(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.per_month("usd", 10, carry_over=True)])
    await take(limiter, "e", "r", usd=10)
    assert await limiter.repository.reset_bucket("e", "r")
    assert await drain(limiter, "e", "r", "usd") == 10


async def test_a_cron_expression_begins_windows(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.quota("seats", 3, cron="0 6 * * MON", timezone=BERLIN)])
    go_to(world, 2026, 3, 27)
    assert await drain(limiter, "e", "r", "seats") == 3
    left = (datetime(2026, 3, 30, 4, tzinfo=UTC) - datetime(2026, 3, 27, tzinfo=UTC)).total_seconds()
    assert (await refusal(limiter, seats=1)).retry_after_seconds == left
    world.clock.advance(left)
    assert await drain(limiter, "e", "r", "seats") == 3


async def test_the_shards_have_their_shares_of_each_window(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.per_hour("usd", 10, window="calendar", carry_over=3)])
    go_to(world, 2026, 3, 1, 1, 30)
    await take(limiter, "e", "r", usd=5)
    split_into(world, limiter, 4)
    assert await drain(limiter, "e", "r", "usd") == 5
    assert (await refusal(limiter, usd=1)).retry_after_seconds == 1800
    go_to(world, 2026, 3, 1, 2)
    assert await drain(limiter, "e", "r", "usd") == 10
    go_to(world, 2026, 3, 1, 4)
    assert await drain(limiter, "e", "r", "usd") == 13


async def test_a_caller_that_waits_is_served_when_the_window_begins(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.per_minute("rpm", 2, window="calendar")])
    go_to(world, 2026, 3, 1, 1, 30)
    world.clock.advance(20)
    await take(limiter, "e", "r", rpm=2)
    async with limiter.acquire("e", "r", {"rpm": 1}, max_wait=60) as lease:
        assert 40 <= lease.waited < 41


@pytest.mark.parametrize(
    "limit",
    [
        Limit.per_month("usd", 10, timezone=BERLIN, starts_on=31, carry_over=2),
        Limit.quota("usd", 10, cron="0 6 * * MON", timezone="Asia/Kathmandu", shadow=True),
        Limit.total("usd", 10, burst=99),
    ],
)
async def test_stored_limits_and_buckets_keep_their_windows(world: World, limit: Limit) -> None:
    writer, reader = await world.process(), await world.process()
    await writer.repository.set_limits("e", [limit], "r")
    await take(writer.limiter, "e", "r", usd=1)
    assert await reader.repository.get_limits("e", "r") == [limit]
    bucket = await reader.repository.get_bucket("e", "r")
    assert bucket is not None
    assert [each.limit for each in bucket.limits] == [limit._rule]
    assert bucket.limits[0].available == 9
    [item] = shard_items(world, reader.limiter).values()
    assert BucketImages().read("", write_item(item)) == item
    assert Limit.from_dict(limit.to_dict()) == limit


async def test_a_bucket_changes_its_window_with_its_config_and_keeps_its_tokens(world: World) -> None:
    limiter, _ = await world.process()
    go_to(world, 2026, 3, 10)
    kinds = [
        (Limit.per_month("usd", 5, timezone=BERLIN), 5),
        (Limit.per_hour("usd", 5), 0),
        (Limit.per_month("usd", 5, starts_on=3), 0),
        (Limit.total("usd", 5), 0),
    ]
    for limit, left in kinds:
        assert await drained(limiter, [limit]) == left
        [item] = shard_items(world, limiter).values()
        stored = [item.get(f"b_usd_{name}") for name in ("kd", "wn", "tz", "so")]
        assert stored == [
            None if limit.kind == "token_bucket" else limit.kind,
            limit.window or None,
            None if limit.timezone == "UTC" else limit.timezone,
            None if limit.starts_on == 1 else limit.starts_on * MILLI,
        ]


async def test_an_idle_bucket_lives_until_its_window_has_come_whatever_the_clocks_do(world: World) -> None:
    limit = Limit.per_month("usd", 5, timezone=BERLIN, starts_on=1)
    limiter, _ = await world.process(default_limits=[limit], bucket_ttl_multiplier=1)
    go_to(world, 2026, 10, 1, timezone=BERLIN)  # 31 days and an hour
    await take(limiter, "e", "r", usd=5)
    [item] = shard_items(world, limiter).values()
    assert item["ttl"] * MILLI >= datetime(2026, 11, 1, tzinfo=ZoneInfo(BERLIN)).timestamp() * 1000
    go_to(world, 2026, 10, 31, 23, timezone=BERLIN)
    assert world.expire() == 0
    assert not await passes(limiter, "e", "r", usd=1)


async def test_the_tokens_of_a_total_never_come_back_by_themselves(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.total("credits", 5)], bucket_ttl_multiplier=1)
    assert await drain(limiter, "e", "r", "credits") == 5
    world.clock.advance(100 * 365 * 86_400)
    assert world.expire() == 0
    refused = await refusal(limiter, credits=1)
    assert refused.retry_after_seconds == math.inf
    assert refused.retry_after_header is None
    assert "0 available; no more come by themselves" in str(refused)
    assert "no more come by themselves" in http.problem(refused)["detail"]
    fields = {"RateLimit-Policy": '"credits";q=5', "RateLimit": '"credits";r=0', "x-should-retry": "false"}
    assert http.headers(refused) == fields
    assert await limiter.time_until_available("e", "r", {"credits": 1}) == math.inf
    with pytest.raises(RateLimitExceeded):
        async with limiter.acquire("e", "r", {"credits": 1}, max_wait=math.inf):
            pass
    assert await limiter.repository.credit_bucket("e", "r", {"credits": 3})
    assert await drain(limiter, "e", "r", "credits") == 3


async def test_a_total_holds_what_is_credited_up_to_its_burst_and_gets_back_what_a_lease_releases(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.total("credits", 5, burst=20), Limit.per_minute("rpm", 99)])
    async with limiter.acquire("e", "r", {"credits": 5, "rpm": 1}) as lease:
        await lease.adjust(credits=-2)
    assert await limiter.available("e", "r") == {"credits": 2, "rpm": 98}
    with pytest.raises(ValidationError, match="credit 18 at most, or raise its burst"):
        await limiter.repository.credit_bucket("e", "r", {"credits": 100})
    await limiter.repository.credit_bucket("e", "r", {"credits": 18})
    split_into(world, limiter, 2)
    assert await drain(limiter, "e", "r", "credits") == 20
    assert (await refusal(limiter, credits=1)).retry_after_seconds == math.inf


async def test_a_limit_of_another_kind_beside_a_total_still_tells_its_own_wait(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.total("credits", 50), Limit.per_minute("rpm", 2)])
    await take(limiter, "e", "r", credits=1, rpm=2)
    refused = await refusal(limiter, credits=1, rpm=1)
    assert 29 < refused.retry_after_seconds <= 30
    assert [each.limit_name for each in refused.violations] == ["rpm"]


async def test_an_override_and_a_shadow_limit_may_have_windows(world: World) -> None:
    limiter, _ = await world.process()
    go_to(world, 2026, 3, 10)
    await limiter.repository.set_limits("e", [Limit.per_month("usd", 2, shadow=True)], "r")
    await take(limiter, "e", "r", usd=2)
    async with limiter.acquire("e", "r", {"usd": 1}) as lease:
        assert [status.limit_name for status in lease.shadowed] == ["usd"]
        assert lease.shadowed[0].retry_after_seconds == 22 * 86_400


@pytest.mark.parametrize(
    ("make", "field", "told"),
    [
        (
            lambda: Limit.per_month("m", 5, timezone="Europe/Berlln"),
            "timezone",
            "is not a time zone, did you mean Europe/Berlin?",
        ),
        (lambda: Limit.per_month("m", 5, timezone="../etc/passwd"), "timezone", "not a time zone"),
        (lambda: Limit.per_month("m", 5, timezone="Europe"), "timezone", "not a time zone"),
        (lambda: Limit.per_month("m", 5, timezone="localtime"), "timezone", "not a time zone of this machine"),
        (lambda: Limit.per_month("m", 5, timezone="posixrules"), "timezone", "not a time zone of this machine"),
        (lambda: Limit.per_month("m", 5, timezone="right/UTC"), "timezone", "not a time zone of this machine"),
        (lambda: Limit.per_month("m", 5, timezone=""), "timezone", "not a time zone"),
        (lambda: Limit.per_month("m", 5, timezone=None), "timezone", "not a time zone"),  # type: ignore[arg-type]
        (lambda: Limit.per_month("m", 5, starts_on=32), "starts_on", "from 1 to 31"),
        (lambda: Limit.per_month("m", 5, starts_on=0), "starts_on", "from 1 to 31"),
        (lambda: Limit.per_month("m", 5, starts_on=True), "starts_on", "from 1 to 31"),
        (lambda: Limit.per_week("m", 5, window="calendar", starts_on=8), "starts_on", "from 1 to 7"),
        (lambda: Limit.per_week("m", 5, starts_on=2), "starts_on", "kind='calendar'"),
        (lambda: Limit.per_week("m", 5, timezone=BERLIN), "timezone", "add window='calendar'"),
        (lambda: Limit.per_day("m", 5, timezone=BERLIN), "timezone", "add window='calendar'"),
        (lambda: Limit.per_day("m", 5, window="fixed"), "window", "must be 'calendar'"),  # type: ignore[arg-type]
        (lambda: Limit.per_day("m", 5, carry_over=2), "carry_over", "add window='calendar'"),
        (lambda: Limit.per_day("m", 5, window="calendar", carry_over=-1), "carry_over", "whole number"),
        (lambda: Limit.per_day("m", 5, window="calendar", carry_over=0.5), "carry_over", "whole"),  # type: ignore[arg-type]
        (lambda: Limit.per_day("m", 5, window="calendar", carry_over=2, burst=7), "carry_over", "burst=7"),
        (lambda: Limit.per_day("m", 5, window="calendar", prefetch=1), "prefetch", "means nothing"),
        (lambda: Limit.quota("m", 5, cron="day"), "cron", "cron expression"),
        (lambda: Limit.quota("m", 5, cron="0 6 * *"), "window", "cron expression of five"),
        (lambda: Limit.quota("m", 5, cron="0 6 * * * *"), "window", "has 6: leave out the seconds"),
        (lambda: Limit.quota("m", 5, cron="0 25 * * *"), "window", "Bad hour"),
        (lambda: Limit.quota("m", 5, cron="0 6 30 2 *"), "window", "not a cron expression"),
        (lambda: Limit.custom("m", 5, window="day"), "window", "kind='calendar'"),
        (lambda: Limit.custom("m", 5, kind="calendar"), "window", "must be one of minute"),
        (lambda: Limit.custom("m", 5, kind="calendar", window="hour", timezone=BERLIN), "timezone", "must be UTC"),
        (lambda: Limit.custom("m", 5, kind="calendar", window="day", refill_period=9), "refill_period", "leave it out"),
        (lambda: Limit.custom("m", 5, kind="total", refill_amount=9), "refill_amount", "leave it out"),
        (lambda: Limit.custom("m", 5, kind="total", prefetch=1), "prefetch", "leave it out"),
    ],
)
def test_a_mistake_is_named(make: Callable[[], Limit], field: str, told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        make()
    assert f"{field} of limit 'm'" in str(caught.value)
    assert told in str(caught.value)


async def test_a_stored_zone_that_a_machine_does_not_know_is_one_clear_error(world: World) -> None:
    writer, reader = await world.process(), await world.process()
    await writer.repository.set_limits("e", [Limit.per_month("usd", 2, timezone=BERLIN)], "r")
    key = next(key for key in world.table._items if "CONFIG" in str(key))
    world.table._items[key]["l_usd_tz"] = "Mars/Olympus"
    with pytest.raises(Exception, match=r"timezone of limit 'usd' 'Mars/Olympus': is not a time zone of this machine"):
        await take(reader.limiter, "e", "r", usd=1)
