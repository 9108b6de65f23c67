"""`zae-limiter usage near`."""

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ...columns import say_columns, say_json, say_sentence
from ...options import FiniteRange, OutputForm, output_option
from ...paging import bucket_pages, every_row, in_repository, rows_option
from ...rates import amount, in_money, rate
from ...times import duration

if TYPE_CHECKING:
    from zae_limiter import SyncRepository

    from ...usage.near import Look, Near


@click.command(short_help="List who is close to a limit, and how long it lasts at this rate.")
@in_repository
@click.option("--resource", "-r", metavar="NAME", help="Only buckets of this resource.  [default: all]")
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
    resource: str | None,
    percent: float | None,
    every: float,
    rows: int,
    output: OutputForm,
) -> None:
    """List who is close to a limit, the closest first: how much of the burst is gone, and how long the rest lasts.

    It reads every bucket, and after --every once more those that it lists: that gives the rate. LASTS says how long
    the rest lasts at that rate, or that the limit refills first. ALERT is the highest threshold that is reached. `why`
    shows whether a limit is a shadow limit, which refuses no call.
    """
    from ...usage.near import Look, after, nearest

    buckets = every_row(bucket_pages(repository, resource))
    found = nearest((Look(each, time.monotonic()) for each in buckets), percent, rows)
    if found and every:
        time.sleep(every)
        again = [after(each, look, _look(repository, each), time.time_ns() // 10**6) for each, look in found]
        shown = sorted(again, key=lambda each: each.percent, reverse=True)
    else:
        shown = [each for each, _ in found]
    if output == "json":
        say_json([_plain(each) for each in shown])
    elif shown:
        say_columns(
            [
                ("ENTITY", "RESOURCE", "LIMIT", "GONE", "ALERT", "AVAILABLE", "USED", "REFILL", "LASTS"),
                *map(_cells, shown),
            ]
        )
    else:
        of = "" if resource is None else f" on {resource}"
        part = "a threshold, or 80 % of a burst," if percent is None else f"{percent:g} % of a burst"
        say_sentence(f"No one has used {part}{of} in namespace {repository.name}.")


def _look(repository: "SyncRepository", each: "Near") -> "Look | None":
    from zae_limiter.maintenance import SyncMaintenance

    from ...usage.near import Look

    found = SyncMaintenance(repository).get_buckets_at(
        [(each.entity_id, each.resource)]
    )  # a list: it skips what cannot be read
    return Look(found[0], time.monotonic()) if found else None


def _cells(each: "Near") -> tuple[str, ...]:
    used = "-" if each.used_per_second is None else f"{_per_minute(each)}/min"
    gone = f"{each.percent:.0f} %"
    return (
        each.entity_id,
        each.resource,
        each.limit.name,
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
