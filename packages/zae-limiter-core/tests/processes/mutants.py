"""Deliberate faults of the drivers, to prove that the simulation finds them.

Lives here: methods made wrong. Never: a fault that can leave this package.
"""

import asyncio
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from zae_limiter import Limit
from zae_limiter.aio import budgets
from zae_limiter.aio.budgets import RunBudget
from zae_limiter.aio.driver import CUT_OFF, Driver
from zae_limiter.flows.bucket_queue import RunQueue, Waiter
from zae_limiter.flows.records import run_budgets
from zae_limiter.operations.errors import OutcomeUnknown
from zae_limiter.operations.values import Put
from zae_limiter.sync.driver import SyncDriver

from .histories import finding

Fault = Callable[[], AbstractContextManager[Any]]


class Mutant(NamedTuple):
    """One fault, in the driver of a variant; ``since`` is the version of Python that shows it."""

    name: str
    variant: str
    fault: Fault
    since: tuple[int, int] = (3, 11)


def _patched(driver: Any, **methods: Any) -> Fault:
    @contextmanager
    def faulty() -> Iterator[None]:
        with ExitStack() as stack:
            for name, method in methods.items():
                stack.enter_context(patch.object(driver, name, method))
            yield

    return faulty


# both variants


def _no_unwind(self: Any, *waiters: Any) -> None:
    """Tokens that were taken for a caller that left stay taken."""


def _no_wake(self: Any, batch: Sequence[Waiter]) -> None:
    """Whoever waits for the batch waits on."""


# async


async def _run_without_budget(self: Driver, flow: Any, *, budget: float | None = None) -> Any:
    return await _RUN(self, flow)


async def _drain_by_gather(self: Driver) -> None:
    """The loop of done tasks that never yields, so that they are never forgotten."""
    while self._active:
        await asyncio.gather(*self._active, return_exceptions=True)


async def _no_drain(self: Driver) -> None:
    """Writes under way are left to themselves."""


async def _serve_until_cancelled(self: Driver, queue: RunQueue, token: object, *_: object) -> None:
    """A serving task that is cancelled leaves its queue, and the waiters in it."""
    while queue.waiting and queue.server is token:
        batch = queue.take()
        try:
            await self._play(queue.work(batch), [])
        except asyncio.CancelledError:
            for waiter in batch:
                waiter.fail(OutcomeUnknown(CUT_OFF))
            raise
        finally:
            self.let_go(batch)
    if queue.server is token:
        queue.server = None


def _served_by_nobody(self: Driver, queue: RunQueue, token: object, begun: object, task: asyncio.Task[None]) -> None:
    self._active.pop(task, None)


def _no_leaving(self: Driver, loop: asyncio.AbstractEventLoop) -> None:
    """What was under way on a loop that is gone is waited for."""


def _without_deadline(self: Any, *arguments: Any, **options: Any) -> None:
    _INITS[type(self)](self, *arguments, **{**options, "operation_timeout": 1e6})


_RUN = Driver.run
_SYNC_RUN = SyncDriver.run
_INITS: dict[type, Callable[..., None]] = {Driver: Driver.__init__, SyncDriver: SyncDriver.__init__}


# sync


def _sync_run_without_budget(self: SyncDriver, flow: Any, *, budget: float | None = None) -> Any:
    return _SYNC_RUN(self, flow)


def _serve_own_unless_interrupted(self: SyncDriver, waiter: Waiter, call: Any) -> None:
    """A server that is interrupted keeps the queue."""
    self._work(waiter.queue, [waiter], call.until)
    self._pass_on(waiter.queue, waiter)


def _abandon_without_queue(self: SyncDriver, waiters: list[Waiter]) -> None:
    for waiter in waiters:
        with self._lock:
            if waiter.droppable and waiter in waiter.queue.waiting:
                del waiter.queue.waiting[waiter]
            waiter.unwanted = waiter.outcome is None
        if not waiter.unwanted:
            self._unwind([waiter], waiters)


def _pass_on_to_nobody(self: SyncDriver, queue: RunQueue, server: object) -> None:
    """A server leaves the queue, though others wait."""
    with self._lock:
        if queue.server is server:
            queue.server = None
            self._active.discard(queue)


def _next_batch_unlocked(self: SyncDriver, queue: RunQueue, token: object) -> list[Waiter] | None:
    """Between the last look at the queue and the end of its service, a waiter may come."""
    if queue.waiting:
        return queue.take()
    with self._lock:
        queue.server = None
        self._active.discard(queue)
    return None


# budgets of runs


def _no_clock(self: RunBudget, request: Any, cause: Any = None) -> None:
    """A budget that is over refuses by its bucket alone."""


def _end_here_alone(*_: Any) -> Iterator[Any]:
    """The process that ends a budget tells no other one."""
    yield from ()


def _opened_anew(item: Any, _: Any) -> Put:
    """Whoever opens a budget makes its bucket, whether there is one or not."""
    return Put(item)


def _costs_nothing(run: str, limits: Sequence[Limit], *_: Any) -> dict[str, int]:
    """A call takes nothing from its run."""
    return {limit.name: 0 for limit in limits}


def _of_budgets(**names: Any) -> Fault:
    return _patched(run_budgets, **names)


MUTANTS = (
    Mutant("a call is served behind the end of its run", "budgets", _patched(RunBudget, _refuse_if_over=_no_clock)),
    Mutant("an end holds in one process", "budgets", _of_budgets(end_budget=_end_here_alone)),
    Mutant("the last opening decides", "budgets", _of_budgets(Put=_opened_anew)),
    Mutant("a call costs its run nothing", "budgets", _patched(budgets, cost_of=_costs_nothing)),
    Mutant("close waits by gather", "async", _patched(Driver, drain=_drain_by_gather), (3, 12)),
    Mutant("close waits for nobody", "async", _patched(Driver, drain=_no_drain)),
    Mutant(
        "a cancelled serve task hands over to nobody",
        "async",
        _patched(Driver, _serve=_serve_until_cancelled, _served=_served_by_nobody),
    ),
    Mutant("a queue stays with a loop that is gone", "async", _patched(Driver, _leave_loop=_no_leaving)),
    Mutant("what an abandoned waiter took stays taken", "async", _patched(Driver, _unwind=_no_unwind)),
    Mutant("the budget is not enforced", "async", _patched(Driver, run=_run_without_budget)),
    Mutant("an operation has no deadline", "async", _patched(Driver, __init__=_without_deadline)),
    Mutant(
        "a leader that is interrupted keeps the queue",
        "sync",
        _patched(SyncDriver, _serve_own=_serve_own_unless_interrupted, _abandon=_abandon_without_queue),
    ),
    Mutant("a leader passes on to nobody", "sync", _patched(SyncDriver, _pass_on=_pass_on_to_nobody)),
    Mutant("the last look at a queue is not locked", "sync", _patched(SyncDriver, _next_batch=_next_batch_unlocked)),
    Mutant("nobody is woken", "sync", _patched(SyncDriver, _let_go=_no_wake)),
    Mutant("what an abandoned waiter took stays taken in threads", "sync", _patched(SyncDriver, _unwind=_no_unwind)),
    Mutant("the budget is not enforced in threads", "sync", _patched(SyncDriver, run=_sync_run_without_budget)),
)


def killer(mutant: Mutant, seeds: Iterable[int]) -> tuple[int, str]:
    """The first seed that finds the mutant, and what it finds. Raises ``LookupError`` where none does."""
    for seed in seeds:
        with mutant.fault():
            problem = finding(mutant.variant, seed)
        if problem and not finding(mutant.variant, seed):
            return seed, problem
    raise LookupError(f"nobody found {mutant.name!r}")


def shown(mutant: Mutant) -> bool:
    """Whether this Python shows the fault."""
    return sys.version_info >= mutant.since
