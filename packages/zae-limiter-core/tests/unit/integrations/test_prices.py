"""Prices of models from a file of the user's: exact, dated, and refused where they say too little."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zae_limiter import Limit, SyncRateLimiter, SyncRepository, TokenUsage, ValidationError
from zae_limiter.exceptions import PriceMissing
from zae_limiter.integrations.prices import Prices, dollars, micro_usd

EXAMPLE = Path(__file__).parents[5] / "examples" / "prices.yaml"
PLAIN: dict[str, Any] = {
    "version": 1,
    "revision": "2026-11",
    "models": {
        "gpt-5": [
            {"from": "2026-07-01", "input": 1, "cached": "0.1", "output": 8},
            {"from": "2026-01-01T00:00:00+01:00", "input": 1.25, "cached": Decimal("0.125"), "output": 10},
        ],
        "embed": [{"input": 0.02}],
    },
}
PRICES = Prices.from_dict(PLAIN)
SPRING = datetime(2026, 4, 1, tzinfo=UTC)
AUTUMN = datetime(2026, 10, 1, tzinfo=UTC)


def test_the_price_in_force_counts() -> None:
    usage = TokenUsage(input=1000, cached=10_000, output=100, reasoning=50)
    assert PRICES.micro_usd("gpt-5", usage, at=SPRING) == 1250 + 1250 + 1500
    assert PRICES.micro_usd("gpt-5", usage, at=AUTUMN) == PRICES.micro_usd("gpt-5", usage) == 1000 + 1000 + 1200
    change = datetime(2026, 7, 1, tzinfo=UTC)
    assert PRICES.micro_usd("gpt-5", TokenUsage(input=4), at=change - timedelta(microseconds=1)) == 5
    assert PRICES.micro_usd("gpt-5", TokenUsage(input=4), at=change) == 4
    assert (
        PRICES.micro_usd("gpt-5", TokenUsage(input=4), at=datetime(2025, 12, 31, 23, tzinfo=UTC)) == 5
    )  # Berlin's year


def test_a_part_of_a_micro_dollar_counts_as_one_once_a_call() -> None:
    assert PRICES.micro_usd("embed", TokenUsage(input=1)) == 1
    assert PRICES.micro_usd("embed", TokenUsage(input=50)) == 1
    assert PRICES.micro_usd("embed", TokenUsage(input=51)) == 2
    assert PRICES.micro_usd("embed", TokenUsage()) == 0


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**12), st.integers(0, 10**12))
def test_money_is_exact(inputs: int, outputs: int, cheap: int, dear: int) -> None:
    prices = Prices.from_dict(
        {"version": 1, "models": {"m": [{"input": Decimal(cheap).scaleb(-6), "output": Decimal(dear).scaleb(-6)}]}}
    )
    exact = -(-(inputs * cheap + outputs * dear) // 10**6)
    assert prices.micro_usd("m", TokenUsage(input=inputs, output=outputs)) == min(exact, 10**15)


@pytest.mark.parametrize(
    ("model", "usage", "at", "problem"),
    [
        ("gpt-6", TokenUsage(input=1), None, "the list of prices 2026-11 has no model 'gpt-6': did you mean 'gpt-5'?"),
        ("opus", TokenUsage(input=1), None, "has no model 'opus': there are embed, gpt-5"),
        ("gpt-5", TokenUsage(input=1), datetime(2025, 6, 1, tzinfo=UTC), "of 'gpt-5' begins at 2026-01-01"),
        ("gpt-5", TokenUsage(cache_write=7), None, "of 'gpt-5' has no cache_write, of which 7 were used: add it"),
        ("embed", TokenUsage(output=7), None, "has no output, of which 7 were used"),
        ("embed", TokenUsage(reasoning=7), None, "has no reasoning, of which 7 were used"),
    ],
)
def test_what_has_no_price_is_an_error(model: str, usage: TokenUsage, at: Any, problem: str) -> None:
    with pytest.raises(PriceMissing) as missing:
        PRICES.micro_usd(model, usage, at=at)
    assert problem in str(missing.value)


@pytest.mark.parametrize(
    ("usage", "problem"),
    [
        (None, "usage None: has no price: the provider reported no usage, so keep the estimate of the lease"),
        ({"prompt_tokens": 5}, "must be a TokenUsage: zae_limiter.integrations.usage.read_usage makes one"),
        (5, "must be a TokenUsage"),
    ],
)
def test_what_is_no_usage_has_no_price(usage: Any, problem: str) -> None:
    with pytest.raises(ValidationError) as caught:
        PRICES.micro_usd("gpt-5", usage)
    assert problem in str(caught.value)


def test_an_instant_needs_a_zone() -> None:
    with pytest.raises(ValidationError, match="must be a datetime with a zone"):
        PRICES.micro_usd("gpt-5", TokenUsage(), at=datetime(2026, 1, 1))  # noqa: DTZ001


def with_(change: Any) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(json.dumps(PLAIN, default=str))
    change(values)
    return values


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ([], "prices"),
        ({"models": {"m": [{"input": 1}]}}, "version of prices None: must be 1"),
        ({"version": 2, "models": {"m": [{"input": 1}]}}, "version of prices 2: must be 1"),
        ({"version": 1}, "models of prices None: must map each model"),
        ({"version": 1, "models": {}}, "models of prices"),
        ({"version": 1, "models": {5: [{"input": 1}]}}, "model of prices 5: must be a name"),
        ({"version": 1, "models": {"m": {"input": 1}}}, "prices of 'm'"),
        ({"version": 1, "models": {"m": []}}, "prices of 'm'"),
        ({"version": 1, "models": {"m": [{}]}}, "names no kind of tokens"),
        ({"version": 1, "models": {"m": [5]}}, "price 1 of 'm' 5: must be a map"),
        ({"version": 1, "models": {"m": [{"inputs": 1}]}}, "is not a known key: there are from, input, cached"),
        ({"version": 1, "models": {"m": [{"input": "much"}]}}, "input of price 1 of 'm' 'much': must be dollars"),
        ({"version": 1, "models": {"m": [{"input": -1}]}}, "must be a number from 0 to 1000000"),
        ({"version": 1, "models": {"m": [{"input": "NaN"}]}}, "must be a number from 0 to 1000000"),
        (
            {"version": 1, "models": {"m": [{"input": 1, "from": "May"}]}},
            "from of price 1 of 'm' 'May': must be a date",
        ),
        ({"version": 1, "models": {"m": [{"input": 1}, {"input": 2}]}}, "is the begin of two prices"),
        ({"version": 1, "model": {}}, "is not a known key: there are version, revision, models"),
    ],
)
def test_a_list_with_a_mistake_is_refused_by_its_place(values: Any, problem: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Prices.from_dict(values)
    assert problem in str(refused.value)


def test_a_file_is_read_exactly(tmp_path: Path) -> None:
    text = '{"version": 1, "models": {"m": [{"input": 0.1, "output": 0.000001}]}}'
    for name in ("p.json", "p.yaml"):
        if name == "p.yaml":
            pytest.importorskip("yaml")
        (tmp_path / name).write_text(text)
        prices = Prices.load(tmp_path / name)
        assert prices.micro_usd("m", TokenUsage(input=10**13, output=10**6)) == 10**12 + 1
        assert prices.weights("m") == {"input": 0.1, "output": 0.000001}


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("p.json", "{", "p.json: JSON '{': cannot be read"),
        ("p.json", '{"version": 1, "version": 1}', "p.json: key 'version': is there twice"),
        ("p.json", '{"version": 1, "models": {"m": [{"input": NaN}]}}', "must be a number from 0"),
        ("p.yaml", "version: 1\nversion: 1\n", "p.yaml: key 'version': is there twice"),
        ("p.yaml", "a: [", "p.yaml: YAML"),
        ("p.yaml", "!!python/object:os.system {}", "p.yaml: YAML"),
        ("p.yaml", "version: 1\nmodels: {m: [{input: .nan}]}\n", "must be dollars for a million tokens"),
        ("p.yaml", "version: 1\nmodels: {m: [{input: 1, from: 2026-13-01}]}\n", "p.yaml"),
        ("p.yaml", "", "p.yaml: prices None: must be a map"),
    ],
)
def test_a_file_with_a_mistake_is_named(tmp_path: Path, name: str, text: str, problem: str) -> None:
    if name == "p.yaml":
        pytest.importorskip("yaml")
    (tmp_path / name).write_text(text)
    with pytest.raises(ValidationError) as refused:
        Prices.load(tmp_path / name)
    assert problem in str(refused.value)


def test_the_example_is_a_list_of_prices() -> None:
    pytest.importorskip("yaml")
    prices = Prices.load(EXAMPLE)
    assert prices.micro_usd("gpt-5", TokenUsage(input=1_000_000)) > 0
    for model in prices.models:
        assert prices.micro_usd(model, TokenUsage(1, 1, 0, 1, 1)) > 0


@pytest.mark.parametrize(
    ("given_", "micro"),
    [("2.50", 2_500_000), (5, 5_000_000), (Decimal("0.000001"), 1), ("-1", -1_000_000), ("1e3", 10**9)],
)
def test_dollars_are_exact_micro_dollars(given_: Any, micro: int) -> None:
    assert micro_usd(given_) == micro
    assert dollars(micro) == Decimal(given_)


@pytest.mark.parametrize("wrong", [2.5, True, None, "much", "0.0000001", "NaN", "inf", "1e30", ""])
def test_what_is_no_exact_amount_of_dollars_is_refused(wrong: Any) -> None:
    with pytest.raises(ValidationError, match="must be dollars as text, int or Decimal"):
        micro_usd(wrong)


def test_prices_are_the_weights_of_a_limit_of_micro_dollars() -> None:
    budget = Limit.per_day("usd", micro_usd("5"), weights=PRICES.weights("gpt-5", at=SPRING))
    limiter = SyncRateLimiter(SyncRepository.in_memory(), default_limits=[budget])
    usage = TokenUsage(input=1000, cached=10_000, output=100)
    with limiter.acquire("key", "gpt-5", {"usd": 1}) as lease:
        lease.settle(usage)
        assert lease.consumed == {"usd": PRICES.micro_usd("gpt-5", usage, at=SPRING)}
