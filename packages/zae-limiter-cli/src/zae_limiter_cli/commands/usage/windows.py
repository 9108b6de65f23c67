"""`zae-limiter usage list`."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from ...behind import note_behind
from ...columns import say_json, say_sentence
from ...data.whose import Whose, whose_options
from ...errors import CommandError
from ...options import OutputForm, connected, in_namespace, output_option
from ...paging import every_row, first_rows, open_namespace, rows_option, say_more
from ...times import both, iso, parse_instant
from .options import list_options

if TYPE_CHECKING:
    from zae_limiter import SyncRepository, UsageSnapshot

    from ...connection import Connection
    from ...data.never import Never
    from ...usage.query import UsageQuery


@click.command("list", short_help="List the consumption of each window, or its total.")
@connected
@in_namespace
@list_options
@whose_options
@click.option("--total", is_flag=True, help="Sum up the windows, by limit.")
@click.option("--plot", is_flag=True, help="Sum up the windows, and draw a bar for each.")
@click.option(
    "--never",
    type=click.Choice(["used", "refused"]),
    help="List the limits that were never used in these windows; or used, and never refused a call.",
)
@click.option(
    "--idle",
    metavar="TIME",
    help="List the entities without a call since this time: 30d ago, or 2024-01-31.",
)
@rows_option
@output_option
def list_usage(
    *,
    connection: "Connection",
    namespace: str,
    query: "UsageQuery",
    whose: Whose,
    total: bool,
    plot: bool,
    never: "Never | None",
    idle: str | None,
    rows: int,
    output: OutputForm,
) -> None:
    """List the acquires of each window, and its net consumption in tokens by limit, the oldest window first.

    Without --entity and --resource it lists the windows of the whole namespace.
    Acquires are admitted or refused. Shadowed ones were admitted although shadow limits would have refused them.
    For an entity on all resources, the resources follow one another. The aggregator is some seconds behind.

    With --total: total, minimum, maximum and mean of the windows with any use. Of several entities, a call that
    cascades counts once, at the entity that was asked.

    With --never it reads every config, and says of each limit whether the usage has it: `usage list --never refused
    --window daily --since 30d`. Where usage does not say which of a bucket's limits refused, a column says how
    often it or another one did. A shadow limit, which refuses nothing, is marked. Levels are composed as they are now:
    a column has what buckets used of a stronger level's limit of the name, which may have been of this one before.

    With --idle, those without any call first: `never` is in all the usage that is kept. It reads the daily windows of
    90 days, or from --since on, and for each idle entity a page for each resource that it has used.
    """
    if idle is not None:
        _check_idle(total=total, plot=plot, never=never)
        with open_namespace(connection, namespace) as repository:
            _list_idle(repository, query, idle, whose, rows, output)
        return
    whose.check_without(entity=query.entity_id, total=total, plot=plot, never=never)
    if never is not None and (total or plot):
        raise CommandError("--never lists limits, and --total and --plot sum up windows: pass one of them")
    if query.is_of_pattern and (total or plot):
        raise CommandError("--total and --plot sum up one resource or all: pass no pattern with them")
    if plot and output == "json":
        raise CommandError("--plot and --output json exclude each other: pass one of them")
    with open_namespace(connection, namespace) as repository:
        if never is not None:
            _list_never(repository, query, never, rows, output)
        elif total or plot:
            _show_total(repository, query, output, plot=plot)
        else:
            _list_windows(repository, query, whose, rows, output)


def _check_idle(**others: object) -> None:
    """Raise ``CommandError`` if an option is given that says nothing of idle entities."""
    source = click.get_current_context().get_parameter_source
    typed = (name for name in ("entity", "resource", "window", "until") if source(name) is ParameterSource.COMMANDLINE)
    if given := [*typed, *(name for name, value in others.items() if value)]:
        raise CommandError(f"--idle and --{given[0]} exclude each other: pass one of them")


def _list_idle(
    repository: "SyncRepository", query: "UsageQuery", idle: str, whose: Whose, rows: int, output: OutputForm
) -> None:
    from ...usage.idle import plain_idle, read_idle, say_idle

    since = parse_instant("--idle", idle, datetime.now(UTC))
    is_given = click.get_current_context().get_parameter_source("since") is ParameterSource.COMMANDLINE
    found = read_idle(repository, since, query.start if is_given else None, partial(whose.only, repository))
    note_behind(repository, [])
    if output == "json":
        say_json({"since": iso(since), "entities": [plain_idle(each) for each in found[:rows]], "total": len(found)})
    elif found:
        say_idle(found[:rows])
    else:
        say_sentence(f"Every entity{f' {whose}' if whose else ''} was called since {both(since)}.")
    if output == "table" and len(found) > rows:
        say_more("entities")


def _list_never(
    repository: "SyncRepository", query: "UsageQuery", never: "Never", rows: int, output: OutputForm
) -> None:
    from ...data.never import plain_limit_use, read_never, say_never

    places, starts = dict.fromkeys(_asked(query)), set[datetime]()

    def read() -> "Iterator[UsageSnapshot]":
        for each in every_row(query.pages(repository)):
            places[each.entity_id, each.resource] = None
            starts.add(each.window_start)
            yield each

    found = read_never(repository, query.entity_id, query.resource, read(), never)
    note_behind(repository, reversed(places), query.end)
    since = _counted_since(repository, query, min(starts, default=None))
    if output == "json":
        limits = [plain_limit_use(each) for each in found[:rows]]
        start = {"since": iso(query.start), "counted_since": None if since is None else iso(since)}
        say_json({"never": never, **start, "limits": limits, "total": len(found)})
    elif found:
        say_never(found[:rows])
    else:
        told = "Every limit was used" if never == "used" else "Every limit that was used refused a call"
        click.echo(f"{told}: {query}.")
    if output == "table" and len(found) > rows:
        say_more("limits")
    if output == "table" and since != query.start:
        first = "Nothing is counted in these windows" if since is None else f"The first count is at {both(since)}"
        say_sentence(f"{first}: what was before is not known.", err=True)


def _counted_since(repository: "SyncRepository", query: "UsageQuery", first: datetime | None) -> datetime | None:
    """Return from when on the windows of a query have counts, of which ``first`` begins the first: from when the
    namespace was created, if that was in it.
    """
    from zae_limiter.values.usage import WINDOW_SECONDS

    if first is None or first <= query.start:
        return None if first is None else query.start
    namespace = repository.get_namespace(repository.name)
    created = first if namespace is None else datetime.fromisoformat(namespace.created_at)
    return max(first, created) if created - first < timedelta(seconds=WINDOW_SECONDS[query.window]) else first


def _list_windows(
    repository: "SyncRepository", query: "UsageQuery", whose: Whose, rows: int, output: OutputForm
) -> None:
    from ...usage.showing import plain_snapshot, say_snapshots
    from ...usage.units import units_of

    pages = query.pages(repository)
    if whose:
        chosen = list(islice(whose.only(repository, every_row(pages)), rows + 1))
        found, more = chosen[:rows], len(chosen) > rows
    else:
        found, more = first_rows(pages, rows)
    note_behind(repository, _asked(query) or [(each.entity_id, each.resource) for each in reversed(found)], query.end)
    if output == "json":
        units = units_of(repository, found)
        say_json([plain_snapshot(each, units) for each in found])
    elif found:
        say_snapshots(found, units_of(repository, found))
    else:
        click.echo(f"No usage{f' {whose}' if whose else ''}: {query}.")
    if more:
        say_more("windows")


def _asked(query: "UsageQuery") -> list[tuple[str, str]]:
    """Return the bucket that a query is about; none if it is about several."""
    if query.entity_id is None or query.resource is None or query.is_of_pattern:
        return []
    return [(query.entity_id, query.resource)]


def _show_total(repository: "SyncRepository", query: "UsageQuery", output: OutputForm, *, plot: bool) -> None:
    from ...usage.own import with_own
    from ...usage.showing import plain_summary, say_summary, summary_line
    from ...usage.units import units_of

    found = repository.get_usage_summary(**asdict(query))
    first = first_rows(query.pages(repository), 20)[0] if found.windows else ()
    units = units_of(repository, first)
    note_behind(repository, _asked(query) or [(each.entity_id, each.resource) for each in first], query.end)
    if output == "json":
        say_json(plain_summary(query, found, units))
    elif not found.windows:
        click.echo(f"No usage: {query}.")
    else:
        snapshots = every_row(query.pages(repository)) if plot else iter(())
        of_one = query.entity_id is not None
        drawn = list(snapshots) if of_one else [own for _, own in with_own(repository, snapshots)]
        click.echo(summary_line(query, found))
        say_summary(found, units)
        _draw(query, drawn, units)


def _draw(query: "UsageQuery", snapshots: Iterable["UsageSnapshot"], units: Mapping[str, str]) -> None:
    from datetime import timedelta
    from shutil import get_terminal_size

    from zae_limiter.values.usage import WINDOW_SECONDS

    from ...terminal import Terminal
    from ...usage.chart import charts

    terminal = Terminal.of_stdout()
    step = timedelta(seconds=WINDOW_SECONDS[query.window])
    for line in charts(snapshots, step, units, width=get_terminal_size().columns - 1, symbols=terminal.symbols):
        terminal.say(line if line.startswith(" ") else f"\n{terminal.paint(line, 'bold')}")
