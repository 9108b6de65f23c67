"""The async store over a file of SQLite.

A thread of its own has the file: a commit may wait for the disk, and for other processes, and the event loop does not.
It begins with the first call, and ends when none has come for a while, so that an idle store keeps nothing.
"""

import asyncio
import os
import time
from _thread import start_new_thread
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any, Final, cast

from ...clock.system import Clock
from ...operations.errors import OutcomeUnknown, Unreachable
from ...operations.values import Operation, changes_nothing
from ...runtime import forks
from ...runtime.tasks import result_of
from ...runtime.threads import in_thread
from ...values.usage import KEPT_DAYS, Window
from ..engine import Store
from ..meter import Meter
from .file import PROBE_SECONDS, Call, OverFile, SQLiteFile

IDLE_SECONDS: Final = 5.0
GRACE_SECONDS: Final = 0.25  # in which the thread reports that a call was not applied


class _Awaited(Call):
    """A call, with the future that an event loop waits for, and the instant of ``time.monotonic`` by which it ends."""

    __slots__ = ("future", "loop", "until")

    def __init__(self, operation: Operation[Any], loop: asyncio.AbstractEventLoop, until: float) -> None:
        super().__init__(operation)
        self.loop = loop
        self.until = until
        self.future: asyncio.Future[None] = loop.create_future()


class SQLiteStore(OverFile, Store):
    """A table in a file, which processes and event loops of one host share. The first operation opens it, or makes it.

    An operation takes at most ``timeout`` seconds. ``clock`` is that of all processes of the host, by default;
    ``meter`` counts what the requests would cost on DynamoDB. ``usage_days``: the life of usage by its window, 0 for
    ever.
    """

    _deadlines = "engine"

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        timeout: float = 3.0,
        clock: Clock | None = None,
        meter: Meter | None = None,
        usage_days: Mapping[Window, int] = KEPT_DAYS,
    ) -> None:
        super().__init__(path, clock=clock, meter=meter, usage_days=usage_days)
        self._timeout = timeout
        self._worker = _Worker(self._file)

    async def perform(self, operation: Operation[Any]) -> Any:
        """Return the answer that ``operation`` promises, or raise a ``StoreError``."""
        loop = asyncio.get_running_loop()
        seconds = min(PROBE_SECONDS, self._timeout) if changes_nothing(operation) else self._timeout
        call = _Awaited(operation, loop, time.monotonic() + seconds)
        self._worker.enter(call)
        watch = loop.call_later(self._timeout + GRACE_SECONDS, _give_up, self._file, call)
        try:
            await call.future
        except asyncio.CancelledError:
            self._file.withdraw(call)
            raise
        finally:
            watch.cancel()
        return call.result()

    async def close(self) -> None:
        """Close the file; an operation after it is ``Closed``."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # as under trio, where no call was served: its error has the advice
            self._file.close()
        else:
            await result_of(in_thread(self._file.close))


class _Worker:
    """The thread that serves a file, while there are calls."""

    def __init__(self, file: SQLiteFile) -> None:
        self._file = file
        self._entered: SimpleQueue[None] = SimpleQueue()  # something for each call: it wakes the thread
        self._lock = Lock()
        self._runs = False
        forks.register(self)

    def forget(self) -> None:
        """Reset after a fork: the child has no such thread."""
        self._entered, self._lock, self._runs = SimpleQueue(), Lock(), False

    def enter(self, call: _Awaited) -> None:
        """Let a call wait for the thread."""
        self._file.waiting.append(call)
        self._entered.put(None)
        with self._lock:
            if self._runs:
                return
            self._runs = True
        try:
            start_new_thread(self._run, ())
        except RuntimeError:  # the interpreter ends, or has no more threads
            self._runs = False
            self._serve()

    def _run(self) -> None:
        while True:
            try:
                self._entered.get(timeout=IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if self._entered.empty():
                        self._runs = False
                        return
            self._serve()

    def _serve(self) -> None:
        file = self._file
        while waiting := cast("tuple[_Awaited, ...]", tuple(file.waiting)):
            until = min(call.until for call in waiting)
            try:
                with file.lock:
                    done = cast("Sequence[_Awaited]", file.serve(until))
            except Exception as error:  # noqa: BLE001 - the waiting caller raises it
                now = time.monotonic()
                failed = [call for call in waiting if (now < until or call.until <= now) and file.withdraw(call)]
                for call in failed:
                    call.settle(error)
                done = [call for call in waiting if call.done]
            for loop, calls in groupby(done, attrgetter("loop")):
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(_wake, list(calls))


def _wake(calls: Sequence[_Awaited]) -> None:
    for call in calls:
        if not call.future.done():
            call.future.set_result(None)


def _give_up(file: SQLiteFile, call: _Awaited) -> None:
    """End a call whose time is over while its thread hangs, as on a disk that does not answer."""
    problem = f"{file.path}: its disk does not answer in time"
    error = Unreachable(problem) if file.withdraw(call) else OutcomeUnknown(problem)
    if not call.done and not call.future.done():  # not `settle`: the thread may still do so
        call.future.set_exception(error)
    _wake([call])
