"""A guarded store: each operation has a deadline, and a breaker spares a store that does not answer."""

import logging
import math
import threading
import time
import weakref
from typing import Final, TypeVar

from ..flows.records.opening import PROBE
from ..operations.errors import StoreError
from ..operations.health import FIRST_PAUSE, LONGEST_PAUSE, Health
from ..operations.values import Operation
from ..runtime.jitter import jittered
from .store import SyncStore
from .time_left import set_deadline

R = TypeVar("R")

THREAD_NAME: Final = "zae-limiter"  # of every thread that a driver starts

log = logging.getLogger(__name__)


class GuardedStore:
    """One store, whose operations take at most ``operation_timeout`` seconds each. Threads may share it."""

    def __init__(self, store: SyncStore, *, operation_timeout: float) -> None:
        self._store = store
        self._connect = getattr(store, "connect", None)
        self._operation_timeout = operation_timeout
        self._lock = threading.Lock()
        self._probing = False
        self._closed = False
        self.health = Health()

    def ask(self, operation: Operation[R], *, until: float = math.inf) -> R:
        """The store's answer in time, or by ``until``. Raises ``StoreError``, at once while the breaker is open."""
        if self.health.is_open:
            self._probe_in_background()
            self.health.check()
        return self._send(operation, until)

    def close(self) -> None:
        """Stop probing."""
        self._closed = True

    def forget(self) -> None:
        """Begin again in a child process, which has none of the parent's threads."""
        self._lock = threading.Lock()
        self._probing = False
        self.health.reset()

    def _send(self, operation: Operation[R], until: float) -> R:
        try:
            before = set_deadline(until)
            try:
                if self._connect is not None:
                    self._connect()
                set_deadline(min(until, time.monotonic() + self._operation_timeout))
                answer = self._store.perform(operation)
            finally:
                set_deadline(before)
        except StoreError as error:
            raise self.health.failed(error) from error.__cause__
        self.health.served()
        return answer

    def _probe_in_background(self) -> None:
        with self._lock:
            if self._probing or self._closed:
                return
            self._probing = True
        try:
            threading.Thread(target=_probe, args=(weakref.ref(self),), daemon=True, name=THREAD_NAME).start()
        except RuntimeError:  # the interpreter ends, or has no more threads
            self._probing = False

    def _probe(self) -> bool:
        """Send one probe; whether to send another."""
        if self.health.is_open and not self._closed:
            self.health.probes += 1
            try:
                self._send(PROBE, math.inf)
            except Exception as error:  # noqa: BLE001 - a store may raise anything, and the breaker must not stay open
                log.debug("the store still does not answer: %r", error)
        self._probing = self.health.is_open and not self._closed
        return self._probing


def _probe(of: "weakref.ref[GuardedStore]") -> None:
    """Send probes, one at a time, until the store answers or the guarded store is garbage."""
    pause, again = FIRST_PAUSE, True
    while again:
        time.sleep(jittered(pause))
        pause = min(2 * pause, LONGEST_PAUSE)
        guarded = of()
        again = guarded is not None and guarded._probe()
        del guarded
