"""The jobs of a batch: count usage, move old anchors, split hot shards, merge quiet ones. Each is a flow of core."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from zae_limiter.maintenance import ACQUIRES, BucketId, SnapshotId, Use, count_usage, reanchor
from zae_limiter.values.usage import WINDOW_SECONDS, Window

from .batch import Batch, by_bucket
from .jobs import Job
from .records import BucketChange
from .settings import Settings
from .shards import FRESH_MS, measures, merge_jobs, split_jobs


def jobs_of(batch: Batch, settings: Settings, now: Callable[[], int], *, spread: bool) -> list[Job]:
    """Return the jobs of a batch, independent of each other. ``now`` returns epoch milliseconds.

    ``spread``: the table's schema has suffixes in the indexes.
    """
    buckets = by_bucket(batch.changes)
    return [
        *_snapshots(buckets, settings, now(), spread=spread),
        *_refills(buckets.values(), settings, now()),
        *split_jobs(buckets, settings.stack, now),
        *merge_jobs(buckets, settings.stack, now),
    ]


def _snapshots(
    buckets: Mapping[BucketId, Sequence[BucketChange]], settings: Settings, now_ms: int, *, spread: bool
) -> Iterator[Job]:
    for bucket, changes in buckets.items():
        used = [change for change in changes if change.consumption]
        for window in WINDOW_SECONDS:
            for snapshot, counted in _by_snapshot(bucket, used, window).items():
                uses = [
                    Use(change.position.mark, change.consumption, change.at_ms, change.after.get(ACQUIRES, 0))
                    for change in counted
                ]
                # At least a whole day after its window: so long may the stream deliver a record again.
                expires_at = snapshot.expires_at(settings.usage_days(window))
                flow = count_usage(snapshot, bucket.shard, uses, expires_at=expires_at, now_ms=now_ms, spread=spread)
                yield Job("snapshots", flow, tuple(change.position.sequence for change in counted))


def _by_snapshot(
    bucket: BucketId, changes: Iterable[BucketChange], window: Window
) -> dict[SnapshotId, list[BucketChange]]:
    """Group the changes by their window."""
    grouped: dict[SnapshotId, list[BucketChange]] = {}
    for change in changes:
        grouped.setdefault(SnapshotId.of_bucket(bucket, window, change.at_ms), []).append(change)
    return grouped


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
