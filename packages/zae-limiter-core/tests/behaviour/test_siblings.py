"""A key that is over its own limit, and its siblings below a parent that has the tokens: nobody refuses these.

The store takes 10 ms for each request, the clock stands still meanwhile unless a test advances it.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from zae_limiter import Limit, Options, RateLimiter, RateLimitExceeded, Repository
from zae_limiter.stores import MemoryStore, MemoryTable
from zae_limiter.testing import ManualClock


class SlowStore(MemoryStore):
    """A store that performs at once and answers after 10 ms; it counts the requests."""

    sent = 0

    async def perform(self, operation: Any) -> Any:
        self.sent += 1
        try:
            return await super().perform(operation)
        finally:
            await asyncio.sleep(0.01)


class Organisation:
    """Keys below an organisation, each with a limit of its own, on one table; and the processes that use them."""

    def __init__(self) -> None:
        self.table, self.clock = MemoryTable(), ManualClock()
        self.stores: list[SlowStore] = []

    async def process(self) -> RateLimiter:
        self.stores.append(SlowStore(table=self.table))
        return RateLimiter(await Repository.over(self.stores[-1], Options(clock=self.clock)))

    async def found(self, tokens: int, **keys: int) -> RateLimiter:
        limiter = await self.process()
        await limiter.create_entity("org")
        await limiter.set_limits("org", [Limit.per_day("t", tokens)])
        for key, own in keys.items():
            await limiter.create_entity(key, parent_id="org", cascade=True)
            await limiter.set_limits(key, [Limit.per_day("t", own)])
        return limiter

    @property
    def sent(self) -> int:
        return sum(store.sent for store in self.stores)


async def call(limiter: RateLimiter, key: str, tokens: int = 1, *, keep: bool = False, **options: Any) -> str:
    """What becomes of a call, which gives its tokens back at once unless it is to ``keep`` them."""
    try:
        async with limiter.acquire(key, "r", {"t": tokens}, **options) as lease:
            if not keep:
                await lease.release(t=tokens)
        return "admitted"
    except RateLimitExceeded as refusal:
        return f"refused by {refusal.refused_by}"


async def in_turn(*calls: Any) -> Sequence[str]:
    """The answers of calls that begin 3 ms after one another."""
    tasks = []
    for each in calls:
        tasks.append(asyncio.ensure_future(each))
        await asyncio.sleep(0.003)
    return [await task for task in tasks]


async def test_a_spent_key_keeps_no_sibling_from_the_tokens_of_their_parent() -> None:
    it = Organisation()
    limiter = await it.found(2, bad=1, good=100)
    assert [await call(limiter, "bad", keep=True), await call(limiter, "good")] == ["admitted", "admitted"]
    for _ in range(10):
        it.clock.advance(seconds=0.9)  # the copies are too old to refuse by
        assert await in_turn(call(limiter, "bad"), call(limiter, "good")) == ["refused by bad", "admitted"]


async def test_a_sibling_that_may_wait_is_not_told_to_come_back_tomorrow() -> None:
    it = Organisation()
    limiter = await it.found(2, bad=1, good=100)
    await call(limiter, "bad", keep=True)
    it.clock.advance(seconds=0.9)
    answers = await in_turn(call(limiter, "bad"), call(limiter, "good", max_wait=5))
    assert answers == ["refused by bad", "admitted"]


@pytest.mark.long
async def test_eight_processes_at_a_spent_key_keep_one_call_of_a_hundred_from_its_sibling_at_most() -> None:
    it = Organisation()
    first = await it.found(100_000, bad=50_000, good=10**9)
    await call(first, "bad", 50_000, keep=True)
    processes = [await it.process() for _ in range(8)]
    over, refused = False, 0

    async def spend(limiter: RateLimiter) -> None:
        while not over:
            await call(limiter, "bad", 8_000)
            await asyncio.sleep(0.002)

    spending = [asyncio.ensure_future(spend(each)) for each in processes]
    for _ in range(100):
        refused += await call(first, "good", 8_000) != "admitted"
        it.clock.advance(seconds=0.3)
        await asyncio.sleep(0.001)
    over = True
    await asyncio.gather(*spending)
    assert refused <= 1


@pytest.mark.parametrize("key", ["good", "org"])
async def test_a_refusal_beside_a_take_that_comes_back_is_asked_again_before_it_is_told(key: str) -> None:
    """Another process has spent the key: the first call of this one that learns of it has asked the parent, too."""
    it = Organisation()
    limiter, other = await it.found(2, bad=1, good=100), await it.process()
    await call(limiter, "good")
    await call(limiter, "bad")
    await call(other, "bad", keep=True)
    it.clock.advance(seconds=0.9)
    assert await in_turn(call(limiter, "bad"), call(limiter, key)) == ["refused by bad", "admitted"]


async def test_a_copy_does_not_take_for_spent_what_a_lease_is_about_to_give_back() -> None:
    it = Organisation()
    limiter = await it.found(1, good=100, other=100)
    await call(limiter, "other")
    lease = limiter.acquire("good", "r", {"t": 1})
    await lease.__aenter__()
    ending = asyncio.ensure_future(lease.__aexit__(LookupError, LookupError(), None))
    await asyncio.sleep(0.003)
    assert await call(limiter, "other") == "admitted"
    await ending


async def test_more_in_a_block_is_not_refused_for_what_comes_back() -> None:
    it = Organisation()
    limiter, other = await it.found(3, bad=1, good=100), await it.process()
    await call(limiter, "bad")
    async with limiter.acquire("good", "r", {"t": 1}) as lease:
        await call(other, "bad", keep=True)
        it.clock.advance(seconds=0.9)
        assert await in_turn(call(limiter, "bad"), _more(lease)) == ["refused by bad", "admitted"]


async def _more(lease: Any) -> str:
    with suppress(RateLimitExceeded):
        await lease.consume(t=1)
        return "admitted"
    return "refused"


async def test_who_is_admitted_or_refused_by_a_copy_costs_no_further_request() -> None:
    it = Organisation()
    limiter = await it.found(2, bad=1, good=100)
    await call(limiter, "bad", keep=True)
    await call(limiter, "good")
    before = it.sent
    assert [await call(limiter, "bad") for _ in range(5)] == ["refused by bad"] * 5
    assert it.sent == before
    assert await call(limiter, "good", keep=True) == "admitted"
    assert it.sent == before + 2
    it.clock.advance(seconds=86_400)  # the key has a token again, and its copy knows
    assert await call(limiter, "bad", keep=True) == "admitted"
    assert it.sent == before + 6  # with two reads of the limits, which have expired


async def test_a_refused_call_of_a_spent_key_costs_one_write_and_takes_nothing_elsewhere() -> None:
    it = Organisation()
    limiter = await it.found(2, bad=1, good=100)
    await call(limiter, "bad", keep=True)
    it.clock.advance(seconds=0.9)
    before = it.sent
    assert await call(limiter, "bad") == "refused by bad"
    assert it.sent == before + 1
