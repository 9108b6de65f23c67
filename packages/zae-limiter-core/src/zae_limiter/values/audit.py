"""Audit events: the record of a change, and its cause."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, get_args

from ..runtime.dataclass import dataclass, field, replace
from ..runtime.named_tuple import NamedTuple

AuditAction = Literal[
    "limits_set",
    "limits_deleted",
    "override_set",
    "override_deleted",
    "switches_set",
    "entity_created",
    "entity_updated",
    "entity_deleted",
    "bucket_reset",
    "bucket_credited",
]

AuditKind = Literal["limits", "override", "switches", "entity", "bucket"]
"""What an action is about: the first word of it."""

AUDIT_KINDS: Final[tuple[AuditKind, ...]] = get_args(AuditKind)


def kind_of(action: str) -> str:
    """Return what an action is about: ``limits`` of ``limits_set``."""
    return action.partition("_")[0]


def iso_instant(now_ms: int) -> str:
    """Return an instant (epoch ms) as an ISO time in UTC."""
    return datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Cause:
    """The cause of changes: the principal, the time (``at``, ISO time in UTC), and the expiry of their events.

    ``serial`` is unique, and grows in one process. ``expires_at`` is in epoch seconds, ``None`` for no expiry.
    ``once``: its events are put only where they are not yet. ``is_held``: later attempts have the time of this one.
    """

    principal: str | None
    at: str
    serial: str
    expires_at: int | None
    once: bool = False
    is_held: bool = False

    def event_id(self, number: int = 0) -> str:
        """Return the event id of change ``number`` of this cause: unique, and sorted by time."""
        return f"{self.at}-{self.serial}-{number:05d}"

    def again(self, now_ms: int) -> "Cause":
        """Return the same cause for an attempt at another instant (epoch ms), unless the time is held."""
        return self if self.is_held else replace(self, at=iso_instant(now_ms))

    def held_by(self, event_id: str) -> "Cause":
        """Return the same cause, with the time of an event of it from now on."""
        return replace(self, at=event_id.partition(f"-{self.serial}-")[0], is_held=True)

    def before(self, number: int) -> "Cause":
        """Return the same cause for a preceding change: with tokens of its own, and events that sort earlier."""
        return replace(self, serial=f"{self.serial}+{number}")  # "+" sorts before the "-" that follows a serial

    def request_token(self, attempt: int, part: int = 0) -> str:
        """Return the request token of a transaction, which makes a repeat safe: another for each attempt, at most 36
        characters.
        """
        return f"{self.serial}-{attempt}-{part}"


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One change: the values before and after, as plain maps; ``None`` for a missing value.

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
    """Events, newest first; ``next`` is the ``start`` of the following page, ``None`` at the end.

    A page of a namespace may have fewer events than asked for, and a ``next``.
    """

    events: tuple[AuditEvent, ...]
    next: str | None
