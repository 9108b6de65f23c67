from datetime import UTC, datetime, timedelta

import pytest

from zae_limiter import Limit, UsageSnapshot
from zae_limiter.values import Bucket
from zae_limiter.values.buckets import BucketLimit
from zae_limiter_cli.usage.forecast import Spent, budgets_of, gone_at, soonest, spent_by_place

NOW = datetime(2026, 11, 10, 6, tzinfo=UTC)
MONTH = Limit.parse("usd: 1000/month UTC")
END = datetime(2026, 12, 1, tzinfo=UTC)


def bucket(available: int, limit: Limit = MONTH, ends: datetime | None = END, entity: str = "acme") -> Bucket:
    ends_ms = None if ends is None else int(ends.timestamp() * 1000)
    limits = (BucketLimit(limit, available, limit.capacity - available, ends_ms),)
    return Bucket(entity, "gpt-4", 1, limits, 0, None)


def test_the_rate_is_that_of_the_last_24_hours() -> None:
    assert Spent(today=100, yesterday=80).per_day(NOW) == 160  # six hours of today, 18 of yesterday
    assert Spent(today=1, yesterday=80).per_day(NOW.replace(hour=0)) == 81


@pytest.mark.parametrize(
    ("available", "per_day", "gone"),
    [
        (100, 50, NOW + timedelta(days=2)),
        (0, 0, NOW),
        (-5, 50, NOW),
        (100, 0, None),
        (1000, 10, None),  # the month ends before
        (1, 1e-300, None),
    ],
)
def test_a_budget_is_gone_when_its_rest_is_used_unless_more_comes_before(
    available: int, per_day: float, gone: datetime | None
) -> None:
    assert gone_at(MONTH, available, per_day, NOW) == gone


def test_a_total_has_no_window_and_is_gone_some_day() -> None:
    total = Limit.parse("usd: 1000 total")
    assert gone_at(total, 1000, 10, NOW) == NOW + timedelta(days=100)


def test_windows_of_today_and_yesterday_count_by_place() -> None:
    def used(day: int, amount: int, resource: str = "gpt-4") -> UsageSnapshot:
        return UsageSnapshot("acme", resource, "daily", datetime(2026, 11, day, tzinfo=UTC), {"usd": amount}, 1)

    found = spent_by_place([used(8, 1), used(9, 20), used(10, 300), used(10, 7, "other")], NOW)
    assert found == {("acme", "gpt-4", "usd"): Spent(300, 20), ("acme", "other", "usd"): Spent(7, 0)}


def test_budgets_are_those_of_windows_and_totals_and_the_first_is_gone_first() -> None:
    rate = Limit.per_minute("rpm", 60)
    buckets = [
        bucket(900, entity="idle"),
        bucket(900, entity="lasts"),
        bucket(100, entity="soon"),
        bucket(0, entity="gone"),
        bucket(5, rate, None, "no-budget"),
        bucket(0, Limit.parse("usd: 0/month UTC"), entity="blocked"),
    ]
    spent = {(who, "gpt-4", "usd"): Spent(today=5, yesterday=20) for who in ("lasts", "soon")}
    found = sorted(budgets_of(buckets, spent, NOW), key=soonest)
    assert [(each.entity_id, each.gone_at) for each in found] == [
        ("gone", NOW),
        ("soon", NOW + timedelta(days=5)),
        ("idle", None),
        ("lasts", None),
    ]
    assert (found[1].percent, found[1].per_day, found[1].window_ends) == (90, 20, END)
