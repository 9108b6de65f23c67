"""The version record of a stack, and the check whether a client is compatible with it."""

import re
from functools import lru_cache
from typing import Final

from ..exceptions import ClientTooOldError, OlderClientsError, StackTooOldError, ValidationError
from ..runtime.dataclass import dataclass
from ..runtime.forks import without_forks
from .whole import check_whole

SCHEMA_VERSION: Final = 2  # the newest that this release writes; goes up if an older client would misread the items
OLDEST_SCHEMA_VERSION: Final = 1  # the oldest schema that this release supports
OLDEST_CLIENT: Final = "0.1.0"  # the oldest client that can read the items of this release

_VERSION: Final = r"(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?(?:[-+.a-z][A-Za-z0-9.+\-]*)?"


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """The versions of a stack: the schema of its items, the core that deployed it, the oldest client that it admits.

    Versions are like ``1.2.3``; only the three numbers are compared. Raises ``ValidationError``.
    """

    schema_version: int
    core_version: str
    min_client_version: str

    def __post_init__(self) -> None:
        check_whole("schema_version", self.schema_version, at_least=0)
        parse_version("core_version", self.core_version)
        parse_version("min_client_version", self.min_client_version)


@dataclass(frozen=True, slots=True)
class MigrationProgress:
    """How far a migration from ``schema_version`` to the next one is.

    ``items`` were read and ``changed`` of them changed, all up to the key ``behind``; ``serial`` counts the writes of
    the progress. The changes of a page that was cut short are made, and not counted.
    """

    name: str
    schema_version: int
    serial: int = 0
    items: int = 0
    changed: int = 0
    behind: tuple[str, str] | None = None


def record_of_this_release() -> VersionRecord:
    """Return the version record of a stack that this release deploys."""
    return VersionRecord(SCHEMA_VERSION, core_version(), OLDEST_CLIENT)


def record_over(found: VersionRecord) -> VersionRecord:
    """Return the record that this release writes in place of ``found``: it never lowers the bound, and leaves the
    schema alone.
    """
    oldest = max(found.min_client_version, OLDEST_CLIENT, key=lambda each: parse_version("min_client_version", each))
    return VersionRecord(found.schema_version, core_version(), oldest)


def check_admits(record: VersionRecord, *, stack: str, oldest_client: str) -> None:
    """Raise ``OlderClientsError`` if the stack admits clients before ``oldest_client``."""
    admitted = parse_version("min_client_version", record.min_client_version)
    if admitted < parse_version("oldest_client", oldest_client):
        raise OlderClientsError(stack, record.min_client_version, oldest_client)


def check_compatible(record: VersionRecord, *, stack: str, client_version: str) -> None:
    """Raise a ``VersionError`` unless this client may use that stack.

    An older schema that this release reads is accepted, unless a client is admitted that would misread what this
    release writes. Raises ``ClientTooOldError``, ``StackTooOldError``, ``OlderClientsError``.
    """
    oldest = record.min_client_version
    if parse_version("client_version", client_version) < parse_version("min_client_version", oldest):
        raise ClientTooOldError(stack, client_version, oldest)
    if record.schema_version < OLDEST_SCHEMA_VERSION:
        raise StackTooOldError(stack, record.schema_version, OLDEST_SCHEMA_VERSION)
    if record.schema_version < SCHEMA_VERSION:
        check_admits(record, stack=stack, oldest_client=OLDEST_CLIENT)


def parse_version(field: str, value: object) -> tuple[int, int, int]:
    """Return the three numbers of a version. Raises ``ValidationError``."""
    match = re.fullmatch(_VERSION, value) if isinstance(value, str) and len(value) <= 64 else None
    if match is None:
        raise ValidationError(field, value, "must be a version like 1.2.3")
    return int(match[1]), int(match[2]), int(match[3] or 0)


@lru_cache(maxsize=1)
def core_version() -> str:
    """Return the installed version of this library."""
    with without_forks():
        from importlib.metadata import version  # takes as long to import as all of ours

        return version("zae-limiter-core")  # which imports more
