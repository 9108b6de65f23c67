"""Everything that a batch asks for, at once.

Lives here: threads, and what became of each part. Never: what the parts are (jobs, archive).
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from .jobs import Kind

WRITERS: Final = 32  # a thread waits for its answer nearly all the time; the store has connections for as many

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Task:
    """One part. ``first`` is the earliest record that comes again where it fails, ``None`` where none has to."""

    kind: Kind
    run: Callable[[], int]
    first: str | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a part: how much it changed, or why it failed."""

    task: Task
    changed: int = 0
    problem: str | None = None


def run_all(tasks: Sequence[Task], *, writers: int = WRITERS) -> list[Done]:
    """All parts, in parallel; one that fails leaves the others alone."""
    if not tasks:
        return []
    with ThreadPoolExecutor(min(writers, len(tasks))) as threads:
        return list(threads.map(_attempt, tasks))


def _attempt(task: Task) -> Done:
    try:
        return Done(task, task.run())
    except Exception as error:  # it is told, and the records come again
        log.warning("a part of the batch failed: %s", task.kind, exc_info=error)
        return Done(task, problem=f"{type(error).__name__}: {error}")
