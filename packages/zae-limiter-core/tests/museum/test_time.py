"""Months, time zones, and when there is something again."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from museum.exhibits import shows
from museum.stage import Stage, admitted, passes
from zae_limiter import Limit, RateLimitExceeded, http

HOUR = timedelta(hours=1)
ONE = {"rpm": 1}


@shows("https://github.com/Kong/kong/issues/2817", "Incorrect expirations for redis policy on rate-limiting plugin")
def test_a_month_of_31_days_keeps_its_count_until_its_end(stage: Stage) -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    stage.go_to(begin)
    limiter = stage.process(Limit.per_month("calls", 5))
    assert admitted(9, lambda: passes(limiter, "consumer", {"calls": 1})) == 5
    again = stage.first(
        lambda _: passes(limiter, "consumer", {"calls": 1}), since=begin, step=12 * HOUR, steps=80
    )
    assert again == datetime(2026, 2, 1, tzinfo=UTC)

    def counter_expires_after_30_days(now: datetime) -> bool:
        return now >= begin + timedelta(days=30)

    faulty = next(begin + n * 12 * HOUR for n in range(80) if counter_expires_after_30_days(begin + n * 12 * HOUR))
    assert faulty == datetime(2026, 1, 31, tzinfo=UTC)
