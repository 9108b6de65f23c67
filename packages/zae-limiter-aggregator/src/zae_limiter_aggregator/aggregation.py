"""Process one batch, from its records to its result.

Never here: Lambda's protocol (handler), the form of the metrics (telemetry).
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic

from zae_limiter import Clock
from zae_limiter.maintenance import StoreError, SyncDriver, purged_namespaces

from .archive import PutObject, archive_event
from .batch import Batch, Failure, read_batch
from .batch_jobs import jobs_of
from .jobs import Kind
from .parallel import WRITERS, Task, TaskResult, run_all
from .records import Record
from .settings import Settings

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The counts of a batch. The stream has to be delivered again from the first of the ``failures`` on.

    ``splits`` counts the shards that were split. ``dropped`` counts the refills and splits that failed; a later batch
    repeats them.
    """

    records: int
    snapshots: int
    refills: int
    splits: int
    archived: int
    failures: tuple[Failure, ...]
    dropped: int
    duration_ms: int


class Aggregator:
    """Processes batches of one table's stream. The first expired event calls ``open_archive``."""

    def __init__(
        self,
        driver: SyncDriver,
        settings: Settings,
        *,
        clock: Clock,
        open_archive: Callable[[], PutObject],
        writers: int = WRITERS,
    ) -> None:
        self._driver = driver
        self._clock = clock
        self._settings = settings
        self._open_archive = open_archive
        self._writers = writers
        self._put: PutObject | None = None

    def process(self, records: Sequence[Record]) -> BatchResult:
        """Count the usage of a batch, move old anchors, split hot shards and archive expired events."""
        begun = monotonic()
        batch, deferred = self._without_purged(read_batch(records))
        results = run_all([*self._table_tasks(batch), *self._archive_tasks(batch)], writers=self._writers)
        failed = [
            Failure(each.task.retry_from, each.problem) for each in results if each.task.retry_from and each.problem
        ]
        return BatchResult(
            records=batch.size,
            snapshots=_changed(results, "snapshots"),
            refills=_changed(results, "refills"),
            splits=_changed(results, "splits"),
            archived=_changed(results, "archived"),
            failures=(*batch.unreadable, *deferred, *failed),
            dropped=sum(bool(each.problem) and each.task.retry_from is None for each in results),
            duration_ms=round((monotonic() - begun) * 1000),
        )

    def _without_purged(self, batch: Batch) -> tuple[Batch, Sequence[Failure]]:
        """The batch without purged namespaces, because later writes to them would remain.

        If the table cannot tell which ones are purged, all changes have to come again.
        """
        try:
            return batch.without(self._driver.run(purged_namespaces(batch.namespaces))), ()
        except StoreError as error:
            log.warning("the namespaces of the batch could not be read", exc_info=error)
            return batch.without(batch.namespaces), [Failure(batch.changes[0].position.sequence, str(error))]

    def _table_tasks(self, batch: Batch) -> list[Task]:
        jobs = jobs_of(batch, self._settings, self._clock.now_ms)
        return [Task(job.kind, partial(self._driver.run, job.flow), job.retry_from) for job in jobs]

    def _archive_tasks(self, batch: Batch) -> list[Task]:
        if not (batch.expired and self._settings.archive_bucket):
            return []
        self._put = put = self._put or self._open_archive()  # opened here, not in a thread, so that it is opened once
        return [
            Task("archived", partial(archive_event, put, self._settings, each), each.position.sequence)
            for each in batch.expired
        ]


def _changed(results: Sequence[TaskResult], kind: Kind) -> int:
    return sum(each.changed for each in results if each.task.kind == kind)
