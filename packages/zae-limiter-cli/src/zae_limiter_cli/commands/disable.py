"""`zae-limiter disable` and `enable`: who is refused altogether, for a time or until further notice."""

import shlex
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from ..columns import say_command, say_json, say_sentence
from ..confirmation import confirm
from ..data.effective import read_effective
from ..data.overrides import (
    End,
    blocks,
    end_options,
    known_resources,
    own_configs,
    places_in_words,
    set_override,
)
from ..data.places import ALL_RESOURCES, place_in_tier, tier_of
from ..data.switches import plain_switches, set_shared
from ..errors import CommandError
from ..explanation.unknown import unknown_entity
from ..now import check_all_invalidated, consent, invalidate, live_line, now_option, plain_invalidated, show_invalidated
from ..options import OutputForm, connected, given_options, in_namespace, output_option, yes_accepted, yes_option
from ..paging import open_namespace
from ..principal import principal_option
from ..times import both, iso

if TYPE_CHECKING:
    from zae_limiter import Limit, SyncRepository
    from zae_limiter.values import SetSwitch
    from zae_limiter.values.provisioner import ConfigPlace

    from ..connection import Connection
    from ..explanation.unknown import Unknown

_resource_option = click.option(
    "--resource", "-r", metavar="NAME", help="This resource alone; without ENTITY_ID for all entities.  [default: all]"
)
_system_option = click.option("--system", is_flag=True, help="All entities on all resources.")


@click.command()
@connected
@in_namespace
@click.argument("entity_id", required=False)
@_resource_option
@_system_option
@end_options("until `enable`")
@click.option("--reason", metavar="TEXT", help="Why, which the refused caller gets; without --for or --until.")
@principal_option
@now_option
@yes_option
@output_option
def disable(
    *,
    connection: "Connection",
    namespace: str,
    entity_id: str | None,
    resource: str | None,
    system: bool,
    end: End | None,
    reason: str | None,
    principal: str,
    now: bool,
    yes: bool,
    output: OutputForm,
) -> None:
    """Refuse every acquire of ENTITY_ID, of a resource (--resource alone) or of the namespace (--system), until
    `enable`. Asks first, unless --yes is given.

    The refused caller gets AccessDisabled with the --reason. For a time (--for, --until) an entity alone can be
    disabled: by an override with a capacity of 0 for each limit, so that the caller is refused as by any limit.

    Processes at work obey an entity's with their next request; those of a resource or of the system within the life of
    their config cache, or at once with --now.
    """
    check_subject(entity_id, resource, system=system, now=now)
    if end is not None and (entity_id is None or reason is not None):
        raise CommandError("--for and --until are for an ENTITY_ID, and without --reason: nothing was changed")
    with open_namespace(connection, namespace) as repository:
        if now:
            consent(connection, repository, resource, yes=True, output=output, for_switches=True)
        unknown = [] if entity_id is None else [*unknown_entity(repository, entity_id)]
        if entity_id is not None and end is not None:
            _block(repository, entity_id, resource, end, principal, output, yes=yes)
            _say_unknown(unknown)
            return
        if not yes:
            confirm(f"Disable {whom(entity_id, resource)} in namespace {namespace}?")
        _switch_off(connection, repository, entity_id, resource, reason, principal, output, now=now)
        _say_unknown(unknown)


@click.command()
@connected
@in_namespace
@click.argument("entity_id", required=False)
@_resource_option
@_system_option
@click.option("--exempt", is_flag=True, help="Enable ENTITY_ID even where the resource or the system is disabled.")
@principal_option
@now_option
@output_option
@yes_accepted
def enable(
    *,
    connection: "Connection",
    namespace: str,
    entity_id: str | None,
    resource: str | None,
    system: bool,
    exempt: bool,
    principal: str,
    now: bool,
    output: OutputForm,
) -> None:
    """Let ENTITY_ID in again, a resource (--resource alone) or the namespace (--system): end what `disable` began, for
    a time or not, and say which.

    An entity that a resource or the system disables stays disabled, and the command says so: --exempt lets it in. After
    a time-limited one rates begin empty, and of quotas what was used counts.
    """
    check_subject(entity_id, resource, system=system, now=now)
    if exempt and entity_id is None:
        raise CommandError("--exempt is for one entity: pass ENTITY_ID, too")
    with open_namespace(connection, namespace) as repository:
        if entity_id is not None:
            _let_in(repository, entity_id, resource, principal, output, exempt=exempt)
            return
        if not repository.get_switches(None, resource).disabled:
            raise CommandError(f"{whom(None, resource)} is not disabled in namespace {namespace}: nothing was ended")
        if now:
            consent(connection, repository, resource, yes=True, output=output, for_switches=True)
        set_shared(repository, resource, {"disabled": None}, None, principal)
        _show_level(connection, repository, resource, "enabled", output, now=now)


def check_subject(entity_id: str | None, resource: str | None, *, system: bool, now: bool) -> None:
    """Raise ``CommandError`` for options that name no subject, or two."""
    if system and (entity_id is not None or resource is not None):
        raise CommandError("--system is all entities on all resources: pass no ENTITY_ID and no --resource with it")
    if not system and entity_id is None and resource is None:
        raise CommandError("pass ENTITY_ID, --resource NAME or both, or --system")
    if now and entity_id is not None:
        raise CommandError("--now is for a resource or the system: the buckets of an entity are invalidated anyway")


def whom(entity_id: str | None, resource: str | None) -> str:
    """Return the subject of a switch in words."""
    if entity_id is not None:
        return f"{entity_id} on {resource or 'all resources'}"
    return "every entity on all resources" if resource is None else f"every entity on {resource}"


def _say_unknown(unknown: "Iterable[Unknown]") -> None:
    """Say of a name that nothing was stored under that it may be mistyped, and which come near."""
    for each in unknown:
        near = f"; near: {', '.join(each.near)}" if each.near else ""
        has = "there is no entity record, no limits and no bucket of it"
        say_sentence(f"{each.name} may be mistyped: {has}{near}.", err=True)


def _switch_off(
    connection: "Connection",
    repository: "SyncRepository",
    entity_id: str | None,
    resource: str | None,
    reason: str | None,
    principal: str,
    output: OutputForm,
    *,
    now: bool,
) -> None:
    """Set the switch; at an entity, also where it was exempted on one resource."""
    bypasses = repository.get_switches(entity_id, resource or (ALL_RESOURCES if entity_id else None)).bypass
    fields: dict[str, Any] = {"disabled": True, **({"bypass": None} if bypasses else {})}
    if entity_id is None:
        set_shared(repository, resource, fields, reason, principal)
        _show_level(connection, repository, resource, "disabled", output, now=now)
        return
    for place in _exempt_on(repository, entity_id) if resource is None else ():
        repository.set_switches(entity_id, place, disabled=None, principal=principal)
    live = repository.set_switches(entity_id, resource or ALL_RESOURCES, **fields, reason=reason, principal=principal)
    if output == "json":
        told = {"resources": [resource or ALL_RESOURCES], "action": "disabled", "until": None, "reason": reason}
        say_json({"entity_id": entity_id, **told, "live_buckets": live})
        return
    because = "" if reason is None else f" ({reason})"
    say_sentence(f"{whom(entity_id, resource)} is disabled{because}: {live_line(live)}.")


def _exempt_on(repository: "SyncRepository", entity_id: str) -> list[str]:
    """Return the resources on which an entity is enabled whatever its switch on all resources says."""
    found = own_configs(repository, entity_id)
    return [place for place, each in found.items() if place != ALL_RESOURCES and each.switches.disabled is False]


def _block(
    repository: "SyncRepository",
    entity_id: str,
    resource: str | None,
    end: End,
    principal: str,
    output: OutputForm,
    *,
    yes: bool,
) -> None:
    """Set an override with a capacity of 0 for each limit, of its kind."""
    until = end.of(repository)
    blocked = _blocked(repository, entity_id, resource)
    if not yes:
        confirm(f"Disable {whom(entity_id, resource)} until {both(until)} in namespace {repository.name}?")
    live = 0
    for place, limits in blocked.items():  # those on all resources last: they invalidate every bucket
        until, live = set_override(repository, entity_id, place, limits, end=end, principal=principal)
    if output == "json":
        told = {"resources": [*blocked], "action": "disabled", "until": iso(until), "reason": None}
        say_json({"entity_id": entity_id, **told, "live_buckets": live})
        return
    on = places_in_words(blocked)
    say_sentence(f"{entity_id} is disabled until {both(until)} on {on}: {live_line(live)}.")


def _blocked(repository: "SyncRepository", entity_id: str, resource: str | None) -> "dict[str, list[Limit]]":
    """Return the limits of a block by place: on a resource, or on each with limits of its own, and then on all."""
    if resource is not None:
        composed = read_effective(repository, entity_id, tier_of(repository, entity_id), [resource])[resource].composed
        found = {resource: [*composed.limits]}
    else:
        own = own_configs(repository, entity_id)
        own.pop(ALL_RESOURCES, None)
        found = {
            place: [*config.limits, *(config.override.limits if config.override else ())]
            for place, config in own.items()
        }
        found[ALL_RESOURCES] = _all_limits(repository, entity_id)
    if not any(found.values()):
        raise CommandError(
            f"no level has limits for {entity_id}, so nothing can be disabled for a time: leave out --for and --until"
        )
    return {place: _shut(limits) for place, limits in found.items() if limits}


def _shut(limits: "Iterable[Limit]") -> "list[Limit]":
    """Return limits that admit nothing, one of each name: of the same kind, so that what was used of a quota counts
    afterwards, and money where one of the name is, so that calls ask for it as before.
    """
    by_name: dict[str, Limit] = {}
    for limit in limits:
        if limit.name not in by_name or (limit.unit and not by_name[limit.name].unit):
            by_name[limit.name] = limit
    nothing: dict[str, Any] = {"capacity": 0, "burst": 0, "refill_amount": 1, "prefetch": 0, "shadow": False}
    return [replace(by_name[name], **nothing, schedule=(), alert=()) for name in sorted(by_name)]


def _all_limits(repository: "SyncRepository", entity_id: str) -> "list[Limit]":
    """Return the limits that calls of the entity may consume, on any resource."""
    from zae_limiter.maintenance import SyncMaintenance

    resources, tier = repository.list_resources_with_defaults(), tier_of(repository, entity_id)
    of_tier = [] if tier is None else repository.list_tiers().get(tier, [])
    places: list[ConfigPlace] = [
        (None, None),
        (entity_id, ALL_RESOURCES),
        *((None, resource) for resource in resources),
    ]
    places += [place_in_tier(tier, resource) for resource in of_tier if tier is not None]
    configs = SyncMaintenance(repository).get_configs(places).values()
    stored = [limit for config in configs for limit in config.limits]
    return [*stored, *(each.limit for bucket in repository.get_buckets(entity_id) for each in bucket.limits)]


def _let_in(
    repository: "SyncRepository",
    entity_id: str,
    resource: str | None,
    principal: str,
    output: OutputForm,
    *,
    exempt: bool,
) -> None:
    """End the switches and the blocks of an entity, and say which, and what still disables it."""
    ended: list[dict[str, Any]] = []
    live = 0
    for place, config in own_configs(repository, entity_id, None if resource is None else [resource]).items():
        if config.switches.disabled:
            live = max(live, repository.set_switches(entity_id, place, disabled=None, principal=principal))
            ended.append({"resource": place, "what": "switch", "reason": config.switches.reason})
        if config.override is not None and blocks(config.override):
            live = max(live, repository.delete_override(entity_id, place, principal=principal))
            ended.append({"resource": place, "what": "override", "until": iso(config.override.until)})
    if exempt:
        live = max(
            live, repository.set_switches(entity_id, resource or ALL_RESOURCES, disabled=False, principal=principal)
        )
    shut = _still_disabled(repository, entity_id, resource)
    if not ended and not exempt:
        others = [*(_by(entity_id, *each) for each in shut.items()), *_everywhere(repository, entity_id, resource)]
        found = f"nothing of its own disables {entity_id}" if others else f"{entity_id} is not disabled"
        on = "" if resource is None else f" on {resource}"
        raise CommandError("; ".join((f"{found}{on} in namespace {repository.name}: nothing was ended", *others)))
    if output == "json":
        still = {place: {"source": switch.source, "reason": switch.reason} for place, switch in shut.items()}
        told = {"resources": [*{each["resource"]: None for each in ended}], "action": "enabled", "ended": ended}
        say_json({"entity_id": entity_id, **told, "exempt": exempt, "still_disabled": still, "live_buckets": live})
        return
    for each in ended:
        until = f" until {both(datetime.fromisoformat(each['until']))}" if "until" in each else ""
        say_sentence(
            f"{entity_id} on {places_in_words([each['resource']])} was disabled{until}: its {each['what']} has ended."
        )
    if exempt:
        say_sentence(f"{whom(entity_id, resource)} is enabled, whatever the resource and the system say.")
    say_sentence(f"{live_line(live)}.")
    for place, switch in shut.items():
        say_sentence(
            f"{entity_id} on {places_in_words([place])} stays disabled: {_by(entity_id, place, switch)}.", err=True
        )
    if any(each["what"] == "override" for each in ended):
        _say_resets(repository, entity_id, resource)


def _still_disabled(repository: "SyncRepository", entity_id: str, resource: str | None) -> "dict[str, SetSwitch]":
    """Return what disables an entity by resource: on the one in question, or on all that are known."""
    names = [resource] if resource is not None else known_resources(repository, entity_id)
    found = read_effective(repository, entity_id, None, names)
    resolved = {name: each.switches for name, each in found.items()}
    return {name: each.disabled for name, each in resolved.items() if each and each.disables and each.disabled}


def _everywhere(repository: "SyncRepository", entity_id: str, resource: str | None) -> list[str]:
    """Return the way out where an entity is disabled on all resources for a time, and one is in question."""
    if resource is None or not blocks(repository.get_override(entity_id)):
        return []
    return [f"it is disabled on all resources for a time: `enable {shlex.quote(entity_id)}` ends that"]


def _by(entity_id: str, place: str, switch: "SetSwitch") -> str:
    """Return what disables an entity, and the command that ends that for all."""
    shared = f"enable -r {shlex.quote(switch.pattern or place)}"
    ends = {"system": "enable --system", "resource": shared, "pattern": shared}
    way = ends.get(switch.source, f"enable {shlex.quote(entity_id)}")
    return f"it is disabled by {switch.setter}{switch.because}; `{way}` ends that, --exempt lets it in alone"


def _say_resets(repository: "SyncRepository", entity_id: str, resource: str | None) -> None:
    """Say how to fill the buckets of an entity: its rates begin empty after a block, of its quotas what was used
    counts.
    """
    for each in repository.get_buckets(entity_id, resource):
        rates = [one.limit.name for one in each.limits if one.limit.kind == "token_bucket"]
        quotas = [one.limit.name for one in each.limits if one.limit.kind not in ("token_bucket", "concurrent")]
        if not rates:
            continue
        gives = f", which gives back what was used of {', '.join(quotas)} as well" if quotas else ""
        say_sentence(
            f"{', '.join(rates)} on {each.resource} may begin empty, and comes back at its rate. To fill it{gives}:",
            err=True,
        )
        words = ["zae-limiter", "bucket", "reset", "-r", each.resource, *given_options(), "--", entity_id]
        say_command(shlex.join(words), err=True)


def _show_level(
    connection: "Connection",
    repository: "SyncRepository",
    resource: str | None,
    action: str,
    output: OutputForm,
    *,
    now: bool,
) -> None:
    """Invalidate the live buckets of a level, if ``now``, and show what was done."""
    told = invalidate(connection, repository, resource, for_switches=True) if now else None
    switches = repository.get_switches(None, resource)
    if output == "json":
        plain = {"entity_id": None, "resource": resource, "action": action, "switches": plain_switches(switches)}
        say_json({**plain, **plain_invalidated(told)})
    else:
        because = "" if switches.reason is None else f" ({switches.reason})"
        say_sentence(f"{whom(None, resource)} is {action}{because}.")
        if told is not None:
            show_invalidated(told, output)
    check_all_invalidated(connection, repository, resource, told, for_switches=True)
