"""Process one batch, from its records to its result.

``handler`` speaks Lambda's protocol, ``telemetry`` has the form of the metrics.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from typing import Final

from zae_limiter.maintenance import ACQUIRES, REFUSED, UNCOUNTED, Known, StoreError, Upkeep, look_up

from .alerts import Alerts, PutEvents, TellingResult, open_bus
from .archive import PutObject, archive_event
from .batch import Batch, Failure, read_batch
from .batch_jobs import upkeep_jobs, usage_jobs
from .dead_letters import DeadLetter, SendMessage, dead_letters, letter_of_held, open_queue, send_letter
from .held import PendingUse, TumblingWindow, pending_uses
from .jobs import Job, Kind
from .parallel import WRITERS, Task, TaskResult, run_all
from .problems import OF_CONTENTS, places_of, problem_of
from .records import Record, sequence_of
from .settings import Settings
from .trace import pages_of, trace_tasks

DELETED: Final = "an audit event was deleted, neither by TTL nor by a purge: the stream has it in OldImage"
NO_WINDOW: Final = TumblingWindow(ends=True)
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The counts of a batch. The stream has to be delivered again from the first of the ``failures`` on.

    ``dead_letters`` are the records that can never be processed, and are in the dead-letter queue now. ``splits``
    counts the shards that were split, ``merges`` those that have gone because a bucket is quiet. ``admitted``,
    ``refused`` and ``uncounted`` count acquires, the last ones those that an outage let through. ``alerts`` counts the
    thresholds that were reported, ``alerts_failed`` what failed of that, which holds nothing up. ``dropped`` counts the
    re-anchorings, splits and merges that failed, which a later batch repeats, and the objects of traces, which nothing
    repeats. ``traced`` counts the writes that were kept.
    ``window`` has the usage that waits in the state of Lambda's window.
    """

    records: int
    snapshots: int
    refills: int
    splits: int
    archived: int
    failures: tuple[Failure, ...]
    dead_letters: tuple[DeadLetter, ...]
    dropped: int
    duration_ms: int
    admitted: int = 0
    refused: int = 0
    uncounted: int = 0
    alerts: int = 0
    alerts_failed: int = 0
    traced: int = 0
    merges: int = 0
    window: TumblingWindow = NO_WINDOW


class HeldUsageError(Exception):
    """A window ends, and usage in its state could not be written: Lambda has to end the window again."""


class Aggregator:
    """Processes batches of one table's stream. The first expired event, or write of a trace, calls ``open_archive``.

    The first record that can never be processed calls ``open_queue``, the first crossing of a threshold ``open_bus``.
    """

    def __init__(
        self,
        upkeep: Upkeep,
        settings: Settings,
        *,
        open_archive: Callable[[], PutObject],
        open_queue: Callable[[], SendMessage] = open_queue,
        open_bus: Callable[[], PutEvents] = open_bus,
        writers: int = WRITERS,
    ) -> None:
        self._upkeep = upkeep
        self._settings = settings
        self._open_archive = open_archive
        self._writers = writers
        self._open_queue = open_queue
        self._alerts = Alerts(upkeep, settings.alert_bus, open_bus) if settings.alert_bus else None
        self._put: PutObject | None = None
        self._send: SendMessage | None = None

    def process(self, records: Sequence[Record], window: TumblingWindow = NO_WINDOW) -> BatchResult:
        """Count the usage of a batch, move old anchors, split and merge shards, archive events, report
        thresholds.

        The usage of a busy stream may wait in the state of the ``window``, which the result has; nothing else waits.
        Raises ``HeldUsageError`` if the window ends and usage in its state cannot be written.

        Contents that no step foresaw fail the whole batch, and the mapping, which never gives up, sends it in halves.
        What is left of them is one record, which goes to the dead-letter queue: else it would hold up the stream for
        a day. Any other error, such as that of a table that is away, comes again until it ends.
        """
        try:
            return self._process(records, window)
        except OF_CONTENTS as error:
            if len(records) != 1:
                raise
            after = self._process((), window).window  # which raises if it is not the record
            problem = problem_of(error)
            log.warning(
                "a record cannot be processed", extra={"fields": {"problem": problem, "places": places_of(error)}}
            )
            letters, unsent = self._give_up(records, [Failure(sequence_of(records[0]), problem)], ())
            return BatchResult(1, 0, 0, 0, 0, tuple(unsent), tuple(letters), dropped=0, duration_ms=0, window=after)

    def _process(self, records: Sequence[Record], window: TumblingWindow) -> BatchResult:
        begun = monotonic()
        read = read_batch(records)
        waits = window.holds(read.changes, read.size)
        held = [] if waits else window.held()
        known, problem = self._look_up(read.namespaces | {each.bucket.namespace_id for each in held})
        batch = read.without(known.purged)
        after = window.with_uses(pending_uses(batch.changes)) if waits else window
        if waits and after.is_full:
            return self._process(records, replace(window, may_wait=False))
        counting = [] if waits else self._usage_tasks(held, batch, known)
        others = [*self._upkeep_tasks(batch), *self._archive_tasks(batch), *self._trace_tasks(batch, known)]
        results = run_all([*counting, *others], writers=self._writers)
        deferred = [Failure(sequence, problem) for sequence in read.first_in_namespaces] if problem else []
        failures = [*deferred, *_failures(each for each in results if not each.hopeless)]
        deleted = [Failure(each.position.sequence, DELETED) for each in batch.deleted]
        hopeless = [*batch.unreadable, *deleted, *_failures(each for each in results if each.hopeless)]
        letters, unsent = self._give_up(records, hopeless, failures, _letters_of_held(results))
        if waits and (failures or unsent):
            # Lambda does not say which state the rest of a batch comes with: that of before lacks what this one adds.
            return self._process(records, replace(window, may_wait=False))
        if not waits and not problem:
            left = [use for each in results if each.problem and not each.hopeless for use in each.task.held]
            after = replace(window, texts=()).with_uses(left)
        telling = self._alerts.tell(batch.changes, spread=known.spread) if self._alerts else TellingResult()
        if after.ends and after.texts:
            told = problem or next(each.problem for each in results if each.problem and each.task.held)
            raise HeldUsageError(f"usage that the window held could not be written: {told}")
        return BatchResult(
            records=batch.size,
            snapshots=_changed(results, "snapshots"),
            refills=_changed(results, "refills"),
            splits=_changed(results, "splits"),
            archived=_changed(results, "archived"),
            failures=(*failures, *unsent),
            dead_letters=tuple(letters),
            dropped=sum(bool(each.problem) and not (each.task.records or each.task.held) for each in results),
            duration_ms=round((monotonic() - begun) * 1000),
            admitted=_acquires(batch, ACQUIRES),
            refused=_acquires(batch, REFUSED),
            uncounted=_acquires(batch, UNCOUNTED),
            alerts=telling.told,
            alerts_failed=telling.failed,
            traced=_changed(results, "traced"),
            merges=_changed(results, "merges"),
            window=after,
        )

    def _give_up(
        self,
        records: Sequence[Record],
        hopeless: Sequence[Failure],
        failures: Sequence[Failure],
        held: Sequence[DeadLetter] = (),
    ) -> tuple[list[DeadLetter], Sequence[Failure]]:
        """Send the hopeless records to the dead-letter queue. Those that could not be sent have to come again.

        ``held`` are uses that the window held, which no record brings again: if they cannot be sent, the log has them.
        """
        if not self._settings.dead_letters_url:
            return list(held), list({each.sequence: each for each in hopeless}.values())
        letters = dead_letters(records, hopeless, failures)
        sent = self._send_all([*letters, *held])
        unsent = [
            Failure(letter.sequence, f"{letter.problem}; the dead-letter queue did not take it: {each.problem}")
            for letter, each in zip(letters, sent[: len(letters)], strict=True)
            if each.problem
        ]
        lost = {each.sequence for each in unsent}
        return [*(each for each in letters if each.sequence not in lost), *held], unsent

    def _send_all(self, letters: Sequence[DeadLetter]) -> list[TaskResult]:
        if not letters:
            return []
        self._send = send = self._send or self._open_queue()
        tasks = [
            Task("dead_letters", partial(send_letter, send, self._settings, each), (each.sequence,)) for each in letters
        ]
        return run_all(tasks, writers=self._writers)

    def _look_up(self, namespaces: set[str]) -> tuple[Known, str | None]:
        """Return what is known of namespaces: later writes to purged ones would remain, and a purge deletes audit
        events.

        If the table does not answer, all count as purged, and the problem is returned: their changes and deletes have
        to come again, and what the window holds of them has to stay there.
        """
        try:
            return self._upkeep.run(look_up(namespaces)), None
        except StoreError as error:
            problem = problem_of(error)
            log.warning("the namespaces of the batch could not be read", extra={"fields": {"problem": problem}})
            return Known(namespaces, {}), problem

    def _usage_tasks(self, held: Sequence[PendingUse], batch: Batch, known: Known) -> list[Task]:
        before = [each for each in held if each.bucket.namespace_id not in known.purged]
        now_ms, fresh = self._upkeep.clock.now_ms(), pending_uses(batch.changes)
        return self._table_tasks(usage_jobs(before, fresh, self._settings, now_ms, spread=known.spread))

    def _upkeep_tasks(self, batch: Batch) -> list[Task]:
        return self._table_tasks(upkeep_jobs(batch, self._settings, self._upkeep.clock.now_ms))

    def _table_tasks(self, jobs: Iterable[Job]) -> list[Task]:
        return [Task(job.kind, partial(self._upkeep.run, job.flow), job.records, job.held) for job in jobs]

    def _archive_tasks(self, batch: Batch) -> list[Task]:
        if not (batch.expired and self._settings.archive_bucket):
            return []
        put = self._archive()
        return [
            Task("archived", partial(archive_event, put, self._settings, each), (each.position.sequence,))
            for each in batch.expired
        ]

    def _trace_tasks(self, batch: Batch, known: Known) -> list[Task]:
        bucket = self._settings.archive_bucket
        pages = pages_of(batch.changes, known.traced) if known.traced and bucket else []
        return trace_tasks(self._archive(), bucket, pages) if pages and bucket else []

    def _archive(self) -> PutObject:
        """Return what puts an object; it is opened here, not in a thread, so that it is opened once."""
        self._put = put = self._put or self._open_archive()
        return put


def _failures(results: Iterable[TaskResult]) -> list[Failure]:
    """Return the records of failed tasks: all of a hopeless task; the first of any other, from which the stream comes
    again.
    """
    return [
        Failure(sequence, each.problem)
        for each in results
        if each.problem
        for sequence in (each.task.records if each.hopeless else each.task.records[:1])
    ]


def _letters_of_held(results: Iterable[TaskResult]) -> list[DeadLetter]:
    """Return the uses of hopeless tasks that the window held, once each."""
    letters = {
        use.sequence: letter_of_held(use, each.problem or "")
        for each in results
        if each.hopeless
        for use in each.task.held
    }
    return list(letters.values())


def _acquires(batch: Batch, counter: str) -> int:
    return sum(each.consumption.acquires.get(counter, 0) for each in batch.changes)


def _changed(results: Sequence[TaskResult], kind: Kind) -> int:
    return sum(each.changed for each in results if each.task.kind == kind)
