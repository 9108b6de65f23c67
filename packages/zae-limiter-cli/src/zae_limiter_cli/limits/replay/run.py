"""Replay plans: from a kept trace and hourly usage, with the caller's own rights. Nothing is written."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from attrs import evolve

from zae_limiter_manifest import Plan
from zae_limiter_manifest.render.views import EVERYTHING, View

from ...connection import Connection
from ...errors import CommandError
from ...paging import open_namespace
from ...times import parse_instant
from .past import hour_of, replay_plan
from .traces import open_trace
from .verdicts import Replayed

if TYPE_CHECKING:
    from zae_limiter import SyncRepository

COUNTED: Final = "usage is there once the stack's aggregator has counted it: `zae-limiter status` shows whether it does"


def replays_of(
    connection: Connection,
    plans: Iterable[Plan],
    since: str,
    now: datetime | None = None,
    *,
    trace: str | None = None,
    view: View = EVERYTHING,
) -> list[Replayed]:
    """Return a replay of each plan, from ``since`` on: a time, or how long ago; also of one that has no past, such as
    the first of a namespace. A view narrows it to some buckets. Raises ``CommandError``.

    ``trace`` is a file or a folder with a trace, or ``off``; without it, that which a namespace keeps counts.
    """
    at = now or datetime.now(UTC)
    start = parse_instant("--replay", since, at)
    if start >= at:
        raise CommandError(f"--replay {since!r}: must be before now")
    return [_replay(connection, plan, start, at, trace, view) for plan in plans]


def _replay(
    connection: Connection, plan: Plan, start: datetime, now: datetime, trace: str | None, view: View
) -> Replayed:
    repository = _opened(connection, plan.namespace)
    if repository is None:
        why = "the namespace is not there yet, and has no past"
        return Replayed.of_nothing(plan.namespace, hour_of(start), now, why)
    with repository:
        found = replay_plan(repository, plan, start, now, open_trace(connection, repository, trace), view)
    if found.nothing and connection.file is None:
        return evolve(found, notes=[*found.notes, COUNTED])
    return found


def _opened(connection: Connection, namespace: str) -> "SyncRepository | None":
    """Open a namespace; return ``None`` for one that an apply would make."""
    from zae_limiter.exceptions import NamespaceNotFoundError

    if connection.could_be_made:
        return None
    try:
        return open_namespace(connection, namespace)
    except NamespaceNotFoundError:
        return None
