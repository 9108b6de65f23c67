"""The bounds of an hour hold whatever the order of its calls is."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zae_limiter import Limit
from zae_limiter.replay.hourly import HOUR_MS, Bounds, Hour, judged, looks_back_ms, summed
from zae_limiter.replay.writes import BucketLimits, Decider

BEGIN_MS = 1_764_028_800_000  # a Tuesday, at midnight UTC
LIMITS = [
    Limit.per_minute("rpm", 2),
    Limit.custom("rpm", 40, refill_period=3600),
    Limit.custom("rpm", 10, burst=90, refill_amount=30, refill_period=7200),
    Limit.custom("rpm", 60, kind="calendar", window="day", timezone="Europe/Berlin"),
    Limit.custom("rpm", 20, burst=30, kind="calendar", window="hour"),
    Limit.custom("rpm", 20, kind="first_use", refill_period=2400),
    Limit.custom("rpm", 30, kind="first_use", refill_period=9000),
    Limit.total("rpm", 100),
    Limit.custom("rpm", 0),
    Limit.custom("rpm", 50, refill_period=3600, schedule=["a: 01:20-03:10 5/min burst 20", "b: 04:00-05:00 0/min"]),
]


def a_day(random: Random) -> list[tuple[int, int]]:
    """Return instants and amounts of calls, of one size in each hour, often in bursts."""
    calls = []
    for hour in range(8):
        size, number = random.choice((1, 1, 3, 20)), random.choice((0, 1, 5, 30, 100))
        bursts = [random.randrange(HOUR_MS) for _ in range(random.choice((1, 2, 40)))]
        calls += [(BEGIN_MS + hour * HOUR_MS + random.choice(bursts), size) for _ in range(number)]
    return sorted(calls)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(LIMITS), st.integers(0, 2**32))
def test_what_a_limit_refuses_is_within_the_bounds_of_each_hour(limit: Limit, seed: int) -> None:
    decider = Decider(BucketLimits("key-1", "gpt-4", (limit,)))
    charged = decider.charged(("rpm",))
    calls, tokens, refused = Counter[int](), Counter[int](), Counter[int]()
    for at_ms, amount in a_day(Random(seed)):
        hour = at_ms - at_ms % HOUR_MS
        calls[hour] += 1
        tokens[hour] += amount
        refused[hour] += bool(decider.call(at_ms, charged, [amount * 1000]))
    found = judged(limit, [Hour(hour, calls[hour], 0, tokens[hour]) for hour in sorted(calls)])
    for used, bounds in found:
        assert bounds.least <= refused[used.begin_ms] <= bounds.most <= bounds.calls == calls[used.begin_ms]


def test_an_hour_that_fits_whatever_its_order_is_refused_nothing() -> None:
    quiet = [Hour(BEGIN_MS, 0, 0, 0), Hour(BEGIN_MS + HOUR_MS, 2, 0, 2)]
    assert judged(Limit.per_minute("rpm", 2), quiet)[1][1] == Bounds(0, 0, 2)


def test_an_hour_with_more_than_the_limit_gives_is_refused_the_rest() -> None:
    ((_, bounds),) = judged(Limit.per_minute("rpm", 2), [Hour(BEGIN_MS, 500, 0, 500)])
    assert bounds == Bounds(500 - 2 - 119, 500, 500)  # the 120th token of the hour comes at its end


def test_what_was_refused_counts_as_large_as_what_was_admitted() -> None:
    ((_, bounds),) = judged(Limit.custom("tpm", 100, refill_period=3600), [Hour(BEGIN_MS, 10, 90, 100)])
    assert bounds.calls == 100
    assert bounds.least == 100 - 199_999 // 10_000


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (Limit.concurrent("par", 3), Bounds(0, 5, 5)),
        (Limit.custom("rpm", 0), Bounds(5, 5, 5)),
        (Limit.per_minute("rpm", 3), Bounds(0, 5, 5)),
    ],
    ids=["slots", "blocked", "of unknown size"],
)
def test_of_calls_that_were_all_refused_little_is_known(limit: Limit, expected: Bounds) -> None:
    hours = [Hour(BEGIN_MS, 0, 5, 0), Hour(BEGIN_MS + HOUR_MS, 0, 0, 0)]
    assert judged(limit, hours)[0][1] == expected


def test_bounds_add_up() -> None:
    assert summed([Bounds(1, 2, 3), Bounds(4, 5, 6)]) == Bounds(5, 7, 9)
    assert summed([]) == Bounds(0, 0, 0)


def test_a_limit_looks_back_for_as_long_as_it_fills() -> None:
    assert looks_back_ms(Limit.per_minute("rpm", 2)) == 60_000
    assert looks_back_ms(Limit.custom("rpm", 10, burst=40, refill_period=3600)) == 4 * HOUR_MS
    assert looks_back_ms(Limit.custom("rpm", 0)) == 0
    assert looks_back_ms(Limit.custom("rpm", 60, schedule=["a: 00:00-01:00 60/hour"])) == HOUR_MS
