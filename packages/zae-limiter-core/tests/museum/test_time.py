"""Months, time zones, and when there is something again."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from museum.exhibits import shows
from museum.stage import Stage, admitted, passes
from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, http

HOUR = timedelta(hours=1)
ONE = {"calls": 1}


def first_admitted(since: datetime, call: Callable[[datetime], bool], *, every: timedelta = HOUR) -> datetime:
    """The first instant at which a call is admitted that is repeated so often."""
    return next(now for now in (since + times * every for times in range(1, 100)) if call(now))


def on(stage: Stage, limiter: SyncRateLimiter) -> Callable[[datetime], bool]:
    """A call at an instant."""

    def call(now: datetime) -> bool:
        stage.go_to(now)
        return passes(limiter, "consumer", ONE)

    return call


@shows("https://github.com/Kong/kong/issues/2817", "Incorrect expirations for redis policy on rate-limiting plugin")
def test_a_month_of_31_days_keeps_its_count_until_its_end(stage: Stage) -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    stage.go_to(begin)
    limiter = stage.process(Limit.per_month("calls", 5))
    assert admitted(9, lambda: passes(limiter, "consumer", ONE)) == 5
    assert first_admitted(begin, on(stage, limiter), every=12 * HOUR) == datetime(2026, 2, 1, tzinfo=UTC)

    def key_expires_after_30_days(now: datetime) -> bool:
        return (now - begin).total_seconds() >= 2_592_000

    assert first_admitted(begin, key_expires_after_30_days, every=12 * HOUR) == datetime(2026, 1, 31, tzinfo=UTC)


@shows(
    "https://github.com/BerriAI/litellm/issues/34896",
    "[Bug]: budget_limits window resets are delayed by the timezone offset when litellm_settings.timezone is set",
)
def test_a_month_begins_at_midnight_of_its_zone_and_not_an_offset_later(stage: Stage) -> None:
    tokyo = ZoneInfo("Asia/Tokyo")
    begin, end = datetime(2026, 7, 31, 12, tzinfo=tokyo), datetime(2026, 8, 1, tzinfo=tokyo)
    stage.go_to(begin)
    limiter = stage.process(Limit.per_month("calls", 5, timezone="Asia/Tokyo"))
    assert admitted(9, lambda: passes(limiter, "consumer", ONE)) == 5
    assert first_admitted(begin, on(stage, limiter)) == end

    def offset_is_dropped(now: datetime) -> bool:
        reset_at = datetime.fromisoformat("2026-08-01T00:00:00+09:00").replace(tzinfo=None)
        return reset_at <= now.astimezone(UTC).replace(tzinfo=None)

    assert first_admitted(begin, offset_is_dropped) == end + 9 * HOUR


@shows("https://github.com/Kong/kong/issues/2680", "[rate-limiting] rate-limiting plugin reset quota in UTC time 00:00")
def test_a_day_begins_at_midnight_of_its_zone(stage: Stage) -> None:
    shanghai = ZoneInfo("Asia/Shanghai")
    begin = datetime(2026, 7, 7, 12, tzinfo=shanghai)
    stage.go_to(begin)
    limiter = stage.process(Limit.per_day("calls", 5, window="calendar", timezone="Asia/Shanghai"))
    assert admitted(9, lambda: passes(limiter, "consumer", ONE)) == 5
    assert first_admitted(begin, on(stage, limiter)) == datetime(2026, 7, 8, tzinfo=shanghai)

    def day_is_that_of_utc(now: datetime) -> bool:
        return now.astimezone(UTC).date() > begin.astimezone(UTC).date()

    assert first_admitted(begin, day_is_that_of_utc) == datetime(2026, 7, 8, 8, tzinfo=shanghai)


@shows(
    "https://github.com/redis-developer/redis-ratelimiting-js/issues/3",
    "Token Bucket algorithm starvation problem in LUA-script implementation",
)
def test_who_asks_more_often_than_tokens_come_gets_every_one_of_them(stage: Stage) -> None:
    limiter = stage.process(Limit.per_second("calls", 1))
    assert passes(limiter, "user", ONE)

    def every_half_second() -> bool:
        stage.clock.advance(0.5)
        return passes(limiter, "user", ONE)

    assert admitted(120, every_half_second) == 60

    tokens, now, refilled_at = 0, 0.0, 0.0

    def clock_of_the_refill_moves_with_each_request() -> bool:
        nonlocal tokens, now, refilled_at
        now += 0.5
        tokens = min(1, tokens + int(now - refilled_at))
        refilled_at = now  # also if no whole token has come
        tokens -= (admits := tokens >= 1)
        return admits

    assert admitted(120, clock_of_the_refill_moves_with_each_request) == 0


@shows("https://github.com/apache/apisix/issues/9964", "bug: limit count X-RateLimit-Reset is 0")
def test_who_waits_as_long_as_the_refusal_says_is_admitted(stage: Stage) -> None:
    limiter = stage.process(Limit.per_minute("calls", 2, window="calendar"))

    def passes_after_the_wait(client: str, told: Callable[[RateLimitExceeded], int]) -> bool:
        assert admitted(5, lambda: passes(limiter, client, ONE)) == 2
        with pytest.raises(RateLimitExceeded) as refused, limiter.acquire(client, "gpt-4", ONE):
            pass
        stage.clock.advance(told(refused.value))
        return passes(limiter, client, ONE)

    def reset_of_a_window_in_which_nothing_is_left(refusal: RateLimitExceeded) -> int:
        remaining = refusal.violations[0].available
        return int(refusal.retry_after_seconds) if remaining else 0

    assert passes_after_the_wait("ann", lambda refusal: int(http.headers(refusal)["Retry-After"]))
    assert not passes_after_the_wait("bob", reset_of_a_window_in_which_nothing_is_left)
