"""Print a table on a terminal that is narrower than the table. Rich breaks the lines."""

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

GAP = 2

Rows = Sequence[Sequence[str]]


def say_narrow(rows: Rows, *, width: int, indent: int = 0) -> None:
    """Print rows of printable cells, broken between words to ``width`` columns behind ``indent``.

    If the longest words of all columns have no room beside each other, each row below the head is a list of its cells,
    each behind the name of its column.
    """
    console = Console(width=width, force_terminal=False, highlight=False, markup=False, emoji=False, soft_wrap=False)
    if len(rows[0]) <= 2 or sum(_words(rows)) <= _room(rows, width - indent):
        _say(console, rows, indent)
        return
    for number, row in enumerate(rows[1:]):
        if number:
            console.print()
        _say(console, [*zip(rows[0], row, strict=True)], indent)


def widths_of(rows: Rows, room: int) -> list[int]:
    """Return the width of each column: what its longest word takes, and of the rest of the room as much as it has use
    for, those first that need least.
    """
    widths = _words(rows)
    whole = [max(map(len, column)) for column in zip(*rows, strict=True)]
    wanting = sorted(range(len(widths)), key=lambda place: whole[place] - widths[place])
    for done, place in enumerate(wanting):
        share = max(0, room - sum(widths)) // (len(wanting) - done)
        widths[place] = min(whole[place], widths[place] + share)
    return widths


def _say(console: Console, rows: Rows, indent: int) -> None:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, GAP, 0, 0))
    *widths, last = widths_of(rows, _room(rows, console.width - indent))
    for size in (*widths, max(1, min(last, _room(rows, console.width - indent) - sum(widths)))):
        table.add_column(width=size, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    with console.capture() as captured:
        console.print(Padding(table, (0, 0, 0, indent)))
    for line in captured.get().splitlines():
        console.out(line.rstrip(), highlight=False)


def _room(rows: Rows, width: int) -> int:
    """Return the columns of a terminal that the cells of a row have, without the gaps between them."""
    return width - GAP * (len(rows[0]) - 1)


def _words(rows: Rows) -> list[int]:
    """Return the length of the longest word of each column."""
    return [max(len(word) for cell in column for word in cell.split() or ("",)) for column in zip(*rows, strict=True)]
