"""`zae-limiter tier set-limits`, `show` and `delete-limits`."""

from typing import TYPE_CHECKING

import click

from ...columns import say_columns, say_json
from ...confirmation import confirm
from ...data.changing import Change, before_change
from ...data.parsing import level_options
from ...data.places import ALL_RESOURCES, composed_below, place_in_tier
from ...data.refusals import on_refused_option
from ...data.showing import LIMIT_HEAD, LevelMode, level_cells, plain_limits, show_done, together
from ...errors import CommandError
from ...options import OutputForm, output_option, yes_option
from ...paging import in_repository
from ...principal import principal_option

if TYPE_CHECKING:
    from zae_limiter import Limit, OnRefused, SyncRepository
    from zae_limiter.values import LevelLimits


resource_option = click.option(
    "--resource", "-r", default=ALL_RESOURCES, metavar="NAME", help="The resource.  [default: all resources]"
)


@click.command(short_help="Replace the limits of a tier; make the tier if it is new.")
@in_repository
@click.argument("tier")
@resource_option
@level_options
@on_refused_option
@principal_option
@yes_option
@output_option
def set_limits(
    *,
    repository: "SyncRepository",
    tier: str,
    resource: str,
    limits: "list[Limit]",
    mode: LevelMode,
    on_refused: "OnRefused | None",
    principal: str,
    yes: bool,
    output: OutputForm,
) -> None:
    """Replace the limits of TIER on a resource, or on all resources; make the tier if it is new. Asks first if a limit
    goes, unless --yes is given.

    One write, however many entities have the tier. Running processes see the change when their config cache expires, by
    default within a minute. A tier has no --now: buckets do not say whose tier they follow.
    """
    what = f"limits of tier {tier} on {_shown(resource)}"
    change = before_change(
        repository, place_in_tier(tier, resource), limits, what=what, yes=yes, unlimited=mode.unlimited
    )
    given = mode.given(limits)
    repository.set_tier_limits(tier, given, resource, extends=mode.extends, on_refused=on_refused, principal=principal)
    _show(repository, tier, output, change)


@click.command(short_help="Show a tier, or list the tiers.")
@in_repository
@click.argument("tier", required=False)
@output_option
def show(*, repository: "SyncRepository", tier: str | None, output: OutputForm) -> None:
    """Show the limits of TIER, resource by resource, and how many entities have it; without TIER, list the tiers.

    The list may miss a change of the last second.
    """
    if tier is not None:
        _show(repository, tier, output)
    else:
        _list(repository, output)


@click.command(short_help="Delete the limits of a tier on a resource, or on all.")
@in_repository
@click.argument("tier")
@resource_option
@principal_option
@yes_option
@output_option
def delete_limits(
    *, repository: "SyncRepository", tier: str, resource: str, principal: str, yes: bool, output: OutputForm
) -> None:
    """Delete the limits of TIER on a resource, or on all resources. Asks first, unless --yes is given.

    The last limits of a tier stay while entities have it; the command says how many. A tier has no --now: running
    processes follow when their config cache expires.
    """
    place = f"tier {tier} on {_shown(resource)}"
    own = repository.get_tier_limits(tier, resource)
    if not (own or own.unlimited):
        raise CommandError(f"{place} has no limits in namespace {repository.name}: nothing was deleted")
    if not yes:
        confirm(f"Delete the limits of {place}, in namespace {repository.name}?")
    repository.delete_tier_limits(tier, resource, principal=principal)
    show_done({"tier": tier, "resource": resource}, "deleted", output, message=f"Limits of {place} deleted.")


def _list(repository: "SyncRepository", output: OutputForm) -> None:
    found = repository.list_tiers()
    counts = {tier: len(repository.list_entities_of_tier(tier)) for tier in found}
    if output == "json":
        say_json([{"tier": tier, "entities": counts[tier], "resources": found[tier]} for tier in found])
    elif found:
        rows = [(tier, f"{counts[tier]:,}", ", ".join(map(_shown, found[tier]))) for tier in found]
        say_columns([("TIER", "ENTITIES", "LIMITS ON"), *rows])
    else:
        click.echo(f"There are no tiers in namespace {repository.name}.")


def _show(repository: "SyncRepository", tier: str, output: OutputForm, change: Change | None = None) -> None:
    """Print a tier. Raises ``CommandError`` for one without limits."""
    entities = len(repository.list_entities_of_tier(tier))
    limits = _limits_of(repository, tier)
    if not limits:
        raise CommandError(
            f"tier {tier} has no limits in namespace {repository.name}: `tier show` lists those that have"
        )
    if output == "json":
        resources = {resource: plain_limits(own) for resource, own in limits.items()}
        modes = {resource: mode for resource, own in limits.items() if (mode := LevelMode.of(own).plain())}
        changed = change.plain() if change else {}
        say_json(
            {
                "tier": tier,
                "entities": entities,
                "resources": resources,
                **({"modes": modes} if modes else {}),
                **changed,
            }
        )
        return
    click.echo(f"tier {tier}: {entities:,} {'entity has' if entities == 1 else 'entities have'} it.")
    rows = [(_shown(resource), *cells) for resource, own in limits.items() for cells in level_cells(own)]
    say_columns([("ON", *LIMIT_HEAD), *rows])
    if extending := [_shown(resource) for resource, own in limits.items() if own.extends]:
        click.echo(f"The limits on {', '.join(extending)} add to those of the next level.")
    for resource, own in limits.items():
        if own.extends:
            click.echo(f"{_shown(resource)}: {together(composed_below(repository, resource, tier))}")
    if change is not None:
        change.say(output)


def _limits_of(repository: "SyncRepository", tier: str) -> "dict[str, LevelLimits]":
    """Return the limits of a tier by resource, those on all resources first."""
    on_all = {ALL_RESOURCES: repository.get_tier_limits(tier)}
    others = {each: repository.get_tier_limits(tier, each) for each in repository.list_tiers().get(tier, ())}
    return {resource: limits for resource, limits in (on_all | others).items() if limits or limits.unlimited}


def _shown(resource: str) -> str:
    return "all resources" if resource == ALL_RESOURCES else resource
