"""Read and write the version record of a stack's table, and register its first namespace."""

import time
from contextlib import suppress
from dataclasses import replace

from zae_limiter import SyncRepository, ZAELimiterError, maintenance
from zae_limiter.exceptions import (
    ClientTooOldError,
    InfrastructureNotFoundError,
    NamespaceNotFoundError,
    NoUpgradePathError,
)
from zae_limiter.maintenance import SyncMaintenance, VersionRecord
from zae_limiter.values.versions import core_version, parse_version, record_of_this_release, record_over

from ..connection import Connection
from ..errors import CommandError
from ..options import DEFAULT_NAMESPACE


def read_record(table: SyncRepository) -> VersionRecord | None:
    """Return the version record; ``None`` if there is none, or no table. Raises ``RateLimiterUnavailable``."""
    try:
        return SyncMaintenance(table).get_version_record()
    except InfrastructureNotFoundError:
        return None


def known_record(table: SyncRepository, stack: str) -> VersionRecord | None:
    """Return the version record, or the one that the table would get first; ``None`` without a table.

    Raises ``NoUpgradePathError``, ``RateLimiterUnavailable``.
    """
    with suppress(InfrastructureNotFoundError):
        return SyncMaintenance(table).get_version_record() or _first_record(table, stack)
    return None


def another_products(connection: Connection) -> str | None:
    """Return why this release cannot use the table of this name, if there is one and another product made it."""
    try:
        with connection.open_table() as table:
            SyncMaintenance(table).get_version_record()
    except NoUpgradePathError as error:
        return str(error)
    except ZAELimiterError:
        return None  # which the check of the table says
    return None


def write_record(table: SyncRepository, stack: str) -> bool:
    """Store this release in the version record; return ``False`` if it is there already. The schema stays: migrations
    raise it.
    """
    first = SyncMaintenance(table).get_version_record() or _first_record(table, stack)
    return maintenance.run(table, maintenance.change_version_record(stack, lambda now: record_over(now or first)))


def _first_record(table: SyncRepository, stack: str) -> VersionRecord:
    schema = maintenance.run(table, maintenance.unrecorded_schema(maintenance.MIGRATIONS, stack=stack))
    return replace(record_of_this_release(), schema_version=schema)


def refuse_unusable(stack: str, found: VersionRecord | None) -> None:
    """Raise ``NoUpgradePathError`` or ``ClientTooOldError`` for a table that this release cannot use."""
    if found is None:
        return
    maintenance.pending(found, maintenance.MIGRATIONS, stack=stack)
    ours, oldest = core_version(), found.min_client_version
    if parse_version("core_version", ours) < parse_version("min_client_version", oldest):
        raise ClientTooOldError(stack, ours, oldest)


def register_default(table: SyncRepository) -> bool:
    """Register the namespace `default`; return ``False`` if it was deleted on purpose, and leave it deleted."""
    try:
        table.namespace(DEFAULT_NAMESPACE)
    except NamespaceNotFoundError:
        return False
    return True


def refuse_downgrade(stack: str, record: VersionRecord | None) -> None:
    """Raise ``CommandError`` if a newer release deployed the stack."""
    ours = core_version()
    if record is None or parse_version("core_version", record.core_version) <= parse_version("core_version", ours):
        return
    raise CommandError(
        f"stack {stack} was deployed with zae-limiter-core {record.core_version}, and this is {ours}: "
        "upgrade the package, or pass --allow-downgrade to `deploy` or `upgrade`"
    )


def read_seconds(table: SyncRepository, times: int) -> list[float] | None:
    """Return the seconds that each of so many reads of the table takes from here; ``None`` if it does not answer."""
    taken = []
    try:
        for _ in range(times + 1):  # the first makes the connection
            begun = time.perf_counter()
            SyncMaintenance(table).get_version_record()
            taken.append(time.perf_counter() - begun)
    except ZAELimiterError:
        return None
    return taken[1:]
