"""Read a batch of stream records and sort them by kind."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from zae_limiter.maintenance import BucketId, BucketImages

from .records import (
    BucketChange,
    DeletedEvent,
    ExpiredEvent,
    Record,
    UnreadableRecord,
    read_record,
    sequence_of,
)


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
    deleted: tuple[DeletedEvent, ...]
    unreadable: tuple[Failure, ...]

    @property
    def namespaces(self) -> set[str]:
        """The ids of the namespaces whose buckets changed, or whose audit events were deleted."""
        return {each.bucket.namespace_id for each in self.changes} | {each.namespace_id for each in self.deleted}

    @property
    def first_in_namespaces(self) -> tuple[str, ...]:
        """The sequence numbers of the first change and of the first deleted event."""
        return tuple(each[0].position.sequence for each in (self.changes, self.deleted) if each)

    def without(self, namespaces: Collection[str]) -> Self:
        """Return the batch without what happened in these namespaces."""
        return replace(
            self,
            changes=tuple(each for each in self.changes if each.bucket.namespace_id not in namespaces),
            deleted=tuple(each for each in self.deleted if each.namespace_id not in namespaces),
        )


def read_batch(records: Sequence[Record]) -> Batch:
    """Read a batch. An unreadable record does not stop the others."""
    changes, expired, deleted = list[BucketChange](), list[ExpiredEvent](), list[DeletedEvent]()
    unreadable: list[Failure] = []
    images = BucketImages()
    for record in records:
        sequence = sequence_of(record)
        try:
            content = read_record(record, images)
        except UnreadableRecord as problem:
            unreadable.append(Failure(sequence, str(problem)))
            continue
        if isinstance(content, BucketChange):
            changes.append(content)
        elif isinstance(content, ExpiredEvent):
            expired.append(content)
        elif content is not None:
            deleted.append(content)
    return Batch(len(records), tuple(changes), tuple(expired), tuple(deleted), tuple(unreadable))


def by_bucket(changes: Iterable[BucketChange]) -> dict[BucketId, list[BucketChange]]:
    """Return the changes of each bucket shard, in the order in which they happened."""
    grouped: dict[str, list[BucketChange]] = {}  # by the key: an id takes longer to hash
    for change in sorted(changes, key=lambda change: change.position.mark):
        grouped.setdefault(change.bucket.pk, []).append(change)
    return {changes[0].bucket: changes for changes in grouped.values()}
