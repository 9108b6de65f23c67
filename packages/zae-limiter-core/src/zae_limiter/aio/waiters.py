"""Waiters in the queues of the async driver: settle them from outside, and wake their callers."""

import asyncio
import logging
from collections.abc import Sequence

from ..flows.bucket_queue import Waiter, fail, loss
from ..operations.errors import StoreError

log = logging.getLogger(__name__)


def settle(waiting: Sequence[Waiter], error: StoreError, *, wake: bool = True) -> None:
    """Remove waiters from their queues, and settle them as failed."""
    for waiter in waiting:
        del waiter.queue.waiting[waiter]
    fail(waiting, error)
    log_losses(waiting)
    if wake:
        wake_up(waiting)


def log_losses(batch: Sequence[Waiter]) -> None:
    """Log the tokens that failed give-backs lost."""
    for waiter in batch:
        if (lost := loss(waiter)) is not None:
            log.warning(lost)


def wake_up(batch: Sequence[Waiter]) -> None:
    """Wake the callers that wait for these waiters."""
    for waiter in batch:
        waker: asyncio.Future[None] | None = waiter.waker
        if waker is not None and not waker.done() and not waker.get_loop().is_closed():
            waker.set_result(None)
