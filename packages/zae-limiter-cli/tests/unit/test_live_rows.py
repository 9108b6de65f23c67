"""The rows of `top`: pure, from two readings."""

from collections.abc import Mapping

import pytest

from zae_limiter import Limit
from zae_limiter.values import Bucket
from zae_limiter.values.buckets import BucketLimit
from zae_limiter.values.usage import Refuser
from zae_limiter_cli.live.rows import Order, Place, Reading, Row, Used, bar, cells, first_rows, heads, rate, rows_of
from zae_limiter_cli.live.running import change_of

HOUR = 3_600_000
RPM, TPM = Limit.per_minute("rpm", 60), Limit.per_minute("tpm", 1_000)


def bucket(place: Place, refused: int = 0, **limits: tuple[Limit, int, int]) -> Bucket:
    found = tuple(BucketLimit(*each) for each in limits.values())
    return Bucket(*place, shard_count=1, limits=found, anchor_ms=0, expires_at_ms=None, refused=refused)


def usage(refused: int, refused_by: Mapping[Refuser, int] | None = None) -> Used:
    return Used(1, refused, refused_by or {})


def reading(
    at_ms: int, *, usages: Mapping[Place, Used] | None = None, buckets: Mapping[Place, Bucket] | None = None
) -> Reading:
    return Reading(at_ms, at_ms - at_ms % HOUR, usages or {}, buckets or {})


KEY, OTHER = Place("key", "gpt-4"), Place("other", "gpt-4")


def only_row(now: Reading, before: Reading | None = None) -> Row:
    [row] = rows_of(now, before)
    return row


def test_a_row_shows_the_limit_with_the_smallest_part_left() -> None:
    row = only_row(reading(0, buckets={KEY: bucket(KEY, rpm=(RPM, 30, 5), tpm=(TPM, 100, 7))}))
    assert (row.limit, row.available, row.burst, row.left) == ("tpm", 100, 1_000, 0.1)
    assert (row.per_minute, row.refused_per_minute) == (None, None)


def test_a_limit_of_nothing_and_a_debt_have_nothing_left() -> None:
    blocked = only_row(reading(0, buckets={KEY: bucket(KEY, rpm=(Limit.per_minute("rpm", 0), 0, 0))}))
    debt = only_row(reading(0, buckets={KEY: bucket(KEY, rpm=(RPM, -30, 90))}))
    assert (blocked.left, debt.left) == (0.0, -0.5)


def test_rates_are_of_the_time_between_two_readings_and_of_what_the_bucket_counted() -> None:
    before = reading(HOUR, usages={KEY: usage(5)}, buckets={KEY: bucket(KEY, 5, rpm=(RPM, 60, 100))})
    now = reading(HOUR + 30_000, usages={KEY: usage(5)}, buckets={KEY: bucket(KEY, 8, rpm=(RPM, 50, 110))})
    row = only_row(now, before)
    assert (row.per_minute, row.refused, row.refused_per_minute) == (20.0, 5, 6.0)
    assert only_row(now, now).refused_per_minute is None


def test_a_place_without_a_bucket_in_both_readings_has_no_rate() -> None:
    now = reading(HOUR + 30_000, usages={KEY: usage(8)}, buckets={KEY: bucket(KEY, 8, rpm=(RPM, 50, 110))})
    for before in (reading(HOUR, usages={KEY: usage(5)}), reading(HOUR)):
        row = only_row(now, before)
        assert (row.per_minute, row.refused_per_minute) == (None, None)


def test_a_bucket_that_was_deleted_meanwhile_has_no_negative_rate() -> None:
    before = reading(0, buckets={KEY: bucket(KEY, 9, rpm=(RPM, 60, 100))})
    now = reading(1_000, buckets={KEY: bucket(KEY, 1, rpm=(RPM, 59, 1))})
    assert (only_row(now, before).per_minute, only_row(now, before).refused_per_minute) == (0, 0)


def test_the_ancestor_that_refused_most_of_it_is_named() -> None:
    many, few = Refuser("acme", "rpm"), Refuser("acme", "tpm")
    assert only_row(reading(0, usages={KEY: usage(10, {few: 2, many: 8})})).blocked_by == "acme/rpm"
    assert only_row(reading(0, usages={KEY: usage(10, {few: 2})})).blocked_by == ""


def test_a_lift_says_who_refuses_if_it_is_somebody_else() -> None:
    row = only_row(reading(0, usages={KEY: usage(1, {Refuser("acme", "rpm"): 1})}))
    told, words = change_of("lift", row, [])
    assert told == ["Most refusals of key come from acme/rpm, which this does not change."]
    assert words[0] == "lift"
    assert change_of("disable", row, [])[0] == []


@pytest.mark.parametrize(
    ("order", "first"), [("refused", "refused"), ("full", "short"), ("rate", "busy"), ("entity", "busy")]
)
def test_each_order_has_its_own_first(order: Order, first: str) -> None:
    busy, short, refused = Place("busy", "r"), Place("short", "r"), Place("refused", "r")
    before = reading(0, buckets={each: bucket(each, rpm=(RPM, 60, 0)) for each in (busy, short, refused)})
    now = reading(
        60_000,
        usages={refused: usage(9)},
        buckets={
            busy: bucket(busy, rpm=(RPM, 50, 90)),
            short: bucket(short, rpm=(RPM, 1, 5)),
            refused: bucket(refused, rpm=(RPM, 60, 1)),
        },
    )
    assert rows_of(now, before, order)[0].place.entity_id == first


def test_a_filter_asks_for_a_part_of_the_entity_or_the_resource() -> None:
    now = reading(0, buckets={each: bucket(each, rpm=(RPM, 1, 1)) for each in (KEY, OTHER)})
    assert [row.place for row in rows_of(now, None, only="the")] == [OTHER]
    assert len(rows_of(now, None, only="gpt")) == 2
    assert rows_of(now, None, only="nobody") == []


def test_a_bar_is_never_longer_than_its_width() -> None:
    assert [bar(left, 4, symbols=False) for left in (-1, 0, 0.5, 1, 3)] == ["....", "....", "##..", "####", "####"]


def test_a_rate_is_short() -> None:
    assert [rate(each) for each in (None, 0, 0.52, 7, 12.6, 1234.5)] == ["-", "0", "0.5", "7", "13", "1,234"]


@pytest.mark.parametrize("wide", [True, False])
def test_there_is_a_cell_for_each_head(wide: bool) -> None:  # noqa: FBT001
    row = only_row(reading(0, usages={KEY: usage(2)}))
    assert len(cells(row, wide=wide)) == len(heads(wide=wide))


def test_those_above_the_first_rows_are_shown_with_them() -> None:
    places = [Place(name, "gpt-4") for name in ("a", "b", "c", "d")]
    rows = rows_of(reading(0, usages={place: usage(9 - at) for at, place in enumerate(places)}), None)
    parents = {"a": ("c", "gone"), "c": ("d",), "d": ("a",)}  # records that were read while entities moved
    assert [row.place.entity_id for row in first_rows(rows, 1, parents)] == ["a", "c", "d"]
    assert [row.place.entity_id for row in first_rows(rows, 1, {})] == ["a"]


def test_who_is_refused_is_red_whatever_its_own_bucket_says() -> None:
    """A key with nearly all of its own tokens, whose parent's limit is spent, or refused it meanwhile."""
    team = Place("acme", "gpt-4")
    full = bucket(KEY, 3, rpm=(RPM, 58, 5))
    barred = {KEY: usage(3, {Refuser("acme", "rpm"): 3})}
    spent = {KEY: full, team: bucket(team, 3, rpm=(RPM, 0, 60))}
    rows = {row.place: row for row in rows_of(reading(HOUR, usages=barred, buckets=spent), None)}
    assert (rows[KEY].state, rows[KEY].is_empty, rows[team].is_empty) == ("out", False, True)
    again = {KEY: full, team: bucket(team, 3, rpm=(RPM, 40, 60))}
    assert {row.state for row in rows_of(reading(HOUR, usages=barred, buckets=again), None)} == {""}
    before = reading(HOUR - 60_000, buckets={KEY: bucket(KEY, 1, rpm=(RPM, 59, 4))})
    assert only_row(reading(HOUR, buckets={KEY: full}), before).state == "out"
