"""`zae-limiter system set-defaults`, `get-defaults` and `delete-defaults`."""

from typing import TYPE_CHECKING

import click

from ...columns import say_json
from ...confirmation import confirm
from ...data.parsing import limits_option
from ...data.showing import plain_limits, show_done, show_limits
from ...errors import CommandError
from ...now import check_all_told, consent, now_option, plain_told, show_told, tell
from ...options import (
    OutputForm,
    connected,
    in_namespace,
    output_option,
    yes_option,
)
from ...paging import open_namespace
from ...principal import principal_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zae_limiter import Limit, OnUnavailable, ToldBuckets

    from ...connection import Connection


@click.command()
@connected
@in_namespace
@limits_option(required=False)
@click.option(
    "--on-unavailable",
    type=click.Choice(["block", "allow", "share"]),
    help="Result of an acquire while the store is unavailable.",
)
@principal_option
@now_option
@yes_option
@output_option
def set_defaults(
    *,
    connection: "Connection",
    namespace: str,
    limits: "list[Limit]",
    on_unavailable: "OnUnavailable | None",
    principal: str,
    now: bool,
    yes: bool,
    output: OutputForm,
) -> None:
    """Replace the system's limits, its on_unavailable, or both; an option that is not given keeps its value."""
    if not limits and on_unavailable is None:
        raise CommandError("nothing to set: pass --limit, --on-unavailable, or both")
    if now and not limits:
        raise CommandError("--now tells live buckets of changed limits: pass --limit, too")
    with open_namespace(connection, namespace) as repository:
        if now:
            consent(connection, repository, None, yes=yes, output=output)
        repository.set_system_defaults(limits or None, on_unavailable, principal=principal)
        told = tell(connection, repository, None) if now else None
        _show(*repository.get_system_defaults(), namespace, output, told)
        check_all_told(connection, repository, None, told)


@click.command()
@connected
@in_namespace
@output_option
def get_defaults(*, connection: "Connection", namespace: str, output: OutputForm) -> None:
    """Show the system's limits and its on_unavailable."""
    with open_namespace(connection, namespace) as repository:
        _show(*repository.get_system_defaults(), namespace, output)


@click.command()
@connected
@in_namespace
@principal_option
@yes_option
@output_option
def delete_defaults(*, connection: "Connection", namespace: str, principal: str, yes: bool, output: OutputForm) -> None:
    """Delete the system's limits and its on_unavailable. Asks first, unless --yes is given."""
    with open_namespace(connection, namespace) as repository:
        if repository.get_system_defaults() == ([], None):
            raise CommandError(f"there are no system defaults in namespace {namespace}: nothing was deleted")
        if not yes:
            confirm(f"Delete the system defaults of namespace {namespace}?")
        repository.delete_system_defaults(principal=principal)
    show_done({}, "deleted", output, message=f"System defaults of namespace {namespace} deleted.")


def _show(
    limits: "Sequence[Limit]",
    on_unavailable: "OnUnavailable | None",
    namespace: str,
    output: OutputForm,
    told: "ToldBuckets | None" = None,
) -> None:
    if output == "json":
        say_json({"on_unavailable": on_unavailable, **plain_told(told), "limits": plain_limits(limits)})
        return
    if on_unavailable is not None:
        click.echo(f"on_unavailable: {on_unavailable}")
    show_limits({}, limits, output, none=f"The system has no limits in namespace {namespace}.")
    if told is not None:
        show_told(told, output)
