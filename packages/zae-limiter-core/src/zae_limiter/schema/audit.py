"""The item of an audit event: made of the value, and read back."""

import math
import re
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from ..values.audit import AuditEvent
from ..values.naming import TIER_SUBJECT, check_identifier, check_resource, check_tier
from . import keys
from .attributes import AFTER, BEFORE, METADATA, PK, SK, TTL
from .entities import read_metadata
from .limit_fields import OF_EVERY_LIMIT, is_plain_limit, plain_text
from .record import TEXT, Field, Item, Record, a_map, item_keys, number, reads, text

_MOST_LEVELS: Final = 32  # as DynamoDB nests
_TEXTS: Final = frozenset(("weights", "schedule"))  # of a limit
_AT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
_SERIAL: Final = re.compile(r"-[0-9A-Za-z+-]{1,80}")


def check_subject(field: str, value: str) -> str:
    """Return the subject of audit events: an entity id, ``$SYSTEM``, ``$RESOURCE:…`` or ``$TIER:…``. Raises
    ``ValidationError``.
    """
    prefix = keys.audit_resource("")
    if isinstance(value, str) and value.startswith(prefix):
        return keys.audit_resource(check_resource(field, value.removeprefix(prefix), allow_pattern=True))
    if isinstance(value, str) and value.startswith(TIER_SUBJECT):
        return keys.audit_tier(check_tier(field, value.removeprefix(TIER_SUBJECT)))
    return value if value == keys.audit_system() else check_identifier(field, value)


def _read_side(item: Item, name: str) -> dict[str, Any]:
    """Return what an event has of the state before or after the change."""
    values = a_map(item, name)
    if isinstance(values.get(METADATA), str):
        with suppress(ValueError):  # an event that is not of this library is shown as it is
            return values | {METADATA: read_metadata(values[METADATA])}
    return values


AUDIT_EVENT: Final = Record(
    AuditEvent,
    event_id=TEXT,
    entity_id=TEXT,
    action=TEXT,
    at=TEXT,
    principal=TEXT.optional(),
    resource=TEXT.optional(),
    before=Field(_read_side).optional(),
    after=Field(_read_side).optional(),
)
read_audit_event = AUDIT_EVENT.read


def audit_item(namespace_id: str, event: AuditEvent, *, expires_at: int | None) -> Item:
    """Return the item of an event; it expires at ``expires_at`` (epoch seconds), or never if that is ``None``."""
    pk, sk = keys.pk_audit(namespace_id, event.entity_id), keys.sk_audit(event.event_id)
    item = item_keys(namespace_id, pk, sk, keys.gsi4_sk_audit(event.event_id)) | AUDIT_EVENT.write(event)
    return item if expires_at is None else {**item, TTL: expires_at}


@reads
def read_listed_event(item: Item) -> AuditEvent:
    """Return the event of an item if its key is of it, and its values can be shown: plain ones, with limits that have
    a text.

    The archive takes any other value as it is stored; a list would end at it.
    """
    event = read_audit_event(item)
    check_key(event, keys.parse_audit_pk(item[PK]).entity_id, item[SK])
    _check_shown(BEFORE, event.before, _MOST_LEVELS)
    _check_shown(AFTER, event.after, _MOST_LEVELS)
    return event


def check_key(event: AuditEvent, subject: str, sk: str) -> None:
    """Raise ``ValueError``, with no value of the event in its text, unless core could write it under this key.

    So a reader of events in the order of their keys gets them in the order of their times, and may end at one.
    """
    if event.entity_id != subject or sk != keys.sk_audit(event.event_id):
        raise ValueError("the audit event has another entity or id than its key")
    try:
        is_time = bool(_AT.fullmatch(event.at) and datetime.fromisoformat(event.at))
    except ValueError:  # there is no such day
        is_time = False
    if not is_time:
        raise ValueError("the audit event has no time")
    if not (event.event_id.startswith(event.at) and _SERIAL.fullmatch(event.event_id.removeprefix(event.at))):
        raise ValueError("the id of the audit event is not its time and a serial")


def _check_shown(path: str, value: object, levels: int) -> None:
    """Raise an error of ``UNREADABLE`` for a value that cannot be shown."""
    if not levels:
        raise ValueError(f"{path} is nested too deep")
    if is_plain_limit(value):
        assert isinstance(value, dict)
        _check_limit(path, value)
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inner:
        _check_shown(f"{path}.{name}", each, levels - 1)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{path} is not a number")


def _check_limit(path: str, value: Item) -> None:
    try:
        for name in OF_EVERY_LIMIT:
            number(value, name)
        plain_text(value)
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"{path} is not a limit: {error}") from error
    for name in value.keys() & _TEXTS:
        text(value, name)
