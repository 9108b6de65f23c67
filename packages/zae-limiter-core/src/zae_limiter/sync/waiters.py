"""Waiters in the queues of the sync driver: settle them from outside, and wake their callers."""

import threading
import time
from collections.abc import Callable, Sequence

from ..flows.bucket_queue import Waiter, fail
from ..flows.steps import Sleeper, Wait
from ..operations.errors import StoreError


def settle(waiting: Sequence[Waiter], error: StoreError) -> None:
    """Remove waiters from their queues, and settle them as failed; with the lock held."""
    for waiter in waiting:
        del waiter.queue.waiting[waiter]
    fail(waiting, error)
    wake_up(waiting)


def sleep(step: Wait, pause: Callable[[float], None], lock: threading.Lock) -> None:
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


def wake_up(waiters: Sequence[Sleeper]) -> None:
    """Wake the callers of settled waiters, once; with the lock held."""
    for waiter in waiters:
        if waiter.waker is not None:
            waker, waiter.waker = waiter.waker, None
            waker.release()
