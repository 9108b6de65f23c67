"""The version record of a stack's table, and its first namespace."""

import time

from zae_limiter import (
    InfrastructureNotFoundError,
    NamespaceNotFoundError,
    Options,
    SyncRepository,
    VersionRecord,
    maintenance,
)
from zae_limiter.versions import core_version, parse_version, record_of_this_release

from ..connection import Connection
from ..errors import CommandError
from ..options import DEFAULT_NAMESPACE


def open_table(connection: Connection) -> SyncRepository:
    """A repository for what belongs to no namespace. None is opened: `default` may be deleted, and stays so."""
    return maintenance.open_table(Options(check_version=False, **connection.store_options()))


def read_record(table: SyncRepository) -> VersionRecord | None:
    """What the table says; ``None`` where it says nothing, or is not there. Raises ``RateLimiterUnavailable``."""
    try:
        return table.get_version_record()
    except InfrastructureNotFoundError:
        return None


def write_record(table: SyncRepository) -> bool:
    """Have the table say this release; ``False`` where it does already."""
    record = record_of_this_release()
    if table.get_version_record() == record:
        return False
    table.set_version_record(record)
    return True


def register_default(table: SyncRepository) -> bool:
    """Register the namespace `default`; ``False`` where it was deleted on purpose, and stays so."""
    try:
        table.namespace(DEFAULT_NAMESPACE)
    except NamespaceNotFoundError:
        return False
    return True


def refuse_downgrade(stack: str, record: VersionRecord | None) -> None:
    """Raise ``CommandError`` where a newer release than this one made the stack what it is."""
    ours = core_version()
    if record is None or parse_version("core_version", record.core_version) <= parse_version("core_version", ours):
        return
    raise CommandError(
        f"stack {stack} was deployed with zae-limiter-core {record.core_version}, and this is {ours}: "
        "upgrade the package, or pass --allow-downgrade to `deploy` or `upgrade`"
    )


def read_seconds(table: SyncRepository, times: int) -> list[float] | None:
    """How long a read of the table takes from here, so many times; ``None`` where it does not answer."""
    taken = []
    for _ in range(times + 1):  # the first makes the connection
        begun = time.perf_counter()
        if not table.ping():
            return None
        taken.append(time.perf_counter() - begun)
    return taken[1:]
