"""Refusals by the minute: pure, from readings."""

from collections.abc import Mapping

from zae_limiter import Limit
from zae_limiter.values import Bucket
from zae_limiter.values.buckets import BucketLimit
from zae_limiter.values.usage import Refuser
from zae_limiter_cli.live.minutes import MINUTES, Minutes
from zae_limiter_cli.live.rows import MINUTE_MS, Place, Reading
from zae_limiter_cli.live.verdict import verdict_of

NOW = 1_000 * MINUTE_MS
KEY, TEAM, ALONE = Place("key", "gpt-4"), Place("acme", "gpt-4"), Place("alone", "gpt-4")
BY_TEAM = Refuser("acme", "rpm")


def bucket(place: Place, refused: int, refused_by: Mapping[Refuser, int] | None = None, names: str = "rpm") -> Bucket:
    limits = tuple(BucketLimit(Limit.per_minute(name, 60), 60, 0) for name in names.split())
    return Bucket(*place, 1, limits, 0, None, refused=refused, refused_by=refused_by or {})


def reading(at_ms: int, *buckets: Bucket) -> Reading:
    return Reading(at_ms, 0, {}, {Place(each.entity_id, each.resource): each for each in buckets})


def counted(*readings: Reading, most: int = 4) -> dict[str, dict[int, int]]:
    """The refusals of each limit by how many minutes ago they were."""
    minutes = Minutes()
    for each in readings:
        minutes.add(each)
    at_ms, found = minutes.by_limit(readings[-1].at_ms, most)
    assert len(at_ms) == MINUTES
    return {
        name: {MINUTES - 1 - place: number for place, number in enumerate(numbers) if number}
        for name, numbers in found.items()
    }


def test_a_refusal_by_a_parent_counts_once_at_the_limit_that_refused() -> None:
    before = reading(NOW, bucket(KEY, 2, {BY_TEAM: 2}), bucket(TEAM, 5), bucket(ALONE, 1, names="rpm tpm"))
    now = reading(NOW + 1_000, bucket(KEY, 6, {BY_TEAM: 5}), bucket(TEAM, 9), bucket(ALONE, 3, names="rpm tpm"))
    assert counted(before, now) == {
        "acme/rpm": {0: 4},  # three of the key, one of the team itself
        "alone, its own limits": {0: 2},
        "key/rpm": {0: 1},
    }


def test_refusals_between_readings_minutes_apart_are_spread_evenly_and_none_is_lost() -> None:
    found = counted(reading(NOW, bucket(ALONE, 0)), reading(NOW + 4 * MINUTE_MS, bucket(ALONE, 10)))
    assert found == {"alone/rpm": {4: 2, 3: 3, 2: 2, 1: 3}}
    late = counted(reading(NOW, bucket(ALONE, 0)), reading(NOW + 500 * MINUTE_MS, bucket(ALONE, 600)))
    assert sum(late["alone/rpm"].values()) in (590, 600)  # the oldest minute is out of sight


def test_a_bucket_that_began_anew_and_one_that_was_not_read_before_count_nothing() -> None:
    assert counted(reading(NOW, bucket(KEY, 9)), reading(NOW + 1_000, bucket(KEY, 1), bucket(ALONE, 4))) == {}


def test_the_limits_of_most_refusals_come_first_and_the_rest_together() -> None:
    places = [Place(f"e{number}", "r") for number in range(4)]
    before = reading(NOW, *(bucket(place, 0) for place in places))
    now = reading(NOW + 1_000, *(bucket(place, 1 + number) for number, place in enumerate(places)))
    assert list(counted(before, now, most=2).items()) == [("e3/rpm", {0: 4}), ("e2/rpm", {0: 3}), ("others", {0: 3})]


def test_a_minute_before_the_first_reading_is_unknown_and_a_quiet_one_is_nothing() -> None:
    minutes = Minutes()
    for at_ms, refused in ((NOW, 0), (NOW + MINUTE_MS, 0), (NOW + MINUTE_MS + 1_000, 3)):
        minutes.add(reading(at_ms, bucket(ALONE, refused)))
    _, found = minutes.by_limit(NOW + MINUTE_MS + 1_000, 4)
    assert found["alone/rpm"][-3:] == [None, 0, 3]


def test_the_verdict_without_a_bucket_is_that_no_call_is_refused() -> None:
    assert (verdict_of([]).trouble, verdict_of([]).text) == (False, "No call is refused now.")
