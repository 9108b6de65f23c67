"""Store expired audit events as objects of a bucket.

Each event is one object, named after the event: in whatever batch it comes, and however often, it is the same object
with the same bytes (docs/decisions/one-object-per-audit-event.md).
"""

import gzip
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final
from urllib.parse import quote

from .records import ExpiredEvent
from .settings import Settings

CONTENT_TYPE: Final = "application/gzip"
CHECKSUM: Final = "SHA256"  # a bucket with Object Lock takes no object without one

PutObject = Callable[..., Any]


def object_key(prefix: str, expired: ExpiredEvent) -> str:
    """Return the object's key: day of the change, namespace, entity, event.

    The reader of the record has checked all of them. Names are percent-encoded: none has a slash, nor is it ``.`` or
    ``..``, which S3 and tools that copy objects into folders read as other places.
    """
    event, address = expired.event, expired.address
    entity = quote(address.entity_id, safe="$:@")
    if entity.startswith("."):
        entity = f"%2E{entity[1:]}"
    return f"{prefix}date={event.at[:10]}/{address.namespace_id}/{entity}/{event.event_id}.jsonl.gz"


def object_body(expired: ExpiredEvent) -> bytes:
    """Return the event as one line of JSON, compressed; equal events give equal bytes."""
    line = json.dumps({"namespace_id": expired.address.namespace_id, **asdict(expired.event)}, sort_keys=True) + "\n"
    return gzip.compress(line.encode(), mtime=0)


def open_archive() -> PutObject:
    """Return the method ``put_object`` of a new S3 client."""
    import boto3

    put: PutObject = boto3.client("s3").put_object
    return put


def archive_event(put: PutObject, settings: Settings, expired: ExpiredEvent) -> bool:
    """Put one event into the archive."""
    put(
        Bucket=settings.archive_bucket,
        Key=object_key(settings.archive_prefix, expired),
        Body=object_body(expired),
        ContentType=CONTENT_TYPE,
        ChecksumAlgorithm=CHECKSUM,
    )
    return True
