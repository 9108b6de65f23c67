"""The deadline of an operation on an event loop."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from ..operations.errors import OutcomeUnknown

T = TypeVar("T")


async def in_time(call: Awaitable[T], seconds: float) -> T:
    """Return the result of ``call``. Raises ``OutcomeUnknown`` if it takes longer than ``seconds``."""
    try:
        async with asyncio.timeout(seconds) as time:
            return await call
    except TimeoutError as error:
        if not time.expired():
            raise
        raise OutcomeUnknown(f"no answer within {seconds:g} s") from error
