"""What the key of an item in the table's stream says that it is of."""

from collections.abc import Mapping
from typing import Any

from ..audit import AuditEvent
from .attributes import PK, SK
from .audit import read_audit_event
from .items import BucketId
from .keys import AUDIT_PREFIX, AuditAddress, parse_audit_pk, sk_audit, sk_state

Key = Mapping[str, Any]


def bucket_of(key: Key) -> BucketId | None:
    """The bucket shard of a key, ``None`` for any other item. ``ValueError`` for a bucket's key that is malformed."""
    return BucketId.parse(key[PK]) if key[SK] == sk_state() else None


def is_audit_event(key: Key) -> bool:
    """Whether the item is an audit event."""
    return bool(key[SK].startswith(AUDIT_PREFIX))


def audit_event_of(key: Key, image: dict[str, Any]) -> tuple[AuditAddress, AuditEvent]:
    """Whose audit event it is, and the event. ``ValueError`` where the image has another key."""
    event = read_audit_event(image)
    if key[SK] != sk_audit(event.event_id):
        raise ValueError(f"the event {event.event_id!r} has the key {key[SK]!r}")
    return parse_audit_pk(key[PK]), event
