"""Every file of CSV is written by one function, which leaves a spreadsheet nothing to compute."""

import csv
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import zae_limiter_cli
from zae_limiter_cli.spreadsheet import as_cell, write_rows

SOURCE = Path(zae_limiter_cli.__file__).parent


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
def test_a_text_that_begins_like_a_formula_is_a_text(first: str) -> None:
    to = StringIO(newline="")
    write_rows(to, ["name", "amount"], [[f"{first}1+1", -5], [f"a{first}", 0.5]])
    rows = list(csv.reader(StringIO(to.getvalue(), newline="")))
    assert rows == [["name", "amount"], [f"'{first}1+1", "-5"], [f"a{first}", "0.5"]]


@pytest.mark.parametrize("separator", [";", "\t", "|", ","])
@given(ids=st.lists(st.text(st.sampled_from('a1=+-@;\t|," \uff1d'), min_size=1, max_size=8), min_size=2, max_size=4))
def test_no_cell_begins_like_a_formula_for_a_reader_with_another_separator(separator: str, ids: list[str]) -> None:
    to = StringIO(newline="")
    write_rows(to, ["id"] * len(ids), [ids, ids])
    for row in csv.reader(StringIO(to.getvalue(), newline=""), delimiter=separator):
        assert [cell for cell in row if cell.startswith(("=", "+", "-", "@", "\t", "\uff1d"))] == []


@pytest.mark.parametrize("text", ["auth0|123", "a;b", "a=1", "a-b|c-d", "x@example.com", "a;'=1", ""])
def test_a_text_in_which_no_cell_begins_like_a_formula_is_written_as_it_is(text: str) -> None:
    assert as_cell(text) == text


def test_nothing_else_writes_csv() -> None:
    texts = {path: path.read_text() for path in SOURCE.rglob("*.py")}
    others = [path for path, text in texts.items() if "import csv" in text or "from csv" in text]
    assert others == [SOURCE / "spreadsheet.py"]
