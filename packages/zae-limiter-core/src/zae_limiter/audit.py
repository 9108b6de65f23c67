"""Who changed what: the record of a change, and where it comes from.

Lives here: values that check themselves. Never: how an event is stored (schema) or when one is written (flows).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

AuditAction = Literal[
    "limits_set",
    "limits_deleted",
    "entity_created",
    "entity_updated",
    "entity_deleted",
    "bucket_reset",
    "bucket_credited",
]


@dataclass(frozen=True, slots=True)
class Cause:
    """What brings changes about: who, when (``at``, ISO time in UTC), and until when (epoch seconds) that is kept.

    ``serial`` is unique, and rises in one process. ``expires_at`` is ``None`` for what is kept for ever.
    """

    principal: str | None
    at: str
    serial: str
    expires_at: int | None

    def event_id(self, number: int = 0) -> str:
        """The id of the event of this cause's change ``number``: sorts by time, and is unique."""
        return f"{self.at}-{self.serial}-{number:05d}"

    def before(self, number: int) -> "Cause":
        """The same cause for what goes before its change: with tokens of its own, and events that sort before."""
        return replace(self, serial=f"{self.serial}+{number}")  # "+" sorts before the "-" that follows a serial

    def token(self, attempt: int, part: int = 0) -> str:
        """What makes a repeat of a transaction idempotent, another one for each attempt: 36 characters at most."""
        return f"{self.serial}-{attempt}-{part}"


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One change: what was before and what is after, as plain maps; ``None`` where there is nothing.

    ``entity_id`` is ``$SYSTEM`` or ``$RESOURCE:{resource}`` for limits of these levels. ``at`` is an ISO time in UTC.
    """

    event_id: str
    entity_id: str
    action: AuditAction
    principal: str | None
    at: str
    resource: str | None
    before: Mapping[str, Any] | None = field(hash=False)
    after: Mapping[str, Any] | None = field(hash=False)


class AuditPage(NamedTuple):
    """Events, newest first; ``next`` is the ``start`` of the page behind it, ``None`` at the end."""

    events: tuple[AuditEvent, ...]
    next: str | None
