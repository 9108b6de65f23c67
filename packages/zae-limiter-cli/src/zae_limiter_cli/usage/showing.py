"""Show usage as tables for people and as plain values for programs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ..columns import say_columns
from ..rates import about, amount, in_money
from ..times import iso, shown
from .units import NO_UNITS

if TYPE_CHECKING:
    from zae_limiter import UsageSnapshot
    from zae_limiter.values import EntityUsage, UsageSummary

    from .query import UsageQuery

    Usage = UsageSnapshot | EntityUsage

Name = TypeVar("Name")

ACQUIRES: Final = ("ADMITTED", "REFUSED", "SHADOWED")


def say_snapshots(snapshots: Sequence["UsageSnapshot"], units: Mapping[str, str] = NO_UNITS) -> None:
    """Print a row for each snapshot, a column for each limit."""
    heads = [(shown(each.window_start), each.entity_id, each.resource) for each in snapshots]
    _say_rows(("WINDOW (UTC)", "ENTITY", "RESOURCE"), heads, snapshots, units)


def say_top(entities: Sequence["EntityUsage"], units: Mapping[str, str] = NO_UNITS) -> None:
    """Print a row for each entity on each resource, a column for each limit."""
    _say_rows(("ENTITY", "RESOURCE"), [(each.entity_id, each.resource) for each in entities], entities, units)


def _say_rows(
    titles: Sequence[str], heads: Sequence[Sequence[str]], usages: Sequence["Usage"], units: Mapping[str, str]
) -> None:
    """Print a row for each usage, after its head. Acquires of entities below, uncounted ones and refusals by ancestors
    have columns if there are some.
    """
    limits = sorted({name for each in usages for name in each.consumed})
    refusers = sorted({refuser for each in usages for refuser in each.refused_by})
    uncounted = ("UNCOUNTED",) if any(each.total_uncounted for each in usages) else ()
    below = ("OF BELOW",) if any(each.total_below for each in usages) else ()
    columns = *titles, *ACQUIRES, *below, *uncounted, *(f"BY {refuser}" for refuser in refusers), *limits
    say_columns(
        [
            columns,
            *(
                (
                    *head,
                    *_counts(each),
                    *(f"{each.total_below:,}" for _ in below),
                    *(f"{each.total_uncounted:,}" for _ in uncounted),
                    *_cells(each.refused_by, refusers),
                    *_cells(each.consumed, limits, units),
                )
                for head, each in zip(heads, usages, strict=True)
            ),
        ]
    )


def _cells(counts: Mapping[Name, int], names: Sequence[Name], units: Mapping[str, str] = NO_UNITS) -> list[str]:
    return [amount(counts[name], units.get(str(name), "")) if name in counts else "-" for name in names]


def _counts(usage: "Usage | UsageSummary") -> list[str]:
    """Return the counts of acquires, in the order of their columns."""
    return [f"{count:,}" for count in (usage.total_events, usage.total_refused, usage.total_shadowed)]


def summary_line(query: "UsageQuery", summary: "UsageSummary") -> str:
    """Return the query, and its acquires."""
    acquires = ", ".join(f"{count} {what.lower()}" for what, count in zip(ACQUIRES, _counts(summary), strict=True))
    by = ", ".join(f"{count:,} by {refuser}" for refuser, count in summary.refused_by.items())
    uncounted = f", {summary.total_uncounted:,} uncounted" if summary.total_uncounted else ""
    refused = f"; refused {by}" if by else ""
    return f"{query}: acquires {acquires}{uncounted}{refused}; windows with use: {summary.windows:,}"


def say_summary(summary: "UsageSummary", units: Mapping[str, str] = NO_UNITS) -> None:
    """Print a row for each limit."""
    say_columns(
        [
            ("LIMIT", "TOTAL", "LEAST", "MOST", "MEAN"),
            *(
                (
                    each.limit_name,
                    *(amount(total, unit) for total in (each.total, each.minimum, each.maximum)),
                    about(each.average, unit) if unit else f"{each.average:,.1f}",
                )
                for each in summary.limits
                for unit in (units.get(each.limit_name, ""),)
            ),
        ]
    )


def plain_snapshot(snapshot: "UsageSnapshot", units: Mapping[str, str] = NO_UNITS) -> dict[str, Any]:
    """Return every field of a snapshot, as plain values."""
    return {
        "entity_id": snapshot.entity_id,
        "resource": snapshot.resource,
        "window": snapshot.window,
        "window_start": iso(snapshot.window_start),
        **_plain_consumed(snapshot, units),
        **_plain_acquires(snapshot),
    }


def _plain_consumed(usage: "Usage", units: Mapping[str, str]) -> dict[str, Any]:
    """Return what was consumed, in tokens, and in money beside it."""
    money = {name: amount(used, units[name]) for name, used in usage.consumed.items() if name in units}
    return {
        "consumed": dict(usage.consumed),
        **({"units": {name: units[name] for name in money}, "money": money} if money else {}),
    }


def plain_summary(query: "UsageQuery", summary: "UsageSummary", units: Mapping[str, str] = NO_UNITS) -> dict[str, Any]:
    """Return every field of a summary, and its query, as plain values."""
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
                **({"unit": unit} if unit else {}),
                **in_money(unit, total=each.total, minimum=each.minimum, maximum=each.maximum, average=each.average),
            }
            for each in summary.limits
            for unit in (units.get(each.limit_name, ""),)
        ],
    }


def plain_top(
    query: "UsageQuery", by: str, entities: Sequence["EntityUsage"], units: Mapping[str, str] = NO_UNITS
) -> dict[str, Any]:
    """Return every field of the top entities, and the query, as plain values."""
    rows = [
        {
            "entity_id": each.entity_id,
            "resource": each.resource,
            **_plain_consumed(each, units),
            **_plain_acquires(each),
        }
        for each in entities
    ]
    return {**_plain_query(query), "by": by, "entities": rows}


def _plain_query(query: "UsageQuery") -> dict[str, Any]:
    return {
        "resource": query.resource,
        "window": query.window,
        "start": iso(query.start),
        "end": None if query.end is None else iso(query.end),
    }


def _plain_acquires(usage: "Usage | UsageSummary") -> dict[str, Any]:
    """Return the counts of acquires."""
    return {
        "total_events": usage.total_events,
        "total_refused": usage.total_refused,
        "total_shadowed": usage.total_shadowed,
        "total_uncounted": usage.total_uncounted,
        "total_below": usage.total_below,
        "total_refused_below": usage.total_refused_below,
        "refused_by": [
            {"entity_id": refuser.entity_id, "limit_name": refuser.limit_name, "refused": count}
            for refuser, count in usage.refused_by.items()
        ],
    }
