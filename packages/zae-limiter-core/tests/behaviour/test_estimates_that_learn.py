"""Amounts that are learnt from what calls were settled for: of which calls, for how long, and how exactly."""
# ruff: noqa: PT012 - a block under a lease that raises takes more than one line

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.core.worlds import World
from zae_limiter import Estimate, Limit, RateLimiter, RateLimitExceeded, ValidationError
from zae_limiter.flows.process.settled_amounts import KEYS, LEAST, SLOT_MS, SettledAmounts
from zae_limiter.values.estimates import EstimateKey

TPM = Limit.per_day("tpm", 10_000_000)
KEY = EstimateKey("r", "", "tpm")


def estimate(limiter: RateLimiter, **options: Any) -> Estimate:
    return limiter.estimate("r", **{"default": 1000, "most": 8000, **options})


async def settle(limiter: RateLimiter, amount: int, **options: Any) -> int:
    """One call that is settled for an amount; returns what it had reserved."""
    async with limiter.acquire("e", "r", {"tpm": estimate(limiter, **options)}) as lease:
        reserved = lease.consumed["tpm"]
        await lease.settle(tpm=amount)
    return reserved


async def test_it_is_the_default_until_enough_calls_were_settled(world: World) -> None:
    limiter, wire = await world.process(default_limits=[TPM])
    assert [await settle(limiter, 10 * (n + 1)) for n in range(LEAST)] == [1000] * LEAST
    wire.sent()
    assert estimate(limiter).amount("tpm") == 183  # of 18 of the 20 calls, with 180: the largest amount of its cell
    assert not wire.sent()
    assert await settle(limiter, 5) == 183


async def test_it_is_never_above_the_most(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TPM])
    for _ in range(LEAST):
        await settle(limiter, 9000)
    assert estimate(limiter).amount("tpm") == 8000
    assert estimate(limiter, most=20_000).amount("tpm") == 9215


async def test_resources_models_and_limits_are_apart(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TPM])
    for _ in range(LEAST):
        await settle(limiter, 30, model="small")
    assert estimate(limiter, model="small").amount("tpm") == 30
    assert estimate(limiter, model="small").amount("usd") == 1000
    assert estimate(limiter).amount("tpm") == 1000
    assert limiter.estimate("other", default=7, most=8, model="small").amount("tpm") == 7


async def test_only_calls_that_were_settled_and_kept_teach(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TPM])
    for _ in range(LEAST):
        async with limiter.acquire("e", "r", {"tpm": estimate(limiter)}):
            pass  # its real amount is unknown
        async with limiter.acquire("e", "r", {"tpm": estimate(limiter)}) as lease:
            await lease.release(tpm=1000)  # the call did not take place
        async with limiter.acquire("e", "r", {"tpm": 5}) as lease:
            await lease.settle(tpm=5)  # it took no estimate
        with pytest.raises(RuntimeError):
            async with limiter.acquire("e", "r", {"tpm": estimate(limiter)}) as lease:
                await lease.settle(tpm=5)
                raise RuntimeError
    assert estimate(limiter).amount("tpm") == 1000


async def test_a_call_teaches_its_last_settlement_once(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TPM])
    for _ in range(LEAST):
        async with limiter.acquire("e", "r", {"tpm": estimate(limiter)}) as lease:
            for amount in range(0, 24, 3):
                await lease.settle(tpm=amount)
    assert estimate(limiter).amount("tpm") == 21


async def test_an_hour_is_remembered(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TPM])
    for _ in range(LEAST):
        await settle(limiter, 30)
    world.clock.advance(49 * 60)
    assert estimate(limiter).amount("tpm") == 30
    world.clock.advance(11 * 60)
    assert estimate(limiter).amount("tpm") == 1000


async def test_the_decorator_learns_with_one_estimate_for_all_calls(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TPM])
    cost = {"tpm": estimate(limiter)}
    for _ in range(LEAST):
        await settle(limiter, 30)
    async with limiter.acquire("e", "r", cost) as lease:
        assert lease.consumed == {"tpm": 30}
    assert (await limiter.check("e", "r", cost)).passes


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"default": -1}, "default of an estimate"),
        ({"default": 9000}, "default of an estimate"),
        ({"default": 1.5}, "default of an estimate"),
        ({"most": True}, "most of an estimate"),
        ({"quantile": 0}, "quantile of an estimate"),
        ({"quantile": 1}, "quantile of an estimate"),
        ({"quantile": float("nan")}, "quantile of an estimate"),
        ({"quantile": "0.9"}, "quantile of an estimate"),
        ({"model": None}, "model of an estimate"),
        ({"model": "x" * 257}, "model of an estimate"),
    ],
)
async def test_what_is_no_estimate_is_refused_by_its_name(world: World, options: Any, field: str) -> None:
    limiter, _ = await world.process(default_limits=[TPM])
    with pytest.raises(ValidationError) as refused:
        estimate(limiter, **options)
    assert refused.value.field == field


async def test_a_wrong_amount_beside_an_estimate_is_refused(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TPM])
    wrong: Any = {"tpm": estimate(limiter), "rpm": -1}
    with pytest.raises(ValidationError, match=r"consume\['rpm'\] -1"):
        async with limiter.acquire("e", "r", wrong):
            pass


@given(st.lists(st.integers(0, 10**15), min_size=LEAST, max_size=200), st.floats(0.01, 0.9))
def test_a_quantile_is_never_too_low_and_at_most_a_sixteenth_too_high(amounts: list[int], share: float) -> None:
    settled = SettledAmounts()
    for place, amount in enumerate(amounts):
        settled.add(KEY, amount * 1000, place * 6 // len(amounts) * SLOT_MS)
    found = settled.quantile(KEY, share, 5 * SLOT_MS)
    ordered = sorted(amounts)
    real = next(each for place, each in enumerate(ordered, 1) if place >= len(amounts) * share)
    assert found is not None
    assert real <= found <= real + real // 16


def test_memory_is_bounded() -> None:
    settled = SettledAmounts()
    for n in range(3 * KEYS):
        settled.add(EstimateKey(f"r-{n}", "", "tpm"), 1000, 0)
    assert len(settled._histograms) == KEYS
    for n in range(100_000):
        settled.add(KEY, n * n * 1000, n * SLOT_MS // 5_000)
    histogram = settled._histograms.get(KEY)
    assert histogram is not None
    assert len(histogram._slots) <= 6
    assert max(map(len, histogram._slots.values())) < 800


def test_a_part_of_a_token_counts_as_one_and_a_corrected_clock_forgets_the_future() -> None:
    settled = SettledAmounts()
    for _ in range(LEAST):
        settled.add(KEY, 1, 100 * SLOT_MS)
    assert settled.quantile(KEY, 0.5, 100 * SLOT_MS) == 1
    assert settled.quantile(KEY, 0.99, 100 * SLOT_MS) is None  # too few to leave one out
    assert settled.quantile(KEY, 0.5, 90 * SLOT_MS) is None


async def test_it_is_never_more_than_the_limit_can_hold(world: World) -> None:
    limiter, _ = await world.process()
    small, large = [Limit.per_day("tpm", 5000)], [TPM]
    for _ in range(LEAST):
        async with limiter.acquire("large", "r", {"tpm": estimate(limiter)}, large) as lease:
            await lease.settle(tpm=6000)
    assert estimate(limiter).amount("tpm") > 5000
    assert (await limiter.check("small", "r", {"tpm": estimate(limiter)}, small)).passes
    assert (await limiter.explain("small", "r", {"tpm": estimate(limiter)}, small)).passes
    async with limiter.acquire("small", "r", {"tpm": estimate(limiter)}, small) as lease:
        assert lease.consumed == {"tpm": 5000}
        await lease.settle(tpm=500)
    assert await limiter.available("small", "r", small) == {"tpm": 4500}
    with pytest.raises(RateLimitExceeded) as refused:
        async with limiter.acquire("small", "r", {"tpm": estimate(limiter)}, small):
            pass
    assert refused.value.retry_after_seconds == pytest.approx(86_400 / 10, rel=0.01)
    with pytest.raises(RateLimitExceeded, match="can never pass"):
        async with limiter.acquire("small", "r", {"tpm": 5001}, small):  # an amount that the caller names
            pass


async def test_it_fits_every_limit_of_its_path_and_passes_none_that_blocks(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TPM])
    await limiter.create_entity("team")
    await limiter.create_entity("key", parent_id="team", cascade=True)
    await limiter.set_limits("team", [Limit.per_day("tpm", 700)])
    for _ in range(2):  # with what the process knows, too
        async with limiter.acquire("key", "r", {"tpm": estimate(limiter)}) as lease:
            assert lease.consumed == {"tpm": 700}
            await lease.settle(tpm=0)
    assert (await limiter.explain("key", "r", {"tpm": estimate(limiter)})).passes
    await limiter.set_limits("team", [Limit.per_day("tpm", 0)])
    with pytest.raises(RateLimitExceeded):
        async with limiter.acquire("key", "r", {"tpm": estimate(limiter)}):
            pass


@pytest.mark.parametrize("limit", [Limit.per_month("tpm", 600, carry_over=300), Limit.total("tpm", 600, burst=900)])
async def test_what_may_be_carried_over_or_credited_is_not_waited_for(world: World, limit: Limit) -> None:
    limiter, _ = await world.process(default_limits=[limit])
    async with limiter.acquire("e", "r", {"tpm": estimate(limiter)}) as lease:
        assert lease.consumed == {"tpm": 600}
