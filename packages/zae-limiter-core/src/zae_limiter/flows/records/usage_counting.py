"""Count usage exactly once: add the consumption in the records of a stream to a snapshot.

A snapshot has, for each shard of the bucket, the mark of the last record that it counted; the write that adds moves the
mark. The records of one shard come in order. So those up to the mark are counted, however often and in whatever batches
they come again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ...operations.errors import ConditionFailed, RaceLost
from ...operations.values import Conditions, Item, Key, Update
from ...schema.attributes import TTL
from ...schema.changes import Consumption
from ...schema.usage import (
    COUNTED_AT,
    COUNTED_EVENTS,
    COUNTED_UNTIL,
    SnapshotId,
    additions,
    counted_attribute,
    read_mark,
)
from ..retry import with_retries
from ..steps import Flow


@dataclass(frozen=True, slots=True)
class Use:
    """The consumption of one stream record; ``mark`` sorts in the order of a shard's records.

    ``at_ms``: when the record was written; ``events``: the acquires that the shard had by then.
    """

    mark: str
    consumption: Consumption
    at_ms: int = 0
    events: int = 0


def count_usage(
    snapshot: SnapshotId,
    shard: int,
    uses: Sequence[Use],
    *,
    expires_at: int | None,
    now_ms: int | None = None,
    spread: bool = False,
) -> Flow[bool]:
    """Add the uses of one shard that the snapshot has not counted; return whether there were any.

    This is one write if none of them was counted before. ``expires_at`` is in epoch seconds. With
    ``now_ms`` the write also says how far the stream is counted. ``spread``: the table's schema has suffixes in the
    indexes.
    """
    distinct = {use.mark: use for use in uses}
    left = [distinct[mark] for mark in sorted(distinct)]
    while left:
        try:
            yield from with_retries(_counting(snapshot, shard, left, expires_at, now_ms, spread=spread))
        except ConditionFailed as failure:
            left = _not_counted(failure.item, shard, left)
        else:
            return True
    return False


def _not_counted(item: Item | None, shard: int, uses: Sequence[Use]) -> list[Use]:
    counted = "" if item is None else read_mark(item, shard)
    left = [use for use in uses if use.mark > counted]
    if len(left) == len(uses):  # only a snapshot that has counted one of them refuses to
        raise RaceLost("the snapshot refuses to count what it has not counted")
    return left


def _counting(
    snapshot: SnapshotId, shard: int, uses: Sequence[Use], expires_at: int | None, now_ms: int | None, *, spread: bool
) -> Update:
    """Return the update that adds the uses, in order, if the snapshot has counted none of them."""
    counted = counted_attribute(shard)
    values = {**snapshot.attributes(spread=spread), counted: uses[-1].mark}
    if expires_at is not None:
        values[TTL] = expires_at
    if now_ms is not None:
        values |= {COUNTED_UNTIL: uses[-1].at_ms, COUNTED_AT: now_ms}
        if shard == 0:
            values[COUNTED_EVENTS] = uses[-1].events
    add = additions(use.consumption for use in uses)
    return Update(Key(snapshot.pk, snapshot.sk), add=add, set=values, when=Conditions(below={counted: uses[0].mark}))
