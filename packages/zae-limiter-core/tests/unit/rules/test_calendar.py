"""Calendar windows against an independent oracle, which watches the clocks of a zone and counts what they show."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from threading import Thread
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zae_limiter.rules.periods import periods_of
from zae_limiter.rules.registry import due_ms, minting_ms, rule_of, window_seconds
from zae_limiter.rules.rule import FOREVER_MS
from zae_limiter.values.clocks import LAST_MS
from zae_limiter.values.limits import MILLI, Limit

ZONES = sorted(available_timezones() - {"localtime"})
QUARTER_MS = 15 * 60_000
DAY_MS = 86_400_000
STRANGE = [  # changes at midnight, a day left out, a day repeated, half an hour, a minute past midnight
    ("Pacific/Apia", datetime(2011, 12, 30, 10, tzinfo=UTC)),
    ("Pacific/Kwajalein", datetime(1993, 8, 21, 12, tzinfo=UTC)),
    ("Pacific/Kiritimati", datetime(1995, 1, 1, 10, tzinfo=UTC)),
    ("America/Sao_Paulo", datetime(2018, 11, 4, 3, tzinfo=UTC)),
    ("America/Sao_Paulo", datetime(2019, 2, 17, 2, tzinfo=UTC)),
    ("America/Havana", datetime(2025, 11, 2, 5, tzinfo=UTC)),
    ("America/St_Johns", datetime(2010, 11, 7, 2, 31, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2025, 4, 5, 15, tzinfo=UTC)),
    ("Africa/Monrovia", datetime(1972, 1, 7, 0, 44, 30, tzinfo=UTC)),
    ("Asia/Pyongyang", datetime(2018, 5, 4, 15, tzinfo=UTC)),
    ("America/Juneau", datetime(1983, 10, 30, 10, tzinfo=UTC)),
]


def ms(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)


def wall(t_ms: int, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(t_ms / 1000, zone).replace(tzinfo=None)


@cache
def changes(zone: str, year: int = 2026) -> tuple[int, ...]:
    """The instants of a year, to the hour, at which the clocks of a zone are changed."""
    found, hours = [], range(ms(datetime(year, 1, 1, tzinfo=UTC)), ms(datetime(year + 1, 1, 1, tzinfo=UTC)), DAY_MS)
    offset = [datetime.fromtimestamp(t / 1000, ZoneInfo(zone)).utcoffset() for t in hours]
    found += [t for t, before, after in zip(hours, offset, offset[1:], strict=False) if before != after]
    return tuple(found)


def begun(limit: Limit, t_ms: int) -> int:
    return rule_of(limit).minted(t_ms) // (limit.capacity * MILLI)


def watched(zone: str, from_ms: int, until_ms: int, step_ms: int = QUARTER_MS) -> Iterator[tuple[int, datetime]]:
    """The latest time that the clocks have shown so far, instant by instant."""
    latest, tz = wall(from_ms - 2 * DAY_MS, ZoneInfo(zone)), ZoneInfo(zone)
    for t in range(from_ms - 2 * DAY_MS, until_ms, step_ms):
        latest = max(latest, wall(t, tz))
        if t >= from_ms:
            yield t, latest


def check_against_the_clocks(zone: str, at_ms: int) -> None:
    """Compare days, weeks, months and a cron expression with what the clocks show around an instant."""
    at_ms -= at_ms % QUARTER_MS
    at = wall(at_ms, ZoneInfo(zone))
    day = Limit.per_day("d", 1, window="calendar", timezone=zone)
    week = Limit.per_week("w", 1, window="calendar", timezone=zone, starts_on=at.isoweekday())
    month = Limit.per_month("m", 1, timezone=zone, starts_on=at.day)
    half = Limit.quota("h", 1, cron="30 2 * * *", timezone=zone)
    first: tuple[int, ...] = ()
    for t, latest in watched(zone, at_ms - 2 * DAY_MS, at_ms + 3 * DAY_MS):
        days = latest.toordinal()
        shown = (
            days,
            (days - at.isoweekday()) // 7,
            12 * latest.year + latest.month - (latest.day < at.day),
            (latest - timedelta(hours=2, minutes=30)).toordinal(),
        )
        counted = tuple(begun(limit, t) for limit in (day, week, month, half))
        first = first or tuple(one - other for one, other in zip(shown, counted, strict=True))
        assert tuple(one - other for one, other in zip(shown, counted, strict=True)) == first, (zone, t, latest)


@pytest.mark.long(keep=16)
@pytest.mark.parametrize("letter", sorted({zone[:6] for zone in ZONES}))
def test_windows_begin_when_the_clocks_of_every_zone_show_it(letter: str) -> None:
    for zone in ZONES:
        if zone.startswith(letter):
            for at_ms in changes(zone):
                check_against_the_clocks(zone, at_ms)


@pytest.mark.parametrize(("zone", "at"), STRANGE)
def test_so_they_do_at_the_strangest_changes(zone: str, at: datetime) -> None:
    if zone not in ZONES:
        pytest.skip(f"the database has no {zone}")
    check_against_the_clocks(zone, ms(at))


limits = st.one_of(
    st.builds(
        lambda zone, day: Limit.per_month("m", 7, timezone=zone, starts_on=day),
        st.sampled_from(ZONES),
        st.integers(1, 31),
    ),
    st.builds(
        lambda zone, day: Limit.per_week("m", 7, window="calendar", timezone=zone, starts_on=day),
        st.sampled_from(ZONES),
        st.integers(1, 7),
    ),
    st.builds(lambda zone: Limit.per_day("m", 7, window="calendar", timezone=zone), st.sampled_from(ZONES)),
    st.builds(lambda zone: Limit.per_year("m", 7, timezone=zone), st.sampled_from(ZONES)),
    st.just(Limit.per_hour("m", 7, window="calendar")),
    st.just(Limit.per_minute("m", 7, window="calendar")),
    st.builds(
        lambda cron, zone: Limit.quota("m", 7, cron=cron, timezone=zone),
        st.sampled_from(["0 6 * * MON", "30 2 * * *", "0 0 29 2 *", "*/20 9-17 * * 1-5", "0 12 L * *", "5 4 1,15 * 3"]),
        st.sampled_from(ZONES),
    ),
)


@given(limits, st.integers(0, ms(datetime(2150, 1, 1, tzinfo=UTC))), st.integers(1, 100_000))
def test_an_amount_is_reached_at_the_first_instant_that_has_minted_it(limit: Limit, t_ms: int, more: int) -> None:
    rule = rule_of(limit)
    before = rule.minted(t_ms)
    at_ms = rule.reached(before + more)
    assert t_ms < at_ms
    if at_ms < LAST_MS:
        assert rule.minted(at_ms) >= before + more > rule.minted(at_ms - 1)
        assert at_ms - t_ms <= minting_ms(limit, more)
    assert due_ms(rule_of(limit), more, t_ms) == (at_ms - t_ms if at_ms < FOREVER_MS else FOREVER_MS)


@given(limits, st.lists(st.integers(-(10**15), 10**16), min_size=2))
def test_what_was_minted_never_falls_whatever_was_asked_before(limit: Limit, instants: list[int]) -> None:
    rule = rule_of(limit)
    in_order = {t: rule.minted(t) for t in sorted(instants)}
    assert list(in_order.values()) == sorted(in_order.values())
    assert [rule.minted(t) for t in instants] == [in_order[t] for t in instants]


@given(limits)
def test_nothing_is_minted_up_to_the_epoch(limit: Limit) -> None:
    assert rule_of(limit).minted(0) == 0
    assert rule_of(limit).reached(0) == 0


@pytest.mark.parametrize("starts_on", [29, 30, 31])
def test_a_month_without_its_first_day_begins_on_its_last_one(starts_on: int) -> None:
    limit = Limit.per_month("m", 1, starts_on=starts_on)
    rule = rule_of(limit)
    t, begins = ms(datetime(2023, 12, 31, 12, tzinfo=UTC)), []
    for _ in range(14):
        t = rule.reached(rule.minted(t) + 1)
        begins.append(datetime.fromtimestamp(t / 1000, UTC).date())
    last = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 31, 28]
    expected = [date(2024 + at // 12, at % 12 + 1, min(starts_on, day)) for at, day in enumerate(last)]
    assert begins == expected


def test_a_year_of_any_zone_begins_with_its_january() -> None:
    rule = rule_of(Limit.per_year("y", 1, timezone="Europe/Berlin"))
    t, begins = ms(datetime(2023, 6, 1, tzinfo=UTC)), []
    for _ in range(3):
        t = rule.reached(rule.minted(t) + 1)
        begins.append(datetime.fromtimestamp(t / 1000, UTC))
    assert begins == [datetime(year, 12, 31, 23, tzinfo=UTC) for year in (2023, 2024, 2025)]  # 2024 has 366 days


def test_a_time_that_the_clocks_leave_out_comes_at_the_change_and_a_repeated_one_once() -> None:
    limit = Limit.quota("q", 1, cron="30 2 * * *", timezone="Europe/Berlin")
    rule = rule_of(limit)
    spring, autumn = datetime(2026, 3, 29, 1, tzinfo=UTC), datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert rule.reached(rule.minted(ms(spring) - 1) + 1) == ms(spring)
    assert rule.reached(rule.minted(ms(autumn) - 1) + 1) == ms(autumn)
    assert rule.minted(ms(autumn + timedelta(hours=1))) == rule.minted(ms(autumn))
    assert rule.reached(rule.minted(ms(autumn)) + 1) == ms(datetime(2026, 10, 26, 1, 30, tzinfo=UTC))


def test_a_midnight_that_the_clocks_go_back_over_begins_one_day() -> None:
    """At a minute past midnight the clocks of St John's were put back to the evening before."""
    days = periods_of("day", "America/St_Johns", 1)
    before, midnight, evening, again = (datetime(2010, 11, 7, 2, minute, tzinfo=UTC) for minute in (29, 30, 45, 50))
    assert days.begun(ms(midnight)) == days.begun(ms(before)) + 1
    assert days.begun(ms(evening)) == days.begun(ms(again)) == days.begun(ms(midnight))
    assert days.begun(ms(midnight + timedelta(hours=1))) == days.begun(ms(midnight))


def test_the_header_has_the_length_of_a_window_without_a_change() -> None:
    assert window_seconds(Limit.per_month("m", 5, timezone="Europe/Berlin")) == 31 * 86_400
    assert window_seconds(Limit.per_year("m", 5)) == 366 * 86_400
    assert window_seconds(Limit.per_week("m", 5, window="calendar")) == 7 * 86_400
    assert window_seconds(Limit.per_hour("m", 5, window="calendar")) == 3600
    assert window_seconds(Limit.quota("m", 5, cron="0 6 * * MON")) == 7 * 86_400
    assert window_seconds(Limit.quota("m", 5, cron="0 9,17 * * *")) == 16 * 3600
    assert window_seconds(Limit.total("m", 5)) is None


def test_a_total_mints_nothing_ever() -> None:
    rule = rule_of(Limit.total("credits", 5))
    assert (rule.minted(0), rule.minted(10**15)) == (0, 0)
    assert (rule.reached(0), rule.reached(1), rule.longest_ms(1)) == (0, FOREVER_MS, FOREVER_MS)


def test_threads_that_ask_of_different_windows_get_their_own() -> None:
    rule = rule_of(Limit.per_day("d", 1, window="calendar", timezone="Asia/Tokyo"))
    expected = [rule.minted(day * DAY_MS) for day in range(20_000, 20_040)]
    wrong: list[int] = []

    def ask(day: int) -> None:
        wrong.extend(day for _ in range(300) if rule.minted((20_000 + day) * DAY_MS) != expected[day])

    threads = [Thread(target=ask, args=(day,)) for day in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
