"""The jobs of a batch: count usage, move old anchors, split hot shards, merge quiet ones. Each is a flow of core."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from zae_limiter.maintenance import SnapshotId, count_usage, reanchor
from zae_limiter.values.usage import WINDOW_SECONDS, Window

from .batch import Batch, by_bucket
from .held import PendingUse
from .jobs import Job
from .records import BucketChange
from .settings import Settings
from .shards import FRESH_MS, measures, merge_jobs, split_jobs


def upkeep_jobs(batch: Batch, settings: Settings, now: Callable[[], int]) -> list[Job]:
    """Return the jobs of a batch that keep buckets in order, independent of each other. ``now`` returns epoch ms."""
    buckets = by_bucket(batch.changes)
    return [
        *_refills(buckets.values(), settings, now()),
        *split_jobs(buckets, settings.stack, now),
        *merge_jobs(buckets, settings.stack, now),
    ]


def usage_jobs(
    held: Iterable[PendingUse], fresh: Iterable[PendingUse], settings: Settings, now_ms: int, *, spread: bool
) -> Iterator[Job]:
    """Yield a job for each snapshot and shard that counts a use: those that the window held, and those of the batch.

    ``spread``: the table's schema has suffixes in the indexes.
    """
    found: defaultdict[tuple[str, Window, int], tuple[list[PendingUse], list[PendingUse]]]
    found = defaultdict(lambda: ([], []))
    for place, pending in enumerate((held, fresh)):
        for each in pending:
            for window, seconds in WINDOW_SECONDS.items():
                found[each.bucket.pk, window, each.use.at_ms // (1000 * seconds)][place].append(each)
    for (_, window, _), (before, now) in found.items():
        uses, bucket = [each.use for each in (*before, *now)], (*before, *now)[0].bucket
        snapshot = SnapshotId.of_bucket(bucket, window, uses[0].at_ms)
        # At least a whole day after its window: so long may the stream deliver a record again.
        expires_at = snapshot.expires_at(settings.usage_days(window))
        flow = count_usage(snapshot, bucket.shard, uses, expires_at=expires_at, now_ms=now_ms, spread=spread)
        records = tuple(each.sequence for each in sorted(now, key=lambda each: each.use.mark))
        yield Job("snapshots", flow, records, tuple(before))


def _refills(buckets: Iterable[Sequence[BucketChange]], settings: Settings, now_ms: int) -> Iterator[Job]:
    """Yield a job for each anchor that was old at the last use of its bucket: move it to that instant, by the table's
    clock. Shard 0 of several has a shorter time (``merge_jobs``).

    Skip instants long past: every batch of a backlog would repeat the work of the first.
    """
    oldest_ms = settings.refill_after_seconds * 1000
    for changes in buckets:
        last = changes[-1]
        if (
            oldest_ms
            and not measures(last)
            and last.at_ms - last.anchor_ms > oldest_ms
            and now_ms - last.at_ms <= FRESH_MS
        ):
            yield Job("refills", reanchor(last.after, last.at_ms))
