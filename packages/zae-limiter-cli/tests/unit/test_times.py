from datetime import UTC, datetime, timedelta

import pytest

from zae_limiter_cli.errors import CommandError
from zae_limiter_cli.times import duration, iso, parse_instant, shown

NOW = datetime(2024, 3, 10, 12, 30, 45, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2024-01-31", datetime(2024, 1, 31, tzinfo=UTC)),
        ("2024-01-31T14:00", datetime(2024, 1, 31, 14, tzinfo=UTC)),
        ("2024-01-31 14:00Z", datetime(2024, 1, 31, 14, tzinfo=UTC)),
        ("2024-01-31T14:00:30+02:00", datetime(2024, 1, 31, 12, 0, 30, tzinfo=UTC)),
        ("30m", NOW - timedelta(minutes=30)),
        ("24h", NOW - timedelta(hours=24)),
        ("7d", NOW - timedelta(days=7)),
        ("2w", NOW - timedelta(weeks=2)),
        ("0h", NOW),
    ],
)
def test_an_instant_is_an_iso_time_in_utc_or_so_long_ago(text: str, instant: datetime) -> None:
    parsed = parse_instant("--since", text, NOW)
    assert (parsed, parsed.tzinfo) == (instant, UTC)


@pytest.mark.parametrize(
    "text", ["", "yesterday", "24", "-1h", "1.5h", "7 d", "7D", "2024-13-01", "999999999w", "0001-01-01T00:00+14:00"]
)
def test_what_is_no_instant_is_told_with_the_option_the_value_and_the_way_out(text: str) -> None:
    with pytest.raises(CommandError) as refused:
        parse_instant("--since", text, NOW)
    told = str(refused.value)
    assert told.startswith(f"--since {text!r}: ")
    assert "24h" in told
    assert "\n" not in told


def test_a_time_before_there_was_any_usage_is_refused() -> None:
    with pytest.raises(CommandError, match=r"^--until '1969-07-20': must not be before 1970-01-02$"):
        parse_instant("--until", "1969-07-20", NOW)


def test_times_are_shown_in_utc() -> None:
    elsewhere = NOW.astimezone(tz=None)
    assert (shown(elsewhere), iso(elsewhere)) == ("2024-03-10 12:30", "2024-03-10T12:30:45.000Z")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.04, "0.1 s"),
        (1.9, "1.9 s"),
        (10, "10 s"),
        (10.1, "11 s"),
        (59.2, "1 min"),
        (199.7, "3 min 20 s"),
        (3_599.5, "1 h"),
        (43_178.9, "12 h"),
        (43_138, "11 h 59 min"),
        (86_399, "1 d"),
        (183_600, "2 d 3 h"),
        (10**8, "1,157 d 10 h"),
    ],
)
def test_a_length_of_time_has_the_two_units_that_matter(seconds: float, text: str) -> None:
    assert duration(seconds) == text
