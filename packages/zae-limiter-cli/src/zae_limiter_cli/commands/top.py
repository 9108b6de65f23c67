"""`zae-limiter top`."""

import sys
from functools import partial
from time import sleep
from typing import TYPE_CHECKING

import click

from ..columns import say_json, say_sentence
from ..live.rows import ORDERS, Order
from ..options import FiniteRange, OutputForm, connected, given_options, in_namespace, output_option
from ..paging import ROWS_OF_A_PAGE, open_namespace, rows_option

if TYPE_CHECKING:
    from ..connection import Connection
    from ..terminal import Terminal


def _follows(terminal: "Terminal") -> bool:
    """Return whether a screen can be drawn there; say so where there is a terminal that can draw none."""
    able = terminal.live and terminal.symbols
    if terminal.stream.isatty() and not able:
        click.echo(
            "This terminal draws no screen: TERM is dumb, or it is not\nUTF-8. The table is printed once.", err=True
        )
    return able


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
    tree: bool,
    once: bool,
    allow_changes: bool,
    rows: int,
    output: OutputForm,
) -> None:
    """Watch the buckets of a namespace: what is left, how fast it is used, who is refused, and by which limit.

    Refusals are those that the aggregator has counted in this hour and the one before. Of more than --rows buckets,
    those with the most refusals and the most use are shown. Keys: `w` why, `u` usage, `d` changes, `s` sort, `t` tree
    or flat, `/` filter, `q` quit; with --allow-changes `l` lift and `b` block, which ask for a word first.
    """
    from ..live.plain import plain_row, say_rows
    from ..live.reading import Reader
    from ..live.rows import first_rows, rows_of
    from ..live.tree import lines_of
    from ..terminal import Terminal

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
        sleep(every)
        reading = reader.read()
    found = first_rows(rows_of(reading, before, by), rows, reading.parents if tree else {})
    if output == "json":
        plain = [plain_row(row, reading.parents.get(row.place.entity_id, ())) for row in found]
        say_json({"namespace": namespace, "buckets": plain})
    elif found:
        parents = reading.parents if tree else {}
        say_rows(lines_of(found, parents, symbols=Terminal.of_stdout().symbols))
    else:
        on = "" if resource is None else f" on {resource}"
        say_sentence(f"There is no bucket{on} in namespace {namespace}, and no usage in this hour or the one before.")
