"""Collect the records that lists skip because they cannot be read, in whatever thread and repository of this process.

A list logs them once, with an error for each, which names the key. Programs that show lists take them from the log
record, so that no list has to return them and no program can forget one.
"""

import logging
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Final, Self

from ..operations.errors import Unreadable
from . import index_rows

MOST_KEPT: Final = 1000  # errors; a process that runs for months reads the same ones again and again


class Skipped(logging.Handler):
    """What lists skip while the block runs: an error for each record, and lines about rows of another namespace."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._errors: dict[tuple[object, ...], Unreadable] = {}
        self._lines: dict[str, None] = {}
        self._unnamed = 0

    def __enter__(self) -> Self:
        """Begin to collect."""
        logging.getLogger(index_rows.__name__).addHandler(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End."""
        logging.getLogger(index_rows.__name__).removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Take the errors of a log record."""
        self.add(getattr(record, "_unreadable", ()))
        self._unnamed += getattr(record, "_unnamed", 0)
        if getattr(record, "fields", {}).get("foreign_rows") and len(self._lines) < MOST_KEPT:
            self._lines[record.getMessage()] = None

    def add(self, errors: Iterable[Unreadable]) -> None:
        """Take errors, one for each record, such as those of another process."""
        for error in errors:
            key = error.args[:2]
            if len(self._errors) < MOST_KEPT or key in self._errors:
                self._errors[key] = error
            else:
                self._unnamed += 1

    def take_errors(self) -> Sequence[Unreadable]:
        """Return the errors since the last call, by key."""
        taken, self._errors = self._errors, {}
        return tuple(taken.values())

    def take_unnamed(self) -> int:
        """Return how many more records could not be read since the last call; one that was read twice counts twice."""
        taken, self._unnamed = self._unnamed, 0
        return taken

    def take_lines(self) -> Sequence[str]:
        """Return the lines about rows of another namespace since the last call."""
        taken, self._lines = self._lines, {}
        return tuple(taken)
