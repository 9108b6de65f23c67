"""What a benchmark found, as rows of a table.

Lives here: rows, their targets, how both are shown, and of which run they are. Never: a measurement.
"""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
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
    HEAD: ClassVar[tuple[str, ...]] = ("what", "measured", "target", "")
    RULE: ClassVar[tuple[str, ...]] = ("---", "---:", "---", "---")
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

    def _target(self) -> str:
        if self.at_most is None:
            return "" if self.at_least is None else f"at least {_amount(self.at_least, self.unit)}"
        if self.at_least is None:
            return f"at most {_amount(self.at_most, self.unit)}"
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
    """The rows as a table for the docs."""
    lines = (rows[0].HEAD, rows[0].RULE, *(row.cells() for row in rows))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


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
