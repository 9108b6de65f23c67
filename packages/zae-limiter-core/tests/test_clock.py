"""The system's clock, from sources that a test sets, corrected by dates."""

import logging
import time
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zae_limiter.clock import SystemClock, read_http_date

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


@pytest.mark.parametrize("off_ms", [HOUR_MS, -24 * HOUR_MS])
def test_the_first_answer_brings_a_wrong_clock_to_the_stores(off_ms: int, caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine(off_ms)
    machine.hear(STORE_MS)
    assert abs(machine.clock.now_ms() - (STORE_MS + 250)) <= 1000
    (line,) = caplog.records
    assert line.levelno == logging.WARNING
    assert ("ahead of" if off_ms > 0 else "behind") in line.getMessage()


def test_the_line_of_a_repair_comes_once_and_says_how_far_off_it_was(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine(HOUR_MS)
    for _ in range(20):
        machine.hear(STORE_MS)
    assert [line.getMessage() for line in caplog.records] == [
        "this process's clock was 3599.8 s ahead of the store's: corrected"
    ]


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
    assert "3600.0 s behind the store's" in caplog.text


def test_a_jump_of_the_stores_clock_is_followed(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    machine.hear(STORE_MS)
    machine.hear(STORE_MS - HOUR_MS)
    assert abs(machine.clock.now_ms() - (STORE_MS - HOUR_MS + 250)) <= 500
    machine.hear(STORE_MS)
    assert machine.clock.now_ms() == STORE_MS + 250
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
