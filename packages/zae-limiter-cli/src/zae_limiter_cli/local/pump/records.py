"""Turn records of a stream into events of Lambda."""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

Record = dict[str, Any]


def event_record(record: Mapping[str, Any], *, region: str, source_arn: str) -> Record:
    """Return a record of GetRecords, as boto3 has it, in the form that a Lambda gets."""
    change = dict(record["dynamodb"])
    change["ApproximateCreationDateTime"] = _epoch_seconds(change["ApproximateCreationDateTime"])
    told: Record = {
        "eventID": _event_id(source_arn, change["SequenceNumber"]),
        "eventName": _name(change),
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": region,
        "dynamodb": _jsonable(change),
        "eventSourceARN": source_arn,
    }
    identity = record.get("userIdentity")
    if identity:
        told["userIdentity"] = {"principalId": identity["PrincipalId"], "type": identity["Type"]}
    return told


def sequence_number(record: Record) -> str:
    """Return the place of a record in its shard."""
    number: str = record["dynamodb"]["SequenceNumber"]
    return number


def keys_alone(record: Record) -> bool:
    """Return whether the record inserts an item that has nothing but its keys.

    moto writes such a record for an update that creates an item, and the complete one right after it.
    """
    change = record["dynamodb"]
    return record["eventName"] == "INSERT" and bool(change.get("NewImage") == change["Keys"])


def fold(records: Iterable[Record]) -> list[Record]:
    """Return the records without those that announce the next one."""
    kept: list[Record] = []
    for record in records:
        if kept and _announces(kept[-1], record):
            kept.pop()
        kept.append(record)
    return kept


def _announces(first: Record, second: Record) -> bool:
    return (
        keys_alone(first)
        and second["eventName"] == "INSERT"
        and first["dynamodb"]["Keys"] == second["dynamodb"]["Keys"]
    )


def _name(change: Mapping[str, Any]) -> str:
    """Return the name of the event by its images: DynamoDB Local has its own name for a removal by TTL."""
    if "NewImage" not in change:
        return "REMOVE"
    return "MODIFY" if "OldImage" in change else "INSERT"


def _event_id(source_arn: str, number: str) -> str:
    """Return 32 hexadecimal digits, the same whenever the record is delivered."""
    return hashlib.blake2s(f"{source_arn} {number}".encode(), digest_size=16).hexdigest()


def _epoch_seconds(moment: datetime) -> float:
    return moment.timestamp()


def _jsonable(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {name: _jsonable(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_jsonable(each) for each in value]
    return value
