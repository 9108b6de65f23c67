"""The options that the commands of `usage` share."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from ...options import Function
from ...paging import is_asked

if TYPE_CHECKING:
    from zae_limiter import SyncRepository, UsageSnapshot
    from zae_limiter.values.usage import Window

    from ...paging import FetchPage
    from ...usage.month import Month


_entity_option = click.option(
    "--entity", "-e", metavar="ID", help="Usage of this entity; with --resource, on that resource only."
)
_resource_option = click.option("--resource", "-r", metavar="NAME", help="Usage of this resource by all entities.")


def list_options(function: Function) -> Function:
    """Add the options of a query of an entity, a resource, both, or the namespace; the command gets ``query``, a
    `UsageQuery`.
    """
    return _asking(function, _entity_option, _resource_option)


def resource_options(function: Function) -> Function:
    """Add the options of a query about all entities, on a resource or in the namespace; the command gets ``query``."""
    resource = click.option("--resource", "-r", metavar="NAME", help="On this resource only.  [default: all]")
    return _asking(function, resource)


month_option = click.option("--month", metavar="MONTH", help="Month in UTC, such as 2026-11.  [default: this month]")


def snapshots_of(
    repository: "SyncRepository", entity: str | None, resource: str | None, window: "Window", month: "Month"
) -> "FetchPage[UsageSnapshot]":
    """Return what fetches a page of the snapshots of a month; a pattern of resources chooses from those of all."""
    from zae_limiter.values.patterns import is_pattern

    asked = None if resource is not None and is_pattern(resource) else resource

    def fetch(size: int, following: str | None) -> tuple[tuple["UsageSnapshot", ...], str | None]:
        page = repository.get_usage_snapshots(
            entity_id=entity,
            resource=asked,
            window=window,
            start=month.start,
            end=month.end,
            limit=size,
            next=following,
        )
        return tuple(each for each in page.snapshots if is_asked(resource, each.resource)), page.next

    return fetch


def _asking(function: Function, *subject: Callable[[Any], Any]) -> Function:
    """Add the options of a subject, which may be missing, and those of the windows."""

    @wraps(function)
    def command(
        *,
        resource: str | None,
        window: "Window",
        since: str | None,
        until: str | None,
        entity: str | None = None,
        **kwargs: Any,
    ) -> Any:
        from ...usage.query import usage_query

        return function(query=usage_query(entity, resource, window, since, until), **kwargs)

    options = (
        *subject,
        click.option(
            "--window",
            type=click.Choice(["hourly", "daily"]),
            default="hourly",
            show_default=True,
            help="Length of a window.",
        ),
        click.option(
            "--since",
            metavar="TIME",
            help="First window: the one of 24h or 7d ago, 06:00, yesterday, 2024-01-31 or 2024-01-31T14:00Z; in your "
            "zone, of daily windows in UTC.  [default: 24h, for daily windows 30d]",
        ),
        click.option("--until", metavar="TIME", help="Only windows that begin before this time.  [default: now]"),
    )
    for option in reversed(options):
        command = option(command)
    return command  # type: ignore[return-value]  # click hands it the rest
