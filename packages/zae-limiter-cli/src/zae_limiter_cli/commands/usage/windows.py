"""`zae-limiter usage list` and `zae-limiter usage summary`."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ...columns import say_json
from ...errors import CommandError
from ...options import OutputForm, connected, in_namespace, output_option
from ...paging import FetchPage, every_row, first_rows, open_namespace, rows_option, say_more
from .options import list_options, query_options

if TYPE_CHECKING:
    from zae_limiter import SyncRepository, UsageSnapshot

    from ...connection import Connection
    from ...usage.query import UsageQuery


@click.command("list", short_help="List the consumption of each window.")
@connected
@in_namespace
@list_options
@rows_option
@output_option
def list_usage(*, connection: "Connection", namespace: str, query: "UsageQuery", rows: int, output: OutputForm) -> None:
    """List the acquires of each window, and its net consumption in tokens by limit, the oldest window first.

    Without --entity and --resource it lists the windows of the whole namespace.
    Acquires are admitted or refused. Shadowed ones were admitted although shadow limits would have refused them.
    For an entity on all resources, the resources follow one another. The aggregator is some seconds behind.
    """
    from ...usage.showing import plain_snapshot, say_snapshots

    with open_namespace(connection, namespace) as repository:
        found, more = first_rows(_snapshots(repository, query), rows)
    if output == "json":
        say_json([plain_snapshot(each) for each in found])
    elif found:
        say_snapshots(found)
    else:
        click.echo(f"No usage: {query}.")
    if more:
        say_more("windows")


@click.command(short_help="Sum up the consumption by limit.")
@connected
@in_namespace
@query_options
@click.option("--plot", is_flag=True, help="Also draw a bar for each window.")
@output_option
def summary(*, connection: "Connection", namespace: str, query: "UsageQuery", plot: bool, output: OutputForm) -> None:
    """Sum up acquires, and the consumption by limit: total, minimum, maximum and mean of the windows with any use.

    Of several entities, a call that cascades counts once, at the entity that was asked.
    """
    from ...usage.own import with_own
    from ...usage.showing import plain_summary, say_summary, summary_line

    if plot and output == "json":
        raise CommandError("--plot and --output json exclude each other: pass one of them")
    with open_namespace(connection, namespace) as repository:
        found = repository.get_usage_summary(**asdict(query))
        snapshots = every_row(_snapshots(repository, query)) if plot and found.windows else iter(())
        of_one = query.entity_id is not None
        drawn = list(snapshots) if of_one else [own for _, own in with_own(repository, snapshots)]
    if output == "json":
        say_json(plain_summary(query, found))
    elif not found.windows:
        click.echo(f"No usage: {query}.")
    else:
        click.echo(summary_line(query, found))
        say_summary(found)
        _draw(query, drawn)


def _snapshots(repository: "SyncRepository", query: "UsageQuery") -> "FetchPage[UsageSnapshot]":
    def fetch(size: int, following: str | None) -> tuple[tuple["UsageSnapshot", ...], str | None]:
        page = repository.get_usage_snapshots(**asdict(query), limit=size, next=following)
        return page.snapshots, page.next

    return fetch


def _draw(query: "UsageQuery", snapshots: Iterable["UsageSnapshot"]) -> None:
    from datetime import timedelta
    from shutil import get_terminal_size

    from zae_limiter.values.usage import WINDOW_SECONDS

    from ...terminal import Terminal
    from ...usage.chart import charts

    terminal = Terminal.of_stdout()
    step = timedelta(seconds=WINDOW_SECONDS[query.window])
    for line in charts(snapshots, step, width=get_terminal_size().columns - 1, symbols=terminal.symbols):
        terminal.say(line if line.startswith(" ") else f"\n{terminal.paint(line, 'bold')}")
