"""Write CSV that a spreadsheet may open: every file of CSV that this package makes is written here.

A spreadsheet computes a cell whose text begins like a formula, also one that a client of an application chose as its
id: ``=HYPERLINK(...)`` sends other cells elsewhere. Such a text gets an apostrophe before it, which spreadsheets do not
show (https://owasp.org/www-community/attacks/CSV_Injection). In many countries a spreadsheet separates cells by ``;``,
and some programs by a tab or ``|``: behind these a cell may begin, too. Numbers stay numbers.
"""

import csv
import re
from collections.abc import Iterable
from typing import Final, TextIO

# Tab, CR and LF are dropped by some programs before they look; the wide forms are those of East Asian keyboards.
# Where another separator comes first, a quote of the text, which is written twice, may be read as an empty quotation.
_FORMULA: Final = re.compile('(\\A|[;|\t\r\n]"*)(?=[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20])')


def write_rows(to: TextIO, columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Write a head and rows."""
    writer = csv.writer(to)
    writer.writerow(columns)
    writer.writerows([as_cell(value) for value in row] for row in rows)


def as_cell(value: object) -> object:
    """Return a value as a cell that no spreadsheet computes."""
    return _FORMULA.sub(r"\1'", value) if isinstance(value, str) else value
