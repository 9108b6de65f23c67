"""The cells of `top` cut to the width of a screen, so that nothing is beside it: indents first, then names, in their
middle, because the ends of names tell them apart.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from .rows import Row, cells, heads

AROUND: Final = 2  # columns of a screen around each cell
MOST_LEAD: Final = 9  # columns: three levels
LEAST: Final = ((0, 24), (-1, 12), (1, 8), (0, 16), (-1, 8))  # the columns to cut, in this order, each to so much
CUT: Final = "…"


def fitted(lines: Iterable[tuple[str, Row]], *, wide: bool, width: int) -> list[Sequence[str]]:
    """Return the cells of each line below ``heads``, together as wide as ``width`` if that is possible at all."""
    short = [(_short(lead), row) for lead, row in lines]
    shown = [[*cells(row, lead, wide=wide)] for lead, row in short]
    sizes = [max(map(len, column)) for column in zip(heads(wide=wide), *shown, strict=True)]
    over = sum(sizes) + AROUND * len(sizes) - width
    for column, least in LEAST:
        cut = max(0, min(over, sizes[column] - least))
        sizes[column], over = sizes[column] - cut, over - cut
    for (lead, row), each in zip(short, shown, strict=True):
        each[0] = lead + cut_middle(row.place.entity_id, sizes[0] - len(lead))
        each[1:] = [cut_middle(cell, size) for cell, size in zip(each[1:], sizes[1:], strict=True)]
    return [*shown]


def cut_middle(text: str, room: int) -> str:
    """Return a text in so many columns: its begin and its end if it is longer."""
    if len(text) <= room:
        return text
    end = max(1, (room - len(CUT)) // 2)
    return text[: max(0, room - end - len(CUT))] + CUT + text[-end:]


def _short(lead: str) -> str:
    return lead if len(lead) <= MOST_LEAD else CUT + lead[len(CUT) - MOST_LEAD :]
