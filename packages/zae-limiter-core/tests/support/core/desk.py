"""One process whose flows are played by hand over a table in memory, one after the other or in one batch.

Lives here: that player. Never: a claim.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from zae_limiter import RateLimitExceeded
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.flows.bucket_queue import Waiter
from zae_limiter.flows.process.namespace_state import NamespaceState
from zae_limiter.flows.steps import Enqueue, Flow, Log, Parallel, Post, Remind, Sleep, Wait, Wake, play
from zae_limiter.operations.errors import StoreError
from zae_limiter.testing import ManualClock


class Desk:
    """Plays flows on one table. Pauses between attempts take no time; waits for tokens move the clock."""

    def __init__(self, namespace_state: NamespaceState, table: MemoryTable, clock: ManualClock) -> None:
        self.namespace_state = namespace_state
        self.table = table
        self.clock = clock
        self._asleep: list[Flow[Any]] = []  # a flow that is dropped leaves its line

    def answer(self, flow: Flow[Any]) -> Any:
        """What the flow returns, or the refusal that it raises."""
        try:
            return play(flow, self._perform)
        except RateLimitExceeded as refusal:
            return refusal

    def falls_asleep(self, flow: Flow[Any]) -> bool:
        """Whether the flow waits for tokens; then it stays in its line."""
        perform = self._perform_until_asleep(flow)
        try:
            play(flow, perform)
        except _Asleep:
            return True
        except RateLimitExceeded:
            pass
        return False

    def answer_behind(self, others: Iterable[Flow[Any]], flow: Flow[Any]) -> Any:
        """The answer of a flow whose first requests are served in one batch with those of others, before it."""
        for other in others:
            with suppress(RateLimitExceeded):
                self._enter(other)
        try:
            step = self._enter(flow)
        except RateLimitExceeded as refusal:
            return refusal
        return self.answer(_resumed(flow, step))

    def _enter(self, flow: Flow[Any]) -> Any:
        step: Any = next(flow)
        steps: Iterable[Any] = step.steps if isinstance(step, Parallel) else (step,)
        for each in steps:
            each.waiter.queue.waiting[each.waiter] = None
        return step

    def _perform_until_asleep(self, flow: Flow[Any]) -> Callable[[Any], Any]:
        def perform(step: Any) -> Any:
            if isinstance(step, Wait):
                self._asleep.append(flow)
                raise _Asleep
            return self._perform(step)

        return perform

    def _perform(self, step: Any) -> Any:
        if isinstance(step, Enqueue | Post):
            return self._serve(step.waiter)
        if isinstance(step, Parallel):
            return [self._perform_one(each) for each in step.steps]
        if isinstance(step, Wait):
            self.clock.advance(step.seconds)
        if isinstance(step, Wait | Sleep | Log | Wake | Remind):
            return None
        return self.table.execute(step)

    def _perform_one(self, step: Any) -> Any:
        try:
            return self._perform(step)
        except StoreError as error:
            return error

    def _serve(self, waiter: Waiter) -> None:
        queue = waiter.queue
        if waiter.outcome is None:
            queue.waiting.setdefault(waiter)
        while waiter.outcome is None:
            batch = queue.take()
            queue.server = self
            play(queue.work(batch), self._perform)
            queue.server = None


class _Asleep(Exception):
    """A flow waits for tokens."""


def _resumed(flow: Flow[Any], step: Any) -> Flow[Any]:
    """The flow from a step on that it has yielded already."""
    answer = yield step
    while True:
        try:
            step = flow.send(answer)
        except StopIteration as stop:
            return stop.value
        answer = yield step
