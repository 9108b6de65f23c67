"""`zae-limiter system set-defaults`, `show` and `delete-defaults`."""

from typing import TYPE_CHECKING

import click

from ...columns import say_json
from ...confirmation import confirm
from ...data.changing import Change, before_change
from ...data.parsing import limits_option
from ...data.refusals import on_refused_option, plain_on_refused, say_on_refused, stored_on_refused
from ...data.showing import LevelMode, plain_limits, show_done, show_limits
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
    from zae_limiter import Limit, OnRefused, OnUnavailable, SyncRepository
    from zae_limiter.maintenance import InvalidatedBuckets

    from ...connection import Connection


@click.command(short_help="Set the system's limits, its on_unavailable, or both.")
@connected
@in_namespace
@limits_option(required=False)
@click.option("--unlimited", is_flag=True, help="No limits, where no other level has some.")
@click.option(
    "--on-unavailable",
    type=click.Choice(["block", "allow", "share"]),
    help="Result of an acquire while the store is unavailable.",
)
@on_refused_option
@principal_option
@now_option
@yes_option
@output_option
def set_defaults(
    *,
    connection: "Connection",
    namespace: str,
    limits: "list[Limit]",
    unlimited: bool,
    on_unavailable: "OnUnavailable | None",
    on_refused: "OnRefused | None",
    principal: str,
    now: bool,
    yes: bool,
    output: OutputForm,
) -> None:
    """Replace the system's limits and its policies; an option that is not given keeps its value. Asks first if a limit
    goes, unless --yes is given.
    """
    if unlimited and limits:
        raise CommandError("--unlimited stands in place of --limit: leave one of them out")
    if not limits and not unlimited and on_unavailable is None and on_refused is None:
        raise CommandError("nothing to set: pass --limit, --unlimited, --on-unavailable, or --on-refused")
    if now and not limits and not unlimited:
        raise CommandError("--now invalidates live buckets after a change of limits: pass --limit, too")
    with open_namespace(connection, namespace) as repository:
        change = before_change(
            repository, (None, None), limits, what="limits of the system", yes=yes, unlimited=unlimited
        )
        if now:
            consent(connection, repository, None, yes=yes, output=output)
        given = LevelMode(unlimited, extends=False).given(limits) or None
        repository.set_system_defaults(given, on_unavailable, on_refused=on_refused, principal=principal)
        told = invalidate(connection, repository, None) if now else None
        _show(repository, output, told, change)
        check_all_invalidated(connection, repository, None, told)


@click.command(short_help="Show the system's limits and its on_unavailable.")
@in_repository
@output_option
def show(*, repository: "SyncRepository", output: OutputForm) -> None:
    """Show the system's limits and its on_unavailable."""
    _show(repository, output)


@click.command(short_help="Delete the system's limits and its on_unavailable.")
@connected
@in_namespace
@principal_option
@now_option
@yes_option
@output_option
def delete_defaults(
    *, connection: "Connection", namespace: str, principal: str, now: bool, yes: bool, output: OutputForm
) -> None:
    """Delete the system's limits and its on_unavailable. Asks first, unless --yes is given."""
    with open_namespace(connection, namespace) as repository:
        limits, policy = repository.get_system_defaults()
        own = limits or limits.unlimited or policy is not None
        if not own and stored_on_refused(repository, (None, None)) is None:
            raise CommandError(f"there are no system defaults in namespace {repository.name}: nothing was deleted")
        if not yes:
            confirm(f"Delete the system defaults of namespace {repository.name}?")
        if now:
            consent(connection, repository, None, yes=yes, output=output)
        repository.delete_system_defaults(principal=principal)
        told = invalidate(connection, repository, None) if now else None
        message = f"System defaults of namespace {repository.name} deleted."
        show_done({}, "deleted", output, message=message, **plain_invalidated(told))
        if told is not None:
            show_invalidated(told, output)
        check_all_invalidated(connection, repository, None, told)


def _show(
    repository: "SyncRepository",
    output: OutputForm,
    told: "InvalidatedBuckets | None" = None,
    change: Change | None = None,
) -> None:
    limits, on_unavailable = repository.get_system_defaults()
    on_refused = stored_on_refused(repository, (None, None))
    if output == "json":
        plain = {
            "on_unavailable": on_unavailable,
            **plain_on_refused(on_refused),
            **(change.plain() if change else {}),
            **plain_invalidated(told),
        }
        say_json({**plain, "limits": plain_limits(limits), **LevelMode.of(limits).plain()})
        return
    if on_unavailable is not None:
        click.echo(f"on_unavailable: {on_unavailable}")
    say_on_refused(on_refused)
    show_limits({}, limits, output, none=f"The system has no limits in namespace {repository.name}.")
    if change is not None:
        change.say(output)
    if told is not None:
        show_invalidated(told, output)
