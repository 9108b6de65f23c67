"""Audit events that expired, kept as objects of a bucket.

Lives here: the object of an event, and putting it. Never: when an event expires (core).

One object for each event, named after the event: whatever batch it comes in, and however often, it is the same object
with the same bytes (docs/decisions/one-object-per-audit-event.md).
"""

import gzip
import json
from collections.abc import Callable
from dataclasses import asdict
from datetime import date
from typing import Any, Final
from urllib.parse import quote

from .records import Expired
from .settings import Settings

CONTENT_TYPE: Final = "application/gzip"

Put = Callable[..., Any]


def object_key(prefix: str, expired: Expired) -> str:
    """Where the event is kept: by the day of the change, namespace, entity. ``ValueError`` where it has no day."""
    event, address = expired.event, expired.address
    day = date.fromisoformat(event.at[:10])
    return f"{prefix}date={day}/{address.namespace_id}/{quote(address.entity_id, safe='$:@')}/{event.event_id}.jsonl.gz"


def object_body(expired: Expired) -> bytes:
    """The event as one line of JSON, compressed; the same bytes whenever it is made."""
    line = json.dumps({"namespace_id": expired.address.namespace_id, **asdict(expired.event)}, sort_keys=True) + "\n"
    return gzip.compress(line.encode(), mtime=0)


def open_archive() -> Put:
    """``PutObject`` of a new client."""
    import boto3

    put: Put = boto3.client("s3").put_object
    return put


def keep(put: Put, settings: Settings, expired: Expired) -> bool:
    """Put the event into the archive."""
    put(
        Bucket=settings.archive_bucket,
        Key=object_key(settings.archive_prefix, expired),
        Body=object_body(expired),
        ContentType=CONTENT_TYPE,
    )
    return True
