"""`zae-limiter usage top`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import click

from ...columns import say_json
from ...options import OutputForm, connected, in_namespace, output_option
from ...paging import ROWS_OF_A_PAGE, open_namespace
from .options import resource_options

if TYPE_CHECKING:
    from ...connection import Connection
    from ...usage.query import UsageQuery

COUNTS: Final[Mapping[str, str]] = {
    "refused": "total_refused",
    "shadowed": "total_shadowed",
    "admitted": "total_events",
}


@click.command()
@connected
@in_namespace
@resource_options
@click.option(
    "--by",
    metavar="COUNT|LIMIT",
    default="refused",
    show_default=True,
    help="The order: refused, shadowed or admitted acquires, or the consumption of this limit.",
)
@click.option(
    "--limit",
    "rows",
    type=click.IntRange(min=1, max=ROWS_OF_A_PAGE),
    default=10,
    show_default=True,
    help="Maximum number of entities.",
)
@output_option
def top(
    *, connection: "Connection", namespace: str, query: "UsageQuery", by: str, rows: int, output: OutputForm
) -> None:
    """List the entities that were refused, or that consumed, the most on a resource, the first one the most.

    Reads the usage of every entity on the resource; daily windows are the fewest reads.
    """
    from zae_limiter.naming import check_limit_name

    from ...usage.showing import plain_top, say_top

    assert query.resource is not None, "the option is required"
    count = COUNTS.get(by, by)
    if count not in COUNTS.values():
        check_limit_name("--by", by)
    with open_namespace(connection, namespace) as repository:
        found = repository.get_top_usage(
            query.resource, by=count, window=query.window, start=query.start, end=query.end, limit=rows
        )
    if output == "json":
        say_json(plain_top(query, by, found))
    elif found:
        say_top(found)
    else:
        click.echo(f"No usage by {by}: {query}.")
