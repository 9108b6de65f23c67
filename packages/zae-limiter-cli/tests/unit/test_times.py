import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from zae_limiter_cli.errors import CommandError
from zae_limiter_cli.times import both, duration, iso, parse_end, parse_instant, shown

NOW = datetime(2024, 3, 10, 12, 30, 45, tzinfo=UTC)  # a Sunday


@pytest.fixture
def live_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Move the operator to a zone."""

    def move(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield move
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


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
    "text",
    [
        "",
        "noon",
        "6am",
        "25:00",
        "06:00Z UTC",
        "24",
        "-1h",
        "1.5h",
        "7 d",
        "7D",
        "2024-13-01",
        "999999999w",
        "0001-01-01T00:00+14:00",
    ],
)
def test_what_is_no_instant_is_told_with_the_option_the_value_and_the_way_out(text: str) -> None:
    with pytest.raises(CommandError) as refused:
        parse_instant("--since", text, NOW)
    told = str(refused.value)
    assert told.startswith(f"--since {text!r}: ")
    assert "24h" in told
    assert "\n" not in told


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("06:00", "03-10 06:00", "03-11 06:00"),
        ("6:00", "03-10 06:00", "03-11 06:00"),
        ("12:30:45", "03-10 12:30", "03-11 12:30"),
        ("22:00", "03-09 22:00", "03-10 22:00"),
        ("yesterday", "03-09 00:00", "03-09 00:00"),
        ("today 18:00", "03-10 18:00", "03-10 18:00"),
        ("Tomorrow 6:00", "03-11 06:00", "03-11 06:00"),
        ("monday", "03-04 00:00", "03-11 00:00"),
        ("mon 9:00", "03-04 09:00", "03-11 09:00"),
        ("sunday", "03-10 00:00", "03-17 00:00"),
        ("sun 22:00", "03-03 22:00", "03-10 22:00"),
        ("06:00 Europe/Berlin", "03-10 05:00", "03-11 05:00"),
        ("13:00 Europe/Berlin", "03-10 12:00", "03-11 12:00"),
        ("13:45 Europe/Berlin", "03-09 12:45", "03-10 12:45"),
        ("today Asia/Tokyo", "03-09 15:00", "03-09 15:00"),
        ("2024-03-12 06:00 Europe/Berlin", "03-12 05:00", "03-12 05:00"),
        ("2024-03-12, 06:00 +02:00", "03-12 04:00", "03-12 04:00"),
        ("06:00+02:00", "03-10 04:00", "03-11 04:00"),
        ("06:00z", "03-10 06:00", "03-11 06:00"),
    ],
)
def test_a_time_is_the_last_or_the_next_as_people_say_it(text: str, since: str, until: str) -> None:
    found = shown(parse_instant("--since", text, NOW)), shown(parse_end("--until", text, NOW))
    assert found == (f"2024-{since}", f"2024-{until}")


def test_a_time_without_a_zone_is_the_operators(live_in: Callable[[str], None]) -> None:
    live_in("America/New_York")
    assert both(parse_end("--until", "10:00", NOW)) == "2024-03-10 10:00 EDT (14:00 UTC)"
    assert both(parse_end("--until", "20:00", NOW)) == "2024-03-10 20:00 EDT (2024-03-11 00:00 UTC)"
    assert both(parse_end("--until", "2h", NOW)) == "2024-03-10 10:30 EDT (14:30 UTC)"
    assert both(parse_end("--until", "20:00 Europe/Berlin", NOW)) == "2024-03-10 20:00 Europe/Berlin (19:00 UTC)"
    assert parse_instant("--since", "2024-02-01", NOW, UTC) == datetime(2024, 2, 1, tzinfo=UTC)


def test_an_instant_is_shown_in_the_operators_zone_and_in_utc(live_in: Callable[[str], None]) -> None:
    assert both(NOW) == "2024-03-10 12:30 (UTC)"
    live_in("Asia/Tokyo")
    assert both(NOW) == "2024-03-10 21:30 JST (12:30 UTC)"


SKIPPED = "02:30 is left out on 2024-03-31{}, because clocks go forward: pass 03:30, or 2024-03-31T01:30Z"
TWICE = "02:30 comes twice on 2024-10-27{}, because clocks go back: pass 2024-10-27T00:30Z or 2024-10-27T01:30Z"


@pytest.mark.parametrize(("day", "told"), [("2024-03-31", SKIPPED), ("2024-10-27", TWICE)])
def test_a_time_that_clocks_skip_or_show_twice_is_refused(day: str, told: str, live_in: Callable[[str], None]) -> None:
    live_in("Europe/Berlin")
    for zone, where in ((" Europe/Berlin", " in Europe/Berlin"), ("", "")):
        text = f"{day} 02:30{zone}"
        with pytest.raises(CommandError) as refused:
            parse_end("--until", text, NOW)
        assert str(refused.value) == f"--until {text!r}: {told.format(where)}"


@pytest.mark.parametrize(
    ("text", "begin"),
    [
        ("2026-04-24 Africa/Cairo", "2026-04-24 01:00 Africa/Cairo (2026-04-23 22:00 UTC)"),
        ("2026-11-01 America/Havana", "2026-11-01 00:00 America/Havana (04:00 UTC)"),
    ],
)
def test_a_day_begins_with_its_first_instant(text: str, begin: str) -> None:
    """Of clocks that skip midnight, or show it twice."""
    assert both(parse_end("--until", text, NOW)) == begin


def test_an_unknown_zone_gets_the_one_that_may_be_meant() -> None:
    with pytest.raises(CommandError, match=r"^--until '06:00 Europe/Berlln': 'Europe/Berlln' .* Europe/Berlin\?$"):
        parse_end("--until", "06:00 Europe/Berlln", NOW)


def test_an_end_that_is_no_time_is_refused_with_the_way_out() -> None:
    with pytest.raises(CommandError) as refused:
        parse_end("--until", "tomorow", NOW)
    assert str(refused.value).startswith("--until 'tomorow': must be how long from now")
    assert "'06:00 Europe/Berlin'" in str(refused.value)


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
