"""Run the tasks of a batch in parallel threads."""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from .jobs import Kind

WRITERS: Final = 32  # a thread waits nearly all the time; the store has as many connections

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Task:
    """One task. ``retry_from`` is the earliest record that comes again if it fails; ``None`` if none has to."""

    kind: Kind
    run: Callable[[], int]
    retry_from: str | None = None


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of a task: the number of changes, or the problem."""

    task: Task
    changed: int = 0
    problem: str | None = None


def run_all(tasks: Sequence[Task], *, writers: int = WRITERS) -> list[TaskResult]:
    """Run all tasks in parallel; a failed task does not stop the others."""
    if not tasks:
        return []
    with ThreadPoolExecutor(min(writers, len(tasks))) as threads:
        return list(threads.map(_attempt, tasks))


def _attempt(task: Task) -> TaskResult:
    try:
        return TaskResult(task, task.run())
    except Exception as error:  # it is reported, and the records come again
        log.warning("a task of the batch failed: %s", task.kind, exc_info=error)
        return TaskResult(task, problem=f"{type(error).__name__}: {error}")
