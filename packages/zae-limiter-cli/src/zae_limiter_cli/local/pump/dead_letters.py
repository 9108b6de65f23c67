"""The message to a mapping's dead-letter queue about records that were given up.

https://docs.aws.amazon.com/lambda/latest/dg/services-dynamodb-errors.html
"""

from datetime import UTC, datetime
from typing import Any

from .delivery import GivenUp
from .mapping import Mapping
from .records import sequence_number


def dead_letter(given_up: GivenUp, mapping: Mapping, *, shard: str, request_id: str, now: datetime) -> dict[str, Any]:
    """Return the message: where the records are in the stream, without the records."""
    first, last = given_up.records[0], given_up.records[-1]
    return {
        "requestContext": {
            "requestId": request_id,
            "functionArn": mapping.function_arn,
            "condition": "RetryAttemptsExhausted",
            "approximateInvokeCount": given_up.attempts,
        },
        "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
        "version": "1.0",
        "timestamp": _iso(now),
        "DDBStreamBatchInfo": {
            "shardId": shard,
            "startSequenceNumber": sequence_number(first),
            "endSequenceNumber": sequence_number(last),
            "approximateArrivalOfFirstRecord": _iso(_arrival(first)),
            "approximateArrivalOfLastRecord": _iso(_arrival(last)),
            "batchSize": len(given_up.records),
            "streamArn": mapping.stream_arn,
        },
    }


def _arrival(record: dict[str, Any]) -> datetime:
    return datetime.fromtimestamp(record["dynamodb"]["ApproximateCreationDateTime"], UTC)


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
