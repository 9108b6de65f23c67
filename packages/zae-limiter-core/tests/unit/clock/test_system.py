"""The system's clock, from sources that a test sets, corrected by dates."""

import logging
import time
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zae_limiter.clock.system import SystemClock, read_http_date

STORE_MS = 1_790_000_000_000
HOUR_MS = 3_600_000
UPTIME_MS = 5_000_000


class Machine:
    """The two clocks of a machine, in ms: ``off_ms`` is how far the wall clock is from the store's."""

    def __init__(self, off_ms: int = 0) -> None:
        self.wall_ms = STORE_MS + 250 + off_ms
        self.uptime_ms = UPTIME_MS
        self.clock = SystemClock(wall_ns=lambda: self.wall_ms * 10**6, monotonic_ns=lambda: self.uptime_ms * 10**6)

    def pass_time(self, ms: int) -> None:
        self.wall_ms += ms
        self.uptime_ms += ms

    @property
    def store_ms(self) -> int:
        """The store's time."""
        return STORE_MS + 250 + self.uptime_ms - UPTIME_MS

    @property
    def error_ms(self) -> int:
        """How far the clock is fast, by the store's."""
        return self.clock.now_ms() - self.store_ms

    def answers(self, *, seconds: int, off_ms: int = 0, each_second: int = 1) -> None:
        """So many seconds with answers, whose dates are off by so much."""
        for _ in range(seconds * each_second):
            self.hear(self.store_ms + off_ms)
            self.pass_time(1000 // each_second)

    def hear(self, store_ms: int) -> None:
        """An answer of this second."""
        self.clock.on_answer(formatdate(store_ms // 1000, usegmt=True), self.uptime_ms, self.uptime_ms)


def test_without_sources_it_is_the_systems() -> None:
    assert abs(SystemClock().now_ms() - time.time_ns() // 10**6) < 5000


def test_a_step_of_the_wall_clock_does_nothing() -> None:
    machine = Machine()
    machine.wall_ms -= HOUR_MS
    machine.pass_time(10)
    assert machine.clock.now_ms() == STORE_MS + 260
    machine.hear(STORE_MS)
    assert machine.clock.now_ms() == STORE_MS + 260


@pytest.mark.parametrize("off_ms", [HOUR_MS, -24 * HOUR_MS, 1600])
def test_two_answers_bring_a_wrong_clock_to_the_stores(off_ms: int, caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine(off_ms)
    machine.hear(STORE_MS)
    assert machine.error_ms == off_ms
    doubted_before = machine.clock.doubted
    machine.pass_time(900)
    machine.hear(STORE_MS + 1000)
    assert abs(machine.error_ms) <= 500
    assert (doubted_before, machine.clock.doubted) == (True, False)
    (line,) = caplog.records
    assert line.levelno == logging.WARNING
    assert ("fast" if off_ms > 0 else "slow") in line.getMessage()


def test_the_line_of_a_repair_comes_once_and_says_how_far_off_it_was(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine(HOUR_MS)
    machine.answers(seconds=20)
    assert [line.getMessage() for line in caplog.records] == [
        "this process's clock was 3599.8 s fast: corrected by the store's"
    ]


WRONG = pytest.mark.parametrize("off_ms", [HOUR_MS, -HOUR_MS, 365 * 24 * HOUR_MS, 5000])


@WRONG
@pytest.mark.parametrize("seconds", [0, 10])
def test_one_wrong_answer_does_nothing(off_ms: int, seconds: int, caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    machine.answers(seconds=seconds)
    machine.hear(machine.store_ms + off_ms)
    assert machine.error_ms == 0
    machine.answers(seconds=3)
    assert machine.error_ms == 0
    assert not machine.clock.doubted
    assert not caplog.records


@WRONG
def test_wrong_answers_between_right_ones_do_nothing_however_many_they_are(off_ms: int) -> None:
    machine = Machine()
    for _ in range(100):
        machine.answers(seconds=1, off_ms=off_ms)
        machine.answers(seconds=1)
        assert machine.error_ms == 0


def test_the_wall_clock_may_be_wrong_where_answers_have_proved_the_time() -> None:
    machine = Machine(HOUR_MS)
    machine.answers(seconds=3)
    believed = machine.error_ms
    for off_ms in (-HOUR_MS, 365 * 24 * HOUR_MS, 2 * HOUR_MS):
        machine.answers(seconds=1, off_ms=off_ms)
        assert machine.error_ms == believed


def test_a_date_that_is_repeated_is_not_believed_for_as_long_as_that_goes_on() -> None:
    machine = Machine()
    machine.answers(seconds=3)
    frozen = machine.store_ms
    for _ in range(100):
        machine.hear(frozen)
        machine.pass_time(50)
        assert abs(machine.error_ms) <= 1000
    machine.answers(seconds=3)
    assert abs(machine.error_ms) <= 1000


@pytest.mark.parametrize("pause_ms", [10, 300, 2000])
def test_a_date_that_is_repeated_is_not_believed_at_first(pause_ms: int) -> None:
    machine = Machine(HOUR_MS)
    for _ in range(20):
        machine.hear(STORE_MS - 24 * HOUR_MS)
        machine.pass_time(pause_ms)
    assert machine.error_ms == HOUR_MS
    assert machine.clock.doubted


def test_against_what_was_proved_and_the_machines_clock_it_takes_five_answers_of_different_seconds() -> None:
    machine = Machine()
    machine.answers(seconds=3)
    machine.answers(seconds=3, off_ms=HOUR_MS, each_second=5)  # of four seconds
    assert machine.error_ms == 0
    machine.answers(seconds=1, off_ms=HOUR_MS, each_second=5)
    assert abs(machine.error_ms - HOUR_MS) <= 500


def test_a_clock_that_is_right_or_nearly_so_is_corrected_without_a_line(caplog: pytest.LogCaptureFixture) -> None:
    for off_ms, corrected in [(0, 0), (-250, -250), (-400, -100), (900, 600)]:
        machine = Machine(off_ms)
        machine.hear(STORE_MS)
        assert machine.clock.now_ms() == pytest.approx(STORE_MS + 250 + corrected, abs=1)
    assert not caplog.records


def test_a_machine_that_slept_goes_by_its_wall_clock_again_where_that_is_possible(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = Machine()
    machine.hear(STORE_MS)
    machine.wall_ms += HOUR_MS  # the monotonic clock stood still
    machine.hear(STORE_MS + HOUR_MS)
    assert machine.clock.now_ms() == STORE_MS + HOUR_MS + 250
    assert "3600.0 s slow: corrected" in caplog.text


def test_a_machine_that_slept_and_whose_clock_is_wrong_is_right_after_two_answers() -> None:
    machine = Machine(24 * HOUR_MS)
    machine.answers(seconds=3)
    slept_ms = HOUR_MS
    machine.answers(seconds=1, off_ms=slept_ms)
    assert abs(machine.error_ms) <= 500
    machine.answers(seconds=1, off_ms=slept_ms)
    assert abs(machine.error_ms - slept_ms) <= 500


def test_a_jump_of_the_stores_clock_is_followed(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    machine.answers(seconds=3)
    machine.answers(seconds=5, off_ms=-HOUR_MS)
    assert abs(machine.error_ms + HOUR_MS) <= 500
    machine.answers(seconds=1)
    assert machine.error_ms == 0  # as the machine's clock says, too
    assert len(caplog.records) == 2


@given(st.integers(0, 4_000_000_000))
def test_the_dates_of_http_are_read_to_the_second(seconds: int) -> None:
    assert read_http_date(formatdate(seconds, usegmt=True)) == seconds * 1000


@pytest.mark.parametrize(
    "text",
    ["", " ", "yesterday", "Thu, 31 Feb 2026 00:00:00 GMT", "Fri, 20 Nov 99999 10:00:00 GMT", "Fri, 20 Nov 2026"],
)
def test_a_date_that_nobody_can_read_is_left_aside(text: str) -> None:
    machine = Machine()
    machine.clock.on_answer(text, UPTIME_MS, UPTIME_MS)
    assert machine.clock.now_ms() == STORE_MS + 250


words = st.sampled_from([*"0123456789,:+- ", "Fri", "Nov", "2026", "GMT", "20 Nov 2026 10:00:00", "-0000", "9" * 30])


@given(st.one_of(st.text(), st.lists(words).map("".join)))
def test_reading_a_date_never_fails(text: str) -> None:
    assert read_http_date(text) is None or isinstance(read_http_date(text), int)
