"""Which versions a stack has, and whether a client fits it.

Lives here: the record as a value, and the one comparison. Never: how it is stored (schema) or when it is asked (flows).
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from .exceptions import ClientTooOldError, StackTooOldError, ValidationError

SCHEMA_VERSION: Final = 1  # of what this release writes; rises where an older client would misread it
OLDEST_SCHEMA_VERSION: Final = 1  # that this release still works with
OLDEST_CLIENT: Final = "0.1.0"  # that reads what this release writes

_VERSION: Final = re.compile(r"(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?(?:[-+.a-z][A-Za-z0-9.+\-]*)?")


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """What a stack says of itself: the schema of its items, the core that set it up, the oldest client it lets in.

    Versions are like ``1.2.3``; what follows the three numbers is not compared. Raises ``ValidationError``.
    """

    schema_version: int
    core_version: str
    min_client_version: str

    def __post_init__(self) -> None:
        if type(self.schema_version) is not int or self.schema_version < 0:
            raise ValidationError("schema_version", self.schema_version, "must be a whole number, at least 0")
        parse_version("core_version", self.core_version)
        parse_version("min_client_version", self.min_client_version)


def record_of_this_release() -> VersionRecord:
    """What a stack says of itself that this release has set up."""
    return VersionRecord(SCHEMA_VERSION, core_version(), OLDEST_CLIENT)


def check_compatible(record: VersionRecord, *, stack: str, client_version: str) -> None:
    """Raise ``ClientTooOldError`` or ``StackTooOldError`` where this client must not touch that stack."""
    oldest = record.min_client_version
    if parse_version("client_version", client_version) < parse_version("min_client_version", oldest):
        raise ClientTooOldError(stack, client_version, oldest)
    if record.schema_version < OLDEST_SCHEMA_VERSION:
        raise StackTooOldError(stack, record.schema_version, OLDEST_SCHEMA_VERSION)


def parse_version(field: str, value: object) -> tuple[int, int, int]:
    """The numbers of a version. Raises ``ValidationError``."""
    match = _VERSION.fullmatch(value) if isinstance(value, str) and len(value) <= 64 else None
    if match is None:
        raise ValidationError(field, value, "must be a version like 1.2.3")
    return int(match[1]), int(match[2]), int(match[3] or 0)


@lru_cache(maxsize=1)
def core_version() -> str:
    """The version of this library, as it is installed."""
    from importlib.metadata import version  # takes as long to import as all of ours

    return version("zae-limiter-core")
