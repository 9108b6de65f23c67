"""Run work beside a caller: tasks that may be pending when their event loop is closed, threads, calls with a
deadline.
"""

import asyncio
import inspect
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


def background_task(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Return a task that asyncio does not report if it is pending when its loop is closed; the caller logs the loss."""
    task = loop.create_task(work)
    with suppress(AttributeError):  # a task of another implementation
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    return task


def discard(task: asyncio.Task[None]) -> None:
    """Close the coroutine of a task whose event loop is closed.

    The garbage collector would close it in any order: Python 3.11 may crash then, and prints errors.
    """
    work = task.get_coro()
    if task.get_loop().is_closed() and inspect.iscoroutine(work):
        with suppress(RuntimeError):  # a part of it waits again while it is closed
            work.close()


async def result_of(future: "Future[T]") -> T:
    """Wait for a future of a thread and return its result; a cancelled caller does not cancel the future."""
    loop = asyncio.get_running_loop()
    finished = loop.create_future()

    def finish() -> None:
        if not finished.done():
            finished.set_result(None)

    def tell(_: "Future[T]") -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(finish)

    future.add_done_callback(tell)
    await finished
    return future.result()


def is_last_of_turn(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether nothing else runs before the loop looks for events again, if that is known: asyncio's own loop has
    what is to run, others do not show it.
    """
    return not getattr(loop, "_ready", True)


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the running event loop. Raises ``TypeError`` without one, as under trio."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        advice = "under trio, and without an event loop, use SyncRateLimiter in a thread"
        raise TypeError(f"this variant needs asyncio, whose event loop does not run here: {advice}") from None
