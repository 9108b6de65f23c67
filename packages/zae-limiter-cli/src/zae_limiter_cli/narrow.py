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
    console = Console(width=width, color_system=None, highlight=False, markup=False, emoji=False, soft_wrap=False)
    words = [max(_longest_word(cell) for cell in column) for column in zip(*rows, strict=True)]
    if len(words) <= 2 or indent + sum(words) + GAP * (len(words) - 1) <= width:
        _say(console, rows, words, indent)
        return
    head = rows[0]
    for number, row in enumerate(rows[1:]):
        if number:
            console.print()
        _say(console, [*zip(head, row, strict=True)], [max(map(len, head)), 1], indent)


def _say(console: Console, rows: Rows, least: Sequence[int], indent: int) -> None:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, GAP, 0, 0), collapse_padding=True)
    for size in least:
        table.add_column(min_width=size, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    with console.capture() as captured:
        console.print(Padding(table, (0, 0, 0, indent)))
    for line in captured.get().splitlines():
        console.out(line.rstrip(), highlight=False)


def _longest_word(cell: str) -> int:
    return max(map(len, cell.split()), default=0)
