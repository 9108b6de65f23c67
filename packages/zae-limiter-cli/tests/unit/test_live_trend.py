"""What became of a bucket in the last minutes: pure, from readings."""

import pytest

from zae_limiter import Limit
from zae_limiter.values import Bucket
from zae_limiter.values.buckets import BucketLimit
from zae_limiter_cli.live.counters import STEP_MS
from zae_limiter_cli.live.rows import Place, Reading
from zae_limiter_cli.live.trend import STEPS, Trend, spark

RPM, KEY = Limit.per_minute("rpm", 60), Place("key", "gpt-4")


def reading(at_ms: int, consumed: int, refused: int = 0) -> Reading:
    limits = (BucketLimit(RPM, 30, consumed),)
    bucket = Bucket(*KEY, shard_count=1, limits=limits, anchor_ms=0, expires_at_ms=None, refused=refused)
    return Reading(at_ms, 0, {}, {KEY: bucket})


def trend(*readings: Reading) -> Trend:
    found = Trend()
    for each in readings:
        found.add(each)
    return found


def test_use_and_refusals_are_counted_by_the_half_minute() -> None:
    used = trend(*(reading(at * STEP_MS, consumed) for at, consumed in enumerate((5, 5, 20, 21))))
    assert used.of(KEY, "rpm") == (False, [0, 15, 1])
    refused = trend(*(reading(at * STEP_MS, at, refused) for at, refused in enumerate((2, 2, 9))))
    assert refused.of(KEY, "rpm") == (True, [0, 7])
    assert refused.of(Place("other", "gpt-4"), "rpm") == (False, [])


def test_looks_between_two_half_minutes_are_of_one_step() -> None:
    found = trend(*(reading(at * 2_000, at) for at in range(31)))
    assert found.of(KEY, "rpm") == (False, [15, 15])


def test_looks_a_minute_apart_are_of_two_steps_each_and_five_minutes_stay_five() -> None:
    found = trend(*(reading(at * 2 * STEP_MS, 10 * at) for at in range(20)))
    assert found.of(KEY, "rpm") == (False, [5] * STEPS)


def test_a_half_minute_that_was_not_seen_whole_is_left_out() -> None:
    found = trend(*(reading(STEP_MS // 2 + at * STEP_MS // 4, at) for at in range(8)))
    assert found.of(KEY, "rpm") == (False, [4])


def test_a_bucket_that_is_made_again_counts_anew_and_five_minutes_are_kept() -> None:
    assert trend(reading(0, 50), reading(STEP_MS, 4)).of(KEY, "rpm") == (False, [0])
    assert len(trend(*(reading(at * STEP_MS, at) for at in range(40))).of(KEY, "rpm")[1]) == STEPS


@pytest.mark.parametrize(
    ("steps", "shown"),
    [([], "    "), ([0, 0], "  ··"), ([1, 0, 100], " ▁·█"), ([50, 100, 100, 100, 100], "████"), ([7, 8, 4], " ▇█▄")],
)
def test_bars_are_beside_the_largest(steps: list[int], shown: str) -> None:
    assert spark(steps, 4) == shown
