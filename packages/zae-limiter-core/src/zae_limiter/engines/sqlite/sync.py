"""The blocking store over a file of SQLite.

The thread that has the lock serves all calls that wait, its own among them. The others wait for the lock, each for its
own time, and find their call done. A thread of its own for the file would cost a caller two switches of threads.

A signal handler may raise between any two calls, so also when the lock has just been acquired. The lock knows its
thread, which therefore releases it in every case, and does so before any other call.
"""

import threading
import time
from typing import Any

from ...operations.errors import OutcomeUnknown, Unreachable
from ...operations.values import Operation, changes_nothing
from ..engine import SyncStore
from ..time_left import time_left
from .file import PROBE_SECONDS, Call, OverFile


class SyncSQLiteStore(OverFile, SyncStore):
    """A table in a file, which processes and threads of one host share. The first operation opens it, or makes it.

    ``clock`` is that of all processes of the host, by default; ``meter`` counts what the requests would cost on
    DynamoDB. ``usage_days``: the life of usage by its window, 0 for ever.
    """

    def perform(self, operation: Operation[Any]) -> Any:
        """Return the answer that ``operation`` promises, or raise a ``StoreError``."""
        call = Call(operation)
        is_probe = changes_nothing(operation)
        seconds = min(PROBE_SECONDS, time_left()) if is_probe else time_left()
        file, until, thread = self._file, time.monotonic() + seconds, threading.get_ident()
        if file.server == thread:
            raise Unreachable(f"{self.path}: a call of this thread uses it, which a signal interrupted")
        lock = file.lock
        try:
            if not is_probe:  # it enters below: a thread that reads must not wait for the write lock on its behalf
                file.waiting.append(call)
            try:
                if not lock.acquire(timeout=min(max(seconds, 0.0), threading.TIMEOUT_MAX)):
                    problem = f"{self.path}: other threads of this process use it for too long"
                    raise Unreachable(problem) if file.withdraw(call) else OutcomeUnknown(problem)
                file.server = thread
                while not call.outcome:
                    if call not in file.waiting:  # or a signal came just as another thread took it
                        file.waiting.append(call)
                    file.serve(until)
            finally:
                if file.server == thread:
                    file.server = None
                try:  # noqa: SIM105 - a signal in the call of ``suppress`` would leave the lock held
                    lock.release()
                except RuntimeError:  # it was not acquired
                    pass
        except BaseException:
            file.withdraw(call)
            raise
        return call.result()

    def close(self) -> None:
        """Close the file; an operation after it is ``Closed``."""
        self._file.close()
