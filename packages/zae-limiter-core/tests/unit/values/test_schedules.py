"""When the entries of a schedule hold, compared with what the clocks show minute by minute."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zae_limiter import Limit
from zae_limiter.values.clocks import LAST_MS
from zae_limiter.values.schedule_text import DAYS, read_entry, write_entry
from zae_limiter.values.schedules import NEVER_MS, ScheduleEntry
from zae_limiter.values.timetables import timetable_of

MINUTE_MS = 60_000
DAY = timedelta(days=1)
CHANGES = [  # days around which the clocks of a zone are changed, some of them in odd ways
    ("Europe/Berlin", datetime(2026, 3, 29, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2026, 10, 25, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 11, 1, tzinfo=UTC)),
    ("America/Sao_Paulo", datetime(2018, 11, 4, tzinfo=UTC)),
    ("Asia/Beirut", datetime(2026, 3, 29, tzinfo=UTC)),
    ("America/Havana", datetime(2026, 11, 1, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 4, 5, tzinfo=UTC)),
    ("Pacific/Apia", datetime(2011, 12, 30, tzinfo=UTC)),
    ("UTC", datetime(2026, 12, 31, tzinfo=UTC)),
]
ENTRIES = [
    "night: 22:00-06:00 {} 1/min",
    "hour: 02:30-03:15 {} 2/min",
    "first: 21:00-22:45 {} 3/min",
    "weekend: sat-sun {} 4/min",
    "late: fri,sun 21:30-01:30 {} 5/min",
    "dates: {first}..{last} {} 6/min",
    "monday: mon 09:00-24:00 {} 7/min",
]


def watched(zone: str, begin: datetime, end: datetime) -> Iterator[tuple[int, datetime]]:
    """Every minute, with the latest time that the clocks have shown up to then: a repeated time is not a new one."""
    latest, at = datetime(1, 1, 1), begin - 2 * DAY  # noqa: DTZ001  of a wall clock
    while at < end:
        latest = max(latest, at.astimezone(ZoneInfo(zone)).replace(tzinfo=None))
        if at >= begin:
            yield round(at.timestamp() * 1000), latest
        at += timedelta(minutes=1)


def holds(entry: ScheduleEntry, shown: datetime) -> bool:
    """Whether an entry holds at a time that the clocks show, by its definition."""
    begin, end = entry.times or (0, 1440)
    for days_ago in (0, 1):
        day = shown.replace(hour=0, minute=0, second=0, microsecond=0) - days_ago * DAY
        is_on = not entry.days or day.isoweekday() in entry.days
        is_on = is_on and (entry.dates is None or entry.dates[0] <= day.date().isoformat() <= entry.dates[1])
        if is_on and begin <= (shown - day) / timedelta(minutes=1) < end:
            return True
    return False


@pytest.mark.long(keep=2)
@pytest.mark.parametrize(("zone", "change"), CHANGES)
def test_each_minute_has_the_first_entry_that_the_clocks_show(zone: str, change: datetime) -> None:
    dates = {"first": (change - DAY).date().isoformat(), "last": change.date().isoformat()}
    dice = random.Random(f"{zone}{change}")
    for _ in range(2):
        chosen = sorted(
            dice.sample(ENTRIES, 4), key=lambda text: text.startswith(("night", "weekend"))
        )  # which cover some
        limit = Limit.custom("rpm", 100, schedule=[each.format(zone, **dates) for each in chosen])
        table, piece = timetable_of(limit), None
        for at_ms, shown in watched(zone, change - 2 * DAY, change + 3 * DAY):
            found = next((entry for entry in limit.schedule if holds(entry, shown)), None)
            now = table.at(at_ms)
            assert now.entry == found, (at_ms, shown)
            assert now.begin_ms <= at_ms < now.end_ms
            assert piece is None or now == piece or at_ms == piece.end_ms == now.begin_ms, (at_ms, shown)
            assert now.limit.capacity == (found.capacity if found else 100)
            piece = now


@pytest.mark.parametrize("at_ms", [0, 1, LAST_MS - 1, LAST_MS, LAST_MS + 1, 1 << 60])
def test_no_instant_is_too_far(at_ms: int) -> None:
    limit = Limit.custom("rpm", 100, schedule=["night: 22:00-06:00 Europe/Berlin 1/min", "sale: 2026-11-27 5/min"])
    piece = timetable_of(limit).at(at_ms)
    assert piece.begin_ms <= at_ms < piece.end_ms <= NEVER_MS


def test_a_sale_is_over_for_good() -> None:
    table = timetable_of(Limit.custom("rpm", 100, schedule=["sale: 2026-11-27 500/min"]))
    after = table.at(round(datetime(2026, 11, 28, tzinfo=UTC).timestamp() * 1000))
    assert (after.limit.capacity, after.end_ms, after.text) == (100, NEVER_MS, "")
    sale = table.at(after.begin_ms - 1)
    assert (sale.limit.capacity, sale.text) == (500, "sale until 2026-11-28 00:00 UTC")
    assert sale.begin_ms == after.begin_ms - 86_400_000


def test_an_entry_changes_what_it_names_and_keeps_the_rest() -> None:
    limit = Limit.custom("rpm", 100, burst=200, shadow=True, schedule=["n: mon 10/hour burst 20", "m: tue capacity 5"])
    hour, five = (limit.during(entry) for entry in limit.schedule)
    assert hour == Limit.custom("rpm", 10, burst=20, refill_period=3600, shadow=True)
    assert five == Limit.custom("rpm", 5, shadow=True)


amounts = st.integers(0, 10**6)
entries = st.fixed_dictionaries(
    {
        "name": st.from_regex(r"\A[A-Za-z][A-Za-z0-9_-]{0,31}\Z"),
        "times": st.none() | st.tuples(st.integers(0, 1439), st.integers(1, 1440)).map(lambda t: (t[0], t[0] + t[1])),
        "days": st.sets(st.integers(1, 7)).map(lambda days: tuple(sorted(days))),
        "dates": st.none()
        | st.tuples(st.dates(datetime(2000, 1, 1).date()), st.integers(7, 99)).map(  # noqa: DTZ001
            lambda found: (found[0].isoformat(), found[0].replace(year=min(found[0].year + 1, 9999), day=1).isoformat())
        ),
        "timezone": st.sampled_from(["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5"]),
        "values": st.tuples(amounts, amounts, amounts, st.none() | st.integers(1, 10**6)),
    }
)


def whole(found: dict[str, object], values: tuple[int, int, int, int | None]) -> dict[str, object]:
    """The fields of an entry that some text gives."""
    capacity, more, amount, period = values
    burst = capacity + more if capacity else 0
    amount = (capacity if period is None else amount if capacity else 1) or 1
    if found["times"] is not None and found["times"][1] > 1440 + found["times"][0]:  # type: ignore[index]
        found["times"] = None
    return {**found, "capacity": capacity, "burst": burst, "refill_amount": amount, "refill_period": period}


@given(entries)
def test_the_text_of_an_entry_is_read_back(drawn: dict[str, object]) -> None:
    values = drawn.pop("values")
    entry = whole(dict(drawn), values)  # type: ignore[arg-type]
    if entry["times"] is None and not entry["days"] and entry["dates"] is None:
        entry["days"] = (1,)
    if isinstance(entry["dates"], tuple) and entry["dates"][1] < entry["dates"][0]:
        entry["dates"] = None
        entry["days"] = entry["days"] or (2,)
    if isinstance(entry["times"], tuple) and entry["times"][1] == entry["times"][0] + 1440 and entry["times"][0]:
        entry["times"] = (entry["times"][0], entry["times"][0] + 1)  # a day from another time than midnight has no text
    assert read_entry(write_entry(entry)) == entry


@pytest.mark.parametrize(
    ("text", "days"), [("mon-sun", 7), ("fri-mon", 4), ("weekdays", 5), ("weekends", 2), ("wed", 1)]
)
def test_days_are_read_as_ranges_lists_and_words(text: str, days: int) -> None:
    found = ScheduleEntry.parse(f"n: {text} 1/min")
    assert len(found.days) == days
    assert all(1 <= day <= len(DAYS) for day in found.days)
    assert ScheduleEntry.parse(str(found)) == found


@pytest.mark.parametrize(
    ("text", "at", "begin", "end"),
    [
        ("x: mon-sun capacity 3", "2026-11-26", "", ""),
        ("x: 00:00-24:00 capacity 3", "2026-11-26", "", ""),
        ("x: 2026-01-01..2027-12-31 capacity 3", "2026-11-26", "2026-01-01", "2028-01-01"),
        ("x: sat-sun capacity 3", "2026-11-29", "2026-11-28", "2026-11-30"),
        ("x: 2026-01-01..2027-12-31 capacity 3", "2030-01-01", "2028-01-01", ""),
        ("x: 2027-01-01..2027-12-31 capacity 3", "2026-11-26", "", "2027-01-01"),
    ],
)
def test_days_that_follow_each_other_are_one_piece(text: str, at: str, begin: str, end: str) -> None:
    piece = timetable_of(Limit.custom("rpm", 10, schedule=[text])).at(_ms(at) + 1)
    assert (piece.begin_ms, piece.end_ms) == (_ms(begin) if begin else 0, _ms(end) if end else NEVER_MS)


def _ms(day: str) -> int:
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) * 1000
