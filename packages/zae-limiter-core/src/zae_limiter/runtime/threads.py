"""Work in a thread that does not keep the process from ending."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def in_thread(work: Callable[[], T]) -> "Future[T]":
    """Start ``work`` in a daemon thread; in this one if the interpreter starts no more threads."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - whoever waits raises it
            future.set_exception(error)
        else:
            future.set_result(result)

    try:
        Thread(target=run, daemon=True, name="zae-limiter-opening").start()
    except RuntimeError:  # the interpreter ends, or has no more threads
        run()
    return future
