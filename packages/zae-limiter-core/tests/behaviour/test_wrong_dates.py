"""One process that is shown a wrong ``Date``, and another at the same buckets: the other must see nothing of it."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from email.utils import formatdate
from typing import Any

import pytest

from zae_limiter import Limit, RateLimiter, RateLimitExceeded, Repository
from zae_limiter.clock.system import SystemClock
from zae_limiter.engines.memory import table as memory
from zae_limiter.engines.memory.store import MemoryStore
from zae_limiter.operations.values import Operation
from zae_limiter.settings import Options
from zae_limiter.stores import Capabilities

EPOCH_MS = 1_790_000_000_300
HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS
REQUEST_MS = 300
BURST = 10
LIMIT = Limit.per_minute("rpm", BURST)

DateShown = Callable[[int], int]


def off(ms: int) -> DateShown:
    """A date that is wrong by so much."""
    return lambda true_ms: true_ms + ms


def frozen_at(ms: int) -> DateShown:
    """A date that somebody repeats."""
    return lambda _: EPOCH_MS + ms


def truth(true_ms: int) -> int:
    """An honest date."""
    return true_ms


class World:
    """The true time, which every request lets pass, and the table that all processes share."""

    def __init__(self) -> None:
        self.elapsed_ms = 0
        self.table = memory.MemoryTable()

    @property
    def now_ms(self) -> int:
        """The true time, in epoch milliseconds."""
        return EPOCH_MS + self.elapsed_ms


class Dated(MemoryStore):
    """A process's way to the table: its answers have dates, the next ones as ``dates`` say."""

    def __init__(self, world: World, *, wall_off_ms: int = 0) -> None:
        super().__init__(world.table)
        self.world = world
        self.dates: list[DateShown] = []
        self.requests = 0
        self.clock = SystemClock(
            wall_ns=lambda: (world.now_ms + wall_off_ms) * 10**6,
            monotonic_ns=lambda: (10**7 + world.elapsed_ms) * 10**6,
        )

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, clock=self.clock)

    async def perform(self, operation: Operation[Any]) -> Any:
        sent_ms, self.requests = 10**7 + self.world.elapsed_ms, self.requests + 1
        self.world.elapsed_ms += REQUEST_MS
        date_of = self.dates.pop(0) if self.dates else truth
        try:
            return await super().perform(operation)
        finally:
            date = formatdate(date_of(self.world.now_ms) // 1000, usegmt=True)
            self.clock.on_answer(date, sent_ms, 10**7 + self.world.elapsed_ms)


class Process:
    """A limiter over a store whose answers may have wrong dates."""

    def __init__(self, store: Dated, limiter: RateLimiter) -> None:
        self.store = store
        self.limiter = limiter

    @classmethod
    async def start(cls, world: World, dates: Iterable[DateShown] = (), *, wall_off_ms: int = 0) -> "Process":
        store = Dated(world, wall_off_ms=wall_off_ms)
        store.dates += dates
        return cls(store, RateLimiter(repository=await Repository.over(store, Options(rejection_staleness=0))))

    @property
    def error_ms(self) -> int:
        """How far its time is fast."""
        return self.store.clock.now_ms() - self.store.world.now_ms

    async def take(self, limit: Limit = LIMIT, amount: int = 1) -> float:
        """How long it is told to wait for the tokens, in seconds: 0 where it gets them."""
        try:
            async with self.limiter.acquire("key", "gpt-4", {limit.name: amount}, limits=[limit]):
                return 0
        except RateLimitExceeded as error:
            return error.retry_after_seconds


offs = pytest.mark.parametrize("off_ms", [HOUR_MS, YEAR_MS, -HOUR_MS, 90_000, -YEAR_MS])


@offs
async def test_a_wrong_date_does_not_lock_a_full_bucket_for_others(off_ms: int) -> None:
    world = World()
    misled, other = await Process.start(world), await Process.start(world)
    assert await misled.take() == 0
    world.elapsed_ms += 60_000
    misled.store.dates = [truth, off(off_ms)]
    assert await misled.take() == await misled.take() == 0
    assert await misled.take() == 0
    assert await other.take() == 0


@offs
async def test_a_wrong_first_date_does_not_lock_a_bucket_for_others(off_ms: int) -> None:
    world = World()
    misled, other = await Process.start(world, [off(off_ms)]), await Process.start(world)
    assert abs(misled.error_ms) < 1000
    assert await misled.take() == 0
    assert await other.take() == 0


@offs
async def test_a_wrong_date_does_not_anchor_a_new_bucket(off_ms: int) -> None:
    world = World()
    misled, other = await Process.start(world), await Process.start(world)
    misled.store.dates = [off(off_ms)]  # the answer that says that there is no bucket
    assert await misled.take() == 0
    assert await other.take(amount=BURST - 1) == 0


@offs
async def test_a_wrong_date_does_not_anchor_a_reshape(off_ms: int) -> None:
    world = World()
    misled, other = await Process.start(world), await Process.start(world)
    assert await misled.take() == 0
    misled.store.dates = [off(off_ms)]
    assert await misled.limiter.repository.ping()
    assert await misled.take(Limit.per_minute("rpm", 2 * BURST)) == 0
    assert await other.take(amount=BURST - 2) == 0


@offs
@pytest.mark.parametrize("count", [1, 4])
async def test_a_wrong_date_makes_no_tokens(off_ms: int, count: int) -> None:
    world = World()
    misled, other = await Process.start(world), await Process.start(world)
    assert await misled.take(amount=BURST) == 0
    misled.store.dates = [off(off_ms)] * count
    for _ in range(count):
        await misled.limiter.repository.ping()
    assert await misled.take(amount=BURST) > 0
    assert await other.take(amount=BURST) > 0


@offs
async def test_a_refused_process_is_told_the_truth_by_a_process_that_was_shown_a_wrong_date(off_ms: int) -> None:
    world = World()
    misled, other = await Process.start(world), await Process.start(world)
    misled.store.dates = [off(off_ms)]
    await misled.limiter.repository.ping()
    assert await misled.take(amount=BURST) == 0
    assert 0 < await other.take() <= 60 / BURST + 1


@pytest.mark.parametrize("off_ms", [HOUR_MS, -24 * HOUR_MS, 3000])
async def test_a_process_whose_machine_is_wrong_is_right_once_it_is_open(off_ms: int) -> None:
    world = World()
    process = await Process.start(world, wall_off_ms=off_ms)
    assert abs(process.error_ms) <= 1000
    assert 2 <= process.store.requests <= 8


@pytest.mark.parametrize("dates", [[off(HOUR_MS)], [frozen_at(0)] * 3, [off(YEAR_MS), truth, off(-HOUR_MS)]])
async def test_a_process_whose_machine_is_wrong_and_that_is_shown_wrong_dates_asks_until_two_answers_agree(
    dates: list[DateShown],
) -> None:
    world = World()
    process = await Process.start(world, dates, wall_off_ms=24 * HOUR_MS)
    assert abs(process.error_ms) <= 1000


async def test_a_process_whose_machine_is_right_opens_with_the_requests_that_it_needs() -> None:
    world = World()
    await Process.start(world)
    honest, misled = await Process.start(world), await Process.start(world, [off(HOUR_MS)])
    assert honest.store.requests == 1
    assert misled.store.requests == 2


async def test_where_no_two_answers_agree_the_machine_is_believed(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    process = await Process.start(world, [frozen_at(-HOUR_MS)] * 100)
    assert process.error_ms == 0
    assert "the clock is used until they agree" in caplog.text
