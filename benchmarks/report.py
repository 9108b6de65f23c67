"""What a benchmark found, as rows of a table.

Lives here: rows, their targets, how both are shown, and of which run they are. Never: a measurement.
"""

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import ClassVar, Literal, Protocol

from .measure import Taken

DOCS = Path(__file__).parent.parent / "docs"

Unit = Literal["", "%", "us", "ms", "B", "MB", "s"]


class NotHere(Exception):
    """This machine cannot run a benchmark; the text says why."""


class Line(Protocol):
    """A row of a table; ``block`` names the markers that the table stands between on its page."""

    PAGE: ClassVar[Path]
    HEAD: ClassVar[tuple[str, ...]]
    RULE: ClassVar[tuple[str, ...]]

    @property
    def block(self) -> str:
        """Empty for the name of the benchmark."""

    @property
    def missed(self) -> bool:
        """Whether it is outside of its target."""

    def cells(self) -> tuple[str, ...]:
        """What stands in its columns."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure; without a target it is for orientation. ``least``: that of the best round, where ``value`` is the
    median of several.
    """

    PAGE: ClassVar[Path] = DOCS / "benchmarks.md"
    HEAD: ClassVar[tuple[str, ...]] = ("what", "measured")
    RULE: ClassVar[tuple[str, ...]] = ("---", "---:")
    block: ClassVar[str] = ""

    what: str
    value: float
    unit: Unit = ""
    at_most: float | None = None
    at_least: float | None = None
    least: float | None = None

    @property
    def missed(self) -> bool:
        """Whether the figure is outside of its target."""
        too_high = self.at_most is not None and self.value > self.at_most
        return too_high or (self.at_least is not None and self.value < self.at_least)

    def cells(self) -> tuple[str, str, str, str]:
        """What, figure, target, verdict."""
        target = self._target()
        verdict = ("missed" if self.missed else "met") if target else ""
        least = "" if self.least is None else f" (best {_amount(self.least, self.unit)})"
        return self.what, f"{_amount(self.value, self.unit)}{least}", target, verdict

    def figure(self) -> str:
        """The figure as the docs have it: with its target, without that of the best round."""
        target = self._target()
        missed = ", **missed**" if self.missed else ""
        return f"{_amount(self.value, self.unit)} ({target}{missed})" if target else _amount(self.value, self.unit)

    def _target(self) -> str:
        if self.at_most is None:
            return "" if self.at_least is None else f"≥ {_amount(self.at_least, self.unit)}"
        if self.at_least is None:
            return f"≤ {_amount(self.at_most, self.unit)}"
        return f"{_amount(self.at_least)} to {_amount(self.at_most, self.unit)}"


def microseconds(what: str, taken: Taken, *, at_most: float | None = None) -> Row:
    """A row for what one call of a side takes."""
    return Row(what, taken.median * 1e6, "us", at_most=at_most, least=taken.least * 1e6)


def ratio(what: str, ours: Taken, theirs: Taken, *, at_most: float | None = None) -> Row:
    """A row for what one call takes, that of another side being 1."""
    return Row(what, ours.median / theirs.median, at_most=at_most, least=ours.least / theirs.least)


def as_text(rows: Sequence[Line]) -> str:
    """The rows as columns for a terminal."""
    table = [row.cells() for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in table)


def as_markdown(rows: Sequence[Line]) -> str:
    """The rows as a table for the docs; figures as ``in_tables`` has them."""
    if figures := [(row.what, row.figure()) for row in rows if isinstance(row, Row)]:
        return in_tables(figures)
    return _table(rows[0].HEAD, rows[0].RULE, [row.cells() for row in rows])


def in_tables(figures: Sequence[tuple[str, str]]) -> str:
    """Figures as tables: those of one ``CASE: FIGURE`` share a row beside a case that has the same ones."""
    tables: list[dict[str, dict[str, str]]] = []
    for case, part in groupby(figures, key=lambda each: each[0].rpartition(": ")[0] or each[0]):
        cells = {what.removeprefix(f"{case}: ") if what != case else "measured": figure for what, figure in part}
        if tables and case not in tables[-1] and _alike(cells, _columns(tables[-1])):
            tables[-1][case] = cells
        else:
            tables.append({case: cells})
    shown: list[dict[str, dict[str, str]]] = []
    for found in tables:
        alone = len(found) == 1  # nothing to compare it with
        table = {what: {"measured": figure} for what, figure in _names(found)} if alone else found
        if shown and _columns(shown[-1]) == _columns(table) == {"measured": None}:
            shown[-1] |= table
        else:
            shown.append(table)
    return "\n\n".join(
        _table(
            ("what", *_columns(table)),
            ("---", *("---:" for _ in _columns(table))),
            [(case, *(cells.get(column, "") for column in _columns(table))) for case, cells in table.items()],
        )
        for table in shown
    )


def _alike(cells: Mapping[str, str], columns: Mapping[str, None]) -> bool:
    return cells.keys() <= columns.keys() or cells.keys() >= columns.keys()


def _columns(table: Mapping[str, Mapping[str, str]]) -> dict[str, None]:
    return {column: None for cells in table.values() for column in cells}


def _names(table: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    for case, cells in table.items():
        for column, figure in cells.items():
            yield case if column == "measured" else f"{case}: {column}", figure


def _table(head: Sequence[str], rule: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *rows))


def stamp() -> str:
    """The day and the commit of a run that begins now, for below its tables."""
    today = datetime.now(UTC)
    commit, changes = (
        _git("rev-parse", "--short=8", "HEAD"),
        _git("status", "--porcelain", "--", "packages", "benchmarks"),
    )
    return f"*{today.day} {today:%B %Y}, commit {commit}{' with changes' if changes else ''}.*"


def _git(*words: str) -> str:
    command = ["git", "-C", str(DOCS.parent), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def write_into(page: str, name: str, rows: Sequence[Line], of_run: str = "") -> str:
    """The page with the rows between the markers of ``name``, above a line that says of which run they are.

    ``KeyError`` where the page has no such markers.
    """
    block = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    if block.search(page) is None:
        raise KeyError(f"no <!-- {name} --> on the page")
    table = as_markdown(rows) + (f"\n\n{of_run}" if of_run else "")
    return block.sub(lambda found: f"{found[1]}{table}\n{found[2]}", page, count=1)


def _amount(value: float, unit: Unit = "") -> str:
    digits = f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
    return f"{digits} {unit}".rstrip()
