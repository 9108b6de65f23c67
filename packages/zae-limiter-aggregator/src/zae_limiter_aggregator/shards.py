"""Which shards of a bucket are to be split: those that are written too often, and those that are behind shard 0.

Lives here: what the stream says of that. Never: the split itself (core).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from zae_limiter.flows.scope import Scope
from zae_limiter.flows.scope import Settings as ScopeSettings
from zae_limiter.flows.splitting import split_shard
from zae_limiter.flows.steps import Flow
from zae_limiter.schema import BucketAddress
from zae_limiter.schema.changes import writes
from zae_limiter.schema.items import BucketId

from .jobs import Job
from .records import BucketChange

SPLIT_FROM: Final = 800  # writes a second: 80 % of what one item takes


def split_jobs(
    buckets: Mapping[BucketAddress, Sequence[BucketChange]], stack: str, now: Callable[[], int]
) -> Iterator[Job]:
    """A split of each shard that is written too often, and one of each shard that its shard 0 is ahead of."""
    for address, changes in buckets.items():
        last, bucket = changes[-1], BucketId(*address)
        scope = Scope("", bucket.namespace_id, stack=stack, now=now, settings=ScopeSettings())
        if pace(changes) >= SPLIT_FROM:
            yield Job("splits", split_shard(scope, bucket, among=last.shards))
        grown = [change.grew_from for change in changes if change.grew_from is not None]
        if grown:
            yield Job("splits", _follow(scope, bucket, grown))


def pace(changes: Sequence[BucketChange]) -> float:
    """The writes a second to a shard in the time that its records span, at least one second.

    Only those since it was split last count: the others it does not get any more.
    """
    recent = [change for change in changes if change.shards == changes[-1].shards]
    first, last = recent[0], recent[-1]
    return writes(first.before, last.after) / max(1.0, (last.at_ms - first.at_ms) / 1000)


def _follow(scope: Scope, bucket: BucketId, grown: Iterable[int]) -> Flow[bool]:
    """Split, one by one, the other shards of a bucket whose shard 0 has been split, from each of these counts on."""
    done = False
    for count in grown:
        for shard in range(1, count):
            done |= yield from split_shard(scope, bucket.other(shard), among=count)
    return done
