"""The runs of a queue that no task serves: the answer to each operation carries the run on.

The problem: a task for each write costs as much as the write. It is made, begins one turn of the event loop later, and
is woken one turn after the answer; only then it wakes the caller, which takes one more. For a caller that acquires
alone these turns are cold every time, because the process slept for the milliseconds of the request.

The choice: where the store can ``start`` an operation, the run is advanced by calls: at once when the request arrives,
if no other task has its turn before the loop looks for answers, and so could share the write; otherwise in the next
turn. A step that has to be waited for in another way, a pause or a new connection, hands the run over to a task. So
callers still only wait, and one that leaves takes no write along.

An exception of a signal handler may interrupt each of these calls. So an answer counts once, by the number of its
operation, and an interrupted caller lets go of the queue.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

from ..flows.bucket_queue import RunQueue, Waiter, fail
from ..flows.steps import Flow, Log, Post, Remind, Settled, Step, Wait, Wake
from ..operations.errors import StoreError
from ..operations.values import Operation

AT_ONCE = (Log, Wake, Post, Settled, Remind)


class Host(Protocol):
    """What a driver does for its runs."""

    def start(self, operation: Operation[Any], done: Any) -> bool:
        """Send an operation, if nothing has to be waited for."""

    def perform_at_once(self, step: Any) -> None:
        """Perform a step that needs no waiting."""

    def hand_over(self, run: "StartedRun", step: Step | Wait) -> None:
        """Let a task go on with a run, from a step."""

    def give_up(self, batch: Sequence[Waiter], problem: Exception) -> None:
        """Fail what a run that ended in an exception left unsettled."""

    def let_go(self, batch: Sequence[Waiter]) -> None:
        """Wake the callers of a batch."""

    def ended(self, run: "StartedRun") -> None:
        """Forget the run; if requests wait, serve its queue anew."""


class StartedRun:
    """Serves a queue, run after run, until no request waits."""

    __slots__ = ("_end", "_host", "_number", "batch", "flow", "queue")

    def __init__(self, host: Host, queue: RunQueue) -> None:
        self._host = host
        self.queue = queue
        self.batch: Sequence[Waiter] = ()
        self.flow: Flow[None]
        self._number = 0  # of the operation under way, or the next one
        self._end: asyncio.Future[None] | None = None

    def serve(self) -> None:
        """Begin one run after the other, until one waits for an answer or no request waits."""
        queue = self.queue
        try:
            while queue.server is self and queue.waiting:
                self.batch = queue.take()
                self.flow = queue.work(self.batch)
                if self._go_on(None, None):
                    return
            self.leave()
        except BaseException:
            self._interrupted()
            raise

    def begin(self) -> None:
        """Serve, unless that has begun: an exception of a signal handler may have come before it."""
        if not self.batch and self.queue.server is self:
            self.serve()

    def _interrupted(self) -> None:
        """Wake the callers of the batch, and serve the queue no longer; it may be that this was done."""
        self._let_go()
        self.leave()

    def _let_go(self) -> None:
        if self.batch:
            self._host.let_go(self.batch)

    def leave(self) -> None:
        """Serve the queue no longer."""
        self._stop()
        self._host.ended(self)

    def _stop(self) -> None:
        """Ignore whatever answer still comes."""
        self._number += 1
        if self._end is not None and not self._end.done() and not self._end.get_loop().is_closed():
            self._end.set_result(None)

    def _hand_over(self, step: Step | Wait) -> None:
        self._stop()
        self._host.hand_over(self, step)

    def end(self, loop: asyncio.AbstractEventLoop) -> "asyncio.Future[None]":
        """Return a future that is settled when the queue is no longer served."""
        if self._end is None:
            self._end = loop.create_future()
        return self._end

    def cut_off(self, error: StoreError) -> None:
        """Fail the run under way."""
        self._number += 1
        fail(self.batch, error)
        self._let_go()
        self.leave()

    def _answered(self, number: int, answer: Any, error: Exception | None) -> None:
        """Go on with the answer to an operation, unless the run has ended meanwhile."""
        try:
            if number != self._number:
                return
            self._number += 1
            if not self._go_on(answer, error):
                self.serve()
        except BaseException:
            self._interrupted()
            raise

    def _go_on(self, answer: Any, error: Exception | None) -> bool:
        """Advance the run; return whether it waits."""
        waits = False
        try:
            if error is None:
                step = self.flow.send(answer)
            elif isinstance(error, StoreError):
                step = self.flow.throw(error)
            else:
                raise error
            while not (waits := self._waits_for(step)):
                step = self.flow.send(None)
        except StopIteration:
            pass
        except Exception as problem:  # noqa: BLE001 - a batch fails, whatever it is
            self._host.give_up(self.batch, problem)
        finally:
            if not waits:
                self._host.let_go(self.batch)
        return waits

    def _waits_for(self, step: Step | Wait) -> bool:
        """Perform a step or begin to; return whether the run waits for it."""
        if isinstance(step, Operation):
            if not self._host.start(step, partial(self._answered, self._number)):
                self._hand_over(step)
            return True
        if isinstance(step, AT_ONCE):
            self._host.perform_at_once(step)
            return False
        self._hand_over(step)
        return True
