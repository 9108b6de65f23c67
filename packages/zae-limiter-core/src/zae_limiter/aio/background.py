"""Tasks that a loop may be closed over."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any


def background_task(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """A task that may be pending when its loop is closed: asyncio says nothing of it, who made it logs what is lost."""
    task = loop.create_task(work)
    with suppress(AttributeError):  # a task of another make
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    return task
