"""Find the shards to split, with too many writes or behind a split of shard 0, and the buckets whose shards merge."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from random import sample
from typing import Final

from zae_limiter.maintenance import BucketId, Flow, is_quiet, merge_shards, reanchor, split_shard, writes

from .jobs import Job
from .records import BucketChange

SPLIT_FROM: Final = 800  # writes a second: 80 % of the capacity of one item
MOST_MERGES: Final = 8  # of a batch: 64 shards take some seconds, and the usage of the batch waits for its end
FRESH_MS: Final = 360_000  # the longest batch window and a minute: a stream further behind has a backlog


def split_jobs(buckets: Mapping[BucketId, Sequence[BucketChange]], stack: str, now: Callable[[], int]) -> Iterator[Job]:
    """Yield a split for each shard with too many writes, and one for each shard that lags behind its shard 0."""
    split = partial(split_shard, stack=stack, now=now)
    for bucket, changes in buckets.items():
        if write_rate(changes) >= SPLIT_FROM:
            yield Job("splits", split(bucket, among=changes[-1].shards))
        grown = sorted({change.grew_from for change in changes if change.grew_from is not None})  # once each
        if grown:
            yield Job("splits", _split_others(split, bucket, grown))


def merge_jobs(buckets: Mapping[BucketId, Sequence[BucketChange]], stack: str, now: Callable[[], int]) -> Iterator[Job]:
    """Yield a merge for each bucket of several shards that was quiet for ten minutes; for one that was not, the begin
    of the next ten minutes: its shard 0 is re-anchored. Of many quiet ones, some are chosen; later batches show others.
    """
    lasts = [changes[-1] for changes in buckets.values() if measures(changes[-1])]
    fresh = [last for last in lasts if now() - last.at_ms <= FRESH_MS]
    found = [(last, is_quiet(last.after, last.at_ms)) for last in fresh]
    quiet = [last.bucket for last, is_so in found if is_so]
    for bucket in sample(quiet, min(MOST_MERGES, len(quiet))):
        yield Job("merges", merge_shards(bucket, stack=stack, now=now))
    for last, is_so in found:
        if is_so is False:
            yield Job("refills", reanchor(last.after, last.at_ms))


def measures(change: BucketChange) -> bool:
    """Return whether a shard shows how often its bucket is written: shard 0 of several."""
    return change.bucket.shard == 0 and change.shards > 1


def write_rate(changes: Sequence[BucketChange]) -> int:
    """Return the largest number of writes to a shard within one second, by its records.

    The stream dates by whole seconds: writes of one date fall within one second, but the distance of two dates is
    unknown. Only writes since the last split count, because the shard no longer receives the others.
    """
    recent = [change for change in changes if change.shards == changes[-1].shards]
    seconds = (list(each) for _, each in groupby(recent, lambda change: change.at_ms // 1000))
    return max(writes(each[0].before, each[-1].after) for each in seconds)


def _split_others(split: Callable[..., Flow[int]], bucket: BucketId, grown: Iterable[int]) -> Flow[int]:
    """Split the other shards of a bucket, one by one, for each shard count from which its shard 0 was split."""
    done = 0
    for count in grown:
        for shard in range(1, count):
            done += yield from split(bucket.other(shard), among=count)
    return done
