"""What lives here: what processes get that take from one bucket at the same time: never more than is due.
What never does: what it costs (test_costs), simulated time (test_time).
"""

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from support.integration.harness import Harness
from support.integration.load import PROCESSES, Job, Load, Taken
from zae_limiter import Limit, RateLimiter
from zae_limiter.testing import ManualClock

pytestmark = [pytest.mark.needs("endpoint", "atomic"), pytest.mark.differs]

TEN_YEARS = 10 * 365 * 24 * 3600
STANDING = Limit.custom("tpm", 1000, refill_amount=1, refill_period=TEN_YEARS)
MINUTE = Limit.per_minute("tpm", 100)
SECOND = Limit.per_second("tpm", 50)


@pytest.fixture(scope="session")
def load() -> Iterator[Load]:
    load = Load()
    yield load
    load.close()


def job(harness: Harness, *, most: int = 1, seconds: float | None = None) -> Job:
    url = harness.target.endpoint_url or ""
    return Job(url, harness.table_name, "key", "gpt-4", "tpm", harness.variant, most=most, seconds=seconds)


async def test_processes_that_take_until_none_is_left_get_exactly_what_there_was(harness: Harness, load: Load) -> None:
    limiter = await harness.open()
    await limiter.set_resource_defaults("gpt-4", [STANDING])
    taken = load.take(job(harness, most=3))
    assert taken.admitted == 1000
    assert await limiter.available("key", "gpt-4") == {"tpm": 0}
    assert harness.consumed("key", "gpt-4", "tpm") == 1_000_000


async def test_processes_that_overload_a_bucket_get_no_more_than_is_due(harness: Harness, load: Load) -> None:
    limiter = await harness.open()
    await limiter.set_resource_defaults("gpt-4", [SECOND])
    taken = load.take(job(harness, seconds=4))
    assert 0.8 * taken.due(SECOND, at_first=50) <= taken.admitted <= taken.due(SECOND, at_first=50)
    assert harness.consumed("key", "gpt-4", "tpm") == 1000 * taken.admitted


class Past:
    """A limiter whose clock is an hour behind, and can be brought to the present."""

    def __init__(self, limiter: RateLimiter, clock: ManualClock) -> None:
        self.limiter = limiter
        self.clock = clock

    async def take(self, amount: int) -> None:
        async with self.limiter.acquire("key", "gpt-4", {"tpm": amount}):
            pass

    def reach_the_present(self) -> None:
        self.clock.advance(ms=time.time_ns() // 1_000_000 - self.clock.now_ms())


@pytest.fixture
async def past(harness: Harness) -> Past:
    clock = ManualClock(time.time_ns() // 1_000_000 - 3_600_000)
    limiter = await harness.open(clock=clock)
    await limiter.set_resource_defaults("gpt-4", [MINUTE])
    return Past(limiter, clock)


def hit(harness: Harness, load: Load, processes: int) -> Taken:
    return load.take(job(harness, most=5), processes=processes)


def is_one_burst(taken: Taken, burst: int) -> bool:
    return burst <= taken.admitted <= taken.due(MINUTE, at_first=burst)


@pytest.mark.parametrize("processes", [1, PROCESSES])
async def test_a_bucket_that_filled_up_while_idle_gives_one_burst(
    harness: Harness, load: Load, past: Past, processes: int
) -> None:
    await past.take(100)
    assert is_one_burst(hit(harness, load, processes), 100)


@pytest.mark.parametrize("processes", [1, PROCESSES])
async def test_the_same_after_a_long_busy_time(harness: Harness, load: Load, past: Past, processes: int) -> None:
    await past.take(100)
    for _ in range(110):
        past.clock.advance(30)
        await past.take(50)
    assert is_one_burst(hit(harness, load, processes), 100)


@pytest.mark.parametrize("processes", [1, PROCESSES])
async def test_an_adjust_after_the_bucket_filled_up_again_comes_off_the_burst(
    harness: Harness, load: Load, past: Past, processes: int
) -> None:
    async with past.limiter.acquire("key", "gpt-4", {"tpm": 60}) as lease:
        past.reach_the_present()
        await lease.adjust(tpm=30)
    taken = replace(
        hit(harness, load, processes), begun_ms=past.clock.now_ms()
    )  # below its ceiling it refills from then on
    assert is_one_burst(taken, 70)


@pytest.mark.parametrize("processes", [1, PROCESSES])
async def test_a_release_after_the_bucket_filled_up_again_adds_nothing_to_the_burst(
    harness: Harness, load: Load, past: Past, processes: int
) -> None:
    async with past.limiter.acquire("key", "gpt-4", {"tpm": 60}) as lease:
        past.reach_the_present()
        await lease.release(tpm=30)
    assert is_one_burst(hit(harness, load, processes), 100)
