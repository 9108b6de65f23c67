"""Replay plans: from a kept trace and hourly usage, with the caller's own rights. Nothing is written."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from zae_limiter_manifest import Plan

from ...connection import Connection
from ...errors import CommandError
from ...paging import open_namespace
from ...times import parse_instant
from .past import replay_plan
from .traces import open_trace
from .verdicts import Replayed

if TYPE_CHECKING:
    from zae_limiter import SyncRepository


def replays_of(
    connection: Connection,
    plans: Iterable[Plan],
    since: str,
    now: datetime | None = None,
    *,
    trace: str | None = None,
) -> list[Replayed]:
    """Return a replay of each plan, from ``since`` on: a time, or how long ago. Raises ``CommandError``.

    ``trace`` is a file or a folder with a trace, or ``off``; without it, that which a namespace keeps counts.
    """
    at = now or datetime.now(UTC)
    start = parse_instant("--replay", since, at)
    if start >= at:
        raise CommandError(f"--replay {since!r}: must be before now")
    return [_replay(connection, plan, start, at, trace) for plan in plans]


def _replay(connection: Connection, plan: Plan, start: datetime, now: datetime, trace: str | None) -> Replayed:
    with _opened(connection, plan.namespace) as repository:
        return replay_plan(repository, plan, start, now, open_trace(connection, repository, trace))


def _opened(connection: Connection, namespace: str) -> "SyncRepository":
    """Open a namespace that has a past. Raises ``CommandError`` for one that is not there yet."""
    from zae_limiter import NamespaceNotFoundError

    try:
        return open_namespace(connection, namespace)
    except NamespaceNotFoundError as error:
        way_out = "leave --replay out, or pass --namespace for one that is in use"
        raise CommandError(
            f"{namespace}: there is no such namespace yet, so it has no past to replay: {way_out}"
        ) from error
