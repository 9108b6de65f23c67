"""How often an item is written, as one process measures it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zae_limiter.flows.process.write_rate import WriteRate

START = 1_700_000_000_000


def item(writes: int, *, shards: int = 1) -> dict[str, Any]:
    return {"b_wcu_tc": writes * 1000, "shard_count": shards}


def measured(*seen: tuple[int, int], shards: tuple[int, ...] = ()) -> WriteRate:
    """A process that saw so many writes at these instants."""
    write_rate = WriteRate()
    for index, (at_ms, writes) in enumerate(seen):
        if not write_rate.since_ms <= START + at_ms < write_rate.due_ms:
            write_rate.measure(item(writes, shards=shards[index] if shards else 1), START + at_ms)
    return write_rate


def exceeds(write_rate: WriteRate, most: int) -> bool:
    """Asked at once."""
    return write_rate.exceeds(most, write_rate.since_ms)


def test_an_answer_that_was_long_in_coming_does_not_make_a_slow_bucket_hot() -> None:
    write_rate = measured((0, 0), (1000, 2400))  # sent after a second; it came three seconds later
    assert not write_rate.exceeds(700, START + 4000)


def test_the_pace_is_what_was_written_between_two_answers_a_second_apart() -> None:
    assert measured((0, 100), (1000, 600)).per_second == 500
    assert measured((0, 100), (2000, 600)).per_second == 250


@pytest.mark.parametrize("seen", [((0, 100_000),), ((0, 0), (999, 10_000))])
def test_less_than_a_second_tells_nothing(seen: tuple[tuple[int, int], ...]) -> None:
    assert measured(*seen).per_second == 0
    assert not exceeds(measured(*seen), 1)


def test_more_than_the_threshold_exceeds_it_once() -> None:
    write_rate = measured((0, 0), (1000, 501))
    assert exceeds(write_rate, 500)
    assert not exceeds(write_rate, 500)
    assert not exceeds(measured((0, 0), (1000, 500)), 500)


def test_what_the_store_throttled_exceeds_a_tenth_of_it() -> None:
    write_rate = measured((0, 0), (1000, 51))
    write_rate.throttled()
    assert exceeds(write_rate, 500)
    idle = measured((0, 0), (1000, 50))
    idle.throttled()
    assert not exceeds(idle, 500)


def test_a_window_in_which_the_shard_was_split_tells_nothing() -> None:
    assert measured((0, 0), (1000, 5000), shards=(1, 2)).per_second == 0
    assert measured((0, 0), (1000, 5000), (2000, 6000), shards=(1, 2, 2)).per_second == 1000


def test_a_window_in_which_the_clock_was_set_back_tells_nothing() -> None:
    write_rate = measured((3_600_000, 0), (0, 600))
    assert write_rate.per_second == 0
    assert measured((3_600_000, 0), (0, 600), (1000, 700)).per_second == 100


@given(st.lists(st.tuples(st.integers(-5_000, 5_000), st.integers(0, 3)), min_size=2, max_size=50))
def test_a_bucket_that_is_hardly_written_never_exceeds_it_however_the_clock_jumps(
    steps: list[tuple[int, int]],
) -> None:
    write_rate, at, writes = WriteRate(), START, 0
    for step, more in steps:
        at, writes = at + step, writes + more
        if not write_rate.since_ms <= at < write_rate.due_ms:
            write_rate.measure(item(writes), at)
        assert not exceeds(write_rate, 500)
