"""The sync driver: performs the steps of flows with threads. It sends, waits, interrupts and closes; flows decide.

A caller that finds a queue idle serves its own waiter, and no other. If other requests have come meanwhile, a thread
serves them, and ends when none waits. So a signal handler that interrupts a caller makes no other request fail, and a
caller waits no longer than its budget.

A queue's ``server`` is the waiter of such a caller, or a mark of the thread. It changes by one assignment, so that
``_abandon`` can clean up after an interruption at any point.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from ..clock.system import Clock
from ..engines.engine import SyncStore
from ..exceptions import RepositoryClosedError
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
from ..runtime.callables import is_awaited
from ..runtime.jitter import jittered
from ..runtime.reminders import Reminders
from .flow_run import FlowRun
from .guarded_store import THREAD_NAME, GuardedStore

T = TypeVar("T")
log = logging.getLogger(__name__)

CUT_OFF = "the write was cut off by an interruption"
ABANDONING = 3  # interruptions of the cleaning up behind one


class Serving(threading.local):
    """The queues that this thread serves; a run may begin inside another."""

    def __init__(self) -> None:
        self.queues: list[RunQueue] = []


class SyncDriver:
    """Runs flows over one store. Threads may share it; an operation takes at most ``operation_timeout`` seconds."""

    def __init__(self, store: SyncStore, *, operation_timeout: float = 3.0, clock: Clock | None = None) -> None:
        if is_awaited(store.perform):
            raise TypeError("SyncRepository needs a store whose `perform` is a `def`: use Repository")
        self._sleep: Callable[[float], None] = getattr(clock, "sleep", time.sleep)
        self._store = store
        self._answers_at_once = store.capabilities.deadlines == "unneeded"
        self._operation_timeout = operation_timeout
        self._guarded = GuardedStore(store, operation_timeout=operation_timeout, clock=clock)
        self._lock = threading.Lock()  # held for moments: no sending, waiting or logging under it
        self._active: set[RunQueue] = set()  # the queues with a server
        self._serving = Serving()
        self._reminders: Reminders[Waiter] = Reminders(self.post)
        self._losses = Losses()
        self._closed = False
        self.is_here = True
        """Whether it is open."""
        self.health = self._guarded.health
        forks.register(self)

    def run(self, flow: Flow[T], *, budget: float | None = None) -> T:
        """Run a flow and return its result, within ``budget`` seconds if that is set.

        If the flow fails, is interrupted or takes too long, it gives back the tokens that it took and no caller has.
        """
        if self._closed:
            flow.close()
            raise RepositoryClosedError
        run = FlowRun() if budget is None or self._answers_at_once else FlowRun.within(budget)
        try:
            return self._play(flow, run)
        except BaseException:
            flow.close()
            self._abandon_surely(run.waiters)
            raise

    def drain(self, last: Flow[None] | None = None) -> None:
        """Run the ``last`` flow, and wait for the writes under way; at most ``operation_timeout`` seconds."""
        latest = time.monotonic() + self._operation_timeout
        if last is not None:
            self._play(last, FlowRun.within(self._operation_timeout))
        while self._active and time.monotonic() < latest:
            time.sleep(0.005)

    def caller(self) -> str | None:
        """Return who calls, as the store knows it."""
        return self._store.caller()

    def close(self, last: Flow[None] | None = None) -> None:
        """Refuse all work except the ``last`` flow, and the requests that wait in a queue; wait for the writes under
        way.
        """
        self._closed = True
        self.is_here = False
        self._reminders.stop()
        self._guarded.close()
        with self._lock:
            _settle([waiter for queue in self._active for waiter in queue.waiting if waiter.droppable], Closed())
        self.drain(last)

    def at_exit(self, last: Flow[None]) -> None:
        """Run the ``last`` flow as the interpreter ends, unless the driver is closed."""
        if not self._closed:
            self.drain(last)

    def forget(self) -> None:
        """Begin again in a child process, which has one thread: the work of the others belongs to the parent."""
        self._lock = threading.Lock()
        for queue in self._active:
            queue.server = None
            queue.waiting.clear()
        self._active = set()
        self._serving = Serving()
        self._guarded.forget()

    def begin_outage(self, error: Exception) -> None:
        """Refuse requests at once from now on, until a probe finds that the store answers."""
        self._guarded.begin_outage(error)

    # flows

    def _play(self, flow: Flow[T], run: FlowRun) -> T:
        try:
            step = next(flow)
            while True:
                try:
                    answer = self._perform(step, run)
                except BudgetSpent as error:
                    self._abandon(run.waiters)
                    return play_late(flow, error, self._enter)
                except StoreError as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result

    def _perform(self, step: Step | Wait, run: FlowRun) -> Any:
        if isinstance(step, Enqueue):
            return self._settle_one(step.waiter, run)
        if isinstance(step, Operation):
            return self._ask(step, run)
        if isinstance(step, Wait):
            return self._begin_after(step, run)
        if isinstance(step, Sleep):
            return self._pause(jittered(step.seconds), run)
        if isinstance(step, Parallel):
            return self._parallel(step.steps, run)
        return self._perform_at_once(step, run)

    def _perform_at_once(self, step: Log | Wake | Post | Settled | Remind, run: FlowRun) -> Any:
        if isinstance(step, DroppedRows):
            self.health.dropped(step.foreign, step.unreadable)
        if isinstance(step, Log):
            return step.write()
        if isinstance(step, Post):
            return self._settle_one(step.waiter, run) if self._answers_at_once else self._enter(step.waiter)
        if isinstance(step, Settled):
            return run.waiters.extend(step.waiters)
        if isinstance(step, Remind):
            return self._reminders.add(step.seconds, step.waiter)
        return self._wake(step.waiters)

    def _ask(self, step: Operation[T], run: FlowRun) -> T:
        """Return the store's answer. Raises ``StoreError``."""
        if self._answers_at_once:
            return self._store.perform(step)
        if run.is_over:
            raise BudgetSpent
        return self._guarded.ask(step, until=run.until)

    def _pause(self, seconds: float, run: FlowRun) -> None:
        self._sleep(min(seconds, max(0.0, run.until - time.monotonic())))
        if run.is_over:
            raise BudgetSpent

    def _begin_after(self, step: Wait, run: FlowRun) -> None:
        """Wait outside the budget of the run. Raises ``RepositoryClosedError``."""
        _sleep(step, self._sleep, self._lock)
        if self._closed:
            raise RepositoryClosedError
        run.begin_again()

    def _parallel(self, steps: Sequence[Step], run: FlowRun) -> list[Any]:
        """Perform the steps at the same time: waiters in their queues, each other step in a thread of its own."""
        waiters = [step.waiter for step in steps if isinstance(step, Enqueue)]
        if len(waiters) == len(steps):
            self._settle(waiters, run)
            return [None] * len(steps)
        answers: list[Any] = [None] * len(steps)

        def perform(index: int) -> None:
            try:
                answers[index] = self._perform(steps[index], run)
            except Exception as error:
                if index == 0 and not isinstance(error, StoreError):
                    raise  # in the caller's own thread
                answers[index] = error

        others = range(1, len(steps))
        threads = [threading.Thread(target=perform, args=(n,), daemon=True, name=THREAD_NAME) for n in others]
        for thread in threads:
            thread.start()
        perform(0)
        for thread in threads:
            thread.join()
        return answers

    # queues

    def post(self, waiter: Waiter) -> None:
        """Put a waiter into its queue, unless the driver is closed, without waiting for it."""
        if self._closed:
            return
        if self._answers_at_once:
            self._settle_one(waiter, FlowRun())
        else:
            self._enter(waiter)

    def _settle_one(self, waiter: Waiter, run: FlowRun) -> None:
        """Settle one waiter as ``_settle`` does, at less cost: every acquire comes by here."""
        if run.is_over or self._serving.queues:
            return self._settle([waiter], run)
        run.waiters.append(waiter)
        if self._enter(waiter, lead=True):
            self._serve_own(waiter, run)
        if waiter.waker is not None:
            self._wait(waiter, run)
        return None

    def _settle(self, waiters: Sequence[Waiter], run: FlowRun) -> None:
        """Wait until all waiters are settled; this thread serves the first one, if its queue is idle."""
        run.waiters += waiters
        if run.is_over:
            return self._enter_late(waiters)
        if mine := self._serving.queues:  # a log handler that acquires: this thread cannot wait for itself
            for waiter in [waiter for waiter in waiters if waiter.queue in mine]:
                self._work(waiter.queue, [waiter], run.until)
            waiters = [waiter for waiter in waiters if waiter.outcome is None]
        own = [waiter for rank, waiter in enumerate(waiters) if rank == 0 or self._answers_at_once]
        for waiter in waiters[len(own) :]:
            self._enter(waiter)
        for waiter in own:
            if self._enter(waiter, lead=True):
                self._serve_own(waiter, run)
        for waiter in waiters:
            self._wait(waiter, run)
        return None

    def _enter_late(self, waiters: Sequence[Waiter]) -> None:
        """Queue give-backs and corrections, without waiting. Raises ``BudgetSpent`` for any other waiter."""
        if any(waiter.droppable for waiter in waiters):
            raise BudgetSpent
        for waiter in waiters:
            self._enter(waiter)

    def _enter(self, waiter: Waiter, *, lead: bool = False) -> bool:
        """Put a waiter into its queue; return whether the caller has to serve it now."""
        queue = waiter.queue
        with self._lock:
            idle = queue.server is None
            if not (idle and lead):
                waiter.waker = threading.Lock()
                waiter.waker.acquire()
                queue.waiting[waiter] = None
            if idle:
                self._active.add(queue)
                queue.server = waiter
        if idle and not lead:
            self._pass_on(queue, waiter)
        return idle and lead

    def _wait(self, waiter: Waiter, run: FlowRun) -> None:
        """Wait until the waiter is woken: a run that has settled it may still give back to other shards."""
        waker = waiter.waker
        while waker is not None and waiter.waker is waker:
            left = run.until - time.monotonic()
            if left <= 0:
                if waiter.outcome is None:
                    raise BudgetSpent
                return
            waker.acquire(timeout=min(left, threading.TIMEOUT_MAX))

    def _serve_own(self, waiter: Waiter, run: FlowRun) -> None:
        """Serve the caller's own waiter, then pass the queue on."""
        try:
            self._work(waiter.queue, [waiter], run.until)
        finally:
            self._pass_on(waiter.queue, waiter)

    def _pass_on(self, queue: RunQueue, server: object) -> None:
        """End the service of ``server``: a thread serves the queue if requests wait, else it is idle."""
        with self._lock:
            if queue.server is not server:
                return
            if not queue.waiting:
                queue.server = None
                self._active.discard(queue)
                return
        try:
            threading.Thread(target=self._take_over, args=(queue, server), name=THREAD_NAME, daemon=False).start()
        except RuntimeError:  # the interpreter ends, or has no more threads: serve it here
            self._take_over(queue, server)

    def _take_over(self, queue: RunQueue, before: object) -> None:
        """Serve the queue until no request waits. A failure settles its batch, and is logged."""
        with self._lock:
            if queue.server is not before:
                return
            queue.server = server = object()
        while (batch := self._next_batch(queue, server)) is not None:
            try:
                self._work(queue, batch, math.inf)
            except Exception:
                log.exception("a write of a bucket failed in a way that it should not")
            finally:
                self._let_go(batch)

    def _next_batch(self, queue: RunQueue, server: object) -> list[Waiter] | None:
        with self._lock:
            if queue.server is not server:
                return None
            if _only_daemons_are_left():  # daemons end with the interpreter, even while they wait
                for waiter in [waiter for waiter in queue.waiting if waiter.droppable]:
                    del queue.waiting[waiter]
            if queue.waiting:
                return queue.take()
            queue.server = None
            self._active.discard(queue)
            return None

    def _work(self, queue: RunQueue, batch: Sequence[Waiter], until: float) -> None:
        """Perform one run, which sends nothing after ``until``; fail a batch that is cut off.

        Raises everything but errors of the store: a fault, or the exception of a signal handler in the caller's
        thread.
        """
        self._serving.queues.append(queue)
        try:
            self._play(queue.work(batch), FlowRun(until))
        except StoreError as unreadable:  # what no flow can go on from: an item like no record
            fail(batch, unreadable)
        except Exception as problem:
            fail(batch, broken(problem))
            raise
        finally:
            for waiter in batch:
                if waiter.outcome is None:
                    waiter.fail(OutcomeUnknown(CUT_OFF))
                outcome = waiter.outcome
                if outcome is not None and outcome.error is not None and (lost := self._losses.line(waiter)):
                    log.warning("%s", lost)
            self._serving.queues.pop()

    def _let_go(self, batch: Sequence[Waiter]) -> None:
        """Wake the callers of the batch, and give back the unwanted outcomes."""
        batch[0].queue.running = ()
        with self._lock:
            _wake_up(batch)
            unwanted = [waiter for waiter in batch if waiter.unwanted]
        self._unwind(unwanted, [])

    def _wake(self, waiters: Sequence[Sleeper]) -> None:
        with self._lock:
            _wake_up(waiters)

    def _abandon_surely(self, waiters: list[Waiter]) -> None:
        """Call ``_abandon``, again if it is interrupted itself; raise the first interruption."""
        for _ in range(ABANDONING):
            try:
                return self._abandon(waiters)
            except BaseException as error:  # noqa: BLE001 - another signal, whose handler may raise anything
                log.debug("interrupted again: %r", error)
        return self._abandon(waiters)

    def _abandon(self, waiters: list[Waiter]) -> None:
        """Take waiters that no caller wants any more out of their queues, and give back what was or will be taken for
        them.
        """
        for waiter in waiters:  # the list grows by the give-backs
            queue = waiter.queue
            with self._lock:
                if waiter.droppable and waiter in queue.waiting:
                    del queue.waiting[waiter]
                waiter.unwanted = waiter.outcome is None
                # interrupted before it entered its queue, or before another thread took the queue over
                outside = waiter.unwanted and waiter.waker is None and queue.server is not waiter
            if outside and not waiter.droppable:
                self._enter(waiter)
            if queue.server is waiter:
                self._pass_on(queue, waiter)
            if not waiter.unwanted:
                self._unwind([waiter], waiters)

    def _unwind(self, unwanted: Iterable[Waiter], entered: list[Waiter]) -> None:
        """Queue the give-backs, and add all of a waiter to ``entered`` first: it makes them once, so an interruption
        between two of them would lose the second.
        """
        for waiter in unwanted:
            requests = waiter.unwind()
            entered += requests
            for request in requests:
                self._enter(request)


def _only_daemons_are_left() -> bool:
    """Return whether the interpreter waits for no threads but those of this module."""
    main = threading.main_thread()
    if main.is_alive():
        return False
    return all(thread.daemon or thread.name == THREAD_NAME or thread is main for thread in threading.enumerate())


def _settle(waiting: Sequence[Waiter], error: StoreError) -> None:
    """Remove waiters from their queues, and settle them as failed; with the lock held."""
    for waiter in waiting:
        del waiter.queue.waiting[waiter]
    fail(waiting, error)
    _wake_up(waiting)


def _sleep(step: Wait, pause: Callable[[float], None], lock: threading.Lock) -> None:
    """Sleep as long as the step says, or until its sleeper is woken, unless the clock has sleeps of its own; ``lock``
    guards the waker.
    """
    sleeper = step.sleeper
    if sleeper is None or pause is not time.sleep:
        return pause(step.seconds)
    waker = threading.Lock()
    waker.acquire()
    with lock:
        sleeper.waker = waker
    waker.acquire(timeout=min(step.seconds, threading.TIMEOUT_MAX))
    with lock:
        sleeper.waker = None
    return None


def _wake_up(waiters: Sequence[Sleeper]) -> None:
    """Wake the callers of settled waiters, once; with the lock held."""
    for waiter in waiters:
        if waiter.waker is not None:
            waker, waiter.waker = waiter.waker, None
            waker.release()
