"""Limits of money: made, written, asked for exactly, refused and shown in their currency."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.core.worlds import World
from zae_limiter import (
    Draw,
    Limit,
    RateLimiter,
    RateLimitExceeded,
    Repository,
    SyncRateLimiter,
    SyncRepository,
    TokenUsage,
    ValidationError,
)
from zae_limiter.http import headers, problem
from zae_limiter.integrations.prices import Prices
from zae_limiter.values.money import CURRENCIES, MAX_MICRO, read_money, write_money

USD = Limit.money("usd", "1", per="rolling day")
RPM = Limit.per_minute("rpm", 60)


async def asks(call: Any) -> bool:
    async with call:
        return True


@pytest.mark.parametrize(
    ("per", "timezone", "text"),
    [
        ("month", "Europe/Berlin", "$250.50/month Europe/Berlin"),
        ("month", None, "$250.50/month UTC"),
        ("day", None, "$250.50/rolling day"),
        ("rolling week", None, "$250.50/rolling week"),
        ("calendar day", "Europe/Berlin", "$250.50/day Europe/Berlin"),
        ("calendar week", None, "$250.50/week UTC"),
        ("30d from first use", None, "$250.50 per 30d from first use"),
        ("total", None, "$250.50 total"),
    ],
)
def test_money_is_made_per_any_period(per: str, timezone: str | None, text: str) -> None:
    limit = Limit.money("usd", "250.50", per=per, timezone=timezone)
    assert (limit.capacity, limit.unit, limit.text) == (250_500_000, "usd", text)
    assert Limit.parse(str(limit)) == Limit.from_dict(limit.to_dict()) == limit


@pytest.mark.parametrize(
    ("text", "unit", "micro"),
    [
        ("usd: $1,500/day", "usd", 1_500_000_000),
        ("budget: 250 eur/month", "eur", 250_000_000),
        ("budget: £2k/hour burst £3k", "gbp", 2_000_000_000),
        ("chf: 0.000001 chf total", "chf", 1),
        ("usd: 250.50 per 30d from first use", "usd", 250_500_000),
        ("usd: $0/day", "usd", 0),
        ("usd: $1G/month", "usd", MAX_MICRO),
    ],
)
def test_a_text_names_its_currency(text: str, unit: str, micro: int) -> None:
    limit = Limit.parse(text)
    assert (limit.unit, limit.capacity) == (unit, micro)
    assert Limit.parse(str(limit)) == limit


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("usd: $5 concurrent", "slots are counted"),
        ("usd: $5/day burst 10_000_000", "not all money of one currency"),
        ("usd: $5/day burst £10", "not all money of one currency"),
        ("usd: $5 eur/day", "names two currencies"),
        ("usd: $0.0000001/day", "at most six decimals"),
        ("usd: $2G/day", "more than a limit can have"),
        ("usd: $x/day", "write $250"),
        ("budget: 5.50/day", "money has a sign or a currency"),
    ],
)
def test_a_text_that_is_no_money_says_why(text: str, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem.replace("$", r"\$")):
        Limit.parse(text)


@pytest.mark.parametrize(
    ("amount", "problem"), [(2.5, "is a float"), ("x", "must be money"), (True, "must be money"), ("-1", "from 0 to")]
)
def test_a_limit_of_money_takes_exact_amounts(amount: Any, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Limit.money("usd", amount, per="day")


@pytest.mark.parametrize("amount", [0.5, 250.0, Decimal("0.5")])
def test_a_limit_of_tokens_says_how_money_is_given(amount: Any) -> None:
    for make in (Limit.custom, Limit.per_month, Limit.total):
        with pytest.raises(ValidationError, match=r"money in millionths: Limit\.money takes"):
            make("usd", amount)


@given(micro=st.integers(0, MAX_MICRO), unit=st.sampled_from(CURRENCIES))
def test_an_amount_reads_back_as_written(micro: int, unit: str) -> None:
    for group in ("_", ","):
        found = read_money(write_money(micro, unit, group=group))
        assert found is not None
        assert (int(found), found.unit) == (micro, unit)


def test_a_unit_is_a_currency_of_tokens_that_come_back() -> None:
    with pytest.raises(ValidationError, match="ISO code"):
        Limit.custom("usd", 5, unit="dollars")
    with pytest.raises(ValidationError, match="has slots"):
        Limit.custom("usd", 5, unit="usd", kind="concurrent")


def test_an_entry_of_a_schedule_is_money_too() -> None:
    entries = ["weekend: sat-sun $10/rolling day"]
    limit = Limit.money("usd", 5, per="day", schedule=entries)
    assert [str(each) for each in limit.schedule] == entries
    assert Limit.from_dict(limit.to_dict()) == limit
    for given_unit, entry in (("usd", "weekend: sat-sun 10/day"), ("", "weekend: sat-sun $10/day")):
        with pytest.raises(ValidationError, match="unit"):
            Limit.custom("usd", 5_000_000, refill_period=86400, unit=given_unit, schedule=[entry])


async def test_calls_ask_for_exact_money(world: World) -> None:
    limiter, _ = await world.process(default_limits=[USD, RPM])
    for _ in range(2):
        async with limiter.acquire("e", "r", {"usd": Decimal("0.4"), "rpm": 1}) as lease:
            await lease.settle(usd=Decimal("0.0123"))
            assert lease.consumed == {"usd": 400_000, "rpm": 1} or lease.consumed == {"usd": 12_300, "rpm": 1}
            assert not lease.would_exceed(usd=Decimal("0.5"))
            assert lease.would_exceed(usd=Decimal("1.5"))
    assert await limiter.available("e", "r") == {"usd": 1_000_000 - 24_600, "rpm": 58}
    assert await limiter.repository.credit_bucket("e", "r", {"usd": Decimal("0.01")})
    assert (await limiter.available("e", "r"))["usd"] == 1_000_000 - 14_600


async def test_a_begun_millionth_counts(world: World) -> None:
    limiter, _ = await world.process(default_limits=[USD])
    async with limiter.acquire("e", "r", {"usd": Decimal("0.0000001")}) as lease:
        assert lease.consumed == {"usd": 1}


@pytest.mark.parametrize("warm", [False, True])
async def test_a_decimal_is_refused_for_tokens(world: World, warm: bool) -> None:  # noqa: FBT001
    limiter, _ = await world.process(default_limits=[USD, RPM])
    if warm:
        assert await asks(limiter.acquire("e", "r", {"rpm": 1}))
    with pytest.raises(ValidationError, match="counts tokens"):
        await asks(limiter.acquire("e", "r", {"rpm": Decimal(1)}))
    with pytest.raises(ValidationError, match="counts tokens"):
        await asks(limiter.acquire("e", "r", {"rpm": 1}, draws=[Draw(resource="s", consume={"rpm": Decimal(1)})]))
    async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
        with pytest.raises(ValidationError, match="counts tokens"):
            await lease.consume(rpm=Decimal(1))


@pytest.mark.parametrize("amount", [0.5, Decimal(-1), Decimal("nan"), Decimal("1e12")])
async def test_an_inexact_amount_is_refused(world: World, amount: Any) -> None:
    limiter, _ = await world.process(default_limits=[USD])
    with pytest.raises(ValidationError, match=r"Decimal|amount of money"):
        await asks(limiter.acquire("e", "r", {"usd": amount}))


async def test_a_bucket_knows_its_currency(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_limits("e", [USD])
    assert await limiter.get_limits("e") == [USD]
    assert await asks(limiter.acquire("e", "r", {"usd": Decimal("0.25")}))
    bucket = await limiter.repository.get_bucket("e", "r")
    assert bucket is not None
    assert (bucket.limits[0].limit, bucket.available) == (USD, {"usd": 750_000})


async def test_a_refusal_shows_money(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.money("budget", "1234.5", per="total")])
    with pytest.raises(RateLimitExceeded) as caught:
        await asks(limiter.acquire("e", "r", {"budget": Decimal(2000)}))
    refusal = caught.value
    assert str(refusal).startswith(
        "e/r: $2,000 budget requested, which can never pass: the limit holds at most $1,234.50"
    )
    assert refusal.as_dict()["limits"][0]["money"] == {
        "capacity": "$1,234.50",
        "available": "$1,234.50",
        "requested": "$2,000",
    }
    assert (refusal.as_dict()["limits"][0]["requested"], refusal.as_dict()["limits"][0]["unit"]) == (2 * 10**9, "usd")
    assert problem(refusal)["detail"] == "budget: $2,000 requested, which can never pass: at most $1,234.50"
    assert headers(refusal)["RateLimit-Policy"] == '"budget";q=1234500000;qu="micro-usd"'


USAGE = TokenUsage(input=10, output=20)


def budget(by_usage: Any, estimate: int = 5_000) -> list[Draw]:
    return [Draw("acme", "budget", {"usd": estimate}, by_usage=by_usage)]


async def with_budget(world: World) -> RateLimiter:
    limiter, _ = await world.process(default_limits=[RPM])
    await limiter.set_limits("acme", [USD], "budget")
    return limiter


@pytest.mark.parametrize(("given_cost", "left"), [(213, 999_787), (Decimal("0.0002125"), 999_787), (0, 1_000_000)])
async def test_a_draw_is_settled_for_the_price_of_a_usage(world: World, given_cost: Any, left: int) -> None:
    limiter = await with_budget(world)
    async with limiter.acquire("e", "r", {"rpm": 1}, draws=budget(lambda usage: {"usd": given_cost})) as lease:
        draw = lease.draw("acme", resource="budget")
        assert (draw.has_price, draw.would_exceed(USAGE)) == (True, ())
        await draw.settle(USAGE)
    assert (await limiter.available("acme", "budget"))["usd"] == left


async def test_a_price_gets_the_usage_and_a_given_amount_comes_before_it(world: World) -> None:
    limiter, seen = await with_budget(world), list[TokenUsage]()

    def price(usage: TokenUsage) -> dict[str, int]:
        seen.append(usage)
        return {"usd": usage.total}

    async with limiter.acquire("e", "r", {"rpm": 1}, draws=budget(price)) as lease:
        await lease.draws[0].settle(USAGE)
        assert (seen, lease.draws[0].consumed) == ([USAGE], {"usd": 30})
        await lease.draws[0].settle(USAGE, usd=Decimal("0.00004"))
    assert (await limiter.available("acme", "budget"))["usd"] == 999_960


async def test_what_a_provider_says_costs_at_most_a_hundred_estimates_or_ten_dollars(world: World) -> None:
    limiter = await with_budget(world)
    async with limiter.acquire("e", "r", {"rpm": 1}, draws=budget(lambda usage: {"usd": 10**12})) as lease:
        await lease.draws[0].settle(USAGE)
        assert lease.draws[0].consumed == {"usd": 10_000_000}


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ({"usd": 0.5}, "a float is not exact: give money as a Decimal"),
        (213, "by_usage of a draw 213: must return amounts by limit"),
        ({"eur": 1}, "'eur'"),
        ({"usd": -1}, "0 or more"),
    ],
)
async def test_a_price_that_is_no_amount_is_refused(world: World, returned: Any, message: str) -> None:
    limiter = await with_budget(world)
    async with limiter.acquire("e", "r", {"rpm": 1}, draws=budget(lambda usage: returned)) as lease:
        with pytest.raises(ValidationError, match=message):
            await lease.draws[0].settle(USAGE)
    assert (await limiter.available("acme", "budget"))["usd"] == 995_000  # the estimate


def test_a_price_is_a_function() -> None:
    with pytest.raises(ValidationError, match=r"by_usage of a draw .*: must be a function of a TokenUsage"):
        budget(5)


async def test_a_list_of_prices_counts_in_the_unit_of_a_budget(world: World, tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    file.write_text('{"version": 1, "models": {"gpt-5": [{"input": 1.10, "cached": 0.11, "output": 9}]}}')
    prices = Prices.load(file)
    limiter, _ = await world.process(default_limits=[RPM])
    await limiter.set_limits("acme", ["usd: $250/month UTC"], "budget")
    calls = [TokenUsage(input=800, cached=2_000, output=350), TokenUsage(input=1), TokenUsage(output=1)]
    for usage in calls:
        draws = budget(lambda used: {"usd": prices.micro_usd("gpt-5", used)})
        async with limiter.acquire("e", "r", {"rpm": 1}, draws=draws) as lease:
            await lease.draws[0].settle(usage)
    # 880 + 220 + 3,150; 1.1 and 9, of which a begun micro-dollar counts
    assert (await limiter.available("acme", "budget"))["usd"] == 250_000_000 - 4_250 - 2 - 9


DOORS: dict[str, Callable[[RateLimiter], Any]] = {
    "acquire": lambda limiter: asks(limiter.acquire("e", "r", {"usd": 0.5})),  # type: ignore[dict-item]
    "check": lambda limiter: limiter.check("e", "r", {"usd": 0.5}),  # type: ignore[dict-item]
    "explain": lambda limiter: limiter.explain("e", "r", {"usd": 0.5}),  # type: ignore[dict-item]
    "a draw": lambda limiter: asks(limiter.acquire("e", "r", {"usd": 1}, draws=[Draw("x", consume={"usd": 0.5})])),  # type: ignore[dict-item]
    "a credit": lambda limiter: limiter.repository.credit_bucket("e", "r", {"usd": 0.5}),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("door", DOORS)
async def test_every_door_refuses_a_float_with_the_reason(world: World, door: str) -> None:
    limiter, _ = await world.process(default_limits=[USD])
    with pytest.raises(ValidationError, match="a float is not exact: give money as a Decimal"):
        await DOORS[door](limiter)


@pytest.mark.parametrize("cost", [{"usd": 0.5}, lambda: {"usd": 0.5}], ids=["a value", "a function"])
async def test_a_decorator_refuses_a_float_with_the_reason(cost: Any) -> None:
    calls: list[str] = []

    @RateLimiter(Repository.in_memory(), default_limits=[USD]).limit("e", "r", cost)
    async def on_loop() -> None:
        calls.append("async")

    @SyncRateLimiter(SyncRepository.in_memory(), default_limits=[USD]).limit("e", "r", cost)
    def in_thread() -> None:
        calls.append("sync")

    with pytest.raises(ValidationError, match="a float is not exact: give money as a Decimal"):
        await on_loop()
    with pytest.raises(ValidationError, match="a float is not exact: give money as a Decimal"):
        in_thread()
    assert calls == []


@pytest.mark.parametrize("call", ["consume", "settle", "adjust", "release", "would_exceed"])
async def test_every_call_of_a_lease_refuses_a_float_with_the_reason(world: World, call: str) -> None:
    limiter, _ = await world.process(default_limits=[USD])
    async with limiter.acquire("e", "r", {"usd": 1}) as lease:
        with pytest.raises(ValidationError, match="a float is not exact: give money as a Decimal"):
            await getattr(lease, call)(usd=0.5)


async def test_an_estimate_of_money_is_in_millionths(world: World) -> None:
    limiter, _ = await world.process(default_limits=[USD])
    for wrong in (0.5, Decimal("0.5")):
        with pytest.raises(ValidationError, match="whole number of tokens, or of millionths of money"):
            limiter.estimate("r", default=wrong, most=5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("usd: 250 USD/month", "write usd in place of USD"),
        ("usd: 250USD/month", "write usd in place of USD"),
        ("usd: $1000/year from first use", "per 365d from first use"),
    ],
)
def test_a_text_that_is_nearly_money_names_the_way_out(text: str, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Limit.parse(text)
