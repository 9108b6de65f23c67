"""What lives here: rows as aligned columns, and values as JSON.
What never does: what the rows say.
"""

import json
from collections.abc import Sequence
from typing import Any

import click

GAP = "  "


def say_columns(rows: Sequence[Sequence[str]], *, indent: str = "") -> None:
    """Print rows, each column as wide as its widest cell; the last one is not filled up."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [*(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)), row[-1]]
        click.echo(f"{indent}{GAP.join(cells)}".rstrip())


def say_json(value: Any) -> None:
    """Print a value as JSON, for programs; keys keep their order."""
    click.echo(json.dumps(value, indent=2))
