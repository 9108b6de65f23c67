"""Read a table's stream, shard by shard from the end of the last batch."""

import logging
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .records import Record, event_record, fold, keys_alone, sequence_number

MOST_RECORDS: Final = 999  # of one GetRecords, and one more

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Batch:
    """Records of one shard in order; ``end`` is the sequence number of the last one that was read for it."""

    shard: str
    records: Sequence[Record]
    end: str


class Stream:
    """A stream as one reader knows it. ``positions`` has the last sequence number that was handled, by shard."""

    def __init__(self, client: Any, arn: str, positions: MutableMapping[str, str]) -> None:
        self._client = client
        self._arn = arn
        self._positions = positions
        self._ended: set[str] = set()

    def read(self, limit: int) -> Batch | None:
        """Return the next records of the first shard that has some."""
        told = self._describe()
        # The label is that of the sequence numbers, also where the table was declared with another one.
        source = f"{self._arn.rpartition('/')[0]}/{told['StreamLabel']}"
        for shard in self._open_shards(told["Shards"]):
            batch = self._read_shard(shard, source, min(limit, MOST_RECORDS))
            if batch is not None:
                return batch
        return None

    def done(self, batch: Batch) -> None:
        """Note that a batch was handled."""
        self._positions[batch.shard] = batch.end

    def skip_all(self) -> None:
        """Mark everything that is in the stream now as handled."""
        while (batch := self.read(MOST_RECORDS)) is not None:
            self.done(batch)

    def _describe(self) -> dict[str, Any]:
        told: dict[str, Any] = self._client.describe_stream(StreamArn=self._arn)["StreamDescription"]
        while "LastEvaluatedShardId" in told:
            start = told.pop("LastEvaluatedShardId")
            page = self._client.describe_stream(StreamArn=self._arn, ExclusiveStartShardId=start)["StreamDescription"]
            told = {**page, "Shards": [*told["Shards"], *page["Shards"]]}
        return told

    def _open_shards(self, shards: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """Yield the shards that have more to come; a child waits until its parent has ended."""
        waiting = {shard["ShardId"] for shard in shards} - self._ended
        for shard in shards:
            if shard["ShardId"] in waiting and shard.get("ParentShardId") not in waiting:
                yield shard["ShardId"]

    def _read_shard(self, shard: str, source: str, limit: int) -> Batch | None:
        # One more than is wanted: a record that announces the next one goes with it.
        page = self._page(shard, limit + 1)
        if not page["Records"]:
            if page.get("NextShardIterator") is None:
                self._ended.add(shard)
            return None
        region = self._arn.split(":")[3]
        found = [event_record(record, region=region, source_arn=source) for record in page["Records"]]
        if len(found) > limit and keys_alone(found[-1]):
            found.pop()
        records = fold(found)[:limit]
        return Batch(shard, records, sequence_number(records[-1]))

    def _page(self, shard: str, limit: int) -> dict[str, Any]:
        refusals = self._client.exceptions
        while True:
            position = self._positions.get(shard)
            start = {"ShardIteratorType": "TRIM_HORIZON"}
            if position is not None:
                start = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": position}
            try:
                found = self._client.get_shard_iterator(StreamArn=self._arn, ShardId=shard, **start)
                page: dict[str, Any] = self._client.get_records(ShardIterator=found["ShardIterator"], Limit=limit)
            except refusals.ExpiredIteratorException:
                continue
            except refusals.TrimmedDataAccessException:
                if self._positions.pop(shard, None) is not None:
                    logger.warning("%s: records were trimmed before they were read; the oldest one is next", self._arn)
                continue
            return page
