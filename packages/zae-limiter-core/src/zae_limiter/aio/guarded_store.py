"""A guarded store: each operation has a deadline, and a breaker spares a store that does not answer."""

import asyncio
import logging
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from ..clock.system import Clock
from ..engines.engine import Store
from ..engines.in_time import in_time
from ..flows.records.opening import PROBE
from ..operations.errors import ConditionFailed, StoreError
from ..operations.guard import Guard
from ..operations.health import Requests
from ..operations.values import Operation
from ..runtime.tasks import background_task, discard

R = TypeVar("R")
Done = Callable[[Any, Exception | None], None]
log = logging.getLogger(__name__)


class GuardedStore(Guard):
    """One store, whose operations take at most ``operation_timeout`` seconds each.

    While the breaker is open, a task has the probes sent. It ends with its event loop; the next operation on another
    loop begins a new one.
    """

    def __init__(self, store: Store, *, operation_timeout: float, clock: Clock | None = None) -> None:
        super().__init__(operation_timeout=operation_timeout, clock=clock)
        self._store = store
        self._deadlines = store.capabilities.deadlines
        self._prober: asyncio.Task[None] | None = None
        self._probes: set[asyncio.Task[None]] = set()  # under way
        self._probed: asyncio.Event | None = None  # set at the end of the next probe, if callers wait for it

    def ask(self, operation: Operation[R]) -> Awaitable[R]:
        """Return an awaitable for the store's answer within its deadline. Raises ``StoreError``, at once while the
        store is known to be away.
        """
        if self.health.is_open:
            self._probe_in_background()
            kind = self.health.kind(operation)
            if self._has_to_wait(kind):
                return self._send_after_probe(operation, kind)
            self.health.check(kind)
        return self._send(operation)

    def start(self, operation: Operation[Any], done: Done) -> bool:
        """Send an operation without a task, if the store can; then ``done`` is called with its answer or its error.
        ``False`` if it waits for something, or while the store is known to be away: ``ask`` then.
        """
        if self.health.is_open or self._deadlines == "driver":
            return False
        return self._store.start(operation, partial(self._answered, operation, self._now(), done))

    def _answered(
        self, operation: Operation[Any], begun: float, done: Done, answer: Any, error: Exception | None
    ) -> None:
        if error is None:
            self._note_answer(operation)
        elif isinstance(error, StoreError):
            shown = self._failed(error, operation, begun)
            shown.__cause__ = error.__cause__
            error = shown
        done(answer, error)

    def _note_answer(self, operation: Operation[Any]) -> None:
        if self.health.is_open:
            self._probing.answered(self._now())
        self.health.served(operation)

    def close(self) -> None:
        """Stop probing."""
        self._closed = True
        for task in self._tasks():
            task.cancel()

    def leave_loop(self) -> None:
        """Move to another event loop: the tasks ended with the former one."""
        tasks = self._tasks()
        self._forget_tasks()
        for task in tasks:
            discard(task)

    def forget(self) -> None:
        """Begin again in a child process, which has none of the parent's tasks."""
        self._forget_tasks()
        self.health.reset()

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [*self._probes, *([] if self._prober is None else [self._prober])]

    def _forget_tasks(self) -> None:
        self._prober = self._probed = None
        self._probes = set()

    async def _send(self, operation: Operation[R]) -> R:
        begun = self._now()
        try:
            if self._deadlines != "driver":
                answer = await self._store.perform(operation)
            else:
                await self._store.connect()
                begun = self._now()
                answer = await in_time(self._store.perform(operation), self._operation_timeout)
        except StoreError as error:
            raise self._failed(error, operation, begun) from error.__cause__
        self._note_answer(operation)
        return answer

    async def _send_after_probe(self, operation: Operation[R], kind: Requests) -> R:
        while self._has_to_wait(kind):
            self._probe_in_background()
            self._probed = self._probed or asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._probing.patience(self._now())):
                    await self._probed.wait()
        self.health.check(kind)
        return await self._send(operation)

    def _probe_in_background(self) -> None:
        is_new = self._note_outage()
        if self._closed or (self._prober is not None and not self._prober.done()):
            return
        if not is_new:
            self._probing.resume()
        self._prober = background_task(asyncio.get_running_loop(), _probe_until_answered(of := weakref.ref(self)))
        self._prober.add_done_callback(partial(_end_waiting, of))

    def _until_probe(self) -> float | None:
        """Return the seconds until the next probe; ``None`` if there is none."""
        return self._probing.until_due(self._now()) if self.health.is_open and not self._closed else None

    def _begin_probe(self) -> None:
        """Send a probe; another one may hang."""
        task = background_task(asyncio.get_running_loop(), self._probe(self._note_probe()))
        self._probes.add(task)
        task.add_done_callback(partial(_end_waiting, weakref.ref(self)))

    async def _probe(self, begun: float) -> None:
        try:
            for request in self.health.to_probe(PROBE):
                with suppress(ConditionFailed):
                    await in_time(self._send(request), self._probing.longest)
        except Exception as error:  # noqa: BLE001 - a store may raise anything, and the breaker must not stay open
            log.debug("the store still does not answer: %r", error)
            self._probing.unanswered(begun, self._now())
        except BaseException:
            self._probing.cut_off(begun, self._now())
            raise


async def _probe_until_answered(of: "weakref.ref[GuardedStore]") -> None:
    """Send probes until the store answers or the guarded store is garbage."""
    while (guarded := of()) is not None and (pause := guarded._until_probe()) is not None:
        if pause == 0:
            guarded._begin_probe()
        del guarded
        await asyncio.sleep(pause)


def _end_waiting(of: "weakref.ref[GuardedStore]", ended: "asyncio.Task[None]") -> None:
    """Wake the calls that wait for the end of a probe."""
    if not ended.cancelled():
        ended.exception()  # retrieved: an interruption was raised in the loop itself
    guarded = of()
    if guarded is not None:
        guarded._probes.discard(ended)
        if guarded._probed is not None:
            guarded._probed.set()
            guarded._probed = None
