"""Parse records of the table's stream, as Lambda delivers them.

https://docs.aws.amazon.com/lambda/latest/dg/with-ddb.html
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from zae_limiter.maintenance import (
    ACQUIRES,
    REFUSED,
    AuditAddress,
    BucketId,
    BucketImages,
    Consumption,
    Use,
    anchor_of,
    audit_event_of,
    bucket_of,
    check_bucket,
    consumption,
    is_audit_event,
    namespace_of,
    read_item,
    shard_count_of,
    stream_mark,
)
from zae_limiter.values.audit import AuditEvent

Record = Mapping[str, Any]
Image = dict[str, Any]

TTL_PRINCIPAL: Final = "dynamodb.amazonaws.com"
TTL_OF_DYNAMODB_LOCAL: Final = "UNKNOWN_TO_SDK_VERSION"  # its name for the event of an expired item
_REMOVALS: Final = frozenset(("REMOVE", TTL_OF_DYNAMODB_LOCAL))
END_OF_TIME_MS: Final = 253_402_300_800_000  # the year 10000: later windows have no name
KEY_LENGTH: Final = 2048


class UnreadableRecord(Exception):
    """A record of a bucket or an audit event with invalid contents."""


class Position(NamedTuple):
    """The place of a record: ``mark`` sorts in the order of an item's changes, ``sequence`` is Lambda's id for it."""

    mark: str
    sequence: str


class BucketChange(NamedTuple):
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


def use_of(change: BucketChange) -> Use:
    """Return the change as usage counts it."""
    after = change.after
    calls = after.get(ACQUIRES, 0)
    if REFUSED in after:
        calls += after[REFUSED]
    return Use(change.position.mark, change.consumption, change.at_ms, calls)


@dataclass(frozen=True, slots=True)
class ExpiredEvent:
    """An audit event that TTL removed."""

    position: Position
    address: AuditAddress
    event: AuditEvent


@dataclass(frozen=True, slots=True)
class DeletedEvent:
    """An audit event that was deleted, not by TTL: by a purge, or by somebody who covers a trace."""

    position: Position
    namespace_id: str


Content = BucketChange | ExpiredEvent | DeletedEvent


def key_of(record: Record) -> dict[str, str]:
    """Return the table key of a record, for operators, as far as it can be read, cut to the length that DynamoDB
    admits.
    """
    keys = record["dynamodb"].get("Keys")
    values = keys.items() if isinstance(keys, Mapping) else ()
    texts = {name: value.get("S") for name, value in values if isinstance(value, Mapping)}
    return {name: text[:KEY_LENGTH] for name, text in texts.items() if isinstance(text, str)}


def sequence_of(record: Record) -> str:
    """Return Lambda's id for the record, which every record of a batch has."""
    number: str = record["dynamodb"]["SequenceNumber"]
    return number


def read_record(record: Record, images: BucketImages | None = None) -> Content | None:
    """Parse a record; return ``None`` if it is irrelevant. Raises ``UnreadableRecord``, whose text has no value of an
    item. ``images`` are those of its batch.
    """
    try:
        return _read(record, BucketImages() if images is None else images)
    except ValueError as error:
        raise UnreadableRecord(str(error)) from error
    except KeyError as error:
        raise UnreadableRecord(f"{error} is missing") from error
    except (TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise UnreadableRecord(f"the record has another form: {type(error).__name__}") from error


def _read(record: Record, images: BucketImages) -> Content | None:
    key = _key(record["dynamodb"]["Keys"])
    bucket = bucket_of(key)
    if bucket is not None:
        if bucket.pk not in key.values():
            raise ValueError("the key spells the number of its shard in another way")
        return None if _is_removal(record) else _bucket_change(record, check_bucket(bucket), images)
    if not is_audit_event(key):
        return None
    if record["eventName"] == "MODIFY" and record["dynamodb"]["OldImage"] != record["dynamodb"]["NewImage"]:
        raise ValueError("an audit event was overwritten: the stream has its earlier values in OldImage")
    if _is_by_ttl(record):
        return _expired_event(record, key)
    return DeletedEvent(_position(record), namespace_of(key)) if _is_removal(record) else None


def _key(keys: Mapping[str, Any]) -> dict[str, str]:
    key = {name: value["S"] for name, value in keys.items()}
    for text in key.values():
        if not isinstance(text, str):
            raise ValueError("the key is not text")
    return key


def _expired_event(record: Record, key: Mapping[str, str]) -> ExpiredEvent:
    try:
        image = read_item(record["dynamodb"]["OldImage"])
    except ValueError as error:
        raise ValueError("the audit event has a number that is a fraction, or an attribute of no type") from error
    return ExpiredEvent(_position(record), *audit_event_of(key, image))


def _bucket_change(record: Record, bucket: BucketId, images: BucketImages) -> BucketChange:
    change = record["dynamodb"]
    if record["eventName"] not in {"INSERT", "MODIFY"}:
        raise ValueError("there is no such event")
    # If the old image is missing, the new one may count more than this change consumed.
    before = images.read(bucket.pk, change["OldImage"]) if record["eventName"] == "MODIFY" else None
    after = images.read(bucket.pk, change["NewImage"])
    shards = shard_count_of(after)
    if bucket.shard >= shards:
        raise ValueError("the bucket has no such shard")
    return BucketChange(
        position=_position(record),
        at_ms=_instant(change["ApproximateCreationDateTime"], 1000),
        bucket=bucket,
        before=before,
        after=after,
        anchor_ms=_instant(anchor_of(after)),
        shards=shards,
        shards_before=None if before is None else shard_count_of(before),
        consumption=consumption(before, after),
    )


def _instant(value: object, per_unit: int = 1) -> int:
    """Return epoch milliseconds. A stream dates in seconds; an emulator also gives fractions of one."""
    if isinstance(value, int | float) and 0 <= value * per_unit < END_OF_TIME_MS:  # which NaN is not
        return round(value * per_unit)
    raise ValueError("the time of the change, or the anchor, is not an instant")


def _position(record: Record) -> Position:
    _, stream, label = record["eventSourceARN"].partition("/stream/")
    if not (stream and label):
        raise ValueError("eventSourceARN is not the ARN of a stream")
    sequence = sequence_of(record)
    return Position(stream_mark(label, sequence), sequence)


def _is_removal(record: Record) -> bool:
    return record["eventName"] in _REMOVALS


def _is_by_ttl(record: Record) -> bool:
    if record["eventName"] == TTL_OF_DYNAMODB_LOCAL:
        return True
    identity = record.get("userIdentity") or {}
    return record["eventName"] == "REMOVE" and identity.get("principalId") == TTL_PRINCIPAL
