"""Tasks that may be pending when their event loop is closed."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any


def background_task(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """A task that asyncio does not report if it is pending when its loop is closed; the caller logs the loss."""
    task = loop.create_task(work)
    with suppress(AttributeError):  # a task of another implementation
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    return task
