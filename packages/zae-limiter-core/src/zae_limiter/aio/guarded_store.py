"""A guarded store: each operation has a deadline, and a breaker spares a store that does not answer."""

import asyncio
import logging
import math
import time
import weakref
from collections.abc import Awaitable
from typing import TypeVar

from ..flows.records.opening import PROBE
from ..operations.errors import StoreError
from ..operations.health import FIRST_PAUSE, LONGEST_PAUSE, Health
from ..operations.values import Operation
from ..runtime.jitter import jittered
from .background import background_task, discard, in_time
from .store import Store

R = TypeVar("R")
log = logging.getLogger(__name__)


class GuardedStore:
    """One store, whose operations take at most ``operation_timeout`` seconds each.

    While the breaker is open, a task sends the probes. It ends with its event loop. If a probe is overdue when the next
    loop begins, a caller's operation is the probe: a loop that lasts for one short job would never send another one.
    """

    def __init__(self, store: Store, *, operation_timeout: float) -> None:
        self._store = store
        self._ends_in_time = getattr(store, "ends_in_time", False)
        self._connect = None if self._ends_in_time else getattr(store, "connect", None)
        self._operation_timeout = operation_timeout
        self._prober: asyncio.Task[None] | None = None
        self._closed = False
        self.health = Health()
        self._begin_outage()

    def ask(self, operation: Operation[R]) -> Awaitable[R]:
        """The store's answer in time, to be awaited. Raises ``StoreError``, at once while the breaker is open."""
        if self.health.is_open:
            if self._outage != self.health.outages:
                self._begin_outage()
            if time.monotonic() >= self._due and not self._is_probing():
                return self._send_as_probe(operation)
            self._probe_in_background()
            self.health.check()
        return self._send(operation)

    def close(self) -> None:
        """Stop probing."""
        self._closed = True
        if self._prober is not None:
            self._prober.cancel()

    def leave_loop(self) -> None:
        """Move to another event loop: the probing task ended with the former one."""
        if self._prober is not None:
            discard(self._prober)
        self._prober = None

    def forget(self) -> None:
        """Begin again in a child process, which has none of the parent's tasks."""
        self._prober = None
        self.health.reset()

    async def _send(self, operation: Operation[R]) -> R:
        try:
            if self._ends_in_time:
                answer = await self._store.perform(operation)
            else:
                if self._connect is not None:
                    await self._connect()
                answer = await in_time(self._store.perform(operation), self._operation_timeout)
        except StoreError as error:
            raise self.health.failed(error) from error.__cause__
        self.health.served()
        return answer

    async def _send_as_probe(self, operation: Operation[R]) -> R:
        """Send a caller's operation. The next probe follows after as long a time at least: other calls fail at once."""
        begun, self._due = time.monotonic(), math.inf
        self.health.probes += 1
        try:
            return await self._send(operation)
        finally:
            now = time.monotonic()
            self._delay()
            self._due = max(self._due, now + (now - begun))

    def _begin_outage(self) -> None:
        """Begin again with the pauses. ``_due``: the next probe's instant of ``time.monotonic``, infinite at first."""
        self._outage, self._pause, self._due = self.health.outages, FIRST_PAUSE, math.inf

    def _is_probing(self) -> bool:
        return self._prober is not None and not self._prober.done()

    def _probe_in_background(self) -> None:
        if not self._closed and not self._is_probing():
            if self._due == math.inf:
                self._delay()
            self._prober = background_task(asyncio.get_running_loop(), _probe(weakref.ref(self), self._due))

    def _delay(self) -> None:
        """Set the time of the next probe."""
        self._due = time.monotonic() + jittered(self._pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    async def _probe(self) -> float | None:
        """Send one probe; the instant of the next one, ``None`` if there is none."""
        if self.health.is_open and not self._closed:
            self.health.probes += 1
            try:
                await self._send(PROBE)
            except Exception as error:  # noqa: BLE001 - a store may raise anything, and the breaker must not stay open
                log.debug("the store still does not answer: %r", error)
            self._delay()
        return self._due if self.health.is_open and not self._closed else None


async def _probe(of: "weakref.ref[GuardedStore]", due: float | None) -> None:
    """Send probes, one at a time, until the store answers or the guarded store is garbage."""
    while due is not None:
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        guarded = of()
        due = None if guarded is None else await guarded._probe()
        del guarded
