"""Which shards of a bucket are to be split: those that are written too often, and those that are behind shard 0.

Lives here: what the stream says of that. Never: the split itself (core).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Final

from zae_limiter.maintenance import BucketId, Flow, split_shard, writes

from .jobs import Job
from .records import BucketChange

SPLIT_FROM: Final = 800  # writes a second: 80 % of what one item takes


def split_jobs(buckets: Mapping[BucketId, Sequence[BucketChange]], stack: str, now: Callable[[], int]) -> Iterator[Job]:
    """A split of each shard that is written too often, and one of each shard that its shard 0 is ahead of."""
    split = partial(split_shard, stack=stack, now=now)
    for bucket, changes in buckets.items():
        if write_rate(changes) >= SPLIT_FROM:
            yield Job("splits", split(bucket, among=changes[-1].shards))
        grown = [change.grew_from for change in changes if change.grew_from is not None]
        if grown:
            yield Job("splits", _follow(split, bucket, grown))


def write_rate(changes: Sequence[BucketChange]) -> int:
    """The most writes to a shard that its records show within one second.

    The stream dates by whole seconds: what has one date happened within one, and of two dates nobody knows how far they
    are apart. Only writes since it was split last count: the others it does not get any more.
    """
    recent = [change for change in changes if change.shards == changes[-1].shards]
    seconds = (list(each) for _, each in groupby(recent, lambda change: change.at_ms // 1000))
    return max(writes(each[0].before, each[-1].after) for each in seconds)


def _follow(split: Callable[..., Flow[int]], bucket: BucketId, grown: Iterable[int]) -> Flow[int]:
    """Split, one by one, the other shards of a bucket whose shard 0 has been split, from each of these counts on."""
    done = 0
    for count in grown:
        for shard in range(1, count):
            done += yield from split(bucket.other(shard), among=count)
    return done
