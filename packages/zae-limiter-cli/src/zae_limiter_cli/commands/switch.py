"""`zae-limiter switch`."""

from typing import TYPE_CHECKING, Any

import click

from ..columns import say_columns, say_json, say_sentence
from ..data.places import ALL_RESOURCES, as_level, patterns_of, places_of
from ..data.showing import word
from ..data.switches import plain_resolved, plain_switches, sentences, set_shared, values_of
from ..errors import CommandError
from ..now import check_all_invalidated, consent, invalidate, live_line, now_option, plain_invalidated, show_invalidated
from ..options import OutputForm, connected, in_namespace, output_option, yes_option
from ..paging import open_namespace, rows_option, say_more
from ..principal import principal_option
from .disable import check_subject, whom

if TYPE_CHECKING:
    from zae_limiter import SyncRepository
    from zae_limiter.maintenance import InvalidatedBuckets

    from ..connection import Connection


@click.command()
@connected
@in_namespace
@click.argument("entity_id", required=False)
@click.option("--resource", "-r", metavar="NAME", help="The resource.  [default: all, of an entity]")
@click.option("--system", is_flag=True, help="The system: all entities on all resources.")
@click.option("--bypass/--no-bypass", default=None, help="Admit and count every acquire, or have limits decide.")
@click.option("--cascade/--no-cascade", default=None, help="Whether acquires take from the parents' buckets, too.")
@click.option(
    "--inherit", type=click.Choice(["bypass", "cascade"]), multiple=True, help="Leave a switch to the next level."
)
@click.option("--reason", metavar="TEXT", help="Why; shown with the switch.")
@principal_option
@now_option
@yes_option
@rows_option
@output_option
def switch(
    *,
    connection: "Connection",
    namespace: str,
    entity_id: str | None,
    resource: str | None,
    system: bool,
    bypass: bool | None,
    cascade: bool | None,
    inherit: tuple[str, ...],
    reason: str | None,
    principal: str,
    now: bool,
    yes: bool,
    rows: int,
    output: OutputForm,
) -> None:
    """Show the switches of ENTITY_ID, on a resource or on all; of a resource (--resource alone); or of the --system,
    level by level: each holds by the first level that sets it. Or change switches of that level.

    Without any of these, list what is disabled, bypassed, lifted or overridden in the namespace now, by whom and until
    when: it reads every config, a hundred with a request.

    A switch that is not given stays. Processes at work obey with their next request; those of a resource or of the
    system within the life of their config cache, or at once with --now. `disable` and `enable` have their own commands.
    """
    fields: dict[str, Any] = {
        **({} if bypass is None else {"bypass": bypass}),
        **({} if cascade is None else {"cascade": "on" if cascade else "off"}),
    }
    if twice := fields.keys() & {*inherit}:
        raise CommandError(f"--inherit {' and '.join(sorted(twice))} contradicts the value that is given for it")
    fields |= dict.fromkeys(inherit)
    if not (fields or entity_id or resource or system or reason or now):
        with open_namespace(connection, namespace) as repository:
            _list(repository, rows, output)
        return
    check_subject(entity_id, resource, system=system, now=now)
    if not fields and (reason is not None or now):
        raise CommandError("nothing to set: pass --bypass, --cascade, or --inherit")
    with open_namespace(connection, namespace) as repository:
        if not fields:
            _show(repository, entity_id, resource, output)
            return
        if now:
            consent(connection, repository, resource, yes=yes, output=output, for_switches=True)
        live, told = None, None
        if entity_id is not None:
            on = resource or ALL_RESOURCES
            live = repository.set_switches(entity_id, on, **fields, reason=reason, principal=principal)
        else:
            set_shared(repository, resource, fields, reason, principal)
        if now:
            told = invalidate(connection, repository, resource, for_switches=True)
        _show_set(repository, entity_id, resource, live, told, output)
        check_all_invalidated(connection, repository, resource, told, for_switches=True)


def _list(repository: "SyncRepository", rows: int, output: OutputForm) -> None:
    """Print what departs from the declared limits now."""
    from ..data.departures import plain_departure, read_departures, say_departures

    found, total = read_departures(repository, rows)
    if output == "json":
        say_json({"in_force": [plain_departure(each) for each in found], "total": total})
        return
    if found:
        say_departures(found)
    else:
        say_sentence(f"Nothing is disabled, bypassed, lifted or overridden in namespace {repository.name}.")
    if total > len(found):
        say_more("of them")


def _show(repository: "SyncRepository", entity_id: str | None, resource: str | None, output: OutputForm) -> None:
    """Show the levels that may set a switch of the subject, and what holds."""
    from zae_limiter import Switches
    from zae_limiter.maintenance import SyncMaintenance
    from zae_limiter.values.patterns import is_pattern
    from zae_limiter.values.resolution import SAYS_NOTHING
    from zae_limiter.values.switches import resolve_switches

    on = resource or ALL_RESOURCES
    places = places_of(entity_id or "", on, patterns=[] if is_pattern(on) else patterns_of(repository, on))
    if entity_id is None:
        places = {source: place for source, place in places.items() if not source.startswith("entity")}
    found = SyncMaintenance(repository).get_configs([*places.values()])
    levels = {source: found[place].switches if place in found else Switches() for source, place in places.items()}
    found_levels = (as_level(source, SAYS_NOTHING, switches=each) for source, each in levels.items())
    resolved = resolve_switches((each.source, each.switches, each.pattern) for each in found_levels)
    if output == "json":
        told = {source: plain_switches(switches) for source, switches in levels.items()}
        say_json({"entity_id": entity_id, "resource": resource, **plain_resolved(resolved), "levels": told})
        return
    who, on = entity_id or "every entity", resource or "all resources"
    for line in sentences(who, on, resolved) or [f"{who} on {on}: no level sets a switch."]:
        say_sentence(line)
    head = ("LEVEL", "DISABLED", "BYPASS", "CASCADE", "REASON")
    say_columns([head, *((source, *values_of(each), word(each.reason)) for source, each in levels.items())])


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
        say_json({**plain, **buckets, **plain_invalidated(told)})
        return
    disabled, bypass, cascade = values_of(switches)
    because = "" if switches.reason is None else f" ({switches.reason})"
    click.echo(f"{whom(entity_id, resource)}: disabled {disabled}, bypass {bypass}, cascade {cascade}{because}.")
    if live is not None:
        click.echo(f"{live_line(live)}.")
    if told is not None:
        show_invalidated(told, output)
