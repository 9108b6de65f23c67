"""Recognize the records of the table's stream by their keys."""

from collections.abc import Mapping
from typing import Any

from ..exceptions import ValidationError
from ..values.audit import AuditEvent
from ..values.naming import check_namespace_id
from .attributes import PK, SK
from .audit import check_key, check_subject, read_audit_event
from .items import BucketId
from .keys import AUDIT_PREFIX, AuditAddress, parse_audit_pk, sk_state
from .store_errors import Unreadable

Key = Mapping[str, Any]


def bucket_of(key: Key) -> BucketId | None:
    """Return the bucket shard of a key, ``None`` for any other record.

    Raises ``ValueError`` for a malformed key, with no part of it in the text, which is logged.
    """
    if key[SK] != sk_state():
        return None
    try:
        return BucketId.parse(key[PK])
    except ValueError:
        form = "NAMESPACE/BUCKET#ENTITY#RESOURCE#SHARD, percent-encoded"
        raise ValueError(f"the partition key is not that of a bucket, which is {form}") from None


def is_audit_event(key: Key) -> bool:
    """Return whether the key is that of an audit event."""
    return bool(key[SK].startswith(AUDIT_PREFIX))


def namespace_of(key: Key) -> str:
    """Return the id of the namespace that a key is of. Raises ``ValueError`` for a key of none."""
    try:
        return check_namespace_id("namespace id", key[PK].partition("/")[0])
    except ValidationError as error:
        raise ValueError(f"the key has no valid {error.field}") from None


def audit_event_of(key: Key, image: dict[str, Any]) -> tuple[AuditAddress, AuditEvent]:
    """Return the address of an audit event, and the event, with ids and a time such as core writes.

    Raises ``ValueError`` for any other, with no value of the image in its text.
    """
    address = _address(key[PK])
    try:
        event = read_audit_event(image)
    except Unreadable as error:
        raise ValueError(f"the audit event cannot be read: {error.problem}") from None
    check_key(event, address.entity_id, key[SK])
    return address, event


def _address(pk: str) -> AuditAddress:
    try:
        address = parse_audit_pk(pk)
        check_namespace_id("namespace id", address.namespace_id)
        check_subject("entity", address.entity_id)
    except ValidationError as error:
        raise ValueError(f"the key of the audit event has no valid {error.field}") from None
    except ValueError:
        raise ValueError("the key is not one of audit events") from None
    return address
