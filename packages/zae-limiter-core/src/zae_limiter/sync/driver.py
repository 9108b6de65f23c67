"""Performs the steps of flows, with threads.

Lives here: sending, waiting, interruptions, closing. Never: a decision.

The caller that finds a lane idle serves its own ticket and nobody else's; where others have come meanwhile, a thread
goes on for them and ends when nobody waits. So a caller that a signal handler interrupts fails nobody else, and waits
no longer than it wants to. A lane's ``server`` is the ticket of such a caller, or a token of the thread: it changes by
one assignment, so that an interruption, wherever it comes, leaves a state that ``_abandon`` can mend.
"""

import logging
import math
import random
import threading
import time
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from .. import forks
from ..exceptions import RepositoryClosedError
from ..flows.lane import Lane, Ticket, broken, fail, loss
from ..flows.namespaces import PROBE
from ..flows.steps import Flow, Parallel, Queued, Sleep, Step, Tell, Wake, play_late
from ..operations.errors import BudgetSpent, Closed, OutcomeUnknown, StoreError
from ..operations.health import FIRST_PAUSE, LONGEST_PAUSE, Health
from ..operations.values import Operation
from .store import SyncStore
from .time_left import set_deadline

T = TypeVar("T")
log = logging.getLogger(__name__)
jitter = random.SystemRandom()  # the application's own random numbers stay as they are, in forked processes too

CUT_OFF = "the write was cut off by an interruption"
NAME = "zae-limiter"


class Call:
    """One run of a flow: its tickets, and the instant of ``time.monotonic`` by which it ends."""

    __slots__ = ("tickets", "until")

    def __init__(self, until: float = math.inf) -> None:
        self.tickets: list[Ticket] = []
        self.until = until

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        return self.until < math.inf and time.monotonic() >= self.until


class Serving(threading.local):
    """The lanes that this thread serves, one run inside the other."""

    def __init__(self) -> None:
        self.lanes: list[Lane] = []


class SyncDriver:
    """Runs flows over one store. Threads may share it; an operation takes at most ``operation_timeout`` seconds."""

    def __init__(self, store: SyncStore, *, operation_timeout: float = 3.0) -> None:
        self._store = store
        self._answers_at_once = getattr(store, "answers_at_once", False)
        self._connect = getattr(store, "connect", None)
        self._operation_timeout = operation_timeout
        self._lock = threading.Lock()  # held for moments: nothing is sent, waited for or logged under it
        self._lanes: set[Lane] = set()  # that are served
        self._serving = Serving()
        self._probing = False
        self._closed = False
        self.health = Health()
        forks.register(self)

    def run(self, flow: Flow[T], *, budget: float | None = None) -> T:
        """The flow's result, within ``budget`` seconds where that is given.

        Where the flow fails, is interrupted or takes too long, what it took and nobody has is given back.
        """
        if self._closed:
            flow.close()
            raise RepositoryClosedError
        bounded = budget is not None and not self._answers_at_once
        call = Call(time.monotonic() + budget if bounded else math.inf)  # type: ignore[operator]
        try:
            return self._play(flow, call)
        except BaseException:
            flow.close()
            self._abandon_surely(call.tickets)
            raise

    def drain(self) -> None:
        """Wait for the writes under way, at most as long as an operation takes."""
        latest = time.monotonic() + self._operation_timeout
        while self._lanes and time.monotonic() < latest:
            time.sleep(0.005)

    def close(self) -> None:
        """Refuse new work and whoever waits in a queue; wait for the writes under way."""
        self._closed = True
        with self._lock:
            _settle([ticket for lane in self._lanes for ticket in lane.waiting if ticket.droppable], Closed())
        self.drain()

    def forget(self) -> None:
        """Begin again in a child process, which has one thread: what others were doing is the parent's."""
        self._lock = threading.Lock()
        for lane in self._lanes:
            lane.server = None
            lane.waiting.clear()
        self._lanes = set()
        self._serving = Serving()
        self._probing = False
        self.health.reset()

    # flows

    def _play(self, flow: Flow[T], call: Call) -> T:
        try:
            step = next(flow)
            while True:
                try:
                    answer = self._perform(step, call)
                except BudgetSpent as error:
                    self._abandon(call.tickets)
                    return self._play_late(flow, error)
                except StoreError as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result

    def _play_late(self, flow: Flow[T], error: BudgetSpent) -> T:
        """The rest of a flow whose time is over: what goes back is queued, and nobody waits for it."""

        def perform(step: Step) -> Any:
            if isinstance(step, Tell):
                return logging.getLogger(step.logger).log(step.level, step.message)
            parts = step.steps if isinstance(step, Parallel) else (step,)
            if not all(isinstance(part, Queued) for part in parts):
                raise error
            return self._enter_late([part.ticket for part in parts])  # type: ignore[union-attr]

        return play_late(flow, error, perform)

    def _perform(self, step: Step, call: Call) -> Any:
        kind = type(step)
        if kind is Queued:
            return self._settle([step.ticket], call)  # type: ignore[union-attr]
        if kind is Sleep:
            return self._pause(step.seconds * jitter.uniform(0.5, 1.0), call)  # type: ignore[union-attr]
        if kind is Parallel:
            return self._parallel(step.steps, call)  # type: ignore[union-attr]
        if kind is Tell:
            return logging.getLogger(step.logger).log(step.level, step.message)  # type: ignore[union-attr]
        if kind is Wake:
            return self._wake(step.tickets)  # type: ignore[union-attr]
        if self._answers_at_once:
            return self._store.perform(step)  # type: ignore[arg-type]
        return self._ask(step, call)  # type: ignore[arg-type]

    def _pause(self, seconds: float, call: Call) -> None:
        time.sleep(min(seconds, max(0.0, call.until - time.monotonic())))
        if call.is_over:
            raise BudgetSpent

    def _parallel(self, steps: Sequence[Step], call: Call) -> list[Any]:
        """All at the same time: what is queued by the threads of its lanes, each other step in one of its own."""
        if all(type(step) is Queued for step in steps):
            self._settle([step.ticket for step in steps], call)  # type: ignore[union-attr]
            return [None] * len(steps)
        answers: list[Any] = [None] * len(steps)

        def perform(index: int) -> None:
            try:
                answers[index] = self._perform(steps[index], call)
            except Exception as error:
                if index == 0 and not isinstance(error, StoreError):
                    raise  # of the caller's own thread
                answers[index] = error

        threads = [
            threading.Thread(target=perform, args=(index,), daemon=True, name=NAME) for index in range(1, len(steps))
        ]
        for thread in threads:
            thread.start()
        perform(0)
        for thread in threads:
            thread.join()
        return answers

    # operations

    def _ask(self, operation: Operation, call: Call) -> Any:
        """The store's answer, within the time of an operation; at once where the breaker is open."""
        if call.is_over:
            raise BudgetSpent
        if self.health.is_open:
            self._probe_in_background()
            self.health.check()
        return self._send(operation, call.until)

    def _send(self, operation: Operation, until: float) -> Any:
        try:
            if self._connect is not None:
                self._connect()
            before = set_deadline(min(until, time.monotonic() + self._operation_timeout))
            try:
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
            threading.Thread(target=_probe, args=(weakref.ref(self),), daemon=True, name=NAME).start()
        except RuntimeError:  # the interpreter ends, or has no more threads
            self._probing = False

    def _probe(self) -> bool:
        """Ask once whether the store answers again; whether to ask once more."""
        if self.health.is_open and not self._closed:
            self.health.probes += 1
            try:
                self._send(PROBE, math.inf)
            except StoreError as error:
                log.debug("the store still does not answer: %s", error)
        self._probing = self.health.is_open and not self._closed
        return self._probing

    # queues

    def _settle(self, tickets: Sequence[Ticket], call: Call) -> None:
        """Have the tickets settled, all at once; the first by this thread, where nobody else is at its lane."""
        call.tickets += tickets
        if call.is_over:
            return self._enter_late(tickets)
        if mine := self._serving.lanes:  # a log handler that acquires: this thread cannot wait for itself
            for ticket in [ticket for ticket in tickets if ticket.lane in mine]:
                self._work(ticket.lane, [ticket], call.until)
            tickets = [ticket for ticket in tickets if ticket.outcome is None]
        own = [ticket for rank, ticket in enumerate(tickets) if rank == 0 or self._answers_at_once]
        for ticket in tickets[len(own) :]:
            self._enter(ticket)
        for ticket in own:
            if self._enter(ticket, lead=True):
                self._serve_own(ticket, call)
        for ticket in tickets:
            self._wait(ticket, call)
        return None

    def _enter_late(self, tickets: Sequence[Ticket]) -> None:
        """What goes back is queued, and nobody waits for it. Raises ``BudgetSpent`` for anything else."""
        if any(ticket.droppable for ticket in tickets):
            raise BudgetSpent
        for ticket in tickets:
            self._enter(ticket)

    def _enter(self, ticket: Ticket, *, lead: bool = False) -> bool:
        """Put a ticket into its lane; whether the caller is to serve it now."""
        lane = ticket.lane
        with self._lock:
            idle = lane.server is None
            if not (idle and lead):
                ticket.waker = threading.Lock()
                ticket.waker.acquire()
                lane.waiting[ticket] = None
            if idle:
                self._lanes.add(lane)
                lane.server = ticket
        if idle and not lead:
            self._pass_on(lane, ticket)
        return idle and lead

    def _wait(self, ticket: Ticket, call: Call) -> None:
        waker = ticket.waker
        while ticket.outcome is None and waker is not None:
            left = call.until - time.monotonic()
            if left <= 0:
                raise BudgetSpent
            waker.acquire(timeout=min(left, threading.TIMEOUT_MAX))

    def _serve_own(self, ticket: Ticket, call: Call) -> None:
        """Serve the own ticket, then let others serve whoever came meanwhile."""
        try:
            self._work(ticket.lane, [ticket], call.until)
        finally:
            self._pass_on(ticket.lane, ticket)

    def _pass_on(self, lane: Lane, server: object) -> None:
        """Leave a lane that is ``server``'s: to a thread where somebody waits, else to whoever comes next."""
        with self._lock:
            if lane.server is not server:
                return
            if not lane.waiting:
                lane.server = None
                self._lanes.discard(lane)
                return
        try:
            threading.Thread(target=self._take_over, args=(lane, server), name=NAME, daemon=False).start()
        except RuntimeError:  # the interpreter ends, or has no more threads: this one does it
            self._take_over(lane, server)

    def _take_over(self, lane: Lane, before: object) -> None:
        """Serve the lane until nobody waits, for others: what goes wrong is theirs to know, and to be logged."""
        with self._lock:
            if lane.server is not before:
                return
            lane.server = token = object()
        while (batch := self._next_batch(lane, token)) is not None:
            try:
                self._work(lane, batch, math.inf)
            except Exception:
                log.exception("a write of a bucket failed in a way that it should not")
            finally:
                self._let_go(batch)

    def _next_batch(self, lane: Lane, token: object) -> list[Ticket] | None:
        with self._lock:
            if lane.server is not token:
                return None
            if _only_daemons_are_left():  # they keep no interpreter alive, and end with it where they wait
                for ticket in [ticket for ticket in lane.waiting if ticket.droppable]:
                    del lane.waiting[ticket]
            if lane.waiting:
                return lane.take()
            lane.server = None
            self._lanes.discard(lane)
            return None

    def _work(self, lane: Lane, batch: Sequence[Ticket], until: float) -> None:
        """One run, which asks nothing of the store behind ``until``. Where it is cut off, the batch has failed.

        Raises whatever is no answer of the store: a fault, or what a signal handler raised in the caller's thread.
        """
        self._serving.lanes.append(lane)
        try:
            self._play(lane.work(batch), Call(until))
        except Exception as problem:
            fail(batch, broken(problem))
            raise
        finally:
            for ticket in batch:
                if ticket.outcome is None:
                    ticket.fail(OutcomeUnknown(CUT_OFF))
                _tell_loss(ticket)
            self._serving.lanes.pop()

    def _let_go(self, batch: Sequence[Ticket]) -> None:
        """Wake whoever waits for the batch, and give back what nobody wants any more."""
        with self._lock:
            _wake(batch)
            unwanted = [ticket for ticket in batch if ticket.unwanted]
        self._unwind(unwanted, [])

    def _wake(self, tickets: Sequence[Ticket]) -> None:
        with self._lock:
            _wake(tickets)

    def _abandon_surely(self, tickets: list[Ticket]) -> None:
        """``_abandon``, also where it is interrupted itself; the first interruption is the one that is raised."""
        for _ in range(3):
            try:
                return self._abandon(tickets)
            except Exception:
                raise
            except BaseException as error:  # noqa: BLE001 - another signal; what it interrupted is done again
                log.debug("interrupted again: %r", error)
        return None

    def _abandon(self, tickets: list[Ticket]) -> None:
        """Nobody wants these any more: leave the queue, or give back what was or will be taken."""
        for ticket in tickets:  # grows by what is given back
            lane = ticket.lane
            with self._lock:
                if ticket.droppable and ticket in lane.waiting:
                    del lane.waiting[ticket]
                ticket.unwanted = ticket.outcome is None
                # interrupted before it was put into its lane, or before another thread took that over
                outside = ticket.unwanted and ticket.waker is None and lane.server is not ticket
            if outside and not ticket.droppable:
                self._enter(ticket)
            if lane.server is ticket:
                self._pass_on(lane, ticket)
            if not ticket.unwanted:
                self._unwind([ticket], tickets)

    def _unwind(self, unwanted: Iterable[Ticket], entered: list[Ticket]) -> None:
        """Queue what goes back; it is ``entered``, so that an interruption can be mended."""
        for ticket in unwanted:
            for entry in ticket.unwind():
                entered.append(entry)
                self._enter(entry)


def _only_daemons_are_left() -> bool:
    """Whether the interpreter waits for nobody but the threads of this module."""
    main = threading.main_thread()
    if main.is_alive():
        return False
    return all(thread.daemon or thread.name == NAME or thread is main for thread in threading.enumerate())


def _tell_loss(ticket: Ticket) -> None:
    if (lost := loss(ticket)) is not None:
        log.warning(lost)


def _settle(waiting: Sequence[Ticket], error: StoreError) -> None:
    """Take these out of their queues: nobody is going to serve them; with the lock held."""
    for ticket in waiting:
        del ticket.lane.waiting[ticket]
    fail(waiting, error)
    _wake(waiting)


def _wake(tickets: Sequence[Ticket]) -> None:
    """Let those go who wait for their outcome, once; with the lock held."""
    for ticket in tickets:
        if ticket.waker is not None:
            waker, ticket.waker = ticket.waker, None
            waker.release()


def _probe(of: "weakref.ref[SyncDriver]") -> None:
    """Ask, one request at a time, until the store answers, or nobody has the driver any more."""
    pause, again = FIRST_PAUSE, True
    while again:
        time.sleep(pause * jitter.uniform(0.5, 1.0))
        pause = min(2 * pause, LONGEST_PAUSE)
        driver = of()
        again = driver is not None and driver._probe()
        del driver
