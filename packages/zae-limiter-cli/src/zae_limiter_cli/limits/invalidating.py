"""Invalidate live buckets after a change of `limits apply --now`, from this process and with the caller's rights.

The provisioner does not do it: at a bounded rate, a million buckets take longer than a Lambda may run, and would hold
the lock of the namespace all the time. Its principals need no permission on the table, so the command counts before it
applies: a caller that may not read the buckets learns it while nothing is changed.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from zae_limiter_manifest import Answer, Change, Plan

from ..connection import Connection
from ..errors import CommandError
from ..now import check_all_invalidated, forecast, invalidate, invalidated_line
from ..paging import open_namespace

if TYPE_CHECKING:
    from zae_limiter import SyncRepository


def announce_invalidation(connection: Connection, plans: Iterable[Plan]) -> None:
    """Print how many live buckets the changes of each plan would invalidate, and the cost."""
    from zae_limiter.maintenance import SyncMaintenance

    for plan in plans:
        for change in plan.changes:
            if change.address.tier is not None:
                follows = "processes that know its limits follow within a minute, with --now as without"
                click.echo(f"{plan.namespace}: {change.address}: {follows}", err=True)
        resources = _changed(plan.changes)
        if not resources:
            continue
        with _opened(connection, plan.namespace) as repository:
            if repository is None:
                continue
            for resource in resources:
                live = SyncMaintenance(repository).count_live_buckets(resource, for_switches=resources[resource])
                line = forecast(connection, resource, live)
                click.echo(f"{plan.namespace}: {line}", err=True)


def invalidate_changes(connection: Connection, outcomes: Mapping[str, Answer]) -> bool:
    """Invalidate the live buckets of the changes that were made; return whether all were."""
    problems: list[str] = []
    for namespace, answer in outcomes.items():
        made = _changed(answer.plan.changes) if answer.plan and answer.status != "failed" else {}
        if not made:
            continue
        with open_namespace(connection, namespace) as repository:
            for resource, switched in made.items():
                found = invalidate(connection, repository, resource, for_switches=switched)
                of = "system" if resource is None else f"resource {resource}"
                click.echo(f"{namespace}: {of}: {invalidated_line(found)}", err=True)
                try:
                    check_all_invalidated(connection, repository, resource, found, for_switches=switched)
                except CommandError as error:
                    problems.append(f"{namespace}: {error}")
    for problem in problems:
        click.echo(f"Error: {problem}", err=True)
    return not problems


def _changed(changes: Iterable[Change]) -> dict[str | None, bool]:
    """Return the resources whose limits or switches are changed, ``None`` for the system, each with whether switches
    are; those of entities are invalidated by the apply, and those of a changed tier are not.
    """
    found = dict[str | None, bool]()
    for change in changes:
        switched = _switches(change.before) != _switches(change.after)
        if change.address.level in ("system", "resource") and (
            switched or _limits(change.before) != _limits(change.after)
        ):
            found[change.address.resource] = switched
    return found


def _limits(side: object) -> object:
    return getattr(side, "limits", {})


def _switches(side: object) -> object:
    return getattr(side, "switches", {})


@contextmanager
def _opened(connection: Connection, namespace: str) -> "Iterator[SyncRepository | None]":
    """Open a namespace; ``None`` if it does not exist yet, and has no buckets."""
    from zae_limiter.exceptions import NamespaceNotFoundError

    if connection.could_be_made:
        yield None
        return
    try:
        repository = open_namespace(connection, namespace)
    except NamespaceNotFoundError:
        yield None
        return
    with repository:
        yield repository
