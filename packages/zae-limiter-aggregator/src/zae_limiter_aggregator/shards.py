"""Find the shards to split: shards with too many writes, and shards that lag behind a split of shard 0."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from zae_limiter.flows.bucket.splitting import split_shard
from zae_limiter.flows.process.namespace_state import NamespaceState
from zae_limiter.flows.process.namespace_state import Settings as ScopeSettings
from zae_limiter.flows.steps import Flow
from zae_limiter.schema import BucketAddress
from zae_limiter.schema.changes import writes
from zae_limiter.schema.items import BucketId

from .jobs import Job
from .records import BucketChange

SPLIT_FROM: Final = 800  # writes a second: 80 % of the capacity of one item


def split_jobs(
    buckets: Mapping[BucketAddress, Sequence[BucketChange]], stack: str, now: Callable[[], int]
) -> Iterator[Job]:
    """A split for each shard with too many writes, and one for each shard that lags behind its shard 0."""
    for address, changes in buckets.items():
        last, bucket = changes[-1], BucketId(*address)
        namespace_state = NamespaceState("", bucket.namespace_id, stack=stack, now=now, settings=ScopeSettings())
        if write_rate(changes) >= SPLIT_FROM:
            yield Job("splits", split_shard(namespace_state, bucket, among=last.shards))
        grown = [change.grew_from for change in changes if change.grew_from is not None]
        if grown:
            yield Job("splits", _split_others(namespace_state, bucket, grown))


def write_rate(changes: Sequence[BucketChange]) -> int:
    """The largest number of writes to a shard within one second, by its records.

    The stream dates by whole seconds: writes of one date fall within one second, but the distance of two dates is
    unknown. Only writes since the last split count, because the shard no longer receives the others.
    """
    recent = [change for change in changes if change.shards == changes[-1].shards]
    seconds = (list(each) for _, each in groupby(recent, lambda change: change.at_ms // 1000))
    return max(writes(each[0].before, each[-1].after) for each in seconds)


def _split_others(namespace_state: NamespaceState, bucket: BucketId, grown: Iterable[int]) -> Flow[int]:
    """Split the other shards of a bucket, one by one, for each shard count from which its shard 0 was split."""
    done = 0
    for count in grown:
        for shard in range(1, count):
            done += yield from split_shard(namespace_state, bucket.other(shard), among=count)
    return done
