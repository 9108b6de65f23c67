"""The async driver: performs the steps of flows with asyncio. It sends, waits, cancels and closes; flows decide."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ..clock.system import Clock
from ..engines.engine import Store
from ..exceptions import EventLoopError, RepositoryClosedError
from ..flows.bucket_queue import Losses, RunQueue, Waiter, broken, fail
from ..flows.steps import (
    DroppedRows,
    Enqueue,
    Flow,
    Log,
    Parallel,
    Post,
    Remind,
    Settled,
    Sleep,
    Sleeper,
    Step,
    Wait,
    Wake,
    play_late,
)
from ..operations.errors import BudgetSpent, Closed, OutcomeUnknown, StoreError
from ..operations.values import Operation
from ..runtime import forks
from ..runtime.deadlines import Deadlines
from ..runtime.elapsed import elapsed
from ..runtime.jitter import jittered
from ..runtime.tasks import background_task, discard, is_last_of_turn, running_loop
from .guarded_store import GuardedStore

if TYPE_CHECKING:
    from .started_run import StartedRun

T = TypeVar("T")
log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0  # a timer of the loop stands still with the machine, what is held does not
CUT_OFF = "the write was cut off: its event loop cancels its tasks"


class Driver:
    """Runs flows over one store, on one event loop at a time.

    A task serves each queue that has requests, so that a caller may leave while a write is under way. An operation
    takes at most ``operation_timeout`` seconds.
    """

    def __init__(self, store: Store, *, operation_timeout: float = 3.0, clock: Clock | None = None) -> None:
        self._sleep: Callable[[float], Awaitable[None]] = getattr(clock, "sleep_async", asyncio.sleep)
        self._store = store
        self._answers_at_once = store.capabilities.deadlines == "unneeded"
        self._operation_timeout = operation_timeout
        self._guarded = GuardedStore(store, operation_timeout=operation_timeout, clock=clock)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._deadlines: Deadlines  # of the loop
        self._active: dict[asyncio.Task[None], RunQueue] = {}  # the queues with a run, by the task that serves each
        self._runs: dict[StartedRun, None] = {}  # that no task serves
        self._run_type = _run_type_for(store)
        self._reminders = Reminders(self.post)
        self._losses = Losses()
        self._closed = False
        self._cut_off = False  # closed, and the time for the writes under way is over
        self.health = self._guarded.health
        self.start = self._guarded.start  # an operation of a run
        forks.register(self)

    async def run(self, flow: Flow[T], *, budget: float | None = None) -> T:
        """Run a flow and return its result, within ``budget`` seconds if that is set.

        If the flow fails, is cancelled or takes too long, it gives back the tokens that it took and no caller has.
        """
        waiters: list[Waiter] = []
        try:
            self._enter_loop()
            return await self._play(flow, waiters, None if self._answers_at_once else budget)
        except BaseException:
            flow.close()
            self._abandon(waiters)
            raise

    async def drain(self, last: Flow[None] | None = None) -> None:
        """Run the ``last`` flow, and wait for the writes under way; at most ``operation_timeout`` seconds."""
        loop = running_loop()
        latest = loop.time() + self._operation_timeout
        if last is not None and self._loop is loop:
            await self._play(last, [], self._operation_timeout)
        while (left := latest - loop.time()) > 0:
            under_way = [*self._under_way(loop), *(run.end(loop) for run in self._runs_here(loop))]
            if not under_way:
                return
            await asyncio.wait(under_way, timeout=left)

    async def caller(self) -> str | None:
        """Return who calls, as the store knows it."""
        return await self._store.caller()

    async def close(self, last: Flow[None] | None = None) -> None:
        """Refuse all work except the ``last`` flow, and the requests that wait in a queue.

        Wait for the writes under way, then cut them off.
        """
        self._closed = True
        loop = running_loop()
        self._take_over(loop)
        self._guarded.close()
        for queue in [*self._active.values(), *(run.queue for run in self._runs)]:
            _settle([waiter for waiter in queue.waiting if waiter.droppable], Closed(), self._losses)
        await self.drain(last)
        self._cut_off = True
        for run in self._runs_here(loop):
            _settle(list(run.queue.waiting), Closed(), self._losses)
            run.cut_off(OutcomeUnknown(CUT_OFF))
        for task in self._under_way(loop):
            _settle(list(self._active[task].waiting), Closed(), self._losses)
            task.cancel()
        await self.drain()

    def at_exit(self, last: Flow[None]) -> None:
        """Run the ``last`` flow as the interpreter ends, unless the driver is closed: its event loop has ended."""

        async def run() -> None:
            self._enter_loop()
            await self.drain(last)

        if not self._closed:
            asyncio.run(run())

    def _under_way(self, loop: asyncio.AbstractEventLoop) -> list[asyncio.Task[None]]:
        """Return the tasks that serve a queue; those of another loop ended with it."""
        return [task for task in self._active if not task.done()] if self._loop is loop else []

    def _runs_here(self, loop: asyncio.AbstractEventLoop) -> "list[StartedRun]":
        return list(self._runs) if self._loop is loop else []

    def forget(self) -> None:
        """Begin again in a child process: the work under way belongs to the parent."""
        self._loop = None
        for queue in [*self._active.values(), *(run.queue for run in self._runs)]:
            queue.server = None
            queue.waiting.clear()
        self._active, self._runs = {}, {}
        self._reminders.forget()
        self._guarded.forget()

    def begin_outage(self, error: Exception) -> None:
        """Refuse requests at once from now on, until a probe finds that the store answers."""
        self._guarded.begin_outage(error)

    # flows

    async def _play(
        self, flow: Flow[T], waiters: list[Waiter], budget: float | None = None, step: Step | Wait | None = None
    ) -> T:
        until = _after(budget)
        try:
            step = next(flow) if step is None else step
            while True:
                try:
                    if isinstance(step, Wait):
                        await self._wait(step)
                        answer, until = None, _after(budget)
                    elif until is None:
                        answer = await self._perform(step, waiters)
                    else:
                        answer = await self._perform_until(until, step, waiters)
                except BudgetSpent as error:
                    self._abandon(waiters)
                    return play_late(flow, error, self._enter)
                except StoreError as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result

    async def _perform_until(self, until: float, step: Step, waiters: list[Waiter]) -> Any:
        """Perform a step. Raises ``BudgetSpent`` at the instant ``until`` of the event loop."""
        if isinstance(step, Enqueue) or (isinstance(step, Parallel) and isinstance(step.steps[0], Enqueue)):
            for waker in self._enqueue(step, waiters):
                self._deadlines.add(waker, until)
                try:
                    await waker
                finally:
                    self._deadlines.remove(waker)
            return None
        try:
            async with asyncio.timeout_at(until) as budget:
                return await self._perform(step, waiters)
        except TimeoutError as error:
            if not budget.expired():
                raise
            raise BudgetSpent from error

    async def _wait(self, step: Wait) -> None:
        """Wait outside the budget of a run. Raises ``RepositoryClosedError``."""
        await _sleep(step, self._sleep)
        self._enter_loop()

    async def _perform(self, step: Step, waiters: list[Waiter]) -> Any:
        if isinstance(step, Enqueue):
            return await self._queue(step.waiter, waiters, alone=True)
        if isinstance(step, Operation):
            return await (self._store.perform(step) if self._answers_at_once else self._guarded.ask(step))
        if isinstance(step, Sleep):
            return await self._sleep(jittered(step.seconds))
        if isinstance(step, Parallel):
            if isinstance(step.steps[0], Enqueue):
                for waker in self._enqueue(step, waiters):
                    await waker
                return None
            parts = [self._perform(part, waiters) for part in step.steps]
            return await asyncio.gather(*parts, return_exceptions=True)
        return self._perform_at_once(step, waiters)

    def _perform_at_once(self, step: Log | Wake | Post | Settled | Remind, waiters: list[Waiter]) -> None:
        if isinstance(step, DroppedRows):
            self.health.dropped(step.foreign, step.unreadable)
        if isinstance(step, Log):
            step.write()
        elif isinstance(step, Wake):
            _wake_up(step.waiters)
        elif isinstance(step, Post):
            self._enter(step.waiter)
        elif isinstance(step, Settled):
            waiters.extend(step.waiters)
        else:
            self._reminders.add(asyncio.get_running_loop(), step.waiter, step.seconds)

    # queues

    def _queue(self, waiter: Waiter, waiters: list[Waiter], *, alone: bool = False) -> asyncio.Future[None]:
        """Put a waiter into its queue; ``alone``: its caller adds no other one in this turn of the loop."""
        waiters.append(waiter)
        waiter.waker = asyncio.get_running_loop().create_future()
        self._enter(waiter, alone=alone)
        waker: asyncio.Future[None] = waiter.waker
        return waker

    def _enqueue(self, step: Enqueue | Parallel, waiters: list[Waiter]) -> "Sequence[asyncio.Future[None]]":
        """Let all waiters enter their queues at once: a cancellation may come while the first is waited for.

        They are waited for one after the other, by no task of their own: so the caller comes back in the turn in which
        the tasks that serve the queues still linger, and its next requests need no new ones.
        """
        if isinstance(step, Enqueue):
            return (self._queue(step.waiter, waiters, alone=True),)
        return [self._queue(part.waiter, waiters) for part in step.steps if isinstance(part, Enqueue)]

    def _enter(self, waiter: Waiter, *, alone: bool = False) -> None:
        waiter.queue.waiting[waiter] = None
        if self._cut_off:
            _settle([waiter], Closed(), self._losses)
        elif self._loop is None or self._loop.is_closed():  # a caller that outlived its loop
            _settle([waiter], OutcomeUnknown(CUT_OFF), self._losses)
        elif waiter.queue.server is None:
            if self._run_type is None:
                self._serve_in_task(self._loop, waiter.queue)
            else:
                self._serve_at_once(self._loop, self._run_type(self, waiter.queue), alone=alone)

    def post(self, waiter: Waiter) -> None:
        """Put a waiter into its queue, unless the driver is closed, without waiting for it."""
        if not self._closed:
            self._enter(waiter)

    @property
    def is_here(self) -> bool:
        """Whether it is open, and the running loop is its own."""
        return not self._closed and self._loop is asyncio._get_running_loop() and self._loop is not None

    def _serve_at_once(self, loop: asyncio.AbstractEventLoop, run: "StartedRun", *, alone: bool) -> None:
        """Serve a queue without a task. Callers that run before the loop looks for answers share the write."""
        self._runs[run] = None
        run.queue.server, run.queue.lingers = run, False
        try:
            if alone and is_last_of_turn(loop):
                run.serve()
            else:
                loop.call_soon(run.serve)
                loop.call_soon(run.begin)  # if an exception of a signal handler came before the first instruction
        except BaseException:
            run.leave()
            raise

    def perform_at_once(self, step: Any) -> None:
        """Perform a step of a run that needs no waiting."""
        self._perform_at_once(step, [])

    def hand_over(self, run: "StartedRun", step: Step | Wait) -> None:
        """Let a task go on with a run."""
        self._runs.pop(run, None)
        if self._loop is not None:
            try:
                self._serve_in_task(self._loop, run.queue, run, step)
            except BaseException:
                run.queue.server = run  # which leaves the queue
                raise

    def ended(self, run: "StartedRun") -> None:
        """Forget a run, and serve its queue anew if requests wait."""
        self._runs.pop(run, None)
        self._leave_queue(run.queue, run)

    def _serve_in_task(
        self,
        loop: asyncio.AbstractEventLoop,
        queue: RunQueue,
        begun: "StartedRun | None" = None,
        step: Step | Wait | None = None,
    ) -> None:
        """Serve a queue in a task, which first goes on with a run that has ``begun``, at a step."""
        queue.server, queue.lingers = (server := object()), False
        task = background_task(loop, self._serve(queue, server, begun, step))
        self._active[task] = queue
        task.add_done_callback(partial(self._served, queue, server, begun))

    async def _serve(
        self, queue: RunQueue, server: object, begun: "StartedRun | None", step: Step | Wait | None
    ) -> None:
        """Serve a queue, run after run, until no request waits: at the end, wait one more turn for callers that come
        back.
        """
        while queue.server is server and (begun or queue.waiting or await self._linger(queue)):
            batch = queue.take() if begun is None else begun.batch
            try:
                await self._play(queue.work(batch) if begun is None else begun.flow, [], step=step)
            except asyncio.CancelledError:  # a shutdown cuts this write off; later requests are served
                fail(batch, OutcomeUnknown(CUT_OFF))
            except Exception as error:  # noqa: BLE001 - a batch fails, whatever it is
                self.give_up(batch, error)
            finally:
                begun = step = None
                self.let_go(batch)
        if queue.server is server:
            queue.server = None

    async def _linger(self, queue: RunQueue) -> bool:
        """Wait one turn; return whether a request came meanwhile.

        A caller that a shutdown cancels in this turn gives back through this task, which the shutdown waits for.
        """
        queue.lingers = True
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            log.debug("cancelled while idle")
        finally:
            queue.lingers = False
        return bool(queue.waiting)

    def _served(self, queue: RunQueue, server: object, begun: "StartedRun | None", task: asyncio.Task[None]) -> None:
        """End the service of a queue. If its task never began, or was interrupted, serve the queue again: requests may
        still wait.
        """
        self._active.pop(task, None)
        if not task.cancelled():
            task.exception()  # retrieved: an interruption was raised in the loop itself
        if begun is not None:  # again, if the task has done so: it may never have begun
            self.let_go(begun.batch)
        self._leave_queue(queue, server)

    def _leave_queue(self, queue: RunQueue, server: object) -> None:
        """Note that a server of a queue has ended. If requests still wait, because it was interrupted, another one
        begins.
        """
        if queue.server is server:
            queue.server = None
            if queue.waiting and self._loop is not None and not self._loop.is_closed():
                self._serve_in_task(self._loop, queue)

    def give_up(self, batch: Sequence[Waiter], problem: Exception) -> None:
        """Fail what a run that ended in an exception left unsettled."""
        if isinstance(problem, StoreError):  # what no flow can go on from: an item like no record
            return fail(batch, problem)
        fail(batch, broken(problem))
        log.error("a write of a bucket failed in a way that it should not", exc_info=problem)
        return None

    def let_go(self, batch: Sequence[Waiter]) -> None:
        """Wake the callers of the batch, and give back the unwanted outcomes."""
        batch[0].queue.running = ()
        failed: list[Waiter] = []
        for waiter in batch:
            if waiter.outcome is None or waiter.outcome.error is not None:
                failed.append(waiter)  # noqa: PERF401 - a comprehension costs each acquire a call
        if failed:
            fail(failed, OutcomeUnknown(CUT_OFF))  # those that an interruption of the loop left unsettled
            _log_losses(failed, self._losses)
        if self._loop is None or self._loop.is_closed():
            return
        _wake_up(batch)
        for waiter in batch:
            if waiter.unwanted:
                self._unwind([waiter])

    def _abandon(self, waiters: Sequence[Waiter]) -> None:
        """Take waiters that no caller wants any more out of their queues, and give back what was or will be taken for
        them.
        """
        for waiter in waiters:
            if waiter.outcome is not None:
                self._unwind([waiter])
            elif waiter.droppable and waiter in waiter.queue.waiting:
                del waiter.queue.waiting[waiter]
            else:
                waiter.unwanted = True

    def _unwind(self, waiters: Iterable[Waiter]) -> None:
        for waiter in waiters:
            for request in waiter.unwind():
                self._enter(request)

    # event loops

    def _enter_loop(self) -> asyncio.AbstractEventLoop:
        """Work on the running loop, and return it. Raises ``RepositoryClosedError``, ``EventLoopError``."""
        if self._closed:
            raise RepositoryClosedError
        loop = running_loop()
        if loop is not self._loop:
            self._take_over(loop)
        return loop

    def _take_over(self, loop: asyncio.AbstractEventLoop) -> None:
        """Move to another loop. Raises ``EventLoopError`` if the former one is running."""
        if self._loop is loop:
            return
        if self._loop is not None:
            if self._loop.is_running():
                raise EventLoopError
            self._leave_loop(self._loop)
        self._loop = loop
        self._deadlines = Deadlines(loop, BudgetSpent)
        self._reminders.move_to(loop)

    def _leave_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cut off the work on a loop that no longer runs; its callers are woken if it runs again."""
        for task, queue in list(self._active.items()):
            queue.server = None
            _settle(list(queue.waiting), OutcomeUnknown(CUT_OFF), self._losses, wake=not loop.is_closed())
            discard(task)
        self._active = {}
        for run in list(self._runs):
            run.queue.server = None
            _settle(list(run.queue.waiting), OutcomeUnknown(CUT_OFF), self._losses, wake=not loop.is_closed())
            run.cut_off(OutcomeUnknown(CUT_OFF))
        self._guarded.leave_loop()


def _run_type_for(store: Store) -> "type[StartedRun] | None":
    """Return how runs are served without a task; ``None`` for a store that starts no operations."""
    if getattr(type(store), "start", Store.start) is Store.start:  # a store need not extend `Store`
        return None
    from .started_run import StartedRun  # a process without such a store starts without it

    return StartedRun


def _after(budget: float | None) -> float | None:
    """Return the instant of the running loop at which a budget is spent that begins now."""
    return None if budget is None else asyncio.get_running_loop().time() + budget


def _settle(waiting: Sequence[Waiter], error: StoreError, losses: Losses, *, wake: bool = True) -> None:
    """Remove waiters from their queues, and settle them as failed."""
    for waiter in waiting:
        del waiter.queue.waiting[waiter]
    fail(waiting, error)
    _log_losses(waiting, losses)
    if wake:
        _wake_up(waiting)


def _log_losses(batch: Sequence[Waiter], losses: Losses) -> None:
    """Log the tokens that failed give-backs lost."""
    for waiter in batch:
        if (lost := losses.line(waiter)) is not None:
            log.warning("%s", lost)


async def _sleep(step: Wait, sleep_async: Callable[[float], Awaitable[None]]) -> None:
    """Sleep as long as the step says, or until its sleeper is woken."""
    if step.sleeper is None:
        return await sleep_async(step.seconds)
    woken = asyncio.get_running_loop().create_future()
    sleeping = asyncio.ensure_future(sleep_async(step.seconds))
    step.sleeper.waker = woken
    try:
        await asyncio.wait((sleeping, woken), return_when=asyncio.FIRST_COMPLETED)
    finally:
        step.sleeper.waker = None
        sleeping.cancel()
    return None


def _wake_up(batch: Sequence[Sleeper]) -> None:
    """Wake the callers that wait for these waiters."""
    for waiter in batch:
        waker: asyncio.Future[None] | None = waiter.waker
        if waker is not None and not waker.done() and not waker.get_loop().is_closed():
            waker.set_result(None)


class Reminders:
    """Calls ``post`` with each waiter when its time has come. A loop that ends takes none with it."""

    def __init__(self, post: Callable[[Waiter], object]) -> None:
        self._post = post
        self._due: dict[Waiter, tuple[asyncio.AbstractEventLoop, float]] = {}

    def add(self, loop: asyncio.AbstractEventLoop, waiter: Waiter, seconds: float) -> None:
        """Post the waiter in so many seconds."""
        self._due[waiter] = loop, elapsed() + seconds
        loop.call_later(min(seconds, LOOK_SECONDS), self._remind, loop, waiter)

    def move_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """Go on with another loop."""
        for waiter, (_, at) in list(self._due.items()):
            self.add(loop, waiter, max(0.0, at - elapsed()))

    def forget(self) -> None:
        """Begin again in a child process: the parent posts what is to come."""
        self._due = {}

    def _remind(self, loop: asyncio.AbstractEventLoop, waiter: Waiter) -> None:
        if waiter not in self._due or self._due[waiter][0] is not loop:
            return
        left = self._due[waiter][1] - elapsed()
        if left > 0:
            loop.call_later(min(left, LOOK_SECONDS), self._remind, loop, waiter)
        else:
            del self._due[waiter]
            self._post(waiter)
