"""What a limit gives in a window, and how long a rest of it lasts."""

import pytest

from zae_limiter.rules.registry import lasts_seconds, rule_of
from zae_limiter.rules.windows import LimitWindow, given_in, period_seconds, window_at, window_capacity
from zae_limiter.values.limits import MILLI, Limit

AT_MS = 1_790_000_000_000  # 2026-09-21 14:13:20 UTC
HOUR = 1_789_999_200_000  # 2026-09-21 14:00 UTC

KINDS = [
    Limit.per_minute("slow", 7),
    Limit.custom("fast", 100, refill_amount=9, refill_period=2),
    Limit.per_month("month", 40),
    Limit.per_year("year", 40),
    Limit.quota("window", 30, window=17),
    Limit.quota("cron", 30, cron="14 * * * *"),
    Limit.total("total", 40),
]


@pytest.mark.parametrize("limit", KINDS, ids=lambda each: each.name)
@pytest.mark.parametrize("per_second", [0.05, 0.9, 5.0])
def test_a_rest_lasts_as_long_as_a_use_by_the_millisecond_finds(limit: Limit, per_second: float) -> None:
    rest, rule = 10, rule_of(limit).since(AT_MS)
    evenly = limit.kind == "token_bucket"
    found = lasts_seconds(limit, rest, per_second, AT_MS)
    horizon_ms = 300_000
    for elapsed in range(0, horizon_ms, 50):
        minted = rule.minted(AT_MS + elapsed) - rule.minted(AT_MS)
        used = per_second * elapsed
        if minted and not evenly and used <= rest * MILLI:
            assert found is None
            return
        if used >= rest * MILLI + (minted if evenly else 0):
            assert found == pytest.approx(elapsed / 1000, abs=0.2)
            return
    assert found is None or found * 1000 >= horizon_ms


def test_what_is_not_used_lasts_and_so_do_slots() -> None:
    assert lasts_seconds(Limit.total("total", 10), 10, 0.0, AT_MS) is None
    assert lasts_seconds(Limit.concurrent("slots", 10), 1, 100.0, AT_MS) is None


@pytest.mark.parametrize(
    ("limit", "begun_ms", "window", "capacity"),
    [
        (Limit.per_minute("rpm", 10), None, LimitWindow(HOUR, HOUR, HOUR + 3_600_000), 600),
        (
            Limit.custom("rpd", 10, refill_period=7200),
            None,
            LimitWindow(1_789_948_800_000, 1_789_948_800_000, 1_790_035_200_000),
            120,
        ),
        (Limit.total("credits", 10), None, LimitWindow(0, None, None), 10),
        (Limit.quota("rph", 10, window=60), None, None, 10),
        (Limit.quota("rph", 10, window=60), AT_MS - 1, LimitWindow(AT_MS - 1, AT_MS - 1, AT_MS + 59_999), 10),
        (Limit.quota("rph", 10, window=60), AT_MS - 60_000, None, 10),
    ],
)
def test_a_window_holds_the_instant(
    limit: Limit, begun_ms: int | None, window: LimitWindow | None, capacity: int
) -> None:
    assert window_at(limit, AT_MS, begun_ms) == window
    assert window_capacity(limit) == capacity * MILLI


@pytest.mark.parametrize(
    ("limit", "period", "tokens_an_hour"),
    [
        (Limit.custom("rate", 100, refill_amount=7, refill_period=90), 90, 280),
        (Limit.per_day("rpd", 48, window="calendar"), 86_400, 2),
        (Limit.quota("first", 10, window=7200), 7200, 5),
        (Limit.quota("cron", 30, cron="14 * * * *"), 3600, 30),
        (Limit.total("credits", 10), None, 0),
        (Limit.concurrent("slots", 10), None, 0),
    ],
    ids=lambda each: getattr(each, "name", None),
)
def test_what_comes_in_an_hour_follows_from_the_period(limit: Limit, period: int | None, tokens_an_hour: int) -> None:
    assert period_seconds(limit) == period
    assert given_in(limit, 3600) == tokens_an_hour * MILLI
