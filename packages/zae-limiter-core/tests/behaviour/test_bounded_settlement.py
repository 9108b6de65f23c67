"""One settlement by what a provider says is bounded, in every bucket that it reaches; a program's own number is not."""

import logging
from typing import Any

import pytest

from support.core.worlds import World
from zae_limiter import Draw, Limit, RateLimiter, Repository, SyncRateLimiter, SyncRepository, TokenUsage
from zae_limiter import ValidationError as Invalid
from zae_limiter.integrations.settlement import settle, settle_at_least, settle_sync
from zae_limiter.observers import Event, LeaseEvent

LIE = TokenUsage(input=10**15)
DEFAULT = 10_000_000
FULL = 100_000
PLAIN = Limit("tpm", FULL, FULL, 1, 86_400)
WEIGHED = Limit("tpm", FULL, FULL, 1, 86_400, weights={"input": 3})


@pytest.mark.parametrize("limit", [PLAIN, WEIGHED], ids=["tokens of all kinds", "weights"])
@pytest.mark.parametrize(
    ("estimate", "most", "taken"),
    [(100, None, DEFAULT), (0, None, DEFAULT), (FULL - 1, None, DEFAULT), (100, 5000, 5000), (100, 7, 100)],
)
async def test_a_lie_costs_a_caller_its_parents_and_its_siblings_the_bound(
    world: World, limit: Limit, estimate: int, most: int | None, taken: int
) -> None:
    process = await world.process(default_limits=[limit])
    limiter, repository = process.limiter, process.repository
    await repository.create_entity("org")
    for name in ("a", "b"):
        await repository.create_entity(name, parent_id="org", cascade=True)
    async with limiter.acquire("a", "m", {"tpm": estimate}) as lease:
        await lease.settle(LIE, most, tpm=LIE.total) if limit is PLAIN else await lease.settle(LIE, most)
        assert lease.consumed == {"tpm": taken}
    assert await limiter.available("org", "m") == {"tpm": FULL - taken}
    assert await limiter.available("a", "m") == {"tpm": FULL - taken}


async def test_a_hundred_times_the_estimate_is_believed(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.per_day("tpm", 10**9)])
    async with limiter.acquire("e", "r", {"tpm": 150_000}) as lease:
        await lease.consume(tpm=50_000)
        await lease.settle(TokenUsage(input=20_000_000), tpm=20_000_000)
        assert lease.consumed == {"tpm": 20_000_000}
        await lease.settle(TokenUsage(input=20_000_001), tpm=20_000_001)  # the last settlement is not an estimate
        assert lease.consumed == {"tpm": 20_000_000}


async def test_a_number_of_the_program_has_no_bound(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.per_day("tpm", 10**12)])
    async with limiter.acquire("e", "r", {"tpm": 1}) as lease:
        await lease.settle(tpm=10**11)
        assert lease.consumed == {"tpm": 10**11}
        await lease.adjust(tpm=10**11)
    assert await limiter.available("e", "r") == {"tpm": 8 * 10**11}


async def test_each_draw_of_a_call_is_bounded(world: World) -> None:
    limiter, _ = await world.process(default_limits=[PLAIN])
    async with limiter.acquire("a", "m", {"tpm": 1}, draws=[Draw("team")]) as lease:
        for each in (lease, *lease.draws):
            await each.settle(LIE, tpm=LIE.total)
    for entity in ("a", "team"):
        assert await limiter.available(entity, "m") == {"tpm": FULL - DEFAULT}


async def test_what_would_exceed_is_asked_of_the_bound(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.per_day("tpm", 2 * DEFAULT)])
    async with limiter.acquire("e", "r", {"tpm": 1}) as lease:
        assert lease.would_exceed(LIE, tpm=LIE.total) == ()
        assert lease.would_exceed(tpm=LIE.total) != ()


@pytest.mark.parametrize("most", [-1, 1.5, True, "1", 10**15 + 1])
async def test_a_bound_is_a_whole_number_of_tokens(world: World, most: Any) -> None:
    limiter, _ = await world.process(default_limits=[PLAIN])
    async with limiter.acquire("e", "r", {"tpm": 1}) as lease:
        with pytest.raises(Invalid, match="most of settle"):
            await lease.settle(LIE, most, tpm=1)


async def test_it_is_logged_with_its_place_once_a_minute_and_counted(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Event] = []
    limiter, _ = await world.process(default_limits=[PLAIN], observers=[seen.append])
    with caplog.at_level(logging.WARNING):
        for entity in ("a", "b", "c"):
            async with limiter.acquire(entity, "m", {"tpm": 1}) as lease:
                await lease.settle(LIE, tpm=LIE.total)
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [f"a/m: settled tpm for {DEFAULT} of {10**15} tokens; the usage of one call is bounded"]
    assert [event.bounded for event in seen if isinstance(event, LeaseEvent)] == [("tpm",)] * 3


async def test_a_bounded_settlement_of_money_is_logged_as_money(world: World, caplog: pytest.LogCaptureFixture) -> None:
    limiter, _ = await world.process(default_limits=[Limit.money("usd", 100, per="rolling day")])
    async with limiter.acquire("a", "m", {"usd": 1}) as lease:
        await lease.settle(LIE, usd=LIE.total)
    [line] = [record.getMessage() for record in caplog.records if "bounded" in record.getMessage()]
    assert line == "a/m: settled usd for $10 of $1,000,000,000; the usage of one call is bounded"


async def test_the_settlement_of_integrations_is_bounded_in_both_variants() -> None:
    aio = RateLimiter(Repository.in_memory(), default_limits=[PLAIN])
    for entity, settles in (("a", settle), ("b", settle_at_least)):
        async with aio.acquire(entity, "m", {"tpm": 100}) as lease:
            await settles(lease, "tpm", LIE)
            assert lease.consumed == {"tpm": DEFAULT}
            await settles(lease, "tpm", LIE, 700)
            assert lease.consumed["tpm"] in {700, DEFAULT}  # at least what was known before
    blocking = SyncRateLimiter(SyncRepository.in_memory(), default_limits=[WEIGHED])
    with blocking.acquire("a", "m", {"tpm": 100}) as held:
        settle_sync(held, "tpm", LIE)
        assert held.consumed == {"tpm": DEFAULT}
        settle_sync(held, "tpm", LIE, 700)
        assert held.consumed == {"tpm": 700}
