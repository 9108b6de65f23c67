import sys

import pytest

from zae_limiter_cli import columns
from zae_limiter_cli.columns import say_columns
from zae_limiter_cli.narrow import say_narrow, widths_of

HEAD = ("ENTITY", "HAS", "NAME")
ROWS = [HEAD, ("acme-corp/team-blue", "record, buckets", "The team that searches for Acme")]


def test_cells_break_between_words(capsys: pytest.CaptureFixture[str]) -> None:
    say_narrow(ROWS, width=46)
    assert capsys.readouterr().out.splitlines() == [
        "ENTITY               HAS          NAME",
        "acme-corp/team-blue  record,      The team",
        "                     buckets      that",
        "                                  searches for",
        "                                  Acme",
    ]


def test_a_row_whose_words_have_no_room_is_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    say_narrow([*ROWS, ("b", "-", "[bold]no markup[/]")], width=30)
    assert capsys.readouterr().out.splitlines() == [
        "ENTITY  acme-corp/team-blue",
        "HAS     record, buckets",
        "NAME    The team that searches",
        "        for Acme",
        "",
        "ENTITY  b",
        "HAS     -",
        "NAME    [bold]no markup[/]",
    ]


@pytest.mark.parametrize("width", [20, 30, 40, 60, 80])
def test_no_line_is_wider_than_the_terminal_and_no_letter_is_lost(
    width: int, capsys: pytest.CaptureFixture[str]
) -> None:
    say_narrow([HEAD, ("x" * 90, "a b", "c")], width=width, indent=2)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    assert "".join(lines).count("x") == 90


def test_room_goes_first_to_whom_needs_least() -> None:
    assert widths_of([("a b", "long words that go on", "c d e")], 16) == [3, 9, 4]


def test_without_a_terminal_a_row_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    say_columns(ROWS)
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert "rich" not in vars(columns)


def test_a_terminal_gets_lines_that_fit(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "46")
    say_columns(ROWS)
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_a_terminal_that_moves_no_cursor_has_its_width_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("FORCE_COLOR", "1")
    test_a_terminal_gets_lines_that_fit(monkeypatch, capsys)
