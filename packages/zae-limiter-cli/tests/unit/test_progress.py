import io
from collections.abc import Callable

import pytest

from zae_limiter_cli.progress import phases
from zae_limiter_cli.terminal import Terminal


def at(*times: float) -> Callable[[], float]:
    """A clock that shows these times, one after the other."""
    return iter(times).__next__


def test_phases_are_drawn_after_a_second_and_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    stream = io.StringIO()
    terminal = Terminal(stream, live=True, colour=False, symbols=True)
    with phases(terminal, at(0.0, 0.9, 1.0, 1.0, 1.1, 1.3, 1.3)) as report:
        for phase in ("begins", "first", "too soon", "second"):
            report(phase)
    assert stream.getvalue() == "\r\x1b[2Kfirst\n\x1b[1A\r\x1b[2Ksecond\n\x1b[1A\r\x1b[2K"


def test_a_log_gets_no_phases() -> None:
    stream = io.StringIO()
    with phases(Terminal(stream, live=False, colour=False, symbols=True), at(0.0)) as report:
        report("reading")
    assert stream.getvalue() == ""
