"""Limits that count the tokens of a language model by kind: settled by weights, and asked in the middle of a stream."""

import math
import pickle
from copy import deepcopy
from dataclasses import asdict, replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.core.shards import split_into
from support.core.worlds import World, passes, take
from zae_limiter import Limit, TokenUsage, ValidationError
from zae_limiter.operations.errors import Unreachable
from zae_limiter.values.weights import Weights

WEIGHTS = {"input": 1, "cached": 0.1, "output": 4}
RPM = Limit.per_minute("rpm", 60)
TPM = Limit.per_day("tpm", 10_000, weights=WEIGHTS)
USAGE = TokenUsage(input=100, cached=1000, cache_write=10, output=50, reasoning=25)
WEIGHED = 100 + 100 + 10 + 4 * 75


async def test_a_usage_settles_the_limits_that_have_weights(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM, TPM])
    async with limiter.acquire("e", "r", {"rpm": 1, "tpm": 2000}) as lease:
        await lease.settle(USAGE)
        assert (lease.consumed, lease.weights) == ({"rpm": 1, "tpm": WEIGHED}, {"tpm": WEIGHTS})
    assert await limiter.available("e", "r") == {"rpm": 59, "tpm": 10_000 - WEIGHED}


async def test_it_settles_a_limit_that_the_acquire_took_nothing_of(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM, TPM])
    async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
        await lease.settle(USAGE)
    assert await limiter.available("e", "r") == {"rpm": 59, "tpm": 10_000 - WEIGHED}


async def test_the_last_of_several_settlements_holds_and_a_missing_usage_leaves_the_estimate(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TPM])
    async with limiter.acquire("e", "r", {"tpm": 2000}) as lease:
        await lease.settle(None)
        assert (lease.consumed, lease.corrected) == ({"tpm": 2000}, False)
        await lease.settle(TokenUsage(input=5000))
        await lease.settle(TokenUsage(input=7))
    assert await limiter.available("e", "r") == {"tpm": 10_000 - 7}


async def test_amounts_are_tokens_of_the_limit_and_go_before_a_usage(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TPM, Limit.per_day("usd", 1_000_000)])
    async with limiter.acquire("e", "r", {"tpm": 1, "usd": 1}) as lease:
        await lease.settle(USAGE, usd=1234)
        assert lease.consumed == {"tpm": WEIGHED, "usd": 1234}
        await lease.settle(USAGE, tpm=3)
        assert lease.consumed == {"tpm": 3, "usd": 1234}


async def test_parts_of_a_token_add_up_exactly(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TPM])
    for _ in range(10):
        async with limiter.acquire("e", "r", {"tpm": 1}) as lease:
            await lease.settle(TokenUsage(cached=1))
    item = world.bucket_of(limiter, "e", "r")
    assert item is not None
    assert item["b_tpm_tc"] == 1000  # ten tenths
    assert await limiter.available("e", "r") == {"tpm": 9999}


@pytest.mark.parametrize("usage", [{"input": 5}, 5, "5", object()])
async def test_only_a_token_usage_is_weighed(world: World, usage: Any) -> None:
    limiter, _ = await world.process(default_limits=[TPM])
    async with limiter.acquire("e", "r", {"tpm": 5}) as lease:
        with pytest.raises(ValidationError, match="read_usage makes one"):
            await lease.settle(usage)
        with pytest.raises(ValidationError, match="read_usage makes one"):
            lease.would_exceed(usage)


async def test_a_usage_that_no_limit_has_weights_for_is_an_error(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    async with limiter.acquire("e", "r", {"rpm": 5}) as lease:
        with pytest.raises(ValidationError, match="no limit of this lease has weights: name limits and amounts"):
            await lease.settle(USAGE)
        await lease.settle(USAGE, rpm=2)
    assert await limiter.available("e", "r") == {"rpm": 58}


async def test_weights_are_stored_at_each_level_and_changed(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_system_defaults([TPM])
    async with limiter.acquire("e", "r", {"tpm": 1}) as lease:
        await lease.settle(USAGE)
        assert lease.consumed == {"tpm": WEIGHED}
    heavier = Limit.per_day("tpm", 10_000, weights={"output": 100})
    await limiter.set_limits("e", [heavier], resource="r")
    assert await limiter.get_limits("e", resource="r") == [heavier]
    async with limiter.acquire("e", "r", {"tpm": 1}) as lease:
        await lease.settle(USAGE)
        assert lease.consumed == {"tpm": 7500}


async def test_the_weights_of_the_child_hold_for_a_limit_of_its_parent_with_the_same_name(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.create_entity("p")
    await limiter.create_entity("c", parent_id="p", cascade=True)
    org = Limit.per_day("org", 10_000, weights={"input": 1})
    await limiter.set_limits("p", [Limit.per_day("tpm", 10_000, weights={"output": 9}), org])
    await limiter.set_limits("c", [TPM])
    async with limiter.acquire("c", "r", {"tpm": 1}) as lease:
        await lease.settle(USAGE)
    assert await limiter.available("c", "r") == {"tpm": 10_000 - WEIGHED}
    assert await limiter.available("p", "r") == {"tpm": 10_000 - WEIGHED, "org": 10_000 - 1110}


async def test_shadow_and_prefetched_limits_settle_by_weights(world: World) -> None:
    for limit in (
        Limit.per_day("tpm", 10_000, weights=WEIGHTS, shadow=True),
        Limit.per_day("tpm", 100_000, weights=WEIGHTS, prefetch=1),
    ):
        limiter, _ = await world.process(limit.name + str(limit.shadow), default_limits=[limit])
        for _ in range(3):
            async with limiter.acquire("e", "r", {"tpm": 1000}) as lease:
                await lease.settle(USAGE)
        assert limit.usable_burst - (await limiter.available("e", "r"))["tpm"] == 3 * WEIGHED


async def test_a_lease_that_the_store_did_not_serve_settles_nothing_by_weights(world: World) -> None:
    limiter, wire = await world.process(default_limits=[TPM], on_unavailable="allow")
    wire.break_down(Unreachable("connection refused"))
    async with limiter.acquire("e", "r", {"tpm": 1000}) as lease:
        await lease.settle(USAGE)
        assert (lease.degraded, lease.consumed, lease.would_exceed(USAGE)) == (True, {"tpm": 1000}, ())


async def test_a_stream_is_told_when_it_would_go_into_debt_without_a_request(world: World) -> None:
    limiter, wire = await world.process(default_limits=[Limit.per_day("tpm", 1000, weights=WEIGHTS)])
    await take(limiter, "e", "r", tpm=500)
    async with limiter.acquire("e", "r", {"tpm": 100}) as lease:
        wire.sent()
        assert lease.would_exceed(TokenUsage(output=25)) == ()  # what it holds
        assert lease.would_exceed(TokenUsage(output=125)) == ()
        assert lease.would_exceed(tpm=500) == ()
        [status] = lease.would_exceed(TokenUsage(output=125, cached=1))
        assert (status.limit_name, status.available, status.requested) == ("tpm", 400, 401)
        assert status.exceeded
        assert 0 < status.retry_after_seconds < math.inf
        await lease.settle(tpm=2000)  # a correction that is not written yet changes nothing
        assert lease.would_exceed(tpm=500) == ()
        assert lease.would_exceed(tpm=501) != ()
        await lease.settle(tpm=100)
        world.clock.advance(86.4)
        assert lease.would_exceed(tpm=501) == ()  # a token has come back
        assert not wire.sent()
    assert await passes(limiter, "e", "r", tpm=400)


async def test_the_parent_may_be_what_would_be_exceeded_and_shadow_limits_never_are(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.create_entity("p")
    await limiter.create_entity("c", parent_id="p", cascade=True)
    await limiter.set_limits("p", [Limit.per_day("tpm", 50)])
    await limiter.set_limits("c", [Limit.per_day("tpm", 1000), Limit.per_day("free", 1, shadow=True)])
    async with limiter.acquire("c", "r", {"tpm": 10, "free": 1}) as lease:
        assert [each.entity_id for each in lease.would_exceed(tpm=51, free=10)] == ["p"]
        with pytest.raises(ValidationError, match="unknown limit 'other' in this lease"):
            lease.would_exceed(other=1)


async def test_a_bucket_that_nobody_has_used_yet_would_exceed_what_it_begins_with(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.create_entity("p")
    await limiter.create_entity("e", parent_id="p", cascade=True)
    await limiter.set_limits("e", [Limit.per_minute("rpm", 5), Limit.per_minute("tpm", 100)], "r")
    await limiter.set_limits("p", [Limit.per_minute("tpm", 200)], "r")
    async with limiter.acquire("e", "r", {"tpm": 0}) as lease:  # which makes no bucket
        assert lease.would_exceed(tpm=100) == ()
        assert [each.entity_id for each in lease.would_exceed(tpm=101)] == ["e"]
    async with limiter.acquire("e", "r", {"rpm": 1}) as lease:  # of which the parent has no limit
        assert [each.entity_id for each in lease.would_exceed(tpm=201)] == ["e", "p"]


@given(
    st.fixed_dictionaries(
        {kind: st.integers(0, 10**12) for kind in ("input", "cached", "cache_write", "output", "reasoning")}
    ),
    st.dictionaries(st.sampled_from(["input", "cached", "cache_write", "output", "reasoning"]), st.integers(0, 10**12)),
)
def test_what_a_usage_weighs_is_exact_and_rounded_up_once(amounts: dict[str, int], millionths: dict[str, int]) -> None:
    exact_weights: Any = {kind: Decimal(each).scaleb(-6) for kind, each in millionths.items()}
    limit = Limit.custom("tpm", 1, weights=exact_weights)
    like = {"cached": "input", "cache_write": "input", "reasoning": "output"}
    exact = sum(n * millionths.get(kind, millionths.get(like.get(kind, ""), 0)) for kind, n in amounts.items())
    weights = Weights.check("weights", limit.weights)
    assert weights.weigh(TokenUsage(**amounts)) == min(-(-exact // 1000), 10**18)
    assert limit.weigh(TokenUsage(**amounts)) == min(-(-exact // 10**6), 10**15)
    assert Weights.parse("weights", str(weights)) == weights
    assert Limit.from_dict(limit.to_dict()) == limit
    assert hash(Limit.from_dict(limit.to_dict())) == hash(limit)


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        ({"input": -1}, "must be a number from 0 to 1000000"),
        ({"input": math.nan}, "must be a number from 0"),
        ({"input": math.inf}, "must be a number from 0"),
        ({"input": 0.0000001}, "with at most 6 decimals"),
        ({"input": True}, "must be a number"),
        ({"input": "1"}, "must be a number"),
        ({"inputs": 1}, r"is not a kind of tokens \(known: input, cached, cache_write, output, reasoning"),
        (4, "must map kinds of tokens to weights"),
        (None, "must map kinds of tokens to weights"),
    ],
)
def test_what_is_no_weight_is_refused_by_its_name(weights: Any, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem) as refused:
        Limit.per_day("tpm", 10, weights=weights)
    assert "of limit 'tpm'" in refused.value.field


@pytest.mark.parametrize("amount", [-1, 1.5, True, "1", 10**15 + 1])
def test_a_usage_has_whole_tokens(amount: Any) -> None:
    with pytest.raises(ValidationError, match="output of TokenUsage"):
        TokenUsage(output=amount)


def test_usages_add_up() -> None:
    assert TokenUsage(input=1, cached=2) + TokenUsage(output=3, cached=4) == TokenUsage(input=1, cached=6, output=3)


def test_a_limit_with_weights_survives_copies() -> None:
    for copied in (pickle.loads(pickle.dumps(TPM)), deepcopy(TPM), replace(TPM), Limit(**asdict(TPM))):
        assert (copied, hash(copied), copied.weights) == (TPM, hash(TPM), WEIGHTS)
    assert repr(TPM.weights) == "{'input': 1, 'cached': 0.1, 'output': 4}"
    with pytest.raises(TypeError):
        TPM.weights["input"] = 2  # type: ignore[index]


async def test_a_split_bucket_is_asked_as_a_whole(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.per_day("tpm", 1000)])
    await take(limiter, "e", "r", tpm=0)
    await take(limiter, "e", "r", tpm=1)
    split_into(world, limiter, 2)
    other, _ = await world.process(default_limits=[Limit.per_day("tpm", 1000)])
    async with other.acquire("e", "r", {"tpm": 99}) as lease:
        assert lease.would_exceed(tpm=900) == ()
        assert lease.would_exceed(tpm=1050) != ()


async def test_limits_of_a_call_settle_by_their_weights(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    async with limiter.acquire("e", "r", {"tpm": 5}, [TPM]) as lease:  # limits of the call
        await lease.settle(USAGE)
        assert lease.consumed == {"tpm": WEIGHED}


def test_a_weight_of_six_decimals_comes_back_as_it_was() -> None:
    limit = Limit.per_minute("tpm", 9, weights={"input": 1.298401, "output": 999_999.999999})
    assert Limit.from_dict(limit.to_dict()) == limit
