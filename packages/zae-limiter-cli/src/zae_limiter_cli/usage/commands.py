"""What lives here: `zae-limiter usage list` and `zae-limiter usage summary`.
What never does: an import that `--help` does not need.
"""

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ..columns import say_json
from ..errors import CommandError
from ..options import OutputForm, connected, in_namespace, output_option
from ..stored import Ask, every_row, first_rows, open_namespace, rows_option, say_more
from .asking import Asked, asking

if TYPE_CHECKING:
    from zae_limiter import SyncRepository, UsageSnapshot

    from ..connection import Connection


@click.command("list", short_help="What was consumed in each window.")
@connected
@in_namespace
@asking
@rows_option
@output_option
def list_usage(*, connection: "Connection", namespace: str, asked: Asked, rows: int, output: OutputForm) -> None:
    """List what was consumed in each window, in tokens by limit, less what was given back; the oldest window first.

    Of an entity on all resources, one resource after the other. The aggregator counts; it is some seconds behind.
    """
    from .showing import plain_snapshot, say_snapshots

    with open_namespace(connection, namespace) as repository:
        found, more = first_rows(_snapshots(repository, asked), rows)
    if output == "json":
        say_json([plain_snapshot(each) for each in found])
    elif found:
        say_snapshots(found)
    else:
        click.echo(f"No usage: {asked}.")
    if more:
        say_more("windows")


@click.command(short_help="What was consumed, summed by limit.")
@connected
@in_namespace
@asking
@click.option("--plot", is_flag=True, help="Draw a bar for each window, too.")
@output_option
def summary(*, connection: "Connection", namespace: str, asked: Asked, plot: bool, output: OutputForm) -> None:
    """Sum up what was consumed by limit: in total, and the least, the most and the mean of the windows with any use."""
    from .showing import plain_summary, say_summary

    if plot and output == "json":
        raise CommandError("--plot draws for people: leave it out, or --output json")
    with open_namespace(connection, namespace) as repository:
        found = repository.get_usage_summary(**asdict(asked))
        drawn = list(every_row(_snapshots(repository, asked))) if plot and found.windows else []
    if output == "json":
        say_json(plain_summary(asked, found))
    elif not found.windows:
        click.echo(f"No usage: {asked}.")
    else:
        click.echo(f"{asked}: {found.total_events:,} acquires, windows with use: {found.windows:,}")
        say_summary(found)
        _draw(asked, drawn)


def _snapshots(repository: "SyncRepository", asked: Asked) -> "Ask[UsageSnapshot]":
    def ask(size: int, following: str | None) -> tuple[tuple["UsageSnapshot", ...], str | None]:
        page = repository.get_usage_snapshots(**asdict(asked), limit=size, next=following)
        return page.snapshots, page.next

    return ask


def _draw(asked: Asked, snapshots: Iterable["UsageSnapshot"]) -> None:
    from datetime import timedelta
    from shutil import get_terminal_size

    from zae_limiter.usage import WINDOW_SECONDS

    from ..terminal import Terminal
    from .chart import charts

    terminal = Terminal.of_stdout()
    step = timedelta(seconds=WINDOW_SECONDS[asked.window])
    for line in charts(snapshots, step, width=get_terminal_size().columns - 1, symbols=terminal.symbols):
        terminal.say(line if line.startswith(" ") else f"\n{terminal.paint(line, 'bold')}")
