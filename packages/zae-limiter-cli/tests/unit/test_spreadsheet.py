"""Every file of CSV is written by one function, which leaves a spreadsheet nothing to compute."""

import csv
from io import StringIO
from pathlib import Path

import pytest

import zae_limiter_cli
from zae_limiter_cli.spreadsheet import write_rows

SOURCE = Path(zae_limiter_cli.__file__).parent


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
def test_a_text_that_begins_like_a_formula_is_a_text(first: str) -> None:
    to = StringIO(newline="")
    write_rows(to, ["name", "amount"], [[f"{first}1+1", -5], [f"a{first}", 0.5]])
    rows = list(csv.reader(StringIO(to.getvalue(), newline="")))
    assert rows == [["name", "amount"], [f"'{first}1+1", "-5"], [f"a{first}", "0.5"]]


def test_nothing_else_writes_csv() -> None:
    texts = {path: path.read_text() for path in SOURCE.rglob("*.py")}
    others = [path for path, text in texts.items() if "import csv" in text or "from csv" in text]
    assert others == [SOURCE / "spreadsheet.py"]
