"""Performs the steps of flows, with threads.

Lives here: sending, waiting. Never: a decision. The thread that finds a lane idle serves it; the others wait for it.
"""

import logging
import random
import threading
import time
from collections.abc import Sequence
from typing import Any, TypeVar

from ..flows.lane import Lane, Ticket, fail, loss
from ..flows.steps import Flow, Parallel, Queued, Sleep, Step, Tell, Wake
from ..operations.errors import StoreError
from .store import SyncStore

T = TypeVar("T")
log = logging.getLogger(__name__)


class SyncDriver:
    """Runs flows over one store. No thread of its own stands by; parallel steps get threads for as long as they run."""

    def __init__(self, store: SyncStore) -> None:
        self._store = store
        self._lock = threading.Lock()

    def run(self, flow: Flow[T]) -> T:
        """The flow's result. Where it fails or is interrupted, what it took and nobody has is given back."""
        tickets: list[Ticket] = []
        try:
            return self._play(flow, tickets)
        except BaseException:
            flow.close()
            self._abandon(tickets)
            raise

    def close(self) -> None:
        """Nothing runs behind the caller's back, so there is nothing to wait for."""

    def _play(self, flow: Flow[T], tickets: list[Ticket]) -> T:
        try:
            step = next(flow)
            while True:
                try:
                    answer = self._perform(step, tickets)
                except StoreError as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result

    def _perform(self, step: Step, tickets: list[Ticket]) -> Any:
        kind = type(step)
        if kind is Queued:
            return self._queue(step.ticket, tickets)  # type: ignore[union-attr]
        if kind is Sleep:
            return time.sleep(step.seconds * random.uniform(0.5, 1.0))  # type: ignore[union-attr]
        if kind is Parallel:
            return self._parallel(step.steps, tickets)  # type: ignore[union-attr]
        if kind is Tell:
            return logging.getLogger(step.logger).log(step.level, step.message)  # type: ignore[union-attr]
        if kind is Wake:
            return self._wake(step.tickets)  # type: ignore[union-attr]
        return self._store.perform(step)  # type: ignore[arg-type]

    def _parallel(self, steps: Sequence[Step], tickets: list[Ticket]) -> list[Any]:
        """The first step in this thread, each other one in a thread that ends with it."""
        answers: list[Any] = [None] * len(steps)

        def perform(index: int) -> None:
            try:
                answers[index] = self._perform(steps[index], tickets)
            except Exception as error:  # noqa: BLE001 - it is the step's answer
                answers[index] = error

        threads = [threading.Thread(target=perform, args=(index,), daemon=True) for index in range(1, len(steps))]
        for thread in threads:
            thread.start()
        try:
            perform(0)
        finally:
            _wait_for(threads)
        return answers

    def _queue(self, ticket: Ticket, tickets: list[Ticket]) -> None:
        tickets.append(ticket)
        lane, waker = ticket.lane, None
        with self._lock:
            if lane.busy:
                waker = ticket.waker = threading.Lock()
                waker.acquire()
                lane.waiting.append(ticket)
            lane.busy = True
        if waker is None:
            self._lead(lane, [ticket], ticket)
            return
        waker.acquire()  # until a leader has settled the ticket, or makes it the leader
        if ticket.outcome is None:
            with self._lock:
                batch = lane.take()
            self._lead(lane, batch, ticket)

    def _lead(self, lane: Lane, batch: Sequence[Ticket], own: Ticket) -> None:
        """Serve the lane until the own ticket is settled; then the next who waits leads."""
        while True:
            try:
                self._play(lane.work(batch), [])
            except BaseException as error:
                fail(batch, error)
                if not isinstance(error, Exception):
                    self._withdraw(own, error)
                    raise
                log.exception("a write of a bucket failed in a way that it should not")
            finally:
                successors = self._release(lane, batch, own)
            for ticket in batch:
                if ticket.unwanted:
                    self._unwind(ticket)
            if not successors:
                return
            batch = successors

    def _release(self, lane: Lane, batch: Sequence[Ticket], own: Ticket) -> Sequence[Ticket]:
        """Wake whom the run has settled. Answers the next batch if the own ticket still waits; else another leads."""
        with self._lock:
            for ticket in batch:
                if (lost := loss(ticket)) is not None:
                    log.warning(lost)
            _wake(batch)
            if own.outcome is None:
                return lane.take()
            _hand_over(lane)
            return ()

    def _wake(self, tickets: Sequence[Ticket]) -> None:
        with self._lock:
            _wake(tickets)

    def _withdraw(self, own: Ticket, error: BaseException) -> None:
        """The leader is interrupted while it serves others: it does not come back for its own ticket."""
        with self._lock:
            if own in own.lane.waiting:
                own.lane.waiting.remove(own)
            fail([own], error)

    def _abandon(self, tickets: Sequence[Ticket]) -> None:
        """Nobody wants these any more: leave the queue, or give back what was or will be taken."""
        for ticket in tickets:
            with self._lock:
                left_queue = ticket in ticket.lane.waiting
                if left_queue:
                    ticket.lane.waiting.remove(ticket)
                    if ticket.waker is None:  # it was to lead
                        _hand_over(ticket.lane)
                ticket.unwanted = ticket.outcome is None
            if not ticket.unwanted:
                self._unwind(ticket)
            elif left_queue and not ticket.droppable:  # what goes back goes back
                ticket.waker = None
                self._queue(ticket, [])

    def _unwind(self, ticket: Ticket) -> None:
        for entry in ticket.unwind():
            self._queue(entry, [])


def _wake(tickets: Sequence[Ticket]) -> None:
    """Let those go who wait for their outcome, once; with the lock held."""
    for ticket in tickets:
        if ticket.waker is not None:
            waker, ticket.waker = ticket.waker, None
            waker.release()


def _wait_for(threads: Sequence[threading.Thread]) -> None:
    """Wait until all have ended, an interruption too: what they take has to be known before it is given back."""
    interruption: BaseException | None = None
    for thread in threads:
        while thread.is_alive():
            try:
                thread.join()
            except BaseException as error:  # noqa: BLE001 - raised below
                interruption = error
    if interruption is not None:
        raise interruption


def _hand_over(lane: Lane) -> None:
    """Make the first who waits the leader; with the lock held."""
    if lane.waiting:
        successor = lane.waiting[0]
        waker, successor.waker = successor.waker, None
        waker.release()
    else:
        lane.busy = False
