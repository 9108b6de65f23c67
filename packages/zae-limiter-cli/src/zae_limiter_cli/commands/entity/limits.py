"""`zae-limiter entity set-limits` and `delete-limits`."""

import shlex
from typing import TYPE_CHECKING, Any

import click

from ...columns import say_columns, say_json
from ...confirmation import confirm
from ...data.changing import Change, before_change
from ...data.overrides import End, end_options, own_configs, set_override
from ...data.parsing import level_options
from ...data.places import ALL_RESOURCES, composed_beneath
from ...data.refusals import on_refused_option, plain_on_refused, say_on_refused, stored_on_refused
from ...data.showing import (
    LIMIT_HEAD,
    LevelMode,
    limit_cells,
    override_line,
    plain_limits,
    plain_override,
    show_done,
    together,
)
from ...errors import CommandError
from ...options import Function, OutputForm, output_option, yes_option
from ...paging import in_repository
from ...principal import principal_option
from ...times import both

if TYPE_CHECKING:
    from zae_limiter import Limit, OnRefused, SyncRepository


def _place(function: Function) -> Function:
    """Add the argument and the option of a place; the command gets ``entity_id`` and ``resource``, by default all
    resources.
    """
    told = "Resource of the limits.  [default: all resources without limits of their own]"
    on = click.option("--resource", "-r", default=ALL_RESOURCES, metavar="NAME", help=told)
    return click.argument("entity_id")(on(function))


@click.command(short_help="Replace an entity's own limits.")
@in_repository
@_place
@level_options
@end_options()
@on_refused_option
@principal_option
@yes_option
@output_option
def set_limits(
    *,
    repository: "SyncRepository",
    entity_id: str,
    resource: str,
    limits: "list[Limit]",
    mode: LevelMode,
    end: End | None,
    on_refused: "OnRefused | None",
    principal: str,
    yes: bool,
    output: OutputForm,
) -> None:
    """Replace the own limits of ENTITY_ID on a resource; with --for or --until only for a time, after which they hold
    again. Asks first if a limit goes, unless --yes is given.

    Of a quota, what was used counts, so one that is raised lets an entity in at once. A rate keeps the tokens that its
    bucket has, and comes back at the new one.
    """
    if end is not None:
        end.of(repository)  # a wrong one is the first error
        if mode.unlimited:
            raise CommandError("--unlimited is of a level: to admit everything for a time, `switch` its bypass on")
    what = f"{'override' if end else 'own limits'} of {entity_id} on {resource}"
    asks: dict[str, Any] = {"yes": yes, "of_override": end is not None, "unlimited": mode.unlimited}
    change = before_change(repository, (entity_id, resource), limits, what=what, **asks)
    given: dict[str, Any] = {"extends": mode.extends, "on_refused": on_refused, "principal": principal}
    if end is None:
        repository.set_limits(entity_id, mode.given(limits), resource, **given)
    else:
        set_override(repository, entity_id, resource, limits, end=end, **given)
    _show(repository, entity_id, resource, output, change)
    if mode.unlimited and resource == ALL_RESOURCES:
        _say_still_limited(repository, entity_id)
    if end is not None and not mode.extends:
        _warn_of_missing(repository, entity_id, resource, {limit.name for limit in limits})


def _say_still_limited(repository: "SyncRepository", entity_id: str) -> None:
    """Say where an entity that is unlimited on all resources has limits on one, which come first."""
    own = own_configs(repository, entity_id)
    places = [place for place, config in own.items() if place != ALL_RESOURCES and config.limits]
    if places:
        way_out = f"`entity set-limits {shlex.quote(entity_id)} -r {shlex.quote(places[0])} --unlimited`"
        click.echo(
            f"{entity_id} stays limited on {', '.join(places)}, by limits of its own there: {way_out}, or delete them.",
            err=True,
        )


def _warn_of_missing(repository: "SyncRepository", entity_id: str, resource: str, names: set[str]) -> None:
    """Warn of the limits that an override lacks: calls pass them without a limit while it holds."""
    beneath = composed_beneath(repository, entity_id, resource)
    missing = {limit.name for limit in beneath.limits} - names
    if missing:
        click.echo(
            f"Warning: the level {beneath.source} has {', '.join(sorted(missing))} as well, and nothing limits it "
            "while the override holds: name it too, or pass --extends.",
            err=True,
        )


@click.command(short_help="Delete an entity's own limits.")
@in_repository
@_place
@principal_option
@yes_option
@output_option
def delete_limits(
    *, repository: "SyncRepository", entity_id: str, resource: str, principal: str, yes: bool, output: OutputForm
) -> None:
    """Delete the own limits of ENTITY_ID on a resource. Asks first, unless --yes is given."""
    what = f"own limits of {entity_id} on {resource}"
    override = repository.get_override(entity_id, resource)
    stays = f"; its override until {both(override.until)} stays" if override else ""
    own = repository.get_limits(entity_id, resource)
    if not (own or own.unlimited):
        hint = f"{stays}: `lift --end` ends it" if override else ""
        raise CommandError(f"there are no {what} in namespace {repository.name}: nothing was deleted{hint}")
    if not yes:
        confirm(f"Delete the {what} in namespace {repository.name}?")
    repository.delete_limits(entity_id, resource, principal=principal)
    show_done(
        {"entity_id": entity_id, "resource": resource}, "deleted", output, message=f"The {what} are deleted{stays}."
    )


def _show(
    repository: "SyncRepository", entity_id: str, resource: str, output: OutputForm, change: Change | None = None
) -> None:
    limits, override = repository.get_limits(entity_id, resource), repository.get_override(entity_id, resource)
    on_refused = stored_on_refused(repository, (entity_id, resource))
    if output == "json":
        plain = {**plain_on_refused(on_refused), "limits": plain_limits(limits), **LevelMode.of(limits).plain()}
        plain["override"] = plain_override(override)
        say_json({"entity_id": entity_id, "resource": resource, **plain, **(change.plain() if change else {})})
        return
    say_on_refused(on_refused)
    if limits:
        say_columns([LIMIT_HEAD, *map(limit_cells, limits)])
    elif not limits.unlimited:
        click.echo(f"{entity_id} has no limits of its own on {resource}.")
    if sentence := LevelMode.of(limits).sentence:
        click.echo(sentence)
    if limits.extends:
        click.echo(together(composed_beneath(repository, entity_id, resource)))
    if override is not None:
        click.echo(override_line(override))
        say_columns([LIMIT_HEAD, *map(limit_cells, override.limits)])
    if change is not None:
        change.say(output)
