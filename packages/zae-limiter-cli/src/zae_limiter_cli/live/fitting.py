"""The rows of `top` as lines of text, cut to the width of a screen, so that nothing is beside it: indents first, then
names, in their middle, because the ends of names tell them apart.

A line is one cell of the screen's table: Textual renders each cell by itself, and those of eight columns on forty lines
take a quarter of a second.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from .rows import Place, Row, cells, heads

GAP: Final = "  "
MOST_LEAD: Final = 9  # columns: three levels
LEAST_WIDE: Final = ((0, 24), (7, 12), (1, 8), (0, 16), (7, 8))  # the columns to cut, in this order, each to so much
LEAST_NARROW: Final = ((0, 24), (2, 16), (1, 8), (0, 16), (2, 8))
TREND: Final = "5 MIN"
CUT: Final = "…"


def fitted(
    lines: Iterable[tuple[str, Row]], trends: Mapping[Place, str] | None = None, *, wide: bool, width: int
) -> list[str]:
    """Return the line of heads and that of each row, in columns, at most ``width`` wide if that is possible at all.

    ``trends`` add a column with what became of each place in the last minutes.
    """
    short = [(_short(lead), row) for lead, row in lines]
    table = [[*heads(wide=wide)], *([*cells(row, lead, wide=wide)] for lead, row in short)]
    if trends:
        for line, shown in zip(table, [TREND, *(trends.get(row.place, "") for _, row in short)], strict=True):
            line.append(shown)
    sizes = [max(map(len, column)) for column in zip(*table, strict=True)]
    over = sum(sizes) + len(GAP) * (len(sizes) - 1) - width
    for column, least in LEAST_WIDE if wide else LEAST_NARROW:
        cut = max(0, min(over, sizes[column] - least))
        sizes[column], over = sizes[column] - cut, over - cut
    for (lead, row), line in zip(short, table[1:], strict=True):
        line[0] = lead + cut_middle(row.place.entity_id, sizes[0] - len(lead))
    return [
        GAP.join(cut_middle(cell, size).ljust(size) for cell, size in zip(line, sizes, strict=True)) for line in table
    ]


def cut_middle(text: str, room: int) -> str:
    """Return a text in so many columns: its begin and its end if it is longer."""
    if len(text) <= room:
        return text
    end = max(1, (room - len(CUT)) // 2)
    return text[: max(0, room - end - len(CUT))] + CUT + text[-end:]


def _short(lead: str) -> str:
    return lead if len(lead) <= MOST_LEAD else CUT + lead[len(CUT) - MOST_LEAD :]
