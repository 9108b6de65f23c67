"""Print the rows of `top` once, as a table or as plain values."""

from collections.abc import Sequence
from typing import Any

from ..columns import say_columns
from .rows import Row, cells, heads


def say_rows(rows: Sequence[Row]) -> None:
    """Print a row for each bucket."""
    say_columns([heads(wide=True), *(cells(row, wide=True, symbols=False) for row in rows)])


def plain_row(row: Row) -> dict[str, Any]:
    """Return every field of a row, as plain values."""
    return {
        "entity_id": row.place.entity_id,
        "resource": row.place.resource,
        "limit": row.limit or None,
        "available": row.available if row.limit else None,
        "burst": row.burst if row.limit else None,
        "used_per_minute": row.per_minute,
        "refused": row.refused,
        "refused_per_minute": row.refused_per_minute,
        "blocked_by": row.blocked_by or None,
    }
