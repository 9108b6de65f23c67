"""`zae-limiter bucket invalidate`."""

from typing import TYPE_CHECKING

import click

from ...columns import say_json
from ...errors import CommandError
from ...now import WRITES_PER_SECOND, check_all_invalidated, consent, plain_invalidated, show_invalidated
from ...now import invalidate as invalidate_now
from ...options import FiniteRange, OutputForm, connected, in_namespace, output_option, yes_option
from ...paging import open_namespace

if TYPE_CHECKING:
    from ...connection import Connection


@click.command(short_help="Invalidate the limits in live buckets, after a change.")
@connected
@in_namespace
@click.option("--resource", "-r", metavar="NAME", help="Buckets of this resource.")
@click.option("--system", is_flag=True, help="Buckets that the system's limits hold for.")
@click.option(
    "--rate",
    type=FiniteRange(min=1, max=100_000),
    default=WRITES_PER_SECOND,
    show_default=True,
    metavar="NUMBER",
    help="Most writes a second.",
)
@click.option("--switches", is_flag=True, help="Switches have changed: also entities with limits of their own.")
@yes_option
@output_option
def invalidate(
    *,
    connection: "Connection",
    namespace: str,
    resource: str | None,
    system: bool,
    rate: float,
    switches: bool,
    yes: bool,
    output: OutputForm,
) -> None:
    """Invalidate the limits, or the switches, that live buckets have of a resource or of the system, after a change
    without --now.

    Running processes then obey with their next request, not within the life of their config cache. The command shows
    the number of buckets and the cost, and asks first. After an interruption it goes on: a bucket that was invalidated
    since the last change costs a read.
    """
    if (resource is None) is not system:
        raise CommandError("pass either --resource NAME or --system")
    with open_namespace(connection, namespace) as repository:
        consent(connection, repository, resource, yes=yes, output=output, rate=rate, for_switches=switches)
        found = invalidate_now(connection, repository, resource, rate=rate, for_switches=switches)
        if output == "json":
            say_json({"resource": resource, **plain_invalidated(found)})
        show_invalidated(found, output)
        check_all_invalidated(connection, repository, resource, found, for_switches=switches)
