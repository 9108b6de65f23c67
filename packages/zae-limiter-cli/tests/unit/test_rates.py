import pytest

from zae_limiter import Limit
from zae_limiter_cli.rates import rate


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1, "1k/sec"), (60, "1k/min"), (3600, "1k/hour"), (86400, "1k/rolling day"), (90, "1k/90s")],
)
def test_a_rate_is_told_as_on_the_command_line_where_that_has_a_word_for_it(seconds: int, text: str) -> None:
    assert rate(Limit.custom("rpm", 1000, refill_period=seconds)) == text


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (
            Limit.per_month("usd", 1250, timezone="Europe/Berlin", starts_on=15),
            "1_250/month Europe/Berlin from 15",
        ),
        (Limit.per_hour("rpm", 5, window="calendar"), "5/hour UTC"),
        (Limit.quota("seats", 3, cron="0 6 * * MON"), "3 cron 0 6 * * MON UTC"),
        (Limit.total("credits", 5), "never"),
        (Limit.total("credits", 5, expires=86_400), "never (expires 1d after its last use)"),
        (Limit.quota("rpm", 1_000, window=7_200), "1k per 2h from first use"),
    ],
)
def test_a_calendar_limit_tells_its_window(limit: Limit, text: str) -> None:
    assert rate(limit) == text
