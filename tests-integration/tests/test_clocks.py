"""What lives here: processes on machines whose clocks are hours off, and stores that tell the time.
What never does: an instant that a test sets (test_time).
"""

import asyncio
import random
import time

import pytest

from support.integration.harness import Harness
from zae_limiter import Limit, RateLimiter, RateLimitExceeded
from zae_limiter.clock.system import SystemClock

pytestmark = pytest.mark.needs("endpoint", "atomic")

HOUR, DAY = 3600, 24 * 3600
LIMIT = Limit.per_second("tpm", 50)
ENOUGH = 40  # for each: more than the burst has for all
TIMEOUT_SECONDS = 120
# Between two calls, at random. Clocks agree to some milliseconds: of callers that ask again at once, the one that is
# first by so little gets every token, as in any contest without a line.
PAUSE_SECONDS = 0.04


def machine(fast_seconds: int) -> SystemClock:
    """A machine whose wall clock is wrong by so much."""
    return SystemClock(wall_ns=lambda: time.time_ns() + fast_seconds * 10**9)


def true_ms() -> float:
    """The time of this machine, which is that of the emulators."""
    return time.time_ns() / 10**6


class Process:
    """A limiter, what it got, and by how much its time was wrong meanwhile: at least and at most, in ms."""

    def __init__(self, limiter: RateLimiter) -> None:
        self.limiter = limiter
        self.admitted = 0
        self.least = self.most = 0.0

    def look(self) -> None:
        """See by how much its time is wrong now."""
        before, now, after = true_ms(), self.limiter.repository.namespace_state.now(), true_ms()
        self.least = min(self.least, now - after)
        self.most = max(self.most, now + 1 - before)

    async def take(self) -> None:
        """Try to get a token."""
        self.look()
        try:
            async with self.limiter.acquire("key", "gpt-4", {"tpm": 1}):
                self.admitted += 1
        except RateLimitExceeded:
            pass
        self.look()
        await asyncio.sleep(random.uniform(0, PAUSE_SECONDS))


async def take_until_all_have_enough(process: Process, processes: list[Process]) -> None:
    while min(each.admitted for each in processes) < ENOUGH:
        await process.take()


async def test_fast_and_slow_clocks_neither_starve_nor_mint(harness: Harness) -> None:
    machines = [SystemClock(), machine(HOUR), machine(-DAY)]
    processes = [Process(await harness.open(machine=each)) for each in machines]
    await processes[0].limiter.set_resource_defaults("gpt-4", [LIMIT])
    begun = true_ms()
    async with asyncio.timeout(TIMEOUT_SECONDS), asyncio.TaskGroup() as group:
        for process in processes:
            group.create_task(take_until_all_have_enough(process, processes))
    differ_ms = max(each.most for each in processes) - min(each.least for each in processes)
    assert differ_ms < 5000
    elapsed_ms = true_ms() - begun + differ_ms
    admitted = sum(each.admitted for each in processes)
    assert admitted <= LIMIT.burst + elapsed_ms * LIMIT.refill_amount / (LIMIT.refill_period * 1000)
    assert harness.consumed("key", "gpt-4", "tpm") == 1000 * admitted


async def test_a_clock_that_is_right_stays(harness: Harness) -> None:
    limiter = await harness.open()
    for _ in range(50):
        await limiter.repository.ping()
        await asyncio.sleep(0.02)
    before, now, after = true_ms(), limiter.repository.namespace_state.now(), true_ms()
    assert before - 50 < now < after + 50
