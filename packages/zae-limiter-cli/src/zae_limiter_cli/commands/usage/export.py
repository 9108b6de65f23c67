"""`zae-limiter usage export`."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...columns import counted
from ...errors import CommandError
from ...options import connected, in_namespace
from ...paging import every_row, open_namespace
from .options import month_option, snapshots_of

if TYPE_CHECKING:
    from zae_limiter.values.usage import Window

    from ...connection import Connection
    from ...usage.export import ExportForm


@click.command(short_help="Write the usage of a month as CSV, JSON or Parquet.")
@connected
@in_namespace
@month_option
@click.option("--entity", "-e", metavar="ID", help="Only usage of this entity.  [default: all]")
@click.option("--resource", "-r", metavar="NAME", help="Only usage of this resource.  [default: all]")
@click.option(
    "--window",
    type=click.Choice(["hourly", "daily"]),
    default="daily",
    show_default=True,
    help="Length of a window. Hours are kept for 90 days.",
)
@click.option(
    "--output",
    "-o",
    type=click.Choice(["csv", "json", "parquet"]),
    default="csv",
    show_default=True,
    help="Output format.",
)
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="File to write.  [default: standard output]"
)
def export(
    *,
    connection: "Connection",
    namespace: str,
    month: str | None,
    entity: str | None,
    resource: str | None,
    window: "Window",
    output: "ExportForm",
    out: Path | None,
) -> None:
    """Write the usage of a month, of all entities on all resources, to a file or a pipe.

    In CSV and Parquet each count is a row: its `kind` is admitted, refused, shadowed, uncounted, refused_by or
    consumed. With `_below` at its end it is of calls of entities below, which count at these, too: leave such rows out
    of sums. Of a limit of money the `amount` is in millionths, and `money` in its `unit`, such as 12.50 and usd. In
    JSON each window is an object, as in `usage list`. A page of the usage at a time is in memory. A file is
    there as a whole or not at all.
    """
    from ...results import writing
    from ...usage.export import check_parquet, write
    from ...usage.month import Month
    from ...usage.own import with_own
    from ...usage.units import Units

    chosen = Month.of(month, datetime.now(UTC))
    if output == "parquet":
        if out is None:
            raise CommandError("-o parquet is not text: pass --out FILE")
        check_parquet()
    with open_namespace(connection, namespace) as repository:
        found = every_row(snapshots_of(repository, entity, resource, window, chosen))
        snapshots = with_own(repository, found) if entity is None else ((each, each) for each in found)
        units = Units(repository)
        if out is None:
            write(output, namespace, snapshots, units.of, sys.stdout.buffer)
            return
        with writing(out) as file:
            number = write(output, namespace, snapshots, units.of, file)
    click.echo(f"{counted(number, f'{window} window')} of {chosen} written to {out}.", err=True)
