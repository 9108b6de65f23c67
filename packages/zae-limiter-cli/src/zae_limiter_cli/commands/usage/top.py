"""`zae-limiter usage top`."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

import click
from click.core import ParameterSource

from ...behind import note_behind
from ...columns import say_json, say_sentence
from ...data.tree import MOST_DEPTH, above_at
from ...data.whose import Whose, whose_options
from ...errors import CommandError
from ...options import OutputForm, connected, in_namespace, output_option
from ...paging import ROWS_OF_A_PAGE, every_row, open_namespace, rows_option
from ...times import both, parse_instant
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
@click.option(
    "--last",
    metavar="TIME",
    help="In place of windows: by admitted or refused acquires of the last 5m, at most 1h, in whole five minutes.",
)
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
    last: str | None,
    output: OutputForm,
) -> None:
    """List the entities with the most refusals, or the most consumption, of the namespace or on a resource, the most
    first: `usage top --tier gold` are the refused entities of a tier, `usage top --below acme` those below an entity.

    With --depth 1 each child of a root is a row, with the calls of all below it: which team drives an organization's
    refusals. A call that cascades counts once. RESOURCE may be a pattern, such as 'claude/*'.

    With --last 5m, who was refused in the last minutes: the aggregator counts each hour by five minutes, so it begins
    with those that hold the instant, and says so. Refusals come up to a minute late.

    The command reads the usage of every entity, on each resource, and with --depth all records. Daily windows take the
    fewest reads.
    """
    from zae_limiter.values.naming import check_limit_name

    from ...usage.showing import plain_top, say_top
    from ...usage.units import units_of

    count = COUNTS.get(by, by)
    if last is not None:
        if connection.file is not None:
            raise CommandError("--last: a file counts usage by the hour; `zae-limiter top --for 5m` counts from now on")
        with open_namespace(connection, namespace) as repository:
            _say_last(repository, query, whose, by, rows, depth, last, output)
        return
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


def _say_last(
    repository: "SyncRepository",
    query: "UsageQuery",
    whose: Whose,
    by: str,
    rows: int,
    depth: int | None,
    last: str,
    output: OutputForm,
) -> None:
    """Print the last minutes. Raises ``CommandError`` for what they do not have."""
    from zae_limiter.maintenance import usage_spans

    from ...usage.lately import begin, plain_lately, ranked_lately, say_lately

    source = click.get_current_context().get_parameter_source
    given = [each for each in ("window", "since", "until") if source(each) is ParameterSource.COMMANDLINE]
    given += ["depth"] if depth is not None else []
    if given:
        raise CommandError(f"--last and --{given[0]} exclude each other: pass one of them")
    if by not in ("refused", "admitted"):
        raise CommandError(f"--by {by!r}: of the last minutes, only admitted and refused acquires are counted")
    now = datetime.fromtimestamp(repository.namespace_state.now() / 1000, UTC)  # the store's time
    start = begin(f"--last {last!r}", parse_instant("--last", last, now), now)
    resource = None if query.is_of_pattern else query.resource
    spans = (each for each in usage_spans(repository, resource, start) if query.has(each.resource))
    found = ranked_lately(whose.only(repository, spans), by, rows)
    note_behind(repository, [(each.entity_id, each.resource) for each in found])
    if output == "json":
        say_json(plain_lately(found, by, start, now))
    elif found:
        say_lately(found, start, now)
    else:
        say_sentence(f"No call was {by}{f' {whose}' if whose else ''} since {both(start)}, as far as it is counted.")


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
