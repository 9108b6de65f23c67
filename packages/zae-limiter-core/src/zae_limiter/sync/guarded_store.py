"""A guarded store: each operation has a deadline, and a breaker spares a store that does not answer."""

import logging
import math
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from ..clock.system import Clock
from ..engines.engine import SyncStore
from ..engines.time_left import set_deadline
from ..flows.records.opening import PROBE
from ..operations.errors import BudgetSpent, ConditionFailed, StoreError
from ..operations.guard import Guard
from ..operations.health import Requests
from ..operations.values import Operation

R = TypeVar("R")
log = logging.getLogger(__name__)

THREAD_NAME: Final = "zae-limiter"  # of every thread that a driver starts


class GuardedStore(Guard):
    """One store, whose operations take at most ``operation_timeout`` seconds each. Threads may share it.

    While the breaker is open, a thread lets other threads send the probes, one each.
    """

    def __init__(self, store: SyncStore, *, operation_timeout: float, clock: Clock | None = None) -> None:
        super().__init__(operation_timeout=operation_timeout, clock=clock)
        self._store = store
        self._connects = store.capabilities.deadlines == "driver"
        self._lock = threading.Lock()
        self._has_prober = False
        self._probed = threading.Event()  # set at the end of the next probe

    def ask(self, operation: Operation[R], *, until: float = math.inf) -> R:
        """Return the store's answer within its deadline, or by ``until``. Raises ``StoreError``, at once while the
        store is known to be away.
        """
        if self.health.is_open:
            self._probe_in_background()
            kind = self.health.kind(operation)
            if self._has_to_wait(kind):
                self._wait_for_probe(kind, until)
            self.health.check(kind)
        return self._send(operation, until)

    def close(self) -> None:
        """Stop probing."""
        self._closed = True
        self._end_waiting()

    def forget(self) -> None:
        """Begin again in a child process, which has none of the parent's threads."""
        self._lock = threading.Lock()
        self._has_prober = False
        self._probed = threading.Event()
        self.health.reset()

    def _send(self, operation: Operation[R], until: float) -> R:
        begun = self._now()
        try:
            before = set_deadline(until)
            try:
                if self._connects:
                    self._store.connect()
                begun = self._now()
                set_deadline(min(until, time.monotonic() + self._operation_timeout))
                answer = self._store.perform(operation)
            finally:
                set_deadline(before)
        except StoreError as error:
            raise self._failed(error, operation, begun) from error.__cause__
        if self.health.is_open:
            self._probing.answered(self._now())
        self.health.served(operation)
        return answer

    def _wait_for_probe(self, kind: Requests, until: float) -> None:
        """Wait until a probe has ended. Raises ``BudgetSpent`` at the instant ``until``."""
        probed = self._probed
        while self._has_to_wait(kind):
            self._probe_in_background()
            left = until - time.monotonic()
            if left <= 0:
                raise BudgetSpent
            if self._has_prober:
                probed.wait(min(left, self._probing.patience(self._now()), threading.TIMEOUT_MAX))
            else:  # the interpreter ends, or has no more threads
                self._probe(self._note_probe(), until)
            probed = self._probed

    def _probe_in_background(self) -> None:
        with self._lock:
            self._note_outage()
            if self._has_prober or self._closed:
                return
            self._has_prober = True
        try:
            _begin_thread(_probe_until_answered, weakref.ref(self))
        except RuntimeError:  # the interpreter ends, or has no more threads: calls that have to wait send the probes
            self._has_prober = False
        except BaseException:  # a signal: the thread may have begun, or not
            self._has_prober = False
            raise

    def _until_probe(self) -> float | None:
        """Return the seconds until the next probe; ``None`` if there is none, and the prober ends."""
        with self._lock:
            self._has_prober = self.health.is_open and not self._closed
        return self._probing.until_due(self._now()) if self._has_prober else None

    def _begin_probe(self) -> None:
        """Send a probe; another one may hang."""
        begun = self._note_probe()
        try:
            _begin_thread(self._probe, begun)
        except RuntimeError:
            self._probe(begun)

    def _probe(self, begun: float, until: float = math.inf) -> None:
        try:
            for request in self.health.to_probe(PROBE):
                with suppress(ConditionFailed):
                    self._send(request, min(until, time.monotonic() + self._probing.longest))
        except Exception as error:  # noqa: BLE001 - a store may raise anything, and the breaker must not stay open
            log.debug("the store still does not answer: %r", error)
            self._probing.unanswered(begun, self._now())
        except BaseException:
            self._probing.cut_off(begun, self._now())
            raise
        finally:
            self._end_waiting()

    def _end_waiting(self) -> None:
        """Wake the calls that wait for the end of a probe."""
        probed, self._probed = self._probed, threading.Event()
        probed.set()


def _probe_until_answered(of: "weakref.ref[GuardedStore]") -> None:
    """Send probes until the store answers or the guarded store is garbage."""
    while (guarded := of()) is not None and (pause := guarded._until_probe()) is not None:
        if pause == 0:
            guarded._begin_probe()
        del guarded
        time.sleep(pause)


def _begin_thread(target: Callable[..., None], *args: object) -> None:
    """Start a thread. Raises ``RuntimeError`` if the interpreter ends, or has no more threads."""
    threading.Thread(target=target, args=args, daemon=True, name=THREAD_NAME).start()
