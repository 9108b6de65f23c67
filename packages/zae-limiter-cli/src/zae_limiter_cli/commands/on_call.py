"""`zae-limiter block`, `unblock` and `lift`: changes of an entity's limits for a time, which hold at once."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from ..columns import counted, say_columns, say_command, say_json, say_sentence
from ..confirmation import confirm
from ..data.parsing import limits_option, parse_new_values
from ..data.places import ALL_RESOURCES, place_in_tier, tier_of, winner_beneath
from ..data.showing import VALUES_HEAD, in_force, plain_limits, values_cells
from ..data.windows import gains_at_once
from ..errors import CommandError
from ..options import (
    FiniteRange,
    Function,
    OutputForm,
    connected,
    given_options,
    in_namespace,
    output_option,
    yes_accepted,
    yes_option,
)
from ..paging import in_repository, open_namespace
from ..principal import principal_option
from ..times import iso, parse_end, shown

if TYPE_CHECKING:
    from zae_limiter import Limit, Override, SyncRepository
    from zae_limiter.values.provisioner import ConfigPlace
    from zae_limiter.values.schedules import ScheduleEntry

    from ..connection import Connection

LONGEST: Final = timedelta(days=365)


def _until_option(default: str, shown_as: str) -> Callable[[Function], Function]:
    told = f"How long: 30m, 2h, 7d, or until 2026-01-31T18:00Z.  [default: {shown_as}]"
    return click.option("--until", default=default, metavar="TIME", help=told)


@click.command()
@in_repository
@click.argument("entity_id")
@click.option("--resource", "-r", metavar="NAME", help="Only this resource.  [default: all]")
@_until_option("", "until `unblock`, for a year at most")
@principal_option
@yes_option
@output_option
def block(
    *,
    repository: "SyncRepository",
    entity_id: str,
    resource: str | None,
    until: str,
    principal: str,
    yes: bool,
    output: OutputForm,
) -> None:
    """Refuse every acquire of ENTITY_ID: an override with a capacity of 0 for each limit. Asks first, unless --yes is
    given.

    Processes at work obey with their next request. An override that is in force is replaced. A bucket that is blocked
    begins empty again.
    """
    end = _end(repository, until)
    blocked = _blocked(repository, entity_id, resource)
    if not yes:
        confirm(f"Block {entity_id} on {resource or 'all resources'} in namespace {repository.name}?")
    told = 0
    for place, limits in blocked.items():  # those on all resources last: they tell every bucket
        told = _override(repository, entity_id, place, limits, until=(until, end), principal=principal)
    _show_change(entity_id, [*blocked], "blocked", told, output, f"is blocked until {shown(end)} (UTC)", until=iso(end))


@click.command()
@in_repository
@click.argument("entity_id")
@click.option("--resource", "-r", metavar="NAME", help="Only this resource.  [default: all that are blocked]")
@principal_option
@output_option
@yes_accepted
def unblock(
    *, repository: "SyncRepository", entity_id: str, resource: str | None, principal: str, output: OutputForm
) -> None:
    """End what `block` began: its own limits hold again. Its buckets begin empty; `bucket reset` fills one."""
    places = [resource] if resource else [*_own_places(repository, entity_id), ALL_RESOURCES]
    ended = [place for place in places if _blocks(repository.get_override(entity_id, place))]
    if not ended:
        on = f" on {resource}" if resource else ""
        raise CommandError(f"{entity_id} is not blocked{on} in namespace {repository.name}: nothing was ended")
    told = max([repository.delete_override(entity_id, place, principal=principal) for place in ended])
    _show_change(entity_id, ended, "unblocked", told, output, "is unblocked")


@click.command()
@connected
@in_namespace
@click.argument("entity_id")
@click.option("--resource", "-r", required=True, metavar="NAME", help="The resource.")
@click.option(
    "--by",
    type=FiniteRange(min=0, min_open=True, max=1000),
    metavar="NUMBER",
    help="Multiply every limit by this.",
)
@limits_option(required=False, parse=parse_new_values)
@_until_option("1h", "1h")
@principal_option
@output_option
@yes_accepted
def lift(
    *,
    connection: "Connection",
    namespace: str,
    entity_id: str,
    resource: str,
    by: float | None,
    limits: "list[Callable[[Mapping[str, Limit]], Limit]]",
    until: str,
    principal: str,
    output: OutputForm,
) -> None:
    """Give ENTITY_ID other limits on a resource for a time, by a factor (--by 2) or by value (-l rpm:500).

    A factor multiplies the entries of a schedule, too; a value holds at all times. Limits that -l does not name stay as
    they are. The command shows which values hold now, and which at other times. Processes at work obey with their next
    request. `entity delete-override` ends it.
    """
    if (by is None) is not bool(limits):
        raise CommandError("pass either --by FACTOR or -l LIMIT: --by 2, -l rpm:500")
    with open_namespace(connection, namespace) as repository:
        end = _end(repository, until)
        if _blocks(repository.get_override(entity_id, resource)):
            raise CommandError(f"{entity_id} is blocked on {resource}: unblock it first, and nothing was changed")
        won = winner_beneath(repository, entity_id, resource)
        beneath = won.limits if won else ()
        if by is None:
            known = {limit.name: limit for limit in beneath}
            lifted = known | {limit.name: limit for limit in (new_values(known) for new_values in limits)}
        else:
            lifted = {limit.name: _times(limit, by) for limit in beneath}
        if not lifted:
            raise CommandError(f"no level has limits for {entity_id} on {resource}: there is nothing to multiply")
        told = _override(repository, entity_id, resource, [*lifted.values()], until=(until, end), principal=principal)
        now_ms = repository.namespace_state.now()
    plain = {"until": iso(end), "limits": plain_limits([*lifted.values()], now_ms)}
    _show_change(entity_id, [resource], "lifted", told, output, f"has other limits until {shown(end)} (UTC)", **plain)
    if output == "table":
        say_columns([VALUES_HEAD, *(row for limit in lifted.values() for row in values_cells(limit, now_ms))])
    known = {limit.name: in_force(limit, now_ms) for limit in beneath}
    _say_what_comes_later(entity_id, resource, known, {n: in_force(limit, now_ms) for n, limit in lifted.items()})


def _end(repository: "SyncRepository", until: str) -> datetime:
    now = datetime.fromtimestamp(repository.namespace_state.now() / 1000, UTC)  # the store's time
    return parse_end("--until", until, now) if until else now + LONGEST


def _override(
    repository: "SyncRepository",
    entity_id: str,
    place: str,
    limits: "Sequence[Limit]",
    *,
    until: tuple[str, datetime],
    principal: str,
) -> int:
    from zae_limiter import ValidationError

    text, end = until
    try:
        return repository.set_limits(entity_id, limits, place, override_until=end, principal=principal)
    except ValidationError as error:
        if error.field != "override_until":
            raise
        raise CommandError(f"--until {text!r}: {error.problem}") from error


def _blocked(repository: "SyncRepository", entity_id: str, resource: str | None) -> "dict[str, list[Limit]]":
    """Return the limits of a block by place: on a resource, or on each with limits of its own, and then on all."""
    from zae_limiter import Limit

    if resource is not None:
        names = {resource: {limit.name for limit in repository.resolve_limits(entity_id, resource)[0]}}
    else:
        own = _own_places(repository, entity_id)
        names = {place: {limit.name for limit in limits} for place, limits in own.items()}
        names[ALL_RESOURCES] = _all_names(repository, entity_id)
    if not any(names.values()):
        raise CommandError(f"no level has limits for {entity_id}: there is nothing to block, and nothing was changed")
    return {place: [Limit.per_minute(name, 0) for name in sorted(found)] for place, found in names.items() if found}


def _own_places(repository: "SyncRepository", entity_id: str) -> "dict[str, list[Limit]]":
    """Return the resources on which the entity has limits of its own or an override, with these limits."""
    from zae_limiter.maintenance import SyncMaintenance

    resources = [each for each in repository.list_resources_with_entity_configs() if each != ALL_RESOURCES]
    places: list[ConfigPlace] = [(entity_id, resource) for resource in resources]
    found = SyncMaintenance(repository).get_configs(places)
    configs = {resource: found[place] for resource, place in zip(resources, places, strict=True) if place in found}
    return {
        resource: [*config.limits, *(config.override.limits if config.override else ())]
        for resource, config in configs.items()
    }


def _all_names(repository: "SyncRepository", entity_id: str) -> set[str]:
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
    stored = {
        limit.name for config in SyncMaintenance(repository).get_configs(places).values() for limit in config.limits
    }
    return stored | {each.limit.name for bucket in repository.get_buckets(entity_id) for each in bucket.limits}


def _times(limit: "Limit", factor: float) -> "Limit":
    """Return a limit that gives ``factor`` times as much, at all times: the entries of its schedule do, too."""
    return replace(limit, schedule=tuple(_more(each, factor) for each in limit.schedule), **_multiplied(limit, factor))


def _more(entry: "ScheduleEntry", factor: float) -> "ScheduleEntry":
    return replace(entry, **_multiplied(entry, factor))


def _multiplied(values: "Limit | ScheduleEntry", factor: float) -> dict[str, Any]:
    """Return the amounts of a limit or an entry times ``factor``, at least one token; what blocks goes on to block."""
    if values.capacity == 0:
        return {}
    return {each: max(1, round(getattr(values, each) * factor)) for each in ("capacity", "burst", "refill_amount")}


def _say_what_comes_later(
    entity_id: str, resource: str, before: "Mapping[str, Limit]", lifted: "Mapping[str, Limit]"
) -> None:
    """Say which limits have no token more now, and the command that gives as many, up to what the bucket holds."""
    more = {
        limit.name: min(lifted[limit.name].capacity - limit.capacity, limit.usable_burst)
        for limit in before.values()
        if not gains_at_once(lifted[limit.name]) and limit.capacity < lifted[limit.name].capacity
    }
    if not more:
        return
    words = [word for name, amount in more.items() for word in ("-t", f"{name}:{amount}")]
    command = ["zae-limiter", "bucket", "credit", "-r", resource, *words, *given_options(), "--", entity_id]
    later = f"A larger limit gives no token of {', '.join(more)} before the next window, if there is one."
    say_sentence(f"{later} A credit does:", err=True)
    say_command(shlex.join(command), err=True)


def _blocks(override: "Override | None") -> bool:
    """Return whether an override is a block: none of its limits admits anything."""
    return override is not None and all(limit.blocks and not limit.shadow for limit in override.limits)


def _show_change(
    entity_id: str, places: Sequence[str], action: str, told: int, output: OutputForm, message: str, **more: Any
) -> None:
    if output == "json":
        say_json({"entity_id": entity_id, "resources": [*places], "action": action, **more, "live_buckets": told})
        return
    on = "all resources" if ALL_RESOURCES in places else ", ".join(places)
    say_sentence(
        f"{entity_id} {message} on {on}: {counted(told, 'live bucket')} {'was' if told == 1 else 'were'} told."
    )
