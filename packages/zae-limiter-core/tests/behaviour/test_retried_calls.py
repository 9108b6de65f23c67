"""A retried call counts once, by its idempotency key, in both variants."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from support.core.worlds import World, outcomes
from zae_limiter import (
    AccessDisabled,
    Draw,
    Limit,
    OnRefused,
    RateLimiter,
    RateLimiterUnavailable,
    RateLimitExceeded,
    ValidationError,
)
from zae_limiter.exceptions import IdempotencyKeyError
from zae_limiter.observers import Event, LeaseEvent
from zae_limiter.operations.errors import OutcomeUnknown, Unreachable
from zae_limiter.operations.values import Put, Update

CALLS = Limit.total("calls", 10)
TOKENS = Limit.total("tokens", 1_000)
HOUR = 3600
KEY = "order-77"


class Failed(Exception):
    """What a block raises."""


async def call(limiter: RateLimiter, key: str | None = KEY, *, fails: bool = False, **options: Any) -> bool:
    """Whether a call of one token was a repeat."""
    options = {"consume": {"calls": 1}, "idempotency_key": key, **options}
    try:
        async with limiter.acquire("acme", "api", **options) as lease:
            repeated: bool = lease.repeated
            if fails:
                raise Failed
    except Failed:
        pass
    return repeated


async def left(limiter: RateLimiter, name: str = "calls", entity_id: str = "acme", resource: str = "api") -> int:
    return (await limiter.available(entity_id, resource))[name]


async def opened(world: World, *limits: Limit, **options: Any) -> Any:
    limiter, wire = await world.process(default_limits=[*(limits or (CALLS,))], **options)
    async with limiter.acquire("acme", "api", {(limits or (CALLS,))[0].name: 1}):
        pass  # the bucket is there, and its limits are known
    wire.sent()
    return limiter, wire


# one key


async def test_a_key_counts_once_whichever_process_retries(world: World) -> None:
    limiter, _ = await opened(world)
    other, _ = await world.process(default_limits=[CALLS])
    repeated = [await call(each) for each in (limiter, limiter, other, other)]
    assert repeated == [False, True, True, True]
    assert await left(limiter) == 8


async def test_without_a_key_each_call_counts(world: World) -> None:
    limiter, _ = await opened(world)
    assert [await call(limiter, None), await call(limiter, None)] == [False, False]
    assert await left(limiter) == 7


async def test_a_key_is_of_one_entity_and_one_resource(world: World) -> None:
    limiter, _ = await opened(world)
    for entity_id, resource in (("acme", "api"), ("other", "api"), ("acme", "web"), ("acme#api", "web")):
        async with limiter.acquire(entity_id, resource, {"calls": 1}, idempotency_key=KEY) as lease:
            assert not lease.repeated


async def test_a_key_stands_for_its_amounts_and_draws(world: World) -> None:
    limiter, _ = await opened(world, CALLS, TOKENS)
    await call(limiter)
    others: list[dict[str, Any]] = [
        {"consume": {"calls": 2}},
        {"consume": {"calls": 1, "tokens": 1}},
        {"draws": [Draw("project")]},
    ]
    for other in others:
        with pytest.raises(IdempotencyKeyError, match=r"^idempotency_key 'order-77': stands for a call of acme/api"):
            await call(limiter, **other)
    assert (await left(limiter), await left(limiter, "tokens")) == (8, 1_000)


async def test_other_amounts_are_refused_though_the_bucket_is_empty(world: World) -> None:
    limiter, _ = await opened(world)
    await call(limiter, consume={"calls": 9})
    with pytest.raises(IdempotencyKeyError):
        await call(limiter, consume={"calls": 8})


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 257, "a\nb", "\u202e", 7, b"k"])
async def test_a_bad_key_is_refused_before_anything_is_sent(world: World, key: Any) -> None:
    limiter, wire = await opened(world)
    with pytest.raises(ValidationError, match=r"^idempotency_key"):
        limiter.acquire("acme", "api", {"calls": 1}, idempotency_key=key)
    assert wire.sent() == []


@pytest.mark.parametrize("life", [0, -1, True, "1h", float("nan"), 31 * 24 * HOUR])
async def test_a_bad_life_is_refused(world: World, life: Any) -> None:
    limiter, _ = await opened(world)
    with pytest.raises(ValidationError, match=r"^key_life"):
        limiter.acquire("acme", "api", {"calls": 1}, idempotency_key=KEY, key_life=life)


async def test_a_life_needs_a_key(world: World) -> None:
    limiter, _ = await opened(world)
    with pytest.raises(ValidationError, match=r"^idempotency_key"):
        limiter.acquire("acme", "api", {"calls": 1}, key_life=60)


async def test_keys_have_any_characters_that_ids_have(world: World) -> None:
    limiter, _ = await opened(world)
    for key in ("a#b", "a%23b", "ключ", "x" * 256, "../..", "a/b"):
        assert [await call(limiter, key), await call(limiter, key)] == [False, True]


async def test_a_key_counts_for_its_life_by_the_clock_of_the_process(world: World) -> None:
    limiter, _ = await opened(world)
    await call(limiter, key_life=HOUR)
    world.clock.advance(seconds=HOUR - 1)
    assert await call(limiter)
    world.clock.advance(seconds=1)
    assert not await call(limiter)  # though the table still has the item
    assert await left(limiter) == 7


async def test_a_day_is_the_life_of_a_key(world: World) -> None:
    limiter, _ = await opened(world)
    await call(limiter)
    world.clock.advance(seconds=24 * HOUR - 1)
    assert await call(limiter)
    world.clock.advance(seconds=1)
    assert not await call(limiter)


async def test_the_eleventh_repeat_counts_as_a_call_of_its_own(world: World) -> None:
    limiter, _ = await opened(world)
    assert [await call(limiter) for _ in range(13)] == [False, *[True] * 10, False, False]
    assert await left(limiter) == 6
    await call(limiter, fails=True)
    assert await left(limiter) == 6


# refusals


async def test_a_repeat_is_admitted_though_the_bucket_is_empty_by_now(world: World) -> None:
    limiter, _ = await opened(world)
    await call(limiter, consume={"calls": 9})
    for _ in range(2):
        assert await call(limiter, consume={"calls": 9})
    with pytest.raises(RateLimitExceeded):
        await call(limiter, "another", consume={"calls": 9})


async def test_a_refusal_is_decided_anew(world: World) -> None:
    limiter, _ = await opened(world)
    for _ in range(2):
        with pytest.raises(RateLimitExceeded):
            await call(limiter, consume={"calls": 10})
    await limiter.repository.credit_bucket("acme", "api", {"calls": 1})
    assert not await call(limiter, consume={"calls": 10})


async def test_a_disabled_entity_is_refused_whatever_it_was_admitted(world: World) -> None:
    limiter, _ = await opened(world)
    await call(limiter)
    await limiter.repository.set_switches("acme", disabled=True, reason="unpaid")
    world.clock.advance(seconds=61)  # until this process reads the switch
    for max_wait in (0, 9):
        with pytest.raises(AccessDisabled):
            await call(limiter, max_wait=max_wait)


async def test_a_repeat_does_not_wait_for_tokens_that_it_has(world: World) -> None:
    limiter, _ = await opened(world)
    await call(limiter, consume={"calls": 9}, max_wait=30)
    async with asyncio.timeout(5):
        assert await call(limiter, consume={"calls": 9}, max_wait=30)


# rollbacks


async def test_a_first_try_that_fails_gives_back_and_frees_its_key(world: World) -> None:
    limiter, _ = await opened(world)
    for _ in range(3):
        assert not await call(limiter, fails=True)
    assert await left(limiter) == 9
    assert not await call(limiter)
    assert await call(limiter, fails=True)  # a repeat that fails changes nothing
    assert await left(limiter) == 8


async def test_tokens_stay_while_a_repeat_has_them_whoever_fails(world: World) -> None:
    limiter, _ = await opened(world)
    other, _ = await world.process(default_limits=[CALLS])
    first = limiter.acquire("acme", "api", {"calls": 4}, idempotency_key=KEY)
    repeat = other.acquire("acme", "api", {"calls": 4}, idempotency_key=KEY)
    await first.__aenter__()
    await repeat.__aenter__()
    await first.__aexit__(Failed, Failed(), None)
    assert await left(limiter) == 5
    await repeat.__aexit__(Failed, Failed(), None)
    assert await left(limiter) == 5  # for the next retry
    assert await call(limiter, consume={"calls": 4})
    assert await left(limiter) == 5


async def test_what_a_block_takes_beside_its_key_goes_back_with_it(world: World) -> None:
    limiter, _ = await opened(world)
    first, repeat = (limiter.acquire("acme", "api", {"calls": 1}, idempotency_key=KEY) for _ in range(2))
    held = await first.__aenter__()
    again = await repeat.__aenter__()
    await (held or first).consume(calls=3)
    await (again or repeat).consume(calls=2)
    assert await left(limiter) == 3
    await repeat.__aexit__(Failed, Failed(), None)
    assert await left(limiter) == 5
    await first.__aexit__(Failed, Failed(), None)
    assert await left(limiter) == 8


async def test_a_lease_that_is_kept_keeps_its_key(world: World) -> None:
    limiter, _ = await opened(world)
    assert not await call(limiter, fails=True, rollback=False)
    assert await call(limiter)
    assert await left(limiter) == 8


# settlements


async def settled(limiter: RateLimiter, amount: int) -> bool:
    async with limiter.acquire("acme", "api", {"tokens": 100}, idempotency_key=KEY) as lease:
        await lease.settle(tokens=amount)
    return bool(lease.repeated)


async def test_the_first_settlement_wins(world: World) -> None:
    limiter, _ = await opened(world, TOKENS)
    other, _ = await world.process(default_limits=[TOKENS])
    assert [await settled(limiter, 250), await settled(other, 20), await settled(limiter, 900)] == [False, True, True]
    assert await left(limiter, "tokens") == 999 - 250


@pytest.mark.parametrize("amount", [20, 100, 250])
async def test_a_repeat_settles_what_the_first_did_not(world: World, amount: int) -> None:
    limiter, _ = await opened(world, TOKENS)
    async with limiter.acquire("acme", "api", {"tokens": 100}, idempotency_key=KEY) as first:
        assert await settled(limiter, amount)
        assert await left(limiter, "tokens") == 999 - amount
        await first.settle(tokens=500)
    assert await left(limiter, "tokens") == 999 - amount


async def test_a_settlement_includes_what_its_block_has_taken_and_no_other(world: World) -> None:
    limiter, _ = await opened(world, TOKENS)
    async with limiter.acquire("acme", "api", {"tokens": 100}, idempotency_key=KEY) as first:
        await first.consume(tokens=50)
        async with limiter.acquire("acme", "api", {"tokens": 100}, idempotency_key=KEY) as repeat:
            await repeat.consume(tokens=30)
            await repeat.settle(tokens=200)
        await first.settle(tokens=160)
    assert await left(limiter, "tokens") == 999 - 200


async def test_a_settlement_after_the_end_of_the_key_gives_nothing_back(world: World) -> None:
    limiter, _ = await opened(world, TOKENS)
    for amount in (20, 300):
        async with limiter.acquire("acme", "api", {"tokens": 100}, idempotency_key=KEY, key_life=60) as lease:
            world.clock.advance(seconds=61)
            world.expire()
            await lease.settle(tokens=amount)
    assert await left(limiter, "tokens") == 999 - 100 - 300


# at once


async def test_tries_at_once_count_once(world: World) -> None:
    processes = [(await opened(world))[0] for _ in range(3)]
    was = await left(processes[0])
    repeated = await outcomes(*(call(each) for each in processes * 3))
    assert sorted(repeated) == [False] + [True] * 8
    assert await left(processes[0]) == was - 1


async def test_tries_at_once_of_which_some_fail_never_give_back_twice(world: World) -> None:
    limiter, _ = await opened(world)
    for number in range(5):
        await outcomes(*(call(limiter, f"key-{number}", fails=each % 2 == 0) for each in range(4)))
    assert await left(limiter) == 4  # a try that did not fail has had the tokens of each key


# other features


async def test_draws_and_parents_count_once(world: World) -> None:
    limiter, _ = await opened(world)
    await limiter.create_entity("org")
    await limiter.create_entity("team", parent_id="org", cascade=True)
    for _ in range(3):
        async with limiter.acquire("team", "api", {"calls": 2}, draws=[Draw("model")], idempotency_key=KEY) as lease:
            assert lease.draw("model").consumed == {"calls": 2}
            assert lease.consumed == {"calls": 2}
    assert [await left(limiter, entity_id=each) for each in ("team", "org", "model")] == [8, 8, 8]


async def test_a_repeat_settles_its_draws(world: World) -> None:
    limiter, _ = await opened(world, TOKENS)
    for repeated in (False, True, True):
        async with limiter.acquire(
            "acme", "api", {"tokens": 10}, draws=[Draw("model", consume={"tokens": 20})], idempotency_key=KEY
        ) as lease:
            assert lease.repeated == repeated
            if repeated:
                await lease.draw("model").settle(tokens=70)
    assert [await left(limiter, "tokens", each) for each in ("acme", "model")] == [989, 930]


async def test_a_repeat_is_served_where_the_first_overflowed_to(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_resource_defaults("api", [CALLS], on_refused=OnRefused(overflow="credits"))
    await limiter.set_resource_defaults("credits", [Limit.total("calls", 100)])
    await call(limiter, None, consume={"calls": 8})
    for repeated in (False, True):
        async with limiter.acquire("acme", "api", {"calls": 5}, idempotency_key=KEY) as lease:
            assert (lease.repeated, lease.resource, lease.overflowed) == (repeated, "credits", True)
            assert lease.refusal is not None
            await lease.settle(calls=7)
    assert (await left(limiter), await left(limiter, resource="credits")) == (2, 93)


async def test_a_repeat_takes_a_slot_of_its_own(world: World) -> None:
    limiter, _ = await opened(world, CALLS, Limit.concurrent("open", 2))
    both = {"calls": 1, "open": 1}
    async with limiter.acquire("acme", "api", both, idempotency_key=KEY):
        async with limiter.acquire("acme", "api", both, idempotency_key=KEY) as repeat:
            assert repeat.repeated
            assert (await left(limiter, "open"), await left(limiter)) == (0, 8)
            with pytest.raises(RateLimitExceeded):
                await limiter.acquire("acme", "api", both, idempotency_key=KEY).__aenter__()
        assert await left(limiter, "open") == 1
    assert (await left(limiter, "open"), await left(limiter)) == (2, 8)


async def test_a_repeat_that_gets_no_slot_is_none(world: World) -> None:
    limiter, _ = await opened(world, CALLS, Limit.concurrent("open", 1))
    both = {"calls": 1, "open": 1}
    with suppress(Failed):
        async with limiter.acquire("acme", "api", both, idempotency_key=KEY):
            for _ in range(3):
                with pytest.raises(RateLimitExceeded):
                    await call(limiter, consume=both)
            raise Failed
    assert (await left(limiter, "open"), await left(limiter)) == (1, 9)  # no repeat was admitted: its tokens are back
    async with limiter.acquire("acme", "api", both, idempotency_key=KEY):
        for _ in range(3):
            with pytest.raises(RateLimitExceeded):
                await call(limiter, consume=both)
    assert [await call(limiter, consume=both) for _ in range(11)] == [True] * 10 + [False]


async def test_shadow_limits_count_once(world: World) -> None:
    limiter, _ = await opened(world, Limit.total("calls", 3, shadow=True))
    for _ in range(3):
        assert await call(limiter, consume={"calls": 5}) in (False, True)
    assert await left(limiter) == 2
    await limiter.repository.close()


async def test_estimates_may_differ_between_tries(world: World) -> None:
    limiter, _ = await opened(world, TOKENS)
    for amount in (100, 90):
        estimate = limiter.estimate("api", default=amount, most=200)
        async with limiter.acquire("acme", "api", {"tokens": estimate}, idempotency_key=KEY) as lease:
            assert lease.consumed == {"tokens": 100}
    assert await left(limiter, "tokens") == 899


async def test_prefetched_tokens_count_once(world: World) -> None:
    limit = Limit.per_second("calls", 100, burst=200, prefetch=1)
    limiter, wire = await world.process(default_limits=[limit])
    for number in range(20):  # until this process holds some
        assert not await call(limiter, f"key-{number}")
    wire.sent()
    assert [await call(limiter, "key-0") for _ in range(3)] == [True, True, True]
    assert "Put" in wire.sent()
    assert await limiter.check("acme", "api", {"calls": 1})


async def test_observers_count_once(world: World) -> None:
    events: list[Event] = []
    limiter, _ = await opened(world, observers=[events.append])
    for _ in range(3):
        await call(limiter, consume={"calls": 2})
    ends = [event.consumed for event in events if isinstance(event, LeaseEvent)]
    assert ends == [{"calls": 1}, {"calls": 2}, {"calls": 0}, {"calls": 0}]


# outages and lost answers


async def test_without_the_store_no_key_is_known_and_none_is_kept(world: World) -> None:
    limiter, wire = await opened(world)
    wire.break_down(Unreachable("connection refused"))
    async with limiter.acquire("acme", "api", {"calls": 1}, on_unavailable="allow", idempotency_key=KEY) as lease:
        assert (lease.degraded, lease.repeated) == (True, False)
    wire.repair()
    assert not await call(limiter)
    assert await call(limiter)


async def test_an_outage_between_acquire_and_key_follows_the_policy(world: World) -> None:
    limiter, wire = await opened(world)
    wire.break_down(Unreachable("connection refused"), on=Put)
    with pytest.raises(RateLimiterUnavailable):
        await call(limiter, on_unavailable="block")
    assert not await call(limiter, on_unavailable="allow", fails=True)
    wire.repair()
    # both keep their tokens: a put may still arrive
    assert await left(limiter) == 7


@pytest.mark.parametrize("applied", [False, True])
async def test_a_lost_answer_to_the_put_makes_no_second_first(world: World, *, applied: bool) -> None:
    limiter, wire = await opened(world)
    wire.break_once(OutcomeUnknown("no answer"), on=Put, applied=applied)
    assert not await call(limiter)
    assert await call(limiter)
    assert await left(limiter) == 8


async def test_a_put_that_may_still_come_gives_nothing_back(world: World) -> None:
    limiter, wire = await opened(world)
    wire.break_once(OutcomeUnknown("no answer"), on=Put)
    assert not await call(limiter, fails=True)
    assert await left(limiter) == 8
    assert await call(limiter)  # the tokens are there for the retry


async def test_a_lost_answer_to_a_release_gives_back_once(world: World) -> None:
    limiter, wire = await opened(world)
    async with limiter.acquire("acme", "api", {"calls": 1}, idempotency_key=KEY) as lease:
        wire.break_once(OutcomeUnknown("no answer"), on=Update, applied=True)
        await lease.__aexit__(Failed, Failed(), None)
        assert await left(limiter) == 9


async def test_a_lost_answer_to_a_settlement_settles_once(world: World) -> None:
    limiter, wire = await opened(world, TOKENS)
    async with limiter.acquire("acme", "api", {"tokens": 100}, idempotency_key=KEY) as lease:
        wire.break_once(OutcomeUnknown("no answer"), on=Update, applied=True)
        await lease.settle(tokens=40)
    assert await settled(limiter, 700)
    assert await left(limiter, "tokens") == 959


async def test_a_try_that_is_cut_off_while_it_claims_loses_its_tokens_to_the_key(async_world: World) -> None:
    limiter, wire = await opened(async_world)
    wire.hold_answers(Put)
    trying = asyncio.create_task(call(limiter))
    while "Put" not in wire.sent():  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    trying.cancel()
    wire.let_go()
    await outcomes(trying)
    assert await call(limiter)
    assert await left(limiter) == 8


# the price


async def test_the_price_in_requests(world: World) -> None:
    limiter, wire = await opened(world, TOKENS)

    async def requests(tokens: int = 10, key: str | None = KEY, **options: Any) -> list[str]:
        with suppress(RateLimitExceeded):
            await call(limiter, key, consume={"tokens": tokens}, **options)
        sent: list[str] = wire.sent()
        return sent

    assert await requests(key=None) == ["Update"]
    assert await requests() == ["Update", "Put"]
    assert await requests() == ["Update", "Put", "Update", "Update"]  # it counts in the item, and gives back
    assert await requests(max_wait=9) == ["Get", "Update"]
    assert await requests(key="k-2", max_wait=9) == ["Get", "Update", "Put"]
    assert await requests(key="k-3", fails=True) == ["Update", "Put", "Update", "Update"]  # releases, gives back
    refused = await requests(5_000, None)
    assert await requests(5_000, "k-4") == [*refused, "Get"]


async def test_the_price_in_units(world: World) -> None:
    limiter, _ = await opened(world)
    meter = world.meter

    async def units(**options: Any) -> float:
        meter.newly_written()
        await call(limiter, **options)
        return meter.newly_written()

    assert await units(key=None) == 1
    assert await units() == 2
    assert await units() == 4
