"""Performs the steps of flows, with asyncio.

Lives here: sending, waiting, cancelling. Never: a decision.
"""

import asyncio
import logging
import random
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from ..flows.lane import Lane, Ticket, fail, loss
from ..flows.steps import Flow, Parallel, Queued, Sleep, Step, Tell, Wake
from ..operations.errors import StoreError
from .store import Store

T = TypeVar("T")
log = logging.getLogger(__name__)


class Driver:
    """Runs flows over one store. A batch's write runs in a task of its own, which ends with it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, flow: Flow[T]) -> T:
        """The flow's result. Where it fails or is cancelled, what it took and nobody has is given back."""
        tickets: list[Ticket] = []
        try:
            return await self._play(flow, tickets)
        except BaseException:
            flow.close()
            self._abandon(tickets)
            raise

    async def close(self) -> None:
        """Wait for the writes that are under way."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _play(self, flow: Flow[T], tickets: list[Ticket]) -> T:
        try:
            step = next(flow)
            while True:
                try:
                    answer = await self._perform(step, tickets)
                except StoreError as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result

    async def _perform(self, step: Step, tickets: list[Ticket]) -> Any:
        if type(step) is Queued:
            return await self._queue(step.ticket, tickets)
        if type(step) is Sleep:
            return await asyncio.sleep(step.seconds * random.uniform(0.5, 1.0))
        if type(step) is Parallel:
            # What is to be queued is queued at once: a cancellation may come before a task has begun.
            parts = [
                self._queue(part.ticket, tickets) if type(part) is Queued else self._perform(part, tickets)
                for part in step.steps
            ]
            return await asyncio.gather(*parts, return_exceptions=True)
        if type(step) is Tell:
            return logging.getLogger(step.logger).log(step.level, step.message)
        if type(step) is Wake:
            return _wake(step.tickets)
        return await self._store.perform(step)  # type: ignore[arg-type]

    def _queue(self, ticket: Ticket, tickets: list[Ticket]) -> asyncio.Future[None]:
        tickets.append(ticket)
        ticket.waker = asyncio.get_running_loop().create_future()
        self._enter(ticket)
        waker: asyncio.Future[None] = ticket.waker
        return waker

    def _enter(self, ticket: Ticket) -> None:
        lane = ticket.lane
        lane.waiting.append(ticket)
        if not lane.busy:
            lane.busy = True
            task = asyncio.get_running_loop().create_task(self._serve(lane))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, lane: Lane) -> None:
        """Run after run, until nobody waits."""
        try:
            while lane.waiting:
                batch = lane.take()
                try:
                    await self._play(lane.work(batch), [])
                except BaseException as error:
                    fail(batch, error)
                    if not isinstance(error, Exception):
                        raise
                    log.exception("a write of a bucket failed in a way that it should not")
                finally:
                    _tell_losses(batch)
                    _wake(batch)
                    self._unwind(ticket for ticket in batch if ticket.unwanted)
        finally:
            lane.busy = False

    def _abandon(self, tickets: Sequence[Ticket]) -> None:
        """Nobody wants these any more: leave the queue, or give back what was or will be taken."""
        for ticket in tickets:
            if ticket.droppable and ticket in ticket.lane.waiting:
                ticket.lane.waiting.remove(ticket)
            elif ticket.outcome is None:
                ticket.unwanted = True
            else:
                self._unwind([ticket])

    def _unwind(self, tickets: Iterable[Ticket]) -> None:
        for ticket in tickets:
            for entry in ticket.unwind():
                self._enter(entry)


def _tell_losses(batch: Sequence[Ticket]) -> None:
    for ticket in batch:
        if (lost := loss(ticket)) is not None:
            log.warning(lost)


def _wake(batch: Sequence[Ticket]) -> None:
    for ticket in batch:
        if ticket.waker is not None and not ticket.waker.done():
            ticket.waker.set_result(None)
