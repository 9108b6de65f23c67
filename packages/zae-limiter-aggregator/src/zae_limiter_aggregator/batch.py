"""A batch of stream records, read.

Lives here: what came, by what it is. Never: what is done about it.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from zae_limiter.maintenance import BucketId

from .records import BucketChange, Expired, Record, Unreadable, read_record, sequence_of


class Failure(NamedTuple):
    """A record that is to come again, and why."""

    sequence: str
    problem: str


@dataclass(frozen=True, slots=True)
class Batch:
    """What the records say; those that are nothing to us are only counted in ``size``."""

    size: int
    changes: tuple[BucketChange, ...]
    expired: tuple[Expired, ...]
    unreadable: tuple[Failure, ...]

    @property
    def namespaces(self) -> set[str]:
        """The ids of those whose buckets changed."""
        return {change.bucket.namespace_id for change in self.changes}

    def without(self, namespaces: Collection[str]) -> Self:
        """The batch without the changes of these namespaces."""
        return replace(
            self, changes=tuple(change for change in self.changes if change.bucket.namespace_id not in namespaces)
        )


def read_batch(records: Sequence[Record]) -> Batch:
    """The batch. A record that cannot be read does not keep the others from being read."""
    changes: list[BucketChange] = []
    expired: list[Expired] = []
    unreadable: list[Failure] = []
    for record in records:
        sequence = sequence_of(record)
        try:
            said = read_record(record)
        except Unreadable as problem:
            unreadable.append(Failure(sequence, str(problem)))
            continue
        if isinstance(said, BucketChange):
            changes.append(said)
        elif said is not None:
            expired.append(said)
    return Batch(len(records), tuple(changes), tuple(expired), tuple(unreadable))


def by_bucket(changes: Iterable[BucketChange]) -> dict[BucketId, list[BucketChange]]:
    """The changes of each bucket shard, in the order in which they happened."""
    grouped: dict[BucketId, list[BucketChange]] = {}
    for change in sorted(changes, key=lambda change: change.position.mark):
        grouped.setdefault(change.bucket, []).append(change)
    return grouped
