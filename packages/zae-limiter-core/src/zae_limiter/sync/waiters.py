"""Waiters in the queues of the sync driver: settle them from outside, and wake their callers."""

from collections.abc import Sequence

from ..flows.bucket_queue import Waiter, fail
from ..operations.errors import StoreError


def settle(waiting: Sequence[Waiter], error: StoreError) -> None:
    """Remove waiters from their queues, and settle them as failed; with the lock held."""
    for waiter in waiting:
        del waiter.queue.waiting[waiter]
    fail(waiting, error)
    wake_up(waiting)


def wake_up(waiters: Sequence[Waiter]) -> None:
    """Wake the callers of settled waiters, once; with the lock held."""
    for waiter in waiters:
        if waiter.waker is not None:
            waker, waiter.waker = waiter.waker, None
            waker.release()
