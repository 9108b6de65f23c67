"""`zae-limiter entity set-limits`, `get-limits` and `delete-limits`."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ...confirmation import confirm
from ...data.parsing import limits_option
from ...data.showing import show_done, show_limits
from ...errors import CommandError
from ...options import OutputForm, connected, in_namespace, output_option, yes_option
from ...paging import open_namespace
from ...principal import principal_option

if TYPE_CHECKING:
    from zae_limiter import Limit

    from ...connection import Connection

Function = TypeVar("Function", bound=Callable[..., Any])

ALL_RESOURCES: Final = "_default_"


def _place(function: Function) -> Function:
    """The command gets ``entity_id`` and ``resource``, which may stand for all."""
    told = "Resource of the limits.  [default: all resources without limits of their own]"
    on = click.option("--resource", "-r", default=ALL_RESOURCES, metavar="NAME", help=told)
    return click.argument("entity_id")(on(function))


@click.command()
@connected
@in_namespace
@_place
@limits_option(required=True)
@principal_option
@output_option
def set_limits(
    *,
    connection: "Connection",
    namespace: str,
    entity_id: str,
    resource: str,
    limits: "list[Limit]",
    principal: str,
    output: OutputForm,
) -> None:
    """Replace the own limits of ENTITY_ID on a resource."""
    with open_namespace(connection, namespace) as repository:
        repository.set_limits(entity_id, limits, resource, principal=principal)
        _show(entity_id, resource, repository.get_limits(entity_id, resource), output)


@click.command()
@connected
@in_namespace
@_place
@output_option
def get_limits(*, connection: "Connection", namespace: str, entity_id: str, resource: str, output: OutputForm) -> None:
    """Show the own limits of ENTITY_ID on a resource. `effective` shows the limits that apply."""
    with open_namespace(connection, namespace) as repository:
        _show(entity_id, resource, repository.get_limits(entity_id, resource), output)


@click.command()
@connected
@in_namespace
@_place
@principal_option
@yes_option
@output_option
def delete_limits(
    *,
    connection: "Connection",
    namespace: str,
    entity_id: str,
    resource: str,
    principal: str,
    yes: bool,
    output: OutputForm,
) -> None:
    """Delete the own limits of ENTITY_ID on a resource. Asks first, unless --yes is given."""
    what = f"own limits of {entity_id} on {resource}"
    with open_namespace(connection, namespace) as repository:
        if not repository.get_limits(entity_id, resource):
            raise CommandError(f"there are no {what} in namespace {namespace}: nothing was deleted")
        if not yes:
            confirm(f"Delete the {what} in namespace {namespace}?")
        repository.delete_limits(entity_id, resource, principal=principal)
    show_done({"entity_id": entity_id, "resource": resource}, "deleted", output, message=f"The {what} are deleted.")


def _show(entity_id: str, resource: str, limits: "Sequence[Limit]", output: OutputForm) -> None:
    none = f"{entity_id} has no limits of its own on {resource}."
    show_limits({"entity_id": entity_id, "resource": resource}, limits, output, none=none)
