"""`--now`: invalidate live buckets after a change, so that processes obey at once; count and cost come first."""

import shlex
from typing import TYPE_CHECKING, Any, Final

import click

from .columns import counted
from .confirmation import confirm
from .errors import CommandError
from .options import OutputForm
from .progress import now_and_then, reporter
from .times import duration

if TYPE_CHECKING:
    from zae_limiter import SyncRepository
    from zae_limiter.maintenance import InvalidatedBuckets, LiveBuckets

    from .connection import Connection

WRITES_PER_SECOND: Final = 500
USD_PER_WRITE_UNIT: Final = 0.625 / 1_000_000  # on demand, us-east-1
FAILURES_SHOWN: Final = 5


now_option = click.option(
    "--now",
    is_flag=True,
    help="Invalidate live buckets, so that processes obey at once: shows number and cost, and asks first.",
)


def consent(
    connection: "Connection",
    repository: "SyncRepository",
    resource: str | None,
    *,
    yes: bool,
    output: OutputForm,
    rate: float = WRITES_PER_SECOND,
    for_switches: bool = False,
) -> None:
    """Show how many live buckets would be invalidated, and the cost, beside a JSON document on standard error; ask,
    unless ``yes``.
    """
    from zae_limiter.maintenance import SyncMaintenance

    live = SyncMaintenance(repository).count_live_buckets(resource, for_switches=for_switches)
    click.echo(forecast(connection, resource, live, rate=rate), err=output == "json")
    if not yes and live.buckets:
        confirm("Invalidate them?")


def forecast(
    connection: "Connection", resource: str | None, live: "LiveBuckets", *, rate: float = WRITES_PER_SECOND
) -> str:
    """Return the line that says how many live buckets would be invalidated, what that costs, and how long it takes."""
    alone = f"; {counted(live.left_alone, 'bucket')} with other limits left alone" if live.left_alone else ""
    cost = "" if connection.file else f", about ${live.writes * USD_PER_WRITE_UNIT:,.4f} in us-east-1"
    writes = f"{counted(live.writes, 'write')}{cost}, {duration(live.writes / rate)} at {rate:g} a second"
    return f"{counted(live.buckets, 'live bucket')} of {_of(resource)} to invalidate: {writes}{alone}"


def invalidate(
    connection: "Connection",
    repository: "SyncRepository",
    resource: str | None,
    *,
    rate: float = WRITES_PER_SECOND,
    for_switches: bool = False,
) -> "InvalidatedBuckets":
    """Invalidate the live buckets of a resource, or with ``None`` of the system's limits, with a line on standard error
    for each thousand; ``for_switches``: also those of entities with limits of their own.
    """
    from zae_limiter.maintenance import SyncMaintenance

    report = reporter(quiet=False)
    try:
        return SyncMaintenance(repository).invalidate_live_buckets(
            resource,
            writes_per_second=rate,
            on_progress=now_and_then(lambda done: report(f"{counted(done, 'live bucket')} invalidated")),
            for_switches=for_switches,
        )
    except KeyboardInterrupt:
        on = _going_on(connection, repository, resource, for_switches=for_switches)
        what = "switches" if for_switches else "limits"
        report(f"the {what} are changed, and not all live buckets are invalidated: {on}")
        raise


def live_line(live: int) -> str:
    """Return how many live buckets were invalidated, for a sentence."""
    return f"{counted(live, 'live bucket')} {'was' if live == 1 else 'were'} invalidated"


def invalidated_line(told: "InvalidatedBuckets") -> str:
    """Return the line that says how many live buckets were invalidated."""
    before = f", {told.invalidated_before:,} had been before" if told.invalidated_before else ""
    return f"{live_line(told.invalidated)}{before}."


def show_invalidated(told: "InvalidatedBuckets", output: OutputForm) -> None:
    """Print how many live buckets were invalidated, for people; JSON has it in its document."""
    if output == "table":
        click.echo(invalidated_line(told))


def plain_invalidated(told: "InvalidatedBuckets | None") -> dict[str, Any]:
    """Return what a JSON document has of the live buckets that were invalidated; nothing if none were to be."""
    if told is None:
        return {}
    failed = [
        {"entity_id": entity, "resource": resource, "error": str(why)}
        for (entity, resource), why in told.failed.items()
    ]
    return {
        "live_buckets": {
            "invalidated": told.invalidated,
            "invalidated_before": told.invalidated_before,
            "failed": failed,
        }
    }


def check_all_invalidated(
    connection: "Connection",
    repository: "SyncRepository",
    resource: str | None,
    told: "InvalidatedBuckets | None",
    *,
    for_switches: bool = False,
) -> None:
    """Raise ``CommandError`` if some live buckets were not invalidated."""
    if told is None or not told.failed:
        return
    some = [f"{entity}/{on}: {why}" for (entity, on), why in [*told.failed.items()][:FAILURES_SHOWN]]
    on = _going_on(connection, repository, resource, for_switches=for_switches)
    raise CommandError(f"{counted(len(told.failed), 'live bucket')} not invalidated: {on}", *some)


def _going_on(
    connection: "Connection", repository: "SyncRepository", resource: str | None, *, for_switches: bool
) -> str:
    which = "--system" if resource is None else f"--resource {shlex.quote(resource)}"
    which = f"{which} --switches" if for_switches else which
    return f"`zae-limiter bucket invalidate {which} {connection.option} --namespace {repository.name}` goes on"


def _of(resource: str | None) -> str:
    return "the system's limits" if resource is None else f"resource {resource}"
