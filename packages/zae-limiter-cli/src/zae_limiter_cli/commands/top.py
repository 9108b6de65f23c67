"""`zae-limiter top`."""

import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from time import sleep
from typing import TYPE_CHECKING, Final

import click
from click.core import ParameterSource

from ..behind import note_behind
from ..columns import say_json, say_sentence
from ..errors import CommandError
from ..live.rows import ORDERS, Order
from ..options import FiniteRange, OutputForm, connected, given_options, in_namespace, output_option
from ..paging import ROWS_OF_A_PAGE, open_namespace, rows_option
from ..times import duration, parse_end, shown

if TYPE_CHECKING:
    from ..connection import Connection
    from ..terminal import Terminal

LONGEST: Final = 3600  # seconds of --for


def _follows(terminal: "Terminal") -> bool:
    """Return whether a screen can be drawn there; say so where there is a terminal that can draw none."""
    able = terminal.live and terminal.symbols
    if terminal.stream.isatty() and not able:
        click.echo(
            "This terminal draws no screen: TERM is dumb, or it is not\nUTF-8. The table is printed once.", err=True
        )
    return able


def _time_of(text: str) -> tuple[str, float]:
    """Return a time that was typed, as a head has it, and its seconds. Raises ``CommandError``."""
    if click.get_current_context().get_parameter_source("every") is ParameterSource.COMMANDLINE:
        raise CommandError("--for and --every are both the time between two looks: pass one of them")
    now = datetime.now(UTC)
    seconds = (parse_end("--for", text, now) - now).total_seconds()
    if seconds > LONGEST:
        raise CommandError(f"--for {text!r}: must be at most 1h; `zae-limiter usage list` has whole hours")
    return duration(seconds).upper(), seconds


@click.command()
@connected
@in_namespace
@click.option("--resource", "-r", metavar="NAME", help="Only this resource.  [default: all]")
@click.option("--by", type=click.Choice(ORDERS), default="refused", show_default=True, help="The order of the rows.")
@click.option(
    "--every",
    type=FiniteRange(min=1, max=3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="The time from one look to the next.",
)
@click.option(
    "--for", "for_", metavar="TIME", help="Count what happens in 5m, at most 1h, from now on; print a table, and end."
)
@click.option("--tree/--flat", default=True, show_default=True, help="Show entities below their parents, or not.")
@click.option("--once", is_flag=True, help="Look twice, print a table, and end. So it is without a terminal, too.")
@click.option("--allow-changes", is_flag=True, help="Let the keys `l` and `b` lift and block.")
@partial(rows_option, default=50, most=ROWS_OF_A_PAGE, noun="buckets")
@output_option
def top(
    *,
    connection: "Connection",
    namespace: str,
    resource: str | None,
    by: Order,
    every: float,
    for_: str | None,
    tree: bool,
    once: bool,
    allow_changes: bool,
    rows: int,
    output: OutputForm,
) -> None:
    """Watch the buckets of a namespace: what is left, how fast it is used, who is refused, and by which limit.

    Refusals are those that the aggregator has counted in this hour and the one before. Of more than --rows buckets,
    those with the most refusals and the most use are shown. --for counts in a time, which begins now: buckets count
    on, and keep no times. Keys: `w` why, `u` usage, `d` changes, `s` sort, `t` tree
    or flat, `/` filter, `q` quit; with --allow-changes `l` lift and `b` block, which ask for a word first.
    """
    from ..live.plain import plain_row, say_rows
    from ..live.reading import Reader
    from ..live.rows import MINUTE_MS, Counted, first_rows, rows_of
    from ..live.tree import lines_of
    from ..terminal import Terminal

    name, length = ("", every) if for_ is None else _time_of(for_)
    once = once or bool(name)
    with open_namespace(connection, namespace) as repository:
        if not once and output == "table" and sys.stdin.isatty() and _follows(Terminal.of_stdout()):
            from ..live.health import Health
            from ..live.screen import ChangingScreen, Look, TopScreen

            look = Look(order=by, tree=tree)
            reader = Reader(repository, resource, rows, every)
            kind, options = ChangingScreen if allow_changes else TopScreen, given_options()
            screen = kind(reader, Health(connection), look, title=namespace, every=every, options=options)
            screen.run()
            raise click.exceptions.Exit(screen.return_code or 0)
        reader = Reader(repository, resource, rows)
        before = reader.read()
        if name:
            ends = shown(datetime.now(UTC) + timedelta(seconds=length))
            say_sentence(f"Buckets count on, and keep no times: this counts from now until {ends} UTC.", err=True)
        sleep(length)
        reading = reader.read()
        note_behind(
            repository, [*sorted(reading.usage, key=lambda each: -reading.usage[each].admitted), *reading.buckets]
        )
    found = first_rows(rows_of(reading, before, by), rows, reading.parents if tree else {})
    if output == "json":
        plain = [plain_row(row, reading.parents.get(row.place.entity_id, ())) for row in found]
        say_json({"namespace": namespace, "seconds": (reading.at_ms - before.at_ms) / 1000, "buckets": plain})
    elif found:
        parents = reading.parents if tree else {}
        counted = Counted(name, (reading.at_ms - before.at_ms) / MINUTE_MS) if name else None
        say_rows(lines_of(found, parents, symbols=Terminal.of_stdout().symbols), counted)
    else:
        on = "" if resource is None else f" on {resource}"
        say_sentence(f"There is no bucket{on} in namespace {namespace}, and no usage in this hour or the one before.")
