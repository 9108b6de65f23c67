"""Rows for people: what is stored begins no line of its own, and tells the terminal nothing."""

import shlex
import subprocess

import pytest

from zae_limiter_cli import columns
from zae_limiter_cli.columns import say_columns, say_command, say_sentence, say_wrapped
from zae_limiter_manifest.problems import INVISIBLE


@pytest.mark.parametrize("foreign", ["\n", "\r\n", "\x1b[2J", "\u202e", "\u3164", "\u2028", "\x9b31m"], ids=ascii)
def test_a_cell_is_printable_text_on_the_line_of_its_row(foreign: str, capsys: pytest.CaptureFixture[str]) -> None:
    say_columns([("PRINCIPAL", "ACTION"), (f"eve{foreign}ann", f"set{foreign}"), ("Zoë / CI #7", "last")])
    head, row, last = capsys.readouterr().out.removesuffix("\n").split("\n")
    assert row.isprintable()
    assert foreign not in row
    assert head.index("ACTION") == row.index("set") == last.index("last")


def test_the_last_column_breaks_by_words_below_itself(capsys: pytest.CaptureFixture[str]) -> None:
    say_wrapped([("LIMIT", "STATE"), ("rpm", "refuses, 9,833 of the burst usable")], width=28, indent="  ")
    assert capsys.readouterr().out.splitlines() == [
        "  LIMIT  STATE",
        "  rpm    refuses, 9,833 of",
        "         the burst usable",
    ]


def test_it_goes_below_the_row_where_little_room_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    say_wrapped([("a-limit-with-a-long-name", "refuses, for long")], width=30)
    assert capsys.readouterr().out.splitlines() == ["a-limit-with-a-long-name", "  refuses, for long"]


def test_a_cell_has_at_most_so_many_lines_and_says_that_there_is_more(capsys: pytest.CaptureFixture[str]) -> None:
    say_wrapped([("one two three four five six seven eight nine ten",)], width=20, most=2)
    first, second = capsys.readouterr().out.splitlines()
    assert (first, second[-4:], len(second) <= 20) == ("one two three four", " ...", True)


@pytest.mark.parametrize(
    ("room", "shown"),
    [
        (60, ["ENTITY       CASCADE", "acme         no", "└─ key\\x091  yes"]),
        (17, ["ENTITY  CASCADE", "acme  no", "└─ key\\x091  yes"]),
    ],
)
def test_a_tree_keeps_its_drawing_where_its_columns_have_no_room(
    room: int, shown: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(columns, "room_of_stdout", lambda: room)
    columns.say_tree([("ENTITY", "CASCADE"), ("acme", "no"), ("└─ key\t1", "yes")])
    assert capsys.readouterr().out.splitlines() == shown


LIFT = "zae-limiter lift 'acme corp' -r gpt-4 -l rpm:60/min --store sqlite:////srv/limits.db"


@pytest.mark.parametrize(("room", "most"), [(60, 60), (80, 80), (20, 38)])
def test_a_command_that_is_too_long_for_the_terminal_can_still_be_pasted(
    room: int, most: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(columns, "room_of_stdout", lambda: room)
    say_command(LIFT, indent="  ")
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= most
    assert shlex.split(shown.replace("\\\n", "")) == shlex.split(LIFT)  # as a shell reads it
    assert "-r gpt-4" in shown  # an option and its value stay on one line


@pytest.mark.parametrize("room", [None, 200])
def test_a_command_is_one_line_where_there_is_room(
    room: int | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(columns, "room_of_stdout", lambda: room)
    say_command(LIFT)
    assert capsys.readouterr().out == f"{LIFT}\n"


@pytest.mark.parametrize("room", [None, 20])
def test_a_command_shows_what_is_invisible_and_a_shell_reads_it_back(
    room: int | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(columns, "room_of_stdout", lambda: room)
    words = ["printf", "%s,", "--entity", "gpt-4\ufe0f'\\\u202e\U0001d159", "a b", "$x", "é"]
    say_command(shlex.join(words))
    shown = capsys.readouterr().out
    assert all(line.isprintable() and not INVISIBLE.search(line) for line in shown.splitlines())
    done = subprocess.run(["bash", "-c", shown], capture_output=True, env={"LC_ALL": "C.UTF-8"}, check=True)
    assert done.stdout.decode() == "".join(f"{word}," for word in words[2:])


@pytest.mark.parametrize("room", [None, 20])
def test_a_sentence_breaks_between_words_on_a_narrow_terminal_alone(
    room: int | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(columns, "room_of_stdout", lambda: room)
    say_sentence("key-1 is disabled until 09:30 on gpt-4: 1 live bucket was invalidated.")
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 1 if room is None else max(map(len, shown)) <= room
    assert " ".join(shown) == "key-1 is disabled until 09:30 on gpt-4: 1 live bucket was invalidated."


def test_all_cells_break_where_the_last_column_alone_would_not_do(capsys: pytest.CaptureFixture[str]) -> None:
    head, row = ("LIMIT", "BURST", "REFILL", ""), ("parallel", "5", "when freed (lost after 90 s)", "enough")
    say_wrapped([head, row], width=36, indent="  ")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 36
    assert [word in " ".join(lines) for word in ("parallel", "freed", "90", "enough")] == [True] * 4


def test_a_text_that_begins_in_a_column_stays_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "room_of_stdout", lambda: 30)
    assert columns.hanging("audit events 90 days, then archived", 10) == (
        f"audit events 90\n{' ' * 10}days, then archived"
    )
    monkeypatch.setattr(columns, "room_of_stdout", lambda: None)
    assert columns.hanging("audit events 90 days, then archived", 10) == "audit events 90 days, then archived"
