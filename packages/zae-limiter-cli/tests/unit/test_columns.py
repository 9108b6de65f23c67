"""Rows for people: what is stored begins no line of its own, and tells the terminal nothing."""

import pytest

from zae_limiter_cli.columns import say_columns


@pytest.mark.parametrize("foreign", ["\n", "\r\n", "\x1b[2J", "\u202e", "\u3164", "\u2028", "\x9b31m"], ids=ascii)
def test_a_cell_is_printable_text_on_the_line_of_its_row(foreign: str, capsys: pytest.CaptureFixture[str]) -> None:
    say_columns([("PRINCIPAL", "ACTION"), (f"eve{foreign}ann", f"set{foreign}"), ("Zoë / CI #7", "last")])
    head, row, last = capsys.readouterr().out.removesuffix("\n").split("\n")
    assert row.isprintable()
    assert foreign not in row
    assert head.index("ACTION") == row.index("set") == last.index("last")
