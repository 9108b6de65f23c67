"""Read the tables of docs/benchmarks.md: what a run of ``just bench`` has measured."""

import re
from pathlib import Path
from typing import Final

DOCS: Final = Path(__file__).parents[2] / "docs"
_UNITS: Final = {"ms": 1.0, "s": 1000.0, "us": 0.001}


def rows(block: str) -> list[list[str]]:
    """Return the cells of each row of a block's tables, without their heads. Raise ``LookupError`` if it is gone."""
    return [row for table in _tables(_block(block)) for row in table[2:]]


def _block(block: str) -> str:
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    found = re.search(rf"<!-- {re.escape(block)} -->\n(.*?)<!-- end -->", page, re.DOTALL)
    if found is None:
        raise LookupError(f"docs/benchmarks.md has no table {block}")
    return found[1]


def _tables(text: str) -> list[list[list[str]]]:
    """Return the cells of each row of each table, its head and its rule included."""
    parts = [[line for line in part.splitlines() if line.startswith("|")] for part in text.split("\n\n")]
    return [[[cell.strip() for cell in line[1:-1].split("|")] for line in lines] for lines in parts if lines]


def of_run(block: str) -> str:
    """Return the line below a table that says of which day and commit it is; empty without one."""
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    found = re.search(rf"<!-- {re.escape(block)} -->\n(?:\|.*\n|\n)+(\*.*\*)\n<!-- end -->", page)
    return "" if found is None else found[1]


def figures(block: str) -> dict[str, str]:
    """Return each figure with its target, by what it is of: its row, and its column where there are several."""
    found = dict[str, str]()
    for head, _, *lines in _tables(_block(block)):
        for case, *cells in lines:
            named = zip(head[1:], cells, strict=True)
            found |= {case if column == "measured" else f"{case}: {column}": cell for column, cell in named if cell}
    return found


def measured(block: str) -> dict[str, str]:
    """Return each figure with its unit, by what it is of."""
    return {what: cell.partition(" (")[0] for what, cell in figures(block).items()}


def targets(block: str) -> dict[str, str]:
    """Return the target of each figure, by what it is of; empty where it has none."""
    return {what: cell.partition(" (")[2].rstrip(")") for what, cell in figures(block).items()}


def milliseconds(figure: str) -> float:
    """Return a figure like ``1,462 ms`` as a number of milliseconds."""
    number, unit = figure.split()
    return float(number.replace(",", "")) * _UNITS[unit]
