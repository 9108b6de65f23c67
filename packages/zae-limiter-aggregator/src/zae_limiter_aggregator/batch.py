"""Read a batch of stream records and sort them by kind."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from zae_limiter.maintenance import BucketId

from .records import BucketChange, ExpiredEvent, Record, UnreadableRecord, read_record, sequence_of


class Failure(NamedTuple):
    """A record, with the problem: it has to come again, or can never be processed."""

    sequence: str
    problem: str


@dataclass(frozen=True, slots=True)
class Batch:
    """The contents of a batch; irrelevant records count in ``size`` only."""

    size: int
    changes: tuple[BucketChange, ...]
    expired: tuple[ExpiredEvent, ...]
    unreadable: tuple[Failure, ...]

    @property
    def namespaces(self) -> set[str]:
        """The ids of the namespaces whose buckets changed."""
        return {change.bucket.namespace_id for change in self.changes}

    def without(self, namespaces: Collection[str]) -> Self:
        """Return the batch without the changes of these namespaces."""
        return replace(
            self, changes=tuple(change for change in self.changes if change.bucket.namespace_id not in namespaces)
        )


def read_batch(records: Sequence[Record]) -> Batch:
    """Read a batch. An unreadable record does not stop the others."""
    changes: list[BucketChange] = []
    expired: list[ExpiredEvent] = []
    unreadable: list[Failure] = []
    for record in records:
        sequence = sequence_of(record)
        try:
            content = read_record(record)
        except UnreadableRecord as problem:
            unreadable.append(Failure(sequence, str(problem)))
            continue
        if isinstance(content, BucketChange):
            changes.append(content)
        elif content is not None:
            expired.append(content)
    return Batch(len(records), tuple(changes), tuple(expired), tuple(unreadable))


def by_bucket(changes: Iterable[BucketChange]) -> dict[BucketId, list[BucketChange]]:
    """Return the changes of each bucket shard, in the order in which they happened."""
    grouped: dict[BucketId, list[BucketChange]] = {}
    for change in sorted(changes, key=lambda change: change.position.mark):
        grouped.setdefault(change.bucket, []).append(change)
    return grouped
