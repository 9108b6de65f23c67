"""Usage as tables for people and as plain values for programs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..columns import say_columns
from ..times import iso, shown

if TYPE_CHECKING:
    from zae_limiter import UsageSnapshot, UsageSummary

    from .query import UsageQuery


def say_snapshots(snapshots: Sequence["UsageSnapshot"]) -> None:
    """A row for each snapshot, a column for each limit."""
    limits = sorted({name for each in snapshots for name in each.consumed})
    say_columns(
        [
            ("WINDOW (UTC)", "ENTITY", "RESOURCE", "ACQUIRES", *limits),
            *(
                (
                    shown(each.window_start),
                    each.entity_id,
                    each.resource,
                    f"{each.total_events:,}",
                    *(f"{each.consumed[name]:,}" if name in each.consumed else "-" for name in limits),
                )
                for each in snapshots
            ),
        ]
    )


def say_summary(summary: "UsageSummary") -> None:
    """A row for each limit."""
    say_columns(
        [
            ("LIMIT", "TOTAL", "LEAST", "MOST", "MEAN"),
            *(
                (each.limit_name, f"{each.total:,}", f"{each.minimum:,}", f"{each.maximum:,}", f"{each.average:,.1f}")
                for each in summary.limits
            ),
        ]
    )


def plain_snapshot(snapshot: "UsageSnapshot") -> dict[str, Any]:
    """Everything about a snapshot."""
    return {
        "entity_id": snapshot.entity_id,
        "resource": snapshot.resource,
        "window": snapshot.window,
        "window_start": iso(snapshot.window_start),
        "consumed": dict(snapshot.consumed),
        "total_events": snapshot.total_events,
    }


def plain_summary(query: "UsageQuery", summary: "UsageSummary") -> dict[str, Any]:
    """Everything about a summary, and what it is of."""
    return {
        "entity_id": query.entity_id,
        "resource": query.resource,
        "window": summary.window,
        "start": iso(query.start),
        "end": None if query.end is None else iso(query.end),
        "windows": summary.windows,
        "total_events": summary.total_events,
        "limits": [
            {
                "limit_name": each.limit_name,
                "total": each.total,
                "minimum": each.minimum,
                "maximum": each.maximum,
                "average": each.average,
            }
            for each in summary.limits
        ],
    }
