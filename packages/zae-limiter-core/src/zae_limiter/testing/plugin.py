"""Fixtures for the tests of programs that use this library; pytest loads them where a conftest.py asks for them.

They give a limiter in memory, in both variants, over a clock that the test moves: no network, no account.

    pytest_plugins = ["zae_limiter.testing.plugin"]

    async def test_the_second_request_waits_a_minute(limiter, manual_clock):
        await limiter.set_system_defaults([Limit.per_minute("rpm", 1)])
        ...
        manual_clock.advance(seconds=60)
"""

import pytest

from ..aio.limiter import RateLimiter
from ..aio.repository import Repository
from ..sync.limiter import SyncRateLimiter
from ..sync.repository import SyncRepository
from . import ManualClock


@pytest.fixture
def manual_clock() -> ManualClock:
    """Return the clock of ``limiter`` and ``sync_limiter``."""
    return ManualClock()


@pytest.fixture
def limiter(manual_clock: ManualClock) -> RateLimiter:
    """Return a ``RateLimiter`` over an empty table in memory."""
    return RateLimiter(Repository.in_memory(clock=manual_clock))


@pytest.fixture
def sync_limiter(manual_clock: ManualClock) -> SyncRateLimiter:
    """Return a ``SyncRateLimiter`` over an empty table in memory, another one than that of ``limiter``."""
    return SyncRateLimiter(SyncRepository.in_memory(clock=manual_clock))
