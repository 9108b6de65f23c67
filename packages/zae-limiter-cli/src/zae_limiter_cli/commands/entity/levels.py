"""`zae-limiter entity effective` and `list-resources`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ...columns import say_columns, say_json
from ...data.places import places_of, plan_of
from ...data.refusals import plain_on_refused, say_on_refused
from ...data.showing import LIMIT_HEAD, limit_cells, override_line, plain_limits, plain_override, show_names
from ...data.switches import lines_of, plain_resolved, plain_switches
from ...options import OutputForm, connected, in_namespace, output_option
from ...paging import open_namespace

if TYPE_CHECKING:
    from zae_limiter.values.resolution import Level

    from ...connection import Connection


@click.command()
@connected
@in_namespace
@click.argument("entity_id")
@click.option("--resource", "-r", required=True, metavar="NAME", help="The resource.")
@output_option
def effective(*, connection: "Connection", namespace: str, entity_id: str, resource: str, output: OutputForm) -> None:
    """Show the limits of ENTITY_ID on a resource, level by level. The first level with limits wins as a whole.

    An override in force replaces the limits of its level; what holds after it is shown below. Each switch, and what
    follows a refusal, is that of the first level that sets it; it may be another level than that of the limits.

    The levels, in order: the entity on this resource, the entity on all resources, its plan on this
    resource and on all, the resource, the system.
    """
    from zae_limiter.values.resolution import Level, winner
    from zae_limiter.values.switches import NO_SWITCHES, resolve_switches

    with open_namespace(connection, namespace) as repository:
        plan = plan_of(repository, entity_id)
        places = places_of(entity_id, resource, plan)
        found = repository.get_configs([*places.values()])
    own = {source: found[place].limits if place in found else () for source, place in places.items()}
    overrides = {source: found[place].override for source, place in places.items() if place in found}
    levels = [
        Level(source, override.limits if (override := overrides.get(source)) else own[source]) for source in places
    ]
    on_unavailable = found[places["system"]].on_unavailable if places["system"] in found else None
    policies = {source: found[place].on_refused for source, place in places.items() if place in found}
    policy_from = next((source for source, each in policies.items() if each is not None), None)
    on_refused = None if policy_from is None else policies[policy_from]
    switches = {source: found[place].switches if place in found else NO_SWITCHES for source, place in places.items()}
    resolved = resolve_switches(switches.items())
    won = winner(levels)
    if output == "table":
        of = "" if plan is None else f" (plan {plan})"
        _say(f"{entity_id} on {resource}{of}", levels, won)
        for source, override in overrides.items():
            if override is not None:
                click.echo(f"{source}: {override_line(override)[:-1]}; then these limits of its own:")
                say_columns([LIMIT_HEAD, *(map(limit_cells, own[source]) if own[source] else [("-", "-", "-", "-")])])
        for line in lines_of(resolved):
            click.echo(line)
        say_on_refused(on_refused, by=policy_from)
        return
    say_json(
        {
            "entity_id": entity_id,
            "resource": resource,
            **({} if plan is None else {"plan": plan}),
            "source": won and won.source,
            "limits": plain_limits(won.limits if won else ()),
            "on_unavailable": on_unavailable,
            **plain_on_refused(on_refused),
            **({} if policy_from is None else {"on_refused_source": policy_from}),
            "switches": plain_resolved(resolved),
            "levels": [
                {
                    "source": source,
                    "limits": plain_limits(own[source]),
                    "override": plain_override(overrides.get(source)),
                    "switches": plain_switches(switches[source]),
                    **plain_on_refused(policies.get(source)),
                }
                for source in places
            ],
        }
    )


@click.command()
@connected
@in_namespace
@output_option
def list_resources(*, connection: "Connection", namespace: str, output: OutputForm) -> None:
    """List the resources on which any entity has limits of its own; _default_ means all resources.

    The list may miss a change of the last second.
    """
    with open_namespace(connection, namespace) as repository:
        found = repository.list_resources_with_entity_configs()
    show_names("RESOURCE", found, output, none=f"No entity has limits of its own in namespace {namespace}.")


def _say(place: str, levels: Sequence["Level"], won: "Level | None") -> None:
    click.echo(f"{place}: no level has limits." if won is None else f"{place}: the level {won.source} wins.")
    head = ("LEVEL", "WINS", *LIMIT_HEAD)
    say_columns([head, *(cells for level in levels for cells in _cells(level, "yes" if level is won else "-"))])


def _cells(level: "Level", wins: str) -> list[tuple[str, ...]]:
    limits = [limit_cells(each) for each in level.limits] or [("-", "-", "-", "-")]
    return [(level.source, wins, *cells) for cells in limits]
