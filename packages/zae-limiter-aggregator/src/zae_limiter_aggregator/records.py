"""Parse records of the table's stream, as Lambda delivers them.

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
TTL_OF_DYNAMODB_LOCAL: Final = "UNKNOWN_TO_SDK_VERSION"  # its name for the event of an expired item


END_OF_TIME_MS: Final = 253_402_300_800_000  # the year 10000: later windows have no name


class UnreadableRecord(Exception):
    """A record of a bucket or an audit event with invalid contents."""


class Position(NamedTuple):
    """The place of a record: ``mark`` sorts in the order of an item's changes, ``sequence`` is Lambda's id for it."""

    mark: str
    sequence: str


@dataclass(frozen=True, slots=True)
class BucketChange:
    """A bucket shard that was created or changed; ``before`` is ``None`` for a new one. Times are in epoch ms.

    ``shards`` is the number of shards of the bucket now, ``shards_before`` the number before the change.
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
        """The earlier number of shards, if this change of shard 0 raised it; the other shards follow."""
        before = self.shards_before
        return before if self.bucket.shard == 0 and before is not None and before < self.shards else None


@dataclass(frozen=True, slots=True)
class ExpiredEvent:
    """An audit event that TTL removed."""

    position: Position
    address: AuditAddress
    event: AuditEvent


def sequence_of(record: Record) -> str:
    """Lambda's id for the record. ``KeyError`` without one: then it is not a record of a stream."""
    number: str = record["dynamodb"]["SequenceNumber"]
    return number


def read_record(record: Record) -> BucketChange | ExpiredEvent | None:
    """Parse a record; ``None`` if it is irrelevant. Raises ``UnreadableRecord``."""
    try:
        return _read(record)
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise UnreadableRecord(f"{type(error).__name__}: {error}") from error


def _read(record: Record) -> BucketChange | ExpiredEvent | None:
    change = record["dynamodb"]
    key = read_item(change["Keys"])
    bucket = bucket_of(key)
    if bucket is not None:
        return None if _is_removal(record) else _bucket_change(record, bucket)
    if is_audit_event(key) and _is_by_ttl(record):
        return ExpiredEvent(_position(record), *audit_event_of(key, read_item(change["OldImage"])))
    return None


def _bucket_change(record: Record, bucket: BucketId) -> BucketChange:
    change = record["dynamodb"]
    if record["eventName"] not in {"INSERT", "MODIFY"}:
        raise ValueError(f"no such event: {record['eventName']!r}")
    # If the old image is missing, the new one may count more than this change consumed.
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
