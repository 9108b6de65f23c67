"""Write CSV that a spreadsheet may open: every file of CSV that this package makes is written here.

A spreadsheet computes a cell whose text begins like a formula, also one that a client of an application chose as its
id: ``=HYPERLINK(...)`` sends other cells elsewhere. Such a text gets an apostrophe before it, which spreadsheets do not
show (https://owasp.org/www-community/attacks/CSV_Injection). Numbers stay numbers.
"""

import csv
from collections.abc import Iterable
from typing import Final, TextIO

# Tab, CR and LF are dropped by some programs before they look; the wide forms are those of East Asian keyboards.
FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def write_rows(to: TextIO, columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Write a head and rows."""
    writer = csv.writer(to)
    writer.writerow(columns)
    writer.writerows([as_cell(value) for value in row] for row in rows)


def as_cell(value: object) -> object:
    """Return a value as a cell that no spreadsheet computes."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
