"""`zae-limiter entity effective` and `list-resources`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from ...columns import say_columns, say_json, say_sentence
from ...data.places import places_of, tier_of
from ...data.refusals import plain_on_refused, say_on_refused
from ...data.showing import LIMIT_HEAD, limit_cells, override_line, plain_limits, plain_override, show_names
from ...data.switches import lines_of, plain_resolved, plain_switches
from ...options import OutputForm, output_option
from ...paging import in_repository

if TYPE_CHECKING:
    from zae_limiter import Limit, OnRefused, SyncRepository
    from zae_limiter.values import ConfigSource
    from zae_limiter.values.provisioner import StoredConfig


@click.command(short_help="Show all levels of limits, and the one that wins.")
@in_repository
@click.argument("entity_id")
@click.option("--resource", "-r", required=True, metavar="NAME", help="The resource.")
@output_option
def effective(*, repository: "SyncRepository", entity_id: str, resource: str, output: OutputForm) -> None:
    """Show the limits of ENTITY_ID on a resource, level by level. The first level with limits wins as a whole.

    An override in force replaces the limits of its level; what holds after it is shown below. Each switch, and what
    follows a refusal, is that of the first level that sets it; it may be another level than that of the limits.

    The levels, in order: the entity on this resource, the entity on all resources, its tier on this
    resource and on all, the resource, the system.
    """
    from zae_limiter.values.resolution import Level, winner
    from zae_limiter.values.switches import NO_SWITCHES, resolve_switches

    tier = tier_of(repository, entity_id)
    places = places_of(entity_id, resource, tier)
    found = repository.get_configs([*places.values()])
    configs = {source: found.get(place) for source, place in places.items()}
    switches = {source: each.switches if each else NO_SWITCHES for source, each in configs.items()}
    resolved = resolve_switches(switches.items())
    won = winner([Level(source, _limits_in_force(each)) for source, each in configs.items()])
    policy_from = next((source for source, each in configs.items() if each and each.on_refused), None)
    policy = _policy_of(configs[policy_from]) if policy_from else None
    if output == "table":
        of = "" if tier is None else f" (tier {tier})"
        _say(f"{entity_id} on {resource}{of}", configs, won and won.source)
        for line in lines_of(resolved):
            say_sentence(line)
        say_on_refused(policy, by=policy_from)
        return
    system = configs["system"]
    say_json(
        {
            "entity_id": entity_id,
            "resource": resource,
            **({} if tier is None else {"tier": tier}),
            "source": won and won.source,
            "limits": plain_limits(won.limits if won else ()),
            "on_unavailable": system and system.on_unavailable,
            **plain_on_refused(policy),
            **({} if policy_from is None else {"on_refused_source": policy_from}),
            "switches": plain_resolved(resolved),
            "levels": [
                {
                    "source": source,
                    "limits": plain_limits(each.limits if each else ()),
                    "override": plain_override(each.override if each else None),
                    "switches": plain_switches(switches[source]),
                    **plain_on_refused(_policy_of(each)),
                }
                for source, each in configs.items()
            ],
        }
    )


@click.command(short_help="List the resources on which any entity has limits.")
@in_repository
@output_option
def list_resources(*, repository: "SyncRepository", output: OutputForm) -> None:
    """List the resources on which any entity has limits of its own; _default_ means all resources.

    The list may miss a change of the last second.
    """
    found = repository.list_resources_with_entity_configs()
    show_names("RESOURCE", found, output, none=f"No entity has limits of its own in namespace {repository.name}.")


def _limits_in_force(config: "StoredConfig | None") -> "tuple[Limit, ...]":
    """Return the limits of a level: those of its override while that is in force."""
    if config is None:
        return ()
    return config.override.limits if config.override else config.limits


def _policy_of(config: "StoredConfig | None") -> "OnRefused | None":
    return None if config is None else config.on_refused


def _say(place: str, configs: "Mapping[ConfigSource, StoredConfig | None]", won: "ConfigSource | None") -> None:
    say_sentence(f"{place}: no level has limits." if won is None else f"{place}: the level {won} wins.")
    rows: list[tuple[str, ...]] = [("LEVEL", "WINS", *LIMIT_HEAD)]
    for source, config in configs.items():
        wins = "yes" if source == won else "-"
        rows += [(source, wins, *cells) for cells in _cells(_limits_in_force(config))]
    say_columns(rows)
    for source, config in configs.items():
        if config is not None and config.override is not None:
            say_sentence(f"{source}: {override_line(config.override)[:-1]}; then these limits of its own:")
            say_columns([LIMIT_HEAD, *_cells(config.limits)])


def _cells(limits: "Sequence[Limit]") -> list[tuple[str, ...]]:
    return [limit_cells(each) for each in limits] or [("-", "-", "-", "-")]
