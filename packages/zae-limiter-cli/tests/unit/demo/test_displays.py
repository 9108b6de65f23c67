import io
import math

import pytest

from zae_limiter.engines.meter import Meter
from zae_limiter_cli.demo.events import CallBoard, Event
from zae_limiter_cli.demo.line_display import LineDisplay
from zae_limiter_cli.demo.summary import summarize
from zae_limiter_cli.demo.table_display import TableDisplay
from zae_limiter_cli.demo.wording import seconds
from zae_limiter_cli.terminal import Terminal

EVENTS = [
    Event("key-a", 0, "admitted", at=0.01),
    Event("key-a", 1, "admitted", at=0.01),
    Event("key-a", 2, "waiting", at=0.01, wait=2.0, short="project-1's rpm"),
    Event("user-1", 0, "refused", at=0.02, wait=12.0, short="rpm"),
    Event("user-1", 1, "refused", at=0.02, wait=math.inf, short="tpm"),
]


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def board(events: list[Event]) -> CallBoard:
    filled = CallBoard(Event(event.caller, event.call, "calling") for event in EVENTS)
    for event in events:
        filled.note(event)
    return filled


def test_a_table_has_a_mark_for_each_call_and_counts_waits_down(stream: io.StringIO) -> None:
    table = TableDisplay(Terminal(stream, live=True, colour=False, symbols=True), board(EVENTS))
    table.tick(0.5)
    assert "●●◌   2 admitted  1 wait 1.5 s for project-1's rpm" in stream.getvalue()
    assert "✕✕    0 admitted  2 refused, rpm in 12.0 s" in stream.getvalue()


def test_a_table_is_drawn_over_itself(stream: io.StringIO) -> None:
    table = TableDisplay(Terminal(stream, live=True, colour=False, symbols=False), board(EVENTS))
    table.tick(0.1)
    begun = stream.tell()
    table.tick(0.2)
    assert stream.getvalue()[begun:].startswith("\x1b[3A\r\x1b[2K  key-a   ##-")


def test_a_line_is_cut_where_the_terminal_ends_colours_not_counted(
    stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "9")
    terminal = Terminal(stream, live=True, colour=True, symbols=True)
    assert terminal.line([("12345", "red"), ("6789", "")]) == "\x1b[31m12345\x1b[0m678"


def test_no_color_and_a_file_mean_no_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    for live, no_color, coloured in ((True, "", True), (True, "1", False), (False, "", False)):
        monkeypatch.setenv("NO_COLOR", no_color)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr("sys.stdout", _Stream(live=live))
        terminal = Terminal.of_stdout()
        assert (terminal.live, terminal.colour) == (live, coloured)


class _Stream(io.TextIOWrapper):
    def __init__(self, *, live: bool) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8")
        self._live = live

    def isatty(self) -> bool:
        return self._live


def test_lines_join_the_calls_of_a_caller_that_fared_alike(stream: io.StringIO) -> None:
    lines = LineDisplay(Terminal(stream, live=False, colour=False, symbols=True), 6)
    for event in [*EVENTS, Event("key-a", 2, "admitted", at=2.0, waited=2.0)]:
        lines.note(event)
    lines.tick(2.0)
    assert stream.getvalue().splitlines() == [
        "   0.0 s  key-a    2 admitted",
        "   0.0 s  key-a    1 wait 2.0 s for project-1's rpm",
        "   0.0 s  user-1   2 refused, rpm in 12.0 s",
        "   2.0 s  key-a    1 admitted after 2.0 s",
    ]
    stream.truncate(0)
    lines.tick(2.1)
    assert stream.getvalue() == ""


def test_the_summary_adds_calls_and_units_up(stream: io.StringIO) -> None:
    events = [*EVENTS, Event("key-a", 2, "admitted", at=2.0, waited=2.0)]
    meter = Meter()
    meter.count_request("UpdateItem")
    meter.count_units(write=2, index=1)
    summarize(Terminal(stream, live=False, colour=False, symbols=True), board(events), meter)
    told = stream.getvalue()
    assert "key-a       3         3       1 (up to 2.0 s)        -" in told
    assert "5 calls made 6 acquires" in told
    assert "0.50 per acquire" in told
    assert "uncounted" not in told


def test_the_summary_says_what_was_let_through_uncounted(stream: io.StringIO) -> None:
    summarize(
        Terminal(stream, live=False, colour=False, symbols=True),
        board([Event("key-a", 0, "uncounted")]),
        Meter(),
    )
    assert "1 call admitted uncounted: the table was unavailable" in stream.getvalue()


@pytest.mark.parametrize(("duration", "words"), [(2.04, "2.0 s"), (0.05, "50 ms"), (0, "0.0 s")])
def test_a_short_wait_is_written_in_milliseconds(duration: float, words: str) -> None:
    assert seconds(duration) == words
