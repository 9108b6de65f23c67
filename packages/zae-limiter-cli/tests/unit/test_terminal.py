import io
from collections.abc import Callable

import click
import pytest

from zae_limiter_cli.terminal import Terminal

At = Callable[[int], Terminal]
HASH = "sha256:" + 64 * "a"


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> At:
    """A terminal so many columns wide."""

    def terminal(columns: int) -> Terminal:
        monkeypatch.setenv("COLUMNS", str(columns))
        return Terminal(io.StringIO(), live=True, colour=True, symbols=True)

    return terminal


def test_a_line_that_fits_stays_as_it_is(at: At) -> None:
    text = "Namespace tenant-alpha\n" + "  " + 38 * "a" + "\n\nlast"
    assert at(40).fitted(text) == text


def test_a_longer_one_is_broken_between_words_with_its_rest_further_in(at: At) -> None:
    line = "  + tier free/_default_ (reaches 1,667 entities), and 2 more like this\n"
    assert at(40).fitted(line) == ("  + tier free/_default_ (reaches 1,667\n      entities), and 2 more like this\n")
    assert at(30).fitted(line) == (
        "  + tier free/_default_\n      (reaches 1,667\n      entities), and 2 more\n      like this\n"
    )


def test_colours_take_no_room_and_reach_to_the_end(at: At) -> None:
    painted = at(20).fitted("\x1b[32m  + entity key-0000, and more\x1b[0m\n")
    assert painted == "\x1b[32m  + entity key-0000,\n      and more\x1b[0m\n"
    assert max(map(len, click.unstyle(painted).splitlines())) <= 20


def test_a_word_that_is_longer_than_the_terminal_stays_where_it_is(at: At) -> None:
    assert at(80).fitted(f"tenant-alpha: valid, {HASH}\n") == f"tenant-alpha: valid,\n    {HASH}\n"
    assert at(60).fitted(f"tenant-alpha: valid, {HASH}\n") == f"tenant-alpha: valid, {HASH}\n"


def test_without_a_terminal_a_line_stays_one_for_grep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    assert Terminal.of(io.StringIO()).fitted("one line of text\n") == "one line of text\n"
