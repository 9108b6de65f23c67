"""`zae-limiter resource set-defaults`, `show` and `delete-defaults`."""

from typing import TYPE_CHECKING

import click

from ...columns import say_columns, say_json
from ...confirmation import confirm
from ...data.changing import Change, before_change
from ...data.parsing import level_options
from ...data.places import composed_below
from ...data.refusals import on_refused_option, plain_on_refused, say_on_refused, stored_on_refused
from ...data.showing import LevelMode, show_done, show_limits, together
from ...errors import CommandError
from ...now import check_all_invalidated, consent, invalidate, now_option, plain_invalidated, show_invalidated
from ...options import (
    OutputForm,
    connected,
    in_namespace,
    output_option,
    yes_option,
)
from ...paging import in_repository, open_namespace
from ...principal import principal_option

if TYPE_CHECKING:
    from zae_limiter import Limit, OnRefused, SyncRepository
    from zae_limiter.maintenance import InvalidatedBuckets

    from ...connection import Connection


@click.command(short_help="Replace the limits of a resource.")
@connected
@in_namespace
@click.argument("resource")
@level_options
@on_refused_option
@principal_option
@now_option
@yes_option
@output_option
def set_defaults(
    *,
    connection: "Connection",
    namespace: str,
    resource: str,
    limits: "list[Limit]",
    mode: LevelMode,
    on_refused: "OnRefused | None",
    principal: str,
    now: bool,
    yes: bool,
    output: OutputForm,
) -> None:
    """Replace the limits of RESOURCE. Asks first if a limit goes, unless --yes is given."""
    with open_namespace(connection, namespace) as repository:
        what = f"limits of resource {resource}"
        change = before_change(repository, (None, resource), limits, what=what, yes=yes, unlimited=mode.unlimited)
        if now:
            consent(connection, repository, resource, yes=yes, output=output)
        given = mode.given(limits)
        repository.set_resource_defaults(
            resource, given, extends=mode.extends, on_refused=on_refused, principal=principal
        )
        told = invalidate(connection, repository, resource) if now else None
        _show(repository, resource, output, told, change)
        check_all_invalidated(connection, repository, resource, told)


@click.command(short_help="Show the limits of a resource, or list the resources.")
@in_repository
@click.argument("resource", required=False)
@output_option
def show(*, repository: "SyncRepository", resource: str | None, output: OutputForm) -> None:
    """Show the limits of RESOURCE; without it, list the resources that have limits, and those on which entities have
    limits of their own (_default_ are those on all resources).

    The list may miss a change of the last second.
    """
    if resource is not None:
        _show(repository, resource, output)
        return
    defaults, own = repository.list_resources_with_defaults(), repository.list_resources_with_entity_configs()
    names = sorted({*defaults, *own})
    if output == "json":
        say_json([{"resource": each, "limits": each in defaults, "entity_limits": each in own} for each in names])
    elif names:
        head = ("RESOURCE", "LIMITS", "LIMITS OF ENTITIES")
        say_columns([head, *((each, _there(each in defaults), _there(each in own)) for each in names)])
    else:
        click.echo(f"No resource has limits in namespace {repository.name}.")


@click.command(short_help="Delete the limits of a resource.")
@connected
@in_namespace
@click.argument("resource")
@principal_option
@now_option
@yes_option
@output_option
def delete_defaults(
    *,
    connection: "Connection",
    namespace: str,
    resource: str,
    principal: str,
    now: bool,
    yes: bool,
    output: OutputForm,
) -> None:
    """Delete the limits of RESOURCE. Asks first, unless --yes is given."""
    with open_namespace(connection, namespace) as repository:
        own = repository.get_resource_defaults(resource)
        if not (own or own.unlimited):
            raise CommandError(f"resource {resource} has no limits in namespace {repository.name}: nothing was deleted")
        if not yes:
            confirm(f"Delete the limits of resource {resource} in namespace {repository.name}?")
        if now:
            consent(connection, repository, resource, yes=yes, output=output)
        repository.delete_resource_defaults(resource, principal=principal)
        told = invalidate(connection, repository, resource) if now else None
        message = f"Limits of resource {resource} deleted."
        show_done({"resource": resource}, "deleted", output, message=message, **plain_invalidated(told))
        if told is not None:
            show_invalidated(told, output)
        check_all_invalidated(connection, repository, resource, told)


def _there(truth: bool) -> str:  # noqa: FBT001  it is what is shown
    return "yes" if truth else "-"


def _show(
    repository: "SyncRepository",
    resource: str,
    output: OutputForm,
    told: "InvalidatedBuckets | None" = None,
    change: Change | None = None,
) -> None:
    none = f"Resource {resource} has no limits in namespace {repository.name}."
    on_refused = stored_on_refused(repository, (None, resource))
    if output == "table":
        say_on_refused(on_refused)
    about = {
        "resource": resource,
        **plain_on_refused(on_refused),
        **(change.plain() if change else {}),
        **plain_invalidated(told),
    }
    limits = repository.get_resource_defaults(resource)
    show_limits(about, limits, output, none=none)
    if limits.extends and output == "table":
        click.echo(together(composed_below(repository, resource)))
    if change is not None:
        change.say(output)
    if told is not None:
        show_invalidated(told, output)
