"""Usage as tables for people and as plain values for programs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ..columns import say_columns
from ..times import iso, shown

if TYPE_CHECKING:
    from zae_limiter import EntityUsage, UsageSnapshot, UsageSummary

    from .query import UsageQuery

    Usage = UsageSnapshot | EntityUsage

ACQUIRES: Final = ("ADMITTED", "REFUSED", "SHADOWED")


def say_snapshots(snapshots: Sequence["UsageSnapshot"]) -> None:
    """A row for each snapshot, a column for each limit."""
    limits = _limits_of(snapshots)
    say_columns(
        [
            ("WINDOW (UTC)", "ENTITY", "RESOURCE", *ACQUIRES, *limits),
            *((shown(each.window_start), each.entity_id, each.resource, *_figures(each, limits)) for each in snapshots),
        ]
    )


def say_top(entities: Sequence["EntityUsage"]) -> None:
    """A row for each entity, a column for each limit."""
    limits = _limits_of(entities)
    say_columns([("ENTITY", *ACQUIRES, *limits), *((each.entity_id, *_figures(each, limits)) for each in entities)])


def _limits_of(usages: Sequence["Usage"]) -> list[str]:
    return sorted({name for each in usages for name in each.consumed})


def _figures(usage: "Usage", limits: Sequence[str]) -> list[str]:
    consumed = (f"{usage.consumed[name]:,}" if name in usage.consumed else "-" for name in limits)
    return [*(f"{count:,}" for count in _plain_acquires(usage).values()), *consumed]


def summary_line(query: "UsageQuery", summary: "UsageSummary") -> str:
    """What was asked for, and its acquires."""
    acquires = ", ".join(
        f"{count:,} {what.lower()}" for what, count in zip(ACQUIRES, _plain_acquires(summary).values(), strict=True)
    )
    return f"{query}: acquires {acquires}; windows with use: {summary.windows:,}"


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
        **_plain_acquires(snapshot),
    }


def plain_summary(query: "UsageQuery", summary: "UsageSummary") -> dict[str, Any]:
    """Everything about a summary, and what it is of."""
    return {
        "entity_id": query.entity_id,
        **_plain_query(query),
        "windows": summary.windows,
        **_plain_acquires(summary),
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


def plain_top(query: "UsageQuery", by: str, entities: Sequence["EntityUsage"]) -> dict[str, Any]:
    """Everything about the top entities of a resource, and what they are the top of."""
    rows = [
        {"entity_id": each.entity_id, "consumed": dict(each.consumed), **_plain_acquires(each)} for each in entities
    ]
    return {**_plain_query(query), "by": by, "entities": rows}


def _plain_query(query: "UsageQuery") -> dict[str, Any]:
    return {
        "resource": query.resource,
        "window": query.window,
        "start": iso(query.start),
        "end": None if query.end is None else iso(query.end),
    }


def _plain_acquires(usage: "Usage | UsageSummary") -> dict[str, int]:
    """The counts of acquires, in the order of their columns."""
    return {
        "total_events": usage.total_events,
        "total_refused": usage.total_refused,
        "total_shadowed": usage.total_shadowed,
    }
