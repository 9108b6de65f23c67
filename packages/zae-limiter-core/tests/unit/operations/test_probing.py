"""The times of probes: what is known has an end, whatever the process did meanwhile."""

import pytest

from zae_limiter.operations.guard import BUSY, LONGEST_PAUSE, STANDSTILL, Probing

TIMEOUT = 3.0


@pytest.fixture
def probing() -> Probing:
    """An outage that began at 100 s."""
    of = Probing(TIMEOUT)
    of.begin(100.0)
    return of


def test_an_outage_is_known_until_its_first_probe_is_late(probing: Probing) -> None:
    assert probing.knows(100.05)
    assert probing.until_due(100.0) <= 0.1
    assert probing.until_due(100.1) == 0
    assert not probing.knows(100.1 + BUSY)


def test_what_is_known_is_never_older_than_a_second(probing: Probing) -> None:
    now = 100.1
    for _ in range(10):
        probing.ask(now)
        probing.unanswered(now, now + 0.01)
        assert not probing.knows(now + 1.01)
        while (pause := probing.until_due(now)) > 0:
            now += pause
            assert probing.knows(now)


def test_a_probe_that_hangs_does_not_hold_up_the_next_one(probing: Probing) -> None:
    probing.ask(100.1)
    assert probing.until_due(100.1 + LONGEST_PAUSE) == 0
    assert probing.knows(100.1 + LONGEST_PAUSE)


def test_calls_behind_a_freeze_wait_for_the_end_of_a_probe_that_began_behind_it(probing: Probing) -> None:
    probing.ask(100.1)
    assert not probing.knows(700.0)
    probing.ask(700.0)
    probing.unanswered(100.1, 700.01)  # it hung when the process was frozen
    assert not probing.knows(700.1)
    probing.unanswered(700.0, 700.2)
    assert probing.knows(700.2)


@pytest.mark.parametrize("frozen", [1.0, 60.0])
def test_calls_wait_for_as_long_as_the_last_silence_is_old(probing: Probing, frozen: float) -> None:
    thawed = 100.0 + frozen
    assert probing.patience(thawed) == frozen
    probing.ask(thawed)
    now = thawed
    while now + LONGEST_PAUSE < thawed + frozen:  # all of these hang
        now += LONGEST_PAUSE
        probing.ask(now)
        assert not probing.knows(now)
    assert probing.patience(now) == thawed + frozen - now
    probing.ask(thawed + frozen)
    assert probing.knows(thawed + frozen)


def test_a_probe_that_was_cut_off_is_good_for_as_long_as_it_took(probing: Probing) -> None:
    probing.ask(110.0)
    probing.cut_off(110.0, 110.5)
    probing.resume()
    assert probing.knows(110.9)
    assert not probing.knows(111.0)


def test_a_new_prober_rests_as_long_as_the_last_probe_took(probing: Probing) -> None:
    for instant in (110.0, 110.75, 111.5, 112.25):
        probing.ask(instant)
    probing.unanswered(110.0, 113.0)
    probing.resume()
    assert probing.knows(115.9)
    assert not probing.knows(116.0)


def test_a_request_shows_nothing_if_it_outlasted_a_standstill_or_began_before_the_last_answer(probing: Probing) -> None:
    assert probing.proves(101.0, 101.0 + TIMEOUT)
    assert not probing.proves(101.0, 101.1 + TIMEOUT + STANDSTILL)
    probing.answered(102.0)
    assert not probing.proves(101.0, 103.0)
    assert probing.proves(102.5, 103.0)
