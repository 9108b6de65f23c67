"""A record of the table's stream, as Lambda delivers it, as a value.

Lives here: what a record says, and that it cannot be read. Never: what is done about it.
https://docs.aws.amazon.com/lambda/latest/dg/with-ddb.html
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from zae_limiter.audit import AuditEvent
from zae_limiter.maintenance import (
    AuditAddress,
    BucketId,
    Consumption,
    anchor_of,
    audit_event_of,
    bucket_of,
    consumption,
    is_audit_event,
    read_item,
    shard_count_of,
    stream_mark,
)

Record = Mapping[str, Any]
Image = dict[str, Any]

TTL_PRINCIPAL: Final = "dynamodb.amazonaws.com"
TTL_OF_DYNAMODB_LOCAL: Final = "UNKNOWN_TO_SDK_VERSION"  # what it calls the event of an item that expired


END_OF_TIME_MS: Final = 253_402_300_800_000  # the year 10000, of which no window has a name


class Unreadable(Exception):
    """A record that is about us and does not say what it should."""


class Position(NamedTuple):
    """Where a record stands: ``mark`` sorts as the changes of an item came, ``sequence`` is what Lambda knows it by."""

    mark: str
    sequence: str


@dataclass(frozen=True, slots=True)
class BucketChange:
    """A bucket shard that was made or changed; ``before`` is ``None`` where it was made. Times in epoch ms.

    ``shards``: among how many the bucket is divided now; ``shards_before``: and before the change.
    """

    position: Position
    at_ms: int
    bucket: BucketId
    before: Image | None
    after: Image
    anchor_ms: int
    shards: int
    shards_before: int | None
    consumption: Consumption

    @property
    def grew_from(self) -> int | None:
        """How many shards there were, where shard 0 tells that there are more now; the others follow it."""
        before = self.shards_before
        return before if self.bucket.shard == 0 and before is not None and before < self.shards else None


@dataclass(frozen=True, slots=True)
class Expired:
    """An audit event that TTL removed."""

    position: Position
    address: AuditAddress
    event: AuditEvent


def sequence_of(record: Record) -> str:
    """What Lambda knows the record by. ``KeyError`` where it has no such number: then it is no record of a stream."""
    number: str = record["dynamodb"]["SequenceNumber"]
    return number


def read_record(record: Record) -> BucketChange | Expired | None:
    """What the record says, ``None`` where it is nothing to us. Raises ``Unreadable``."""
    try:
        return _read(record)
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error


def _read(record: Record) -> BucketChange | Expired | None:
    change = record["dynamodb"]
    key = read_item(change["Keys"])
    bucket = bucket_of(key)
    if bucket is not None:
        return None if _is_removal(record) else _bucket_change(record, bucket)
    if is_audit_event(key) and _is_by_ttl(record):
        return Expired(_position(record), *audit_event_of(key, read_item(change["OldImage"])))
    return None


def _bucket_change(record: Record, bucket: BucketId) -> BucketChange:
    change = record["dynamodb"]
    if record["eventName"] not in {"INSERT", "MODIFY"}:
        raise ValueError(f"no such event: {record['eventName']!r}")
    # Where the old image is missing, not all that the new one says was consumed in this change.
    before = read_item(change["OldImage"]) if record["eventName"] == "MODIFY" else None
    after = read_item(change["NewImage"])
    return BucketChange(
        position=_position(record),
        at_ms=_whole(round(change["ApproximateCreationDateTime"] * 1000)),
        bucket=bucket,
        before=before,
        after=after,
        anchor_ms=_whole(anchor_of(after)),
        shards=_whole(shard_count_of(after)),
        shards_before=None if before is None else _whole(shard_count_of(before)),
        consumption=consumption(before, after),
    )


def _whole(value: object) -> int:
    if type(value) is not int or not 0 <= value < END_OF_TIME_MS:
        raise ValueError(f"no instant or count: {value!r}")
    return value


def _position(record: Record) -> Position:
    _, stream, label = record["eventSourceARN"].partition("/stream/")
    if not (stream and label):
        raise ValueError(f"not the ARN of a stream: {record['eventSourceARN']!r}")
    sequence = sequence_of(record)
    return Position(stream_mark(label, sequence), sequence)


def _is_removal(record: Record) -> bool:
    return record["eventName"] in {"REMOVE", TTL_OF_DYNAMODB_LOCAL}


def _is_by_ttl(record: Record) -> bool:
    if record["eventName"] == TTL_OF_DYNAMODB_LOCAL:
        return True
    identity = record.get("userIdentity") or {}
    return record["eventName"] == "REMOVE" and identity.get("principalId") == TTL_PRINCIPAL
