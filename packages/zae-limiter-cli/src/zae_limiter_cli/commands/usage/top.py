"""`zae-limiter usage top`."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from ...behind import note_behind
from ...columns import say_json
from ...data.tree import MOST_DEPTH, above_at
from ...data.whose import Whose, whose_options
from ...errors import CommandError
from ...options import OutputForm, connected, in_namespace, output_option
from ...paging import ROWS_OF_A_PAGE, every_row, open_namespace, rows_option
from .options import resource_options

if TYPE_CHECKING:
    from zae_limiter import SyncRepository
    from zae_limiter.values import EntityUsage

    from ...connection import Connection
    from ...usage.query import UsageQuery

COUNTS: Final[Mapping[str, str]] = {
    "refused": "total_refused",
    "shadowed": "total_shadowed",
    "uncounted": "total_uncounted",
    "admitted": "total_events",
}


@click.command(short_help="List the entities with the most refusals or consumption.")
@connected
@in_namespace
@resource_options
@whose_options
@click.option(
    "--by",
    metavar="COUNT|LIMIT",
    default="refused",
    show_default=True,
    help="The order: refused, shadowed, uncounted or admitted acquires, or the consumption of this limit.",
)
@click.option(
    "--depth",
    type=click.IntRange(min=0, max=MOST_DEPTH),
    help="Sum up entities so many levels below the root, each with all below it; 0 the root.",
)
@partial(rows_option, default=10, most=ROWS_OF_A_PAGE, noun="entities")
@output_option
def top(
    *,
    connection: "Connection",
    namespace: str,
    query: "UsageQuery",
    whose: Whose,
    by: str,
    depth: int | None,
    rows: int,
    output: OutputForm,
) -> None:
    """List the entities with the most refusals, or the most consumption, of the namespace or on a resource, the most
    first: `usage top --tier gold` are the refused entities of a tier, `usage top --below acme` those below an entity.

    With --depth 1 each child of a root is a row, with the calls of all below it: which team drives an organization's
    refusals. A call that cascades counts once. RESOURCE may be a pattern, such as 'claude/*'.

    The command reads the usage of every entity, on each resource, and with --depth all records. Daily windows take the
    fewest reads.
    """
    from zae_limiter.values.naming import check_limit_name

    from ...usage.showing import plain_top, say_top
    from ...usage.units import units_of

    count = COUNTS.get(by, by)
    if count not in COUNTS.values():
        check_limit_name("--by", by)
    with open_namespace(connection, namespace) as repository:
        found = _top(repository, query, whose, count, rows, depth)
        if not found and count not in COUNTS.values():
            _refuse_unknown(repository, query, by)
        units = units_of(repository, found)
        note_behind(repository, [(each.entity_id, each.resource) for each in found] if depth is None else [], query.end)
    if output == "json":
        say_json(plain_top(query, by, found, units))
    elif found:
        say_top(found, units)
    else:
        of = f" {whose}" if whose else ""
        click.echo(f"No usage by {by}{of}: {query}.")


def _top(
    repository: "SyncRepository", query: "UsageQuery", whose: Whose, count: str, rows: int, depth: int | None
) -> "tuple[EntityUsage, ...]":
    if not whose and depth is None and not query.is_of_pattern:
        return repository.get_top_usage(
            query.resource, by=count, window=query.window, start=query.start, end=query.end, limit=rows
        )
    from ...usage.ranked import ranked

    snapshots = every_row(query.pages(repository))
    if depth is None:
        return ranked(whose.only(repository, snapshots), count, rows)
    from ...usage.own import with_own
    from ...usage.runs import payer_of

    own, above = (each for _, each in with_own(repository, snapshots)), above_at(repository, depth)
    chosen = whose.only(repository, own)
    return ranked((replace(each, entity_id=above(payer_of(each))) for each in chosen), count, rows)


def _refuse_unknown(repository: "SyncRepository", query: "UsageQuery", by: str) -> None:
    """Raise ``CommandError`` for a name that is none of the limits; if no limit is known, only for a mistyped count."""
    from difflib import get_close_matches

    known = repository.list_resources_with_defaults() if query.is_of_many else []
    resources = [each for each in {*known, query.resource} if each is not None and query.has(each)]
    defaults = [*repository.get_system_defaults()[0]]
    defaults += [limit for resource in resources for limit in repository.get_resource_defaults(resource)]
    used = _top(repository, query, Whose(), "total_events", ROWS_OF_A_PAGE, None)
    limits = sorted({*(each.name for each in defaults), *(name for each in used for name in each.consumed)})
    close = get_close_matches(by, [*COUNTS, *limits], n=1)
    if by in limits or not (limits or close):
        return
    hint = f"did you mean `{close[0]}`?" if close else f"it is one of {', '.join([*COUNTS, *limits])}"
    where = "a resource" if query.resource is None else query.resource
    problem = f"neither a count, nor a limit that {where} has by default or that anybody used"
    raise CommandError(f"--by {by!r}: {problem}: {hint}")
