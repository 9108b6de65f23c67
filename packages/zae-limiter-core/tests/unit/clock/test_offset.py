"""What answers prove of the store's clock, and what is believed of it, in simulated time."""

import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zae_limiter.clock.estimate import DRIFT, Offset

EPOCH_MS = 1_790_000_000_000
HOUR_MS = 3_600_000.0


class Trip(NamedTuple):
    """One request and its answer, in ms: the pause before it, the way there and the way back."""

    pause: float
    there: float
    back: float


@dataclass
class Server:
    """A store's clock; its true offset is ``offset_ms`` at instant 0 of the monotonic clock, and drifts."""

    offset_ms: float
    drift: float = 0.0

    def fast_ms(self, at_ms: float) -> float:
        """The true offset."""
        return self.offset_ms + self.drift * at_ms

    def date_ms(self, at_ms: float) -> float:
        """The second of an answer."""
        return math.floor((at_ms + self.fast_ms(at_ms)) / 1000) * 1000.0


class Heard(NamedTuple):
    """What is known once an answer came at ``at_ms``, and how far off it is."""

    offset: Offset
    at_ms: float
    error_ms: float

    @property
    def width_ms(self) -> float:
        """What is proved to be possible now, from end to end."""
        return self.offset.upper - self.offset.lower + 2 * DRIFT * self.at_ms


def hear(server: Server, offset: Offset, trips: Iterable[Trip], *, begin_ms: float = 1e6) -> Iterator[Heard]:
    """What is known after each of these answers."""
    now = begin_ms
    for trip in trips:
        sent = now + trip.pause
        at = sent + trip.there
        now = at + trip.back
        offset = offset.after(server.date_ms(at), sent_ms=sent, received_ms=now)
        yield Heard(offset, now, offset.ms - server.fast_ms(now))


def busy(answers: int, seed: int) -> list[Trip]:
    """About twenty requests a second, of 2 to 10 ms."""
    chance = random.Random(seed)
    return [Trip(chance.expovariate(1 / 50), chance.uniform(1, 5), chance.uniform(1, 5)) for _ in range(answers)]


drifts = st.floats(-0.9 * DRIFT, 0.9 * DRIFT)
origins = st.floats(EPOCH_MS, EPOCH_MS + 10_000)
trips = st.lists(st.builds(Trip, st.floats(0, 5e6), st.floats(0, 3000), st.floats(0, 3000)), min_size=1, max_size=40)
wrong = st.one_of(st.floats(-3000, 3000), st.floats(-1e9, 1e9))


@given(origins, drifts, trips, wrong)
def test_the_true_offset_is_always_possible_where_dates_are_honest(
    origin: float, drift: float, trips: list[Trip], wrong: float
) -> None:
    for heard in hear(Server(origin, drift), Offset(origin + wrong), trips):
        apart, truth = DRIFT * heard.at_ms, heard.offset.ms - heard.error_ms
        assert heard.offset.lower - apart - 0.01 <= truth <= heard.offset.upper + apart + 0.01


@given(origins, drifts, trips, wrong)
def test_what_is_believed_is_never_further_off_than_what_is_possible_is_wide(
    origin: float, drift: float, trips: list[Trip], wrong: float
) -> None:
    for heard in hear(Server(origin, drift), Offset(origin + wrong), trips):
        assert abs(heard.error_ms) <= heard.width_ms + 0.01
        assert heard.width_ms <= 1000 + 6000 + 2 * DRIFT * heard.at_ms


@given(origins, trips)
def test_what_is_true_stays_believed(origin: float, trips: list[Trip]) -> None:
    assert {heard.offset.ms for heard in hear(Server(origin), Offset(origin), trips)} == {origin}


@given(origins, trips, wrong)
def test_an_answer_that_is_heard_again_proves_nothing_new(origin: float, trips: list[Trip], wrong: float) -> None:
    *_, last = hear(Server(origin), Offset(origin + wrong), trips)
    date = Server(origin).date_ms(last.at_ms)
    after = last.offset.after(date, sent_ms=last.at_ms, received_ms=last.at_ms)
    assert after.after(date, sent_ms=last.at_ms, received_ms=last.at_ms) is after


@given(origins, st.floats(0, 400), st.floats(0, 400), st.floats(2000, 1e9), st.sampled_from([-1, 1]))
def test_from_far_off_the_first_answer_leads_to_the_middle(
    origin: float, there: float, back: float, far: float, claim: int
) -> None:
    (heard,) = hear(Server(origin), Offset(origin + claim * far), [Trip(0, there, back)])
    assert abs(heard.error_ms) <= (1000 + there + back) / 2 + DRIFT * heard.at_ms


@pytest.mark.parametrize("wrong", [-24 * HOUR_MS, -300, 300, HOUR_MS])
@pytest.mark.parametrize("seed", range(10))
def test_a_hundred_answers_within_seconds_bring_it_to_tens_of_milliseconds(wrong: float, seed: int) -> None:
    server = Server(EPOCH_MS + random.Random(seed).uniform(0, 1000))
    errors = [abs(heard.error_ms) for heard in hear(server, Offset(server.offset_ms + wrong), busy(400, seed))]
    assert max(errors[100:]) < 100
    assert max(errors[200:]) < 50


@pytest.mark.parametrize("wrong", [-24 * HOUR_MS, HOUR_MS])
@pytest.mark.parametrize("fraction", range(0, 1000, 50))
def test_who_asks_once_a_second_with_a_clock_that_is_hours_off_is_right_within_half_a_minute(
    wrong: float, fraction: int
) -> None:
    server = Server(EPOCH_MS + fraction)
    asked = [Trip(870, 2, 2)] * 60
    errors = [abs(heard.error_ms) for heard in hear(server, Offset(server.offset_ms + wrong), asked)]
    assert max(errors[30:]) < 50


@pytest.mark.parametrize("jump", [-24 * HOUR_MS, -5000, 2500, HOUR_MS])
def test_a_jump_of_the_servers_clock_leads_to_starting_over(jump: float) -> None:
    server = Server(EPOCH_MS)
    *_, before = hear(server, Offset(EPOCH_MS), busy(400, 1))
    assert before.width_ms < 300
    server.offset_ms += jump
    first, *_, last = hear(server, before.offset, busy(400, 2), begin_ms=before.at_ms)
    assert abs(first.error_ms) < 520
    assert first.width_ms > 1000
    assert abs(last.error_ms) < 50


@pytest.mark.parametrize("seed", range(5))
def test_hosts_of_a_store_that_differ_by_milliseconds_move_it_by_no_more(seed: int) -> None:
    chance = random.Random(seed)
    hosts = [Server(EPOCH_MS + differs) for differs in (-3, 0, 3)]
    offset, now, errors = Offset(EPOCH_MS - HOUR_MS), 1e6, []
    for trip in busy(6000, seed):
        (heard,) = hear(chance.choice(hosts), offset, [trip], begin_ms=now)
        offset, now = heard.offset, heard.at_ms
        errors.append(abs(offset.ms - EPOCH_MS))
    assert max(errors[300:]) < 50


def test_what_was_proved_fades_by_a_third_of_a_second_to_each_side_in_an_hour() -> None:
    begun = Offset(EPOCH_MS).after(EPOCH_MS, sent_ms=0, received_ms=0)
    within, beyond = EPOCH_MS + 1300, EPOCH_MS + 1400  # a second that begins here contradicts it now, not in an hour
    assert begun.after(within, sent_ms=0, received_ms=0).lower == within
    later = begun.after(HOUR_MS + within, sent_ms=HOUR_MS, received_ms=HOUR_MS)
    assert later.upper == begun.upper
    assert begun.after(HOUR_MS + beyond, sent_ms=HOUR_MS, received_ms=HOUR_MS).upper != begun.upper


@given(st.floats(0.1, 900), st.sampled_from([-1, 1]))
def test_what_is_not_possible_goes_as_far_inside_as_it_was_outside_at_most_to_the_middle(
    outside: float, claim: int
) -> None:
    centre, half = EPOCH_MS + 500.0, 500.0
    before = Offset(centre + claim * (half + outside))
    after = before.after(EPOCH_MS, sent_ms=0, received_ms=0)
    assert abs(after.ms - centre) == pytest.approx(max(0, half - outside), abs=0.01)
