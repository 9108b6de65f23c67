"""What lives here: what hours bring, on a clock that the test moves: limits of very different rates in one bucket.
What never does: several processes (test_concurrency), a change of limits (test_changes).
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from support.integration.clocks import START_MS
from support.integration.harness import Harness
from zae_limiter import Limit, RateLimiter, RateLimitExceeded
from zae_limiter.testing import ManualClock

SLOW, FAST = Limit.per_day("slow", 100), Limit.per_second("fast", 100)
PAUSES_MS = ((1, 20), (100, 900), (10_000, 60_000))


@dataclass(slots=True)
class Ledger:
    """What a limit owes, by itself, exactly: the burst, and every millitoken of each instant."""

    limit: Limit
    at_ms: int
    balance: int = field(init=False)

    def __post_init__(self) -> None:
        self.balance = self.limit.burst * 1000

    def whole_tokens(self, now_ms: int) -> int:
        """The tokens that are there at ``now_ms``."""
        period_ms = self.limit.refill_period * 1000
        rate = self.limit.refill_amount * 1000
        minted = rate * now_ms // period_ms - rate * self.at_ms // period_ms
        self.balance, self.at_ms = min(self.limit.burst * 1000, self.balance + minted), now_ms
        return self.balance // 1000

    def take(self, tokens: int) -> None:
        """They are gone."""
        self.balance -= tokens * 1000


async def admits(limiter: RateLimiter, **amounts: int) -> bool:
    try:
        async with limiter.acquire("key", "gpt-4", amounts):
            return True
    except RateLimitExceeded:
        return False


def pauses(steps: int) -> Iterator[int]:
    chance = random.Random(7)
    for _ in range(steps):
        yield chance.randint(*chance.choice(PAUSES_MS))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS)


@pytest.mark.long(keep=1)
async def test_a_slow_limit_beside_a_fast_one_neither_starves_nor_mints(harness: Harness, clock: ManualClock) -> None:
    limiter = await harness.open(clock=clock, config_cache_ttl=10**9)
    await limiter.set_resource_defaults("gpt-4", [SLOW, FAST])
    ledgers = {limit.name: Ledger(limit, clock.now_ms()) for limit in (SLOW, FAST)}
    for pause in pauses(harness.target.quirks.clock_steps):
        clock.advance(ms=pause)
        for name, ledger in ledgers.items():
            there = ledger.whole_tokens(clock.now_ms())
            if there:
                assert await admits(limiter, **{name: there})
                ledger.take(there)
            assert not await admits(limiter, **{name: 1})
    assert harness.consumed("key", "gpt-4", "slow") > 100_000


async def test_takes_of_both_at_once_are_exact_too(harness: Harness, clock: ManualClock) -> None:
    limiter = await harness.open(clock=clock, config_cache_ttl=10**9)
    await limiter.set_resource_defaults("gpt-4", [SLOW, FAST])
    slow, fast, chance = Ledger(SLOW, clock.now_ms()), Ledger(FAST, clock.now_ms()), random.Random(8)
    for pause in pauses(harness.target.quirks.clock_steps):
        clock.advance(ms=pause)
        amounts = {"slow": chance.choice((0, 1, 1, 2)), "fast": chance.randint(1, 60)}
        now_ms = clock.now_ms()
        fits = amounts["slow"] <= slow.whole_tokens(now_ms) and amounts["fast"] <= fast.whole_tokens(now_ms)
        assert await admits(limiter, **amounts) == fits
        if fits:
            slow.take(amounts["slow"])
            fast.take(amounts["fast"])
    assert await limiter.available("key", "gpt-4") == {
        "slow": slow.whole_tokens(clock.now_ms()),
        "fast": fast.whole_tokens(clock.now_ms()),
    }
