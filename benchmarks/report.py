"""What a benchmark found, as rows of a table.

Lives here: rows, their targets, and how both are shown. Never: a measurement.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Protocol

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
    """One figure; without a target it is for orientation."""

    PAGE: ClassVar[Path] = DOCS / "benchmarks.md"
    HEAD: ClassVar[tuple[str, ...]] = ("what", "measured", "target", "")
    RULE: ClassVar[tuple[str, ...]] = ("---", "---:", "---", "---")
    block: ClassVar[str] = ""

    what: str
    value: float
    unit: Unit = ""
    at_most: float | None = None
    at_least: float | None = None

    @property
    def missed(self) -> bool:
        """Whether the figure is outside of its target."""
        too_high = self.at_most is not None and self.value > self.at_most
        return too_high or (self.at_least is not None and self.value < self.at_least)

    def cells(self) -> tuple[str, str, str, str]:
        """What, figure, target, verdict."""
        target = self._target()
        verdict = ("missed" if self.missed else "met") if target else ""
        return self.what, _amount(self.value, self.unit), target, verdict

    def _target(self) -> str:
        if self.at_most is None:
            return "" if self.at_least is None else f"at least {_amount(self.at_least, self.unit)}"
        if self.at_least is None:
            return f"at most {_amount(self.at_most, self.unit)}"
        return f"{_amount(self.at_least)} to {_amount(self.at_most, self.unit)}"


def as_text(rows: Sequence[Line]) -> str:
    """The rows as columns for a terminal."""
    table = [row.cells() for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in table)


def as_markdown(rows: Sequence[Line]) -> str:
    """The rows as a table for the docs."""
    lines = (rows[0].HEAD, rows[0].RULE, *(row.cells() for row in rows))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write_into(page: str, name: str, rows: Sequence[Line]) -> str:
    """The page with the rows between the markers of ``name``. ``KeyError`` where it has no such markers."""
    block = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    if block.search(page) is None:
        raise KeyError(f"no <!-- {name} --> on the page")
    return block.sub(lambda found: f"{found[1]}{as_markdown(rows)}\n{found[2]}", page, count=1)


def _amount(value: float, unit: Unit = "") -> str:
    digits = f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
    return f"{digits} {unit}".rstrip()
