"""Write a function's log as Lambda writes it: lines with times, START, END and REPORT among them."""

import math
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from typing import Final

TAIL_BYTES: Final = 4096

_CAUGHT_UP: Final = b"\0caught up\0\n"


class FunctionLog:
    """A file that processes of a function share; each line begins with its time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()

    def write(self, line: str) -> None:
        """Append a line, with the current time."""
        with self._lock, self.path.open("a", encoding="utf-8") as file:
            file.write(f"{iso_now()} {line}\n")


class CallLog:
    """The lines of one call in the function's log."""

    def __init__(self, log: FunctionLog) -> None:
        self._log = log
        self._lines: list[str] = []

    def write(self, line: str) -> None:
        """Append a line of the call."""
        self._lines.append(line)
        self._log.write(line)

    def tail(self) -> bytes:
        """Return the last 4 KB, as Lambda's LogResult has them."""
        return "\n".join([*self._lines, ""]).encode()[-TAIL_BYTES:]


class Output:
    """Takes what processes write to ``fd``, line by line."""

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take = take
        self._caught_up: SimpleQueue[None] = SimpleQueue()
        self._source, self.fd = os.pipe()
        self._open = [self.fd]
        threading.Thread(target=self._read, daemon=True).start()

    def catch_up(self) -> None:
        """Wait until everything that was written so far has been taken."""
        os.write(self.fd, _CAUGHT_UP)
        self._caught_up.get()

    def close(self) -> None:
        """Take what processes are still writing; write nothing. A second call does nothing."""
        with suppress(IndexError):
            os.close(self._open.pop())

    def _read(self) -> None:
        with os.fdopen(self._source, "rb") as source:
            for raw in source:
                line, mark, _ = raw.partition(_CAUGHT_UP)
                if line or not mark:
                    self._take_lines(line.decode(errors="replace").rstrip("\n"))
                if mark:
                    self._caught_up.put(None)

    def _take_lines(self, text: str) -> None:
        for line in text.split("\r"):  # Lambda's runtime writes a traceback as one record
            self._take(line)


def iso_now() -> str:
    """Return the current time as Lambda's logs have it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Report:
    """The figures in the line that ends a call's log; ``None`` for one that is unknown."""

    duration_ms: float
    memory_mb: int
    used_mb: int | None
    init_ms: float | None

    def line(self, request_id: str, status: str | None) -> str:
        """Return the line, as Lambda writes it."""
        parts = [
            f"REPORT RequestId: {request_id}",
            f"Duration: {self.duration_ms:.2f} ms",
            f"Billed Duration: {math.ceil(self.duration_ms)} ms",
            f"Memory Size: {self.memory_mb} MB",
        ]
        if self.used_mb is not None:
            parts.append(f"Max Memory Used: {self.used_mb} MB")
        if self.init_ms is not None:
            parts.append(f"Init Duration: {self.init_ms:.2f} ms")
        if status is not None:
            parts.append(f"Status: {status}")
        return "\t".join(parts)
