"""What lives here: a table's real stream, read to its end, in the words in which Lambda delivers it.
What never does: a batch, or what is done with one.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import boto3

from .harness import REGION

EMPTY_READS = 3  # an open shard is at its end when so many reads in a row find nothing

Record = dict[str, Any]


def records_of(endpoint_url: str, table_name: str) -> list[Record]:
    """All records of the table's stream, in order; those of a shard behind those of its parent."""
    client = boto3.client("dynamodbstreams", endpoint_url=endpoint_url, region_name=REGION)
    (stream,) = client.list_streams(TableName=table_name)["Streams"]
    arn = stream["StreamArn"]
    found = [_spelt(record, arn) for shard in _shards(client, arn) for record in _records(client, arn, shard)]
    client.close()
    return found


def _shards(client: Any, arn: str) -> list[str]:
    """The ids of all shards, parents first."""
    shards: dict[str, str | None] = {}
    start: dict[str, str] = {}
    while True:
        page = client.describe_stream(StreamArn=arn, **start)["StreamDescription"]
        shards |= {shard["ShardId"]: shard.get("ParentShardId") for shard in page["Shards"]}
        if "LastEvaluatedShardId" not in page:
            break
        start = {"ExclusiveStartShardId": page["LastEvaluatedShardId"]}
    return sorted(shards, key=lambda shard: (_depth(shard, shards), shard))


def _depth(shard: str, parents: Mapping[str, str | None]) -> int:
    parent = parents.get(shard)
    return 0 if parent is None else 1 + _depth(parent, parents)


def _records(client: Any, arn: str, shard: str) -> Iterator[Mapping[str, Any]]:
    place = {"StreamArn": arn, "ShardId": shard, "ShardIteratorType": "TRIM_HORIZON"}
    iterator, empty = client.get_shard_iterator(**place)["ShardIterator"], 0
    while iterator and empty < EMPTY_READS:
        page = client.get_records(ShardIterator=iterator)
        yield from page["Records"]
        empty = 0 if page["Records"] else empty + 1
        iterator = page.get("NextShardIterator")


def _spelt(record: Mapping[str, Any], arn: str) -> Record:
    """The record as an event source mapping hands it to a function: in JSON, a time as seconds."""
    change = dict(record["dynamodb"])
    change["ApproximateCreationDateTime"] = change["ApproximateCreationDateTime"].timestamp()
    identity = record.get("userIdentity")
    if identity is not None:
        identity = {name[0].lower() + name[1:]: value for name, value in identity.items()}
    return {**record, "dynamodb": change, "eventSourceARN": arn, "userIdentity": identity}
