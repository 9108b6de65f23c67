"""Waiters in the queues of the async driver: settle them from outside, and wake their callers."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from ..flows.bucket_queue import Losses, Waiter, fail
from ..flows.steps import Sleeper, Wait
from ..operations.errors import StoreError

log = logging.getLogger(__name__)


def settle(waiting: Sequence[Waiter], error: StoreError, losses: Losses, *, wake: bool = True) -> None:
    """Remove waiters from their queues, and settle them as failed."""
    for waiter in waiting:
        del waiter.queue.waiting[waiter]
    fail(waiting, error)
    log_losses(waiting, losses)
    if wake:
        wake_up(waiting)


def log_losses(batch: Sequence[Waiter], losses: Losses) -> None:
    """Log the tokens that failed give-backs lost."""
    for waiter in batch:
        outcome = waiter.outcome
        if outcome is not None and outcome.error is not None and (lost := losses.line(waiter)) is not None:
            log.warning("%s", lost)


async def sleep(step: Wait, sleep_async: Callable[[float], Awaitable[None]]) -> None:
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


def wake_up(batch: Sequence[Sleeper]) -> None:
    """Wake the callers that wait for these waiters."""
    for waiter in batch:
        waker: asyncio.Future[None] | None = waiter.waker
        if waker is not None and not waker.done() and not waker.get_loop().is_closed():
            waker.set_result(None)
