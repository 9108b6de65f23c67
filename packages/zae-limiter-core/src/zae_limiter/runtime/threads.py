"""Do work in a thread that does not keep the process from ending.

Threads begin by ``_thread``: the exception of a signal handler would leave the locks of ``threading.Thread.start`` in
disorder.
"""

import socket
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


def in_thread(work: Callable[[], T]) -> "Future[T]":
    """Start ``work`` in a thread; in this one if the interpreter starts no more threads."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - the waiting caller raises it
            future.set_exception(error)
        else:
            future.set_result(result)

    _start(run)
    return future


def within(work: Callable[[], T], seconds: float) -> T:
    """Return the result of ``work`` in another thread. Raises ``TimeoutError`` if it takes longer than ``seconds``.

    It waits with a bare lock, which the exception of a signal handler interrupts cleanly.
    """
    outcome: list[Callable[[], T]] = []
    done = allocate_lock()
    done.acquire()

    def run() -> None:
        try:
            result = work()
            outcome.append(lambda: result)
        except BaseException as error:  # noqa: BLE001 - the waiting caller raises it
            outcome.append(partial(_raise, error))
        finally:
            done.release()

    _start(run)
    if not done.acquire(timeout=seconds):
        raise TimeoutError("timed out")
    return outcome[0]()


def addresses_of(host: str, port: int) -> list[Any]:
    """Return the addresses of a host, as ``socket.getaddrinfo`` does, which may take any time."""
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)


def is_address(host: str) -> bool:
    """Return whether ``host`` is an IP address, so that no name has to be resolved."""
    return ":" in host or host.replace(".", "").isdigit()


def _start(run: Callable[[], None]) -> None:
    begun: list[None] = []

    def once() -> None:
        begun.append(None)
        run()

    try:
        start_new_thread(once, ())
    except RuntimeError:  # the interpreter ends, or has no more threads
        if not begun:
            run()


def _raise(error: BaseException) -> Any:
    raise error
