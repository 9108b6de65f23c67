"""Print the rows of `top` once, as a table or as plain values."""

from collections.abc import Iterable, Sequence
from typing import Any

from ..columns import room_of_stdout, say_columns
from ..rates import in_money
from .rows import WIDE, Counted, Row, cells, heads


def say_rows(lines: Iterable[tuple[str, Row]], counted: Counted | None = None) -> None:
    """Print a row for each bucket, behind what leads to it: on a narrow terminal with fewer columns."""
    room = room_of_stdout()
    wide = room is None or room >= WIDE
    shown = [cells(row, lead, wide=wide, symbols=False, counted=counted) for lead, row in lines]
    say_columns([heads(wide=wide, counted=counted), *shown])


def plain_row(row: Row, parent_ids: Sequence[str]) -> dict[str, Any]:
    """Return every field of a row, as plain values."""
    return {
        "entity_id": row.place.entity_id,
        "parent_ids": [*parent_ids],
        "resource": row.place.resource,
        "limit": row.limit or None,
        "available": row.available if row.limit else None,
        "burst": row.burst if row.limit else None,
        "used_per_minute": row.per_minute,
        "refused": row.refused,
        "refused_per_minute": row.refused_per_minute,
        "blocked_by": row.blocked_by or None,
        **({"unit": row.unit} if row.unit else {}),
        **({"shadow": True} if row.shadow else {}),
        **in_money(row.unit, available=row.available, burst=row.burst),
    }
