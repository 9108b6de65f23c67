"""`zae-limiter usage near`."""

import time
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ...behind import note_behind
from ...columns import say_columns, say_json, say_sentence
from ...data.shadows import shadow_limits
from ...data.whose import Whose, whose_options
from ...errors import CommandError
from ...options import FiniteRange, OutputForm, output_option
from ...paging import bucket_pages, every_row, in_repository, is_asked, rows_option, say_more
from ...rates import about, amount, in_money, rate
from ...times import duration, iso, shown

if TYPE_CHECKING:
    from zae_limiter import SyncRepository
    from zae_limiter.values import Bucket

    from ...usage.forecast import Budget
    from ...usage.near import Look, Near


@click.command(short_help="List who is close to a limit, and when budgets are gone.")
@in_repository
@click.option("--entity", "-e", metavar="ID", help="Only buckets of this entity.  [default: all]")
@click.option("--resource", "-r", metavar="NAME", help="Only buckets of this resource.  [default: all]")
@whose_options
@click.option(
    "--budgets", is_flag=True, help="When budgets (per day, month, in total) are gone at the day's or the hour's rate."
)
@click.option(
    "--percent",
    type=FiniteRange(min=1, max=100),
    help="Least part of the burst that is gone.  [default: the lowest threshold of the limit's alert, else 80]",
)
@click.option(
    "--every",
    type=FiniteRange(min=0, max=60),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between the two looks, which give the rate; 0 looks once.",
)
@partial(rows_option, default=20, most=1000)
@output_option
def near(
    *,
    repository: "SyncRepository",
    entity: str | None,
    resource: str | None,
    whose: Whose,
    budgets: bool,
    percent: float | None,
    every: float,
    rows: int,
    output: OutputForm,
) -> None:
    """List who is close to a limit, the closest first: how much of the burst is gone, and how long the rest lasts.

    It reads every bucket, and after --every once more those that it lists: that gives the rate. LASTS says how long
    the rest lasts at that rate, or that the limit refills first; of slots that they are held. ALERT is the highest
    threshold that is reached. A limit in shadow, which refuses no call, says so: that costs the levels of what is
    listed.

    --budgets lists limits of a calendar, of the first use, and totals, the one first that is gone first: at the rate of
    the last 24 hours or of the last hour, whichever is nearer, by the windows of the aggregator. `usage near --budgets
    -e acme` is about one tenant.
    """
    from ...usage.near import Look, after, nearest

    whose.check_without(entity=entity)
    if budgets:
        given = click.get_current_context().get_parameter_source("every")
        if given is ParameterSource.COMMANDLINE:
            raise CommandError("--every gives the rate of two looks, and --budgets goes by windows: pass one of them")
        _say_budgets(repository, whose.only(repository, _buckets(repository, entity, resource)), percent, rows, output)
        return
    buckets = whose.only(repository, _buckets(repository, entity, resource))
    found = nearest((Look(each, time.monotonic()) for each in buckets), percent, rows)
    if found and every:
        time.sleep(every)
        again = [after(each, look, _look(repository, each), time.time_ns() // 10**6) for each, look in found]
        shown = sorted(again, key=lambda each: each.percent, reverse=True)
    else:
        shown = [each for each, _ in found]
    shadows = shadow_limits(repository, [(each.entity_id, each.resource) for each in shown])
    marked = [(each, each.limit.name in shadows.get((each.entity_id, each.resource), ())) for each in shown]
    if output == "json":
        say_json([_plain(each) | {"shadow": shadow} for each, shadow in marked])
    elif shown:
        say_columns(
            [
                ("ENTITY", "RESOURCE", "LIMIT", "GONE", "ALERT", "AVAILABLE", "USED", "REFILL", "LASTS"),
                *(_cells(each, shadow=shadow) for each, shadow in marked),
            ]
        )
    else:
        of = "" if resource is None else f" on {resource}"
        part = "a threshold, or 80 % of a burst," if percent is None else f"{percent:g} % of a burst"
        of = of if entity is None else f" of {entity}{of}"
        of = f" {whose}{of}" if whose else of
        say_sentence(f"No one has used {part}{of} in namespace {repository.name}.")


def _buckets(repository: "SyncRepository", entity: str | None, resource: str | None) -> "Iterable[Bucket]":
    """Return the buckets of an entity, of a resource, or of the namespace."""
    if entity is not None:
        from zae_limiter.values.patterns import is_pattern

        asked = None if resource is not None and is_pattern(resource) else resource
        return [each for each in repository.get_buckets(entity, asked) if is_asked(resource, each.resource)]
    return every_row(bucket_pages(repository, resource))


def _say_budgets(
    repository: "SyncRepository",
    buckets: "Iterable[Bucket]",
    percent: float | None,
    rows: int,
    output: OutputForm,
) -> None:
    """Print the budgets that are gone first. Raises ``CommandError`` for what cannot be read."""
    from ...usage.budgets import read_budgets

    found, more = read_budgets(repository, buckets, percent or 0, rows)
    if found:
        note_behind(repository, [(each.entity_id, each.resource) for each in found])
    if output == "json":
        say_json([_plain_budget(each) for each in found])
    elif found:
        head = ("ENTITY", "RESOURCE", "LIMIT", "USED", "LEFT", "RATE", "ENDS (UTC)", "GONE (UTC)")
        say_columns([head, *map(_budget_cells, found)])
    else:
        say_sentence(f"There is no bucket with a budget in namespace {repository.name}.")
    if more and output == "table":
        say_more("budgets")


def _budget_cells(each: "Budget") -> tuple[str, ...]:
    gone = "lasts" if each.per_day else "unused"
    if each.gone_at is not None:
        gone = "gone" if each.available <= 0 else shown(each.gone_at)
    unit = each.limit.unit
    used, span = (each.per_hour, "hour") if each.by_hour else (each.per_day, "day")
    used_text = about(used, unit) if unit else f"{used:,.0f}"
    ends = "-" if each.window_ends is None else shown(each.window_ends).removesuffix(" 00:00")
    left = amount(each.available, unit)
    return (
        each.entity_id,
        each.resource,
        each.limit.name,
        f"{each.percent:.0f} %",
        left,
        f"{used_text}/{span}",
        ends,
        gone,
    )


def _plain_budget(each: "Budget") -> dict[str, Any]:
    per_day, per_hour = round(each.per_day), round(each.per_hour)
    return {
        "entity_id": each.entity_id,
        "resource": each.resource,
        "limit_name": each.limit.name,
        "percent": round(each.percent, 1),
        "available": each.available,
        "capacity": each.limit.capacity,
        "used_per_day": per_day,
        "used_in_last_hour": per_hour,
        "window_ends": None if each.window_ends is None else iso(each.window_ends),
        "gone_at": None if each.gone_at is None else iso(each.gone_at),
        "gone_by": None if each.gone_at is None else "hour" if each.by_hour else "day",
        **in_money(
            each.limit.unit,
            available=each.available,
            capacity=each.limit.capacity,
            used_per_day=per_day,
            used_in_last_hour=per_hour,
        ),
    }


def _look(repository: "SyncRepository", each: "Near") -> "Look | None":
    from zae_limiter.maintenance import SyncMaintenance

    from ...usage.near import Look

    found = SyncMaintenance(repository).get_buckets_at(
        [(each.entity_id, each.resource)]
    )  # a list: it skips what cannot be read
    return Look(found[0], time.monotonic()) if found else None


def _cells(each: "Near", *, shadow: bool) -> tuple[str, ...]:
    used = "-" if each.used_per_second is None else f"{_per_minute(each)}/min"
    gone = f"{each.percent:.0f} %"
    return (
        each.entity_id,
        each.resource,
        f"{each.limit.name} (shadow)" if shadow else each.limit.name,
        gone,
        "-" if each.threshold is None else f"{each.threshold} %",
        amount(each.available, each.limit.unit),
        used,
        rate(each.limit),
        _lasts(each),
    )


def _lasts(each: "Near") -> str:
    if each.used_per_second is None:
        return "-"
    if each.limit.kind == "concurrent":
        return "held"
    if each.seconds_left is None:
        return "refills first" if each.used_per_second else "unused"
    if each.seconds_left == 0:
        return "empty"
    return duration(each.seconds_left)


def _plain(each: "Near") -> dict[str, Any]:
    return {
        "entity_id": each.entity_id,
        "resource": each.resource,
        "limit_name": each.limit.name,
        "percent": round(each.percent, 1),
        "threshold": each.threshold,
        "available": each.available,
        "burst": each.limit.burst,
        "used_per_second": each.used_per_second,
        "seconds_left": each.seconds_left,
        **in_money(each.limit.unit, available=each.available, burst=each.limit.burst),
    }


def _per_minute(each: "Near") -> str:
    used = 60 * (each.used_per_second or 0)
    return amount(used, each.limit.unit) if each.limit.unit else f"{used:,.0f}"
