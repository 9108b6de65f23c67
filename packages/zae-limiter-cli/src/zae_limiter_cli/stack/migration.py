"""Migrate a stack's table, and raise the bound that shuts older clients out of it."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from zae_limiter import SyncRepository, maintenance
from zae_limiter.exceptions import InfrastructureError, OlderClientsError
from zae_limiter.maintenance import Forecast, Migration, VersionRecord
from zae_limiter.values.versions import MigrationProgress, check_admits, parse_version

from ..columns import counted
from ..connection import Connection
from ..errors import CommandError
from ..progress import Reporter
from . import record

REPORT_SECONDS: Final = 5.0


def pending(connection: Connection) -> tuple[list[Migration], str | None]:
    """Return the migrations that the table still needs, and why they would be refused now, if so. Raises
    ``NoUpgradePathError``.
    """
    with connection.open_table() as table:
        found = record.known_record(table, connection.name)
    wanted = [] if found is None else maintenance.pending(found, maintenance.MIGRATIONS, stack=connection.name)
    if found is not None and wanted:
        try:
            check_admits(found, stack=connection.name, oldest_client=wanted[-1].oldest_client)
        except OlderClientsError as refused:
            return wanted, str(refused)
    return wanted, None


def forecast(connection: Connection, wanted: Sequence[Migration]) -> list[Forecast]:
    """Return what these migrations would do; read the whole table."""
    with connection.open_table() as table:
        return maintenance.run(table, maintenance.forecast(wanted))


def migrate(connection: Connection, report: Reporter) -> list[MigrationProgress]:
    """Carry out the pending migrations, in order; ``report`` gets the progress.

    Raises ``OlderClientsError``, ``CommandError`` and errors of the store.
    """
    again = f"run `zae-limiter upgrade --name {connection.name}` again, which goes on where this run ended"
    try:
        with connection.open_table() as table:
            return _migrate(table, connection, report)
    except InfrastructureError as error:
        raise CommandError(f"{error}: {again}") from error
    except KeyboardInterrupt:
        raise CommandError(f"stopped in the middle of a migration: {again}") from None


def _migrate(table: SyncRepository, connection: Connection, report: Reporter) -> list[MigrationProgress]:
    if not maintenance.MIGRATIONS:
        return []
    total = connection.client("dynamodb").describe_table(TableName=connection.name)["Table"].get("ItemCount", 0)
    told = paced(lambda progress: report(progress_line(progress, total)))
    return maintenance.run(table, maintenance.migrate(maintenance.MIGRATIONS, stack=connection.name, report=told))


def progress_line(progress: MigrationProgress, total: int) -> str:
    """Return the progress of a migration as text; DynamoDB counts the ``total`` every six hours."""
    known = total > progress.items
    read = f"{progress.items:,} of about {counted(total, 'item')}" if known else counted(progress.items, "item")
    return f"migration {progress.name}: {read} read, {progress.changed:,} changed"


def paced(
    report: Callable[[MigrationProgress], None], clock: Callable[[], float] = time.monotonic
) -> Callable[[MigrationProgress], None]:
    """Return a report of the beginning of each migration, and then every five seconds."""
    last: tuple[str, float] = "", 0.0

    def told(progress: MigrationProgress) -> None:
        nonlocal last
        name, at = last
        if name != progress.name or clock() - at >= REPORT_SECONDS:
            last = progress.name, clock()
            report(progress)

    return told


def shut_out(connection: Connection, oldest_client: str) -> bool:
    """Admit no client before ``oldest_client`` any more; return ``False`` if none is admitted already. Raises
    ``CommandError``.
    """
    wanted = parse_version("--oldest-client", oldest_client)

    def raised(found: VersionRecord | None) -> VersionRecord:
        if found is None or parse_version("core_version", found.core_version) < wanted:
            has = "no version record" if found is None else f"Lambdas of zae-limiter-core {found.core_version}"
            raise CommandError(
                f"--oldest-client {oldest_client}: stack {connection.name} has {has}, and would shut them out: "
                f"run `zae-limiter upgrade --name {connection.name}` of release {oldest_client} first"
            )
        if wanted <= parse_version("min_client_version", found.min_client_version):
            return found
        return VersionRecord(found.schema_version, found.core_version, oldest_client)

    with connection.open_table() as table:
        return maintenance.run(table, maintenance.change_version_record(connection.name, raised))
