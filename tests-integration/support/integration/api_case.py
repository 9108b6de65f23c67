"""What lives here: what the cases about every method have in common.
What never does: a claim.
"""

import inspect
from collections.abc import Awaitable
from typing import Any, NamedTuple

import pytest

from zae_limiter import Limit, RateLimiter, Repository
from zae_limiter.testing import ManualClock

from .harness import Harness

RPM, TPM = Limit.per_minute("rpm", 60), Limit.per_minute("tpm", 1000)


class ApiCase(NamedTuple):
    """A process on a table of its own."""

    harness: Harness
    limiter: RateLimiter
    clock: ManualClock

    @property
    def repository(self) -> Repository:
        return self.limiter.repository


async def now(value: Any) -> Any:
    """What a call of either variant came to."""
    return await value if inspect.isawaitable(value) else value


async def refused(error: type[Exception], *calls: Awaitable[Any]) -> None:
    """Each of the calls raises such an error."""
    for call in calls:
        with pytest.raises(error):
            await call
