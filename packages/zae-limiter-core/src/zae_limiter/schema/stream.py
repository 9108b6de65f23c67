"""The records of the table's stream, recognized by their keys."""

from collections.abc import Mapping
from typing import Any

from ..audit import AuditEvent
from .attributes import PK, SK
from .audit import read_audit_event
from .items import BucketId
from .keys import AUDIT_PREFIX, AuditAddress, parse_audit_pk, sk_audit, sk_state

Key = Mapping[str, Any]


def bucket_of(key: Key) -> BucketId | None:
    """The bucket shard of a key, ``None`` for any other record. Raises ``ValueError`` for a malformed key."""
    return BucketId.parse(key[PK]) if key[SK] == sk_state() else None


def is_audit_event(key: Key) -> bool:
    """Whether the key is that of an audit event."""
    return bool(key[SK].startswith(AUDIT_PREFIX))


def audit_event_of(key: Key, image: dict[str, Any]) -> tuple[AuditAddress, AuditEvent]:
    """The address of an audit event, and the event. Raises ``ValueError`` if the image has another key."""
    event = read_audit_event(image)
    if key[SK] != sk_audit(event.event_id):
        raise ValueError(f"the event {event.event_id!r} has the key {key[SK]!r}")
    return parse_audit_pk(key[PK]), event
