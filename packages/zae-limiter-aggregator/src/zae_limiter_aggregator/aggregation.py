"""One batch, from its records to what came of it.

Lives here: reading, doing, and the account of both. Never: Lambda's words (handler), how it is told (telemetry).
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic

from zae_limiter import Clock
from zae_limiter.maintenance import StoreError, SyncDriver, purged_namespaces

from .archive import Put, keep
from .batch import Batch, Failure, read_batch
from .jobs import Kind
from .records import Record
from .running import WRITERS, Done, Task, run_all
from .settings import Settings
from .work import jobs_of

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Account:
    """What came of a batch. The stream is to come again from the first of the ``failures`` on.

    ``splits``: how many shards were split. ``dropped``: refills and splits that failed; a later batch does as well.
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
    """Takes batches of one table's stream. ``open_archive`` is called for the first event that is to be kept."""

    def __init__(
        self,
        driver: SyncDriver,
        settings: Settings,
        *,
        clock: Clock,
        open_archive: Callable[[], Put],
        writers: int = WRITERS,
    ) -> None:
        self._driver = driver
        self._clock = clock
        self._settings = settings
        self._open_archive = open_archive
        self._writers = writers
        self._put: Put | None = None

    def take(self, records: Sequence[Record]) -> Account:
        """Count the usage of a batch, and do what else it asks for."""
        begun = monotonic()
        batch, put_off = self._without_purged(read_batch(records))
        done = run_all([*self._table_tasks(batch), *self._archive_tasks(batch)], writers=self._writers)
        failed = [Failure(each.task.first, each.problem) for each in done if each.task.first and each.problem]
        return Account(
            records=batch.size,
            snapshots=_changed(done, "snapshots"),
            refills=_changed(done, "refills"),
            splits=_changed(done, "splits"),
            archived=_changed(done, "archived"),
            failures=(*batch.unreadable, *put_off, *failed),
            dropped=sum(bool(each.problem) and each.task.first is None for each in done),
            duration_ms=round((monotonic() - begun) * 1000),
        )

    def _without_purged(self, batch: Batch) -> tuple[Batch, Sequence[Failure]]:
        """The batch without namespaces that are purged: what is written to one stays behind.

        Where the table does not tell, all changes are to come again.
        """
        try:
            return batch.without(self._driver.run(purged_namespaces(batch.namespaces))), ()
        except StoreError as error:
            log.warning("the namespaces of the batch could not be read", exc_info=error)
            return batch.without(batch.namespaces), [Failure(batch.changes[0].position.sequence, str(error))]

    def _table_tasks(self, batch: Batch) -> list[Task]:
        jobs = jobs_of(batch, self._settings, self._clock.now_ms)
        return [Task(job.kind, partial(self._driver.run, job.flow), job.first) for job in jobs]

    def _archive_tasks(self, batch: Batch) -> list[Task]:
        if not (batch.expired and self._settings.archive_bucket):
            return []
        self._put = put = self._put or self._open_archive()  # here, not in a thread: it is opened once
        return [
            Task("archived", partial(keep, put, self._settings, each), each.position.sequence) for each in batch.expired
        ]


def _changed(done: Sequence[Done], kind: Kind) -> int:
    return sum(each.changed for each in done if each.task.kind == kind)
