"""What is believed where answers lie, in simulated time."""

import math

from hypothesis import assume, given
from hypothesis import strategies as st

from zae_limiter.clock.estimate import Offset, TimeEstimate

EPOCH_MS = 1_790_000_000_000.0
MOST_MS = 2100.0  # a lie of less than a second more is not told from the truth; the trips take their time

pauses = st.floats(0, 1e6)
lies = st.one_of(st.floats(-1e11, 1e11), st.floats(-1e7, 1e7), st.floats(-3000, 3000))
walls = st.one_of(st.just(0.0), st.floats(-1e9, 1e9))


def hear(known: TimeEstimate, at_ms: float, date_off_ms: float, wall_off_ms: float) -> TimeEstimate:
    """What is known once an answer came at an instant of the monotonic clock, which began at ``EPOCH_MS``."""
    date_ms = math.floor((EPOCH_MS + at_ms + date_off_ms) / 1000) * 1000.0
    by_wall = Offset(EPOCH_MS + wall_off_ms)
    return known.after(date_ms, sent_ms=at_ms - 20, received_ms=at_ms + 20, by_wall=lambda: by_wall)


@given(st.lists(st.tuples(pauses, lies), min_size=1, max_size=30), walls)
def test_lies_between_true_answers_do_not_move_what_was_proved(told: list[tuple[float, float]], wall_ms: float) -> None:
    at_ms, known = 1e6, TimeEstimate(Offset(EPOCH_MS))
    for _ in range(3):
        at_ms += 1000
        known = hear(known, at_ms, 0, 0)
    for pause_ms, lie_ms in told:
        if abs(lie_ms - wall_ms) < 5000:
            continue  # a wall clock that is wrong by as much as the date agrees with it
        known = hear(known, at_ms := at_ms + pause_ms, lie_ms, wall_ms)
        assert abs(known.offset.ms - EPOCH_MS) <= MOST_MS
        known = hear(known, at_ms := at_ms + 1000, 0, wall_ms)
        assert abs(known.offset.ms - EPOCH_MS) <= MOST_MS


@given(pauses, lies, walls)
def test_two_true_answers_of_different_seconds_are_believed_whatever_came_before(
    pause_ms: float, lie_ms: float, wall_ms: float
) -> None:
    assume(abs(lie_ms - wall_ms) > 5000)  # a wall clock that is wrong by as much as the date agrees with it
    assume(abs(lie_ms - pause_ms - 2000) > 1000)  # an answer that repeats the date is left aside
    known = hear(TimeEstimate(Offset(EPOCH_MS + wall_ms)), 1e6, lie_ms, wall_ms)
    known = hear(known, 1e6 + 2000 + pause_ms, 0, wall_ms)
    known = hear(known, 1e6 + 4000 + pause_ms, 0, wall_ms)
    assert abs(known.offset.ms - EPOCH_MS) <= MOST_MS
    assert not known.doubted


def test_answers_that_overtake_each_other_count_once_a_second() -> None:
    known, at_ms = TimeEstimate(Offset(EPOCH_MS)), 1e6
    known = hear(known, at_ms, 0, 0)
    for lie_ms in [1e7, 1e7 + 900, 1e7, 1e7 + 900, 1e7, 1e7 + 900, 1e7, 1e7 + 900]:
        at_ms += 10
        known = hear(known, at_ms + 200, lie_ms, 0)
        assert known.answers <= 2
    assert known.offset.ms == EPOCH_MS
