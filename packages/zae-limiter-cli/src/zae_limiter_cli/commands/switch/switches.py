"""`zae-limiter switch set` and `show`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from ...columns import counted, say_columns, say_json
from ...confirmation import confirm
from ...data.places import ALL_RESOURCES, places_of
from ...data.showing import word
from ...data.switches import plain_resolved, plain_switches, sentences, values_of
from ...errors import CommandError
from ...now import check_all_told, consent, now_option, plain_told, show_told, tell
from ...options import OutputForm, connected, in_namespace, output_option, yes_option
from ...paging import in_repository, open_namespace
from ...principal import principal_option

if TYPE_CHECKING:
    from zae_limiter import SyncRepository
    from zae_limiter.maintenance import InvalidatedBuckets

    from ...connection import Connection

WORDS: Final[Mapping[str, bool | None]] = {"yes": True, "no": False, "inherit": None}
_truth = click.Choice([*WORDS])


@click.command("set", short_help="Disable, let bypass, or choose whether parents are asked.")
@connected
@in_namespace
@click.argument("entity_id", required=False)
@click.option("--resource", "-r", metavar="NAME", help="The resource.  [default: all, of an entity]")
@click.option("--system", is_flag=True, help="The system: all entities on all resources.")
@click.option("--disabled", type=_truth, help="Refuse every acquire.")
@click.option("--bypass", type=_truth, help="Admit and count every acquire.")
@click.option("--cascade", type=click.Choice(["on", "off", "inherit"]), help="Draw on the parents' buckets.")
@click.option("--reason", metavar="TEXT", help="Why: whoever is refused is told.")
@principal_option
@now_option
@yes_option
@output_option
def set_switches(
    *,
    connection: "Connection",
    namespace: str,
    entity_id: str | None,
    resource: str | None,
    system: bool,
    disabled: str | None,
    bypass: str | None,
    cascade: str | None,
    reason: str | None,
    principal: str,
    now: bool,
    yes: bool,
    output: OutputForm,
) -> None:
    """Change switches of ENTITY_ID, on a resource or on all; of a resource (--resource alone); or of the --system.

    A switch that is not given stays; inherit leaves it to the next level. Processes at work obey with their next
    request; those of a resource or of the system within the life of their config cache, or at once with --now.
    Asks before it disables, unless --yes is given.
    """
    fields: dict[str, Any] = {
        **({"disabled": WORDS[disabled]} if disabled else {}),
        **({"bypass": WORDS[bypass]} if bypass else {}),
        **({"cascade": cascade} if cascade else {}),
    }
    _check(entity_id, resource, fields, system=system, now=now)
    whom = _whom(entity_id, resource)
    with open_namespace(connection, namespace) as repository:
        if now:
            sure = yes or disabled == "yes"  # that asks by itself
            consent(connection, repository, resource, yes=sure, output=output, for_switches=True)
        if disabled == "yes" and not yes:
            confirm(f"Disable {whom} in namespace {namespace}?")
        live, told = None, None
        if entity_id is not None:
            on = resource or ALL_RESOURCES
            live = repository.set_switches(entity_id, on, **fields, reason=reason, principal=principal)
        elif resource is not None:
            repository.set_resource_switches(resource, **fields, reason=reason, principal=principal)
        else:
            repository.set_system_switches(**fields, reason=reason, principal=principal)
        if now:
            told = tell(connection, repository, resource, for_switches=True)
        _show_set(repository, entity_id, resource, live, told, output)
        check_all_told(connection, repository, resource, told, for_switches=True)


@click.command(short_help="Show the switches of all four levels, and those that hold.")
@in_repository
@click.argument("entity_id")
@click.option("--resource", "-r", required=True, metavar="NAME", help="The resource.")
@output_option
def show(*, repository: "SyncRepository", entity_id: str, resource: str, output: OutputForm) -> None:
    """Show the switches of ENTITY_ID on a resource, level by level. Each holds by the first level that sets it.

    The levels, in order: the entity on this resource, the entity on all resources, the resource, the system.
    """
    from zae_limiter import Switches
    from zae_limiter.maintenance import SyncMaintenance
    from zae_limiter.values.switches import resolve_switches

    places = places_of(entity_id, resource)
    found = SyncMaintenance(repository).get_configs([*places.values()])
    levels = {source: found[place].switches if place in found else Switches() for source, place in places.items()}
    resolved = resolve_switches(levels.items())
    if output == "json":
        told = {source: plain_switches(switches) for source, switches in levels.items()}
        say_json({"entity_id": entity_id, "resource": resource, **plain_resolved(resolved), "levels": told})
        return
    for line in sentences(entity_id, resource, resolved) or [f"{entity_id} on {resource}: no level sets a switch."]:
        click.echo(line)
    head = ("LEVEL", "DISABLED", "BYPASS", "CASCADE", "REASON")
    say_columns([head, *((source, *values_of(each), word(each.reason)) for source, each in levels.items())])


def _check(entity_id: str | None, resource: str | None, fields: Mapping[str, Any], *, system: bool, now: bool) -> None:
    if system and (entity_id is not None or resource is not None):
        raise CommandError("--system is all entities on all resources: pass no ENTITY_ID and no --resource with it")
    if not system and entity_id is None and resource is None:
        raise CommandError("pass ENTITY_ID, --resource NAME or both, or --system")
    if not fields:
        raise CommandError("nothing to set: pass --disabled, --bypass or --cascade")
    if now and entity_id is not None:
        raise CommandError("--now is for a resource or the system: the buckets of an entity are told anyway")


def _whom(entity_id: str | None, resource: str | None) -> str:
    if entity_id is not None:
        return f"{entity_id} on {resource or 'all resources'}"
    return "everybody on all resources" if resource is None else f"everybody on {resource}"


def _show_set(
    repository: "SyncRepository",
    entity_id: str | None,
    resource: str | None,
    live: int | None,
    told: "InvalidatedBuckets | None",
    output: OutputForm,
) -> None:
    switches = repository.get_switches(entity_id, resource)
    if output == "json":
        buckets = {} if live is None else {"live_buckets": live}
        plain = {"entity_id": entity_id, "resource": resource, "switches": plain_switches(switches)}
        say_json({**plain, **buckets, **plain_told(told)})
        return
    disabled, bypass, cascade = values_of(switches)
    because = "" if switches.reason is None else f" ({switches.reason})"
    click.echo(f"{_whom(entity_id, resource)}: disabled {disabled}, bypass {bypass}, cascade {cascade}{because}.")
    if live is not None:
        click.echo(f"{counted(live, 'live bucket')} {'was' if live == 1 else 'were'} told.")
    if told is not None:
        show_told(told, output)
