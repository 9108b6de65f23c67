"""A guarded store: each operation has a deadline, and a breaker spares a store that does not answer."""

import asyncio
import logging
import weakref
from collections.abc import Awaitable
from typing import TypeVar

from ..flows.records.opening import PROBE
from ..operations.errors import StoreError
from ..operations.health import FIRST_PAUSE, LONGEST_PAUSE, Health
from ..operations.values import Operation
from ..runtime.jitter import jittered
from .background import background_task, in_time
from .store import Store

R = TypeVar("R")
log = logging.getLogger(__name__)


class GuardedStore:
    """One store, whose operations take at most ``operation_timeout`` seconds each."""

    def __init__(self, store: Store, *, operation_timeout: float) -> None:
        self._store = store
        self._ends_in_time = getattr(store, "ends_in_time", False)
        self._connect = None if self._ends_in_time else getattr(store, "connect", None)
        self._operation_timeout = operation_timeout
        self._prober: asyncio.Task[None] | None = None
        self._closed = False
        self.health = Health()

    def ask(self, operation: Operation[R]) -> Awaitable[R]:
        """The store's answer in time, to be awaited. Raises ``StoreError``, at once while the breaker is open."""
        if self.health.is_open:
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

    def _probe_in_background(self) -> None:
        if not self._closed and (self._prober is None or self._prober.done()):
            self._prober = background_task(asyncio.get_running_loop(), _probe(weakref.ref(self)))

    async def _probe(self) -> bool:
        """Send one probe; whether to send another."""
        if self.health.is_open and not self._closed:
            self.health.probes += 1
            try:
                await self._send(PROBE)
            except StoreError as error:
                log.debug("the store still does not answer: %s", error)
        return self.health.is_open and not self._closed


async def _probe(of: "weakref.ref[GuardedStore]") -> None:
    """Send probes, one at a time, until the store answers or the guarded store is garbage."""
    pause, again = FIRST_PAUSE, True
    while again:
        await asyncio.sleep(jittered(pause))
        pause = min(2 * pause, LONGEST_PAUSE)
        guarded = of()
        again = guarded is not None and await guarded._probe()
        del guarded
