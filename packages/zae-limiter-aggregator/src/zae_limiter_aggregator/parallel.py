"""Run the tasks of a batch in parallel threads."""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from zae_limiter.maintenance import StoreError, is_invalid

from .held import PendingUse
from .jobs import Kind
from .problems import OF_CONTENTS, places_of, problem_of

WRITERS: Final = 32  # a thread waits nearly all the time; the store has as many connections

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Task:
    """One task. If it fails, ``records`` come again, earliest first, and ``held`` stays in the state of the window.

    Without both it may be dropped.
    """

    kind: Kind
    run: Callable[[], int]
    records: tuple[str, ...] = ()
    held: tuple[PendingUse, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of a task: the number of changes, or the problem; ``hopeless`` if no repeat can succeed."""

    task: Task
    changed: int = 0
    problem: str | None = None
    hopeless: bool = False


def run_all(tasks: Sequence[Task], *, writers: int = WRITERS) -> list[TaskResult]:
    """Run all tasks in parallel; a failed task does not stop the others."""
    if not tasks:
        return []
    with ThreadPoolExecutor(min(writers, len(tasks))) as threads:
        return list(threads.map(_attempt, tasks))


def _attempt(task: Task) -> TaskResult:
    try:
        return TaskResult(task, task.run())
    except Exception as error:  # noqa: BLE001  it is reported, and the records come again
        problem = problem_of(error)
        fields = {"problem": problem, "places": places_of(error)}
        log.warning("a task of the batch failed: %s", task.kind, extra={"fields": fields})
        return TaskResult(task, problem=problem, hopeless=_is_hopeless(error))


def _is_hopeless(error: Exception) -> bool:
    """Return whether the contents of the records, or of the item that they change, are the cause."""
    return is_invalid(error) if isinstance(error, StoreError) else isinstance(error, OF_CONTENTS)
