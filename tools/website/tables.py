"""Read the tables of docs/benchmarks.md: what a run of ``just bench`` has measured."""

import re
from pathlib import Path
from typing import Final

DOCS: Final = Path(__file__).parents[2] / "docs"
_UNITS: Final = {"ms": 1.0, "s": 1000.0, "us": 0.001}


def rows(block: str) -> list[list[str]]:
    """Return the cells of each row of a block's table, without its head. Raise ``LookupError`` if it is gone."""
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    found = re.search(rf"<!-- {re.escape(block)} -->\n(.*?)<!-- end -->", page, re.DOTALL)
    if found is None:
        raise LookupError(f"docs/benchmarks.md has no table {block}")
    lines = [line for line in found[1].splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines]


def of_run(block: str) -> str:
    """Return the line below a table that says of which day and commit it is; empty without one."""
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    found = re.search(rf"<!-- {re.escape(block)} -->\n(?:\|.*\n)+\n(\*.*\*)\n<!-- end -->", page)
    return "" if found is None else found[1]


def measured(block: str) -> dict[str, str]:
    """Return the figure of each row, with its unit, by what it is of."""
    return {row[0]: row[1] for row in rows(block)}


def targets(block: str) -> dict[str, str]:
    """Return the target of each row, by what it is of; empty for a row without one."""
    return {row[0]: row[2] if len(row) > 2 else "" for row in rows(block)}


def milliseconds(figure: str) -> float:
    """Return a figure like ``1,462 ms`` as a number of milliseconds."""
    number, unit = figure.split()
    return float(number.replace(",", "")) * _UNITS[unit]
