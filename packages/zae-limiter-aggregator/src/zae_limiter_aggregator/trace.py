"""Keep the writes to the buckets of some entities in the archive's bucket, for `limits plan --replay`.

A namespace says of which share of its entities. A batch puts one object for each namespace and hour; the hour is that
of the records, so that a reader of an hour finds all its writes in one place. Records may come again, in other
batches: the marks of the writes show which ones are the same. An object that cannot be put is dropped, and no record
comes again for it: the usage shows a reader that an hour is not whole.
"""

import gzip
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final, NamedTuple

from zae_limiter.maintenance import TRACE_PREFIX, BucketId, TracePage, is_traced, trace_line, traced_write

from .archive import CHECKSUM, CONTENT_TYPE, PutObject
from .parallel import Task
from .records import BucketChange

HOUR_MS: Final = 3_600_000


class Page(NamedTuple):
    """The writes of one namespace in one hour, as far as a batch has them; ``hour`` is like ``2026-03-02T08``."""

    namespace_id: str
    hour: str
    changes: Sequence[BucketChange]


def pages_of(changes: Iterable[BucketChange], traced: Mapping[str, int]) -> list[Page]:
    """Return the changes to keep, by namespace and hour. ``traced`` has of how many of a thousand entities."""
    found: dict[tuple[str, str], list[BucketChange]] = {}
    for change in changes:
        namespace_id, entity_id = change.bucket.namespace_id, change.bucket.entity_id
        if change.consumption and is_traced(entity_id, traced.get(namespace_id, 0)):
            hour = f"{datetime.fromtimestamp(change.at_ms // HOUR_MS * 3600, UTC):%Y-%m-%dT%H}"
            found.setdefault((namespace_id, hour), []).append(change)
    return [Page(*place, sorted(kept, key=lambda each: each.position.mark)) for place, kept in found.items()]


def object_key(page: Page) -> str:
    """Return the object's key: namespace, hour, first and last record. Other records have another key."""
    first, last = (page.changes[place].position.sequence for place in (0, -1))
    return f"{TRACE_PREFIX}{page.namespace_id}/{page.hour}/{first}-{last}-{len(page.changes)}.jsonl.gz"


def object_body(page: Page) -> bytes:
    """Return the page as a line of JSON, compressed; equal pages give equal bytes."""
    used = [each.consumption for each in page.changes]
    limits = tuple(sorted({name for each in used for name in (*each.tokens, *each.rests)}))
    places: dict[tuple[str, str], int] = {}
    writes = []
    for each in page.changes:
        place = places.setdefault((each.bucket.entity_id, each.bucket.resource), len(places))
        is_new, owner = _is_new(each.bucket, each.before), each.bucket.entity_id
        at = each.at_ms, each.position.mark, place
        writes.append(traced_write(*at, each.consumption, limits, entity_id=owner, is_new=is_new))
    return gzip.compress(trace_line(TracePage(limits, list(places), writes)).encode(), mtime=0)


def trace_tasks(put: PutObject, bucket: str, pages: Iterable[Page]) -> list[Task]:
    """Return a task for each page, which may be dropped."""
    return [Task("traced", partial(_keep, put, bucket, page)) for page in pages]


def _keep(put: PutObject, bucket: str, page: Page) -> int:
    put(
        Bucket=bucket,
        Key=object_key(page),
        Body=object_body(page),
        ContentType=CONTENT_TYPE,
        ChecksumAlgorithm=CHECKSUM,
    )
    return len(page.changes)


def _is_new(bucket: BucketId, before: object) -> bool:
    """Return whether there was no such bucket before; further shards are of one that there was."""
    return before is None and bucket.shard == 0
