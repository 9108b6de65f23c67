"""An event loop in virtual time.

Lives here: time, turns, and what the loop complains about. Never: what runs in it (asynchronous).
"""

import asyncio
import math
import signal
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from .timeline import Stuck, Timeline

T = TypeVar("T")
Script = Coroutine[Any, Any, T] | Generator[Any, None, T]

CPU_SECONDS = 3.0  # CPU time of a whole history; one that takes longer is stuck
MOST_TURNS = 20_000  # without a moment passing


class VirtualLoop(asyncio.BaseEventLoop):
    """Nothing to poll: when nobody is ready, the next instant comes at once.

    ``on_turn`` is called before every turn; ``complaints`` are what nobody handled. Tasks are numbered, so that they
    have an order.
    """

    def __init__(self, timeline: Timeline, on_turn: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.on_turn = on_turn
        self.complaints: list[str] = []
        self._timeline = timeline
        self._selector = self
        self._turns = 0
        self._numbers: WeakKeyDictionary[asyncio.Task[Any], int] = WeakKeyDictionary()
        self._born = 0
        self.set_exception_handler(self._complain)
        self.set_task_factory(self._numbered)

    def time(self) -> float:
        return self._timeline.now

    def select(self, timeout: float | None) -> list[Any]:
        """Let time pass: the selector's part."""
        self._turns += 1
        if self._turns > MOST_TURNS:
            raise Stuck("the loop spins: no time passes")
        if timeout is None or timeout > 0:
            self._turns = 0
            now_us = self._timeline.now_us
            self._timeline.advance(None if timeout is None else now_us + max(1, math.ceil(timeout * 1e6)))
        self.on_turn()
        return []

    def tasks(self) -> list[asyncio.Task[Any]]:
        """All that are not done, in the order in which they began."""
        return sorted(asyncio.all_tasks(self), key=lambda task: self._numbers[task])

    def _numbered(self, loop: Any, coro: Script[T], **options: Any) -> asyncio.Task[T]:
        self._born += 1
        task = asyncio.Task(coro, loop=loop, **options)
        self._numbers[task] = self._born
        return task

    def _complain(self, loop: Any, context: dict[str, Any]) -> None:
        self.complaints.append(
            ": ".join(f"{context[name]!r}" for name in ("message", "exception", "task") if name in context)
        )

    def _process_events(self, event_list: Any) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """There is nobody to wake: one thread runs it all."""


@contextmanager
def watched(seconds: float = CPU_SECONDS) -> Iterator[None]:
    """Raise ``Stuck`` where the main thread is busy for so long, and no turn ever comes."""

    def give_up(*_: object) -> None:
        raise Stuck("it never comes back to the loop")

    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("a loop is watched in the main thread")
    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def end(loop: VirtualLoop) -> None:
    """Shut the loop down as ``asyncio.run`` does: cancel all tasks, wait for them, close."""
    left = loop.tasks()
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    for task in left:
        if not task.cancelled() and task.exception() is not None:
            loop.complaints.append(f"unhandled exception during shutdown: {task.exception()!r}")
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
