"""Shadow limits refuse nobody, say what they would have refused, and go into no debt of their own."""

import asyncio
import math
from dataclasses import replace
from typing import Any, cast

import pytest

from support.core.shards import aim_at, split_into, states
from support.core.worlds import Awaited, World, passes, take
from zae_limiter import Limit, RateLimiter, RateLimiterUnavailable, RateLimitExceeded, SyncRateLimiter
from zae_limiter.exceptions import BudgetEnded
from zae_limiter.http import headers, problem
from zae_limiter.observers import AcquireEvent
from zae_limiter.operations.errors import Unreachable
from zae_limiter.operations.values import Put, Update

RPM, TPM = Limit.per_minute("rpm", 5, shadow=True), Limit.per_minute("tpm", 100)


async def shadowed(limiter: RateLimiter, **consume: int) -> list[str]:
    """The shadow limits that would have refused an acquire."""
    async with limiter.acquire("e", "r", consume) as lease:
        return [status.limit_name for status in lease.shadowed]


def in_shadow(world: World, limiter: RateLimiter, **options: Any) -> RateLimiter:
    """Another limiter over the same repository, in shadow."""
    if world.variant == "async":
        return RateLimiter(limiter.repository, shadow=True, **options)
    target = cast("Any", limiter.repository)._target
    return cast("RateLimiter", Awaited(SyncRateLimiter(target, shadow=True, **options)))


async def test_a_shadow_limit_lets_through_and_says_what_it_would_have_refused(world: World) -> None:
    limiter, wire = await world.process(default_limits=[RPM, TPM])
    assert [await shadowed(limiter, rpm=1, tpm=1) for _ in range(8)] == [[]] * 5 + [["rpm"]] * 3
    wire.sent()
    async with limiter.acquire("e", "r", {"rpm": 2, "tpm": 1}) as lease:
        status = lease.shadowed[0]
        assert (status.limit, status.available, status.requested, status.exceeded) == (RPM, 0, 2, True)
        assert status.retry_after_seconds == pytest.approx(24, abs=0.02)
        assert {each.limit_name: each.exceeded for each in lease.statuses} == {"rpm": True, "tpm": False}
        assert lease.consumed == {"rpm": 2, "tpm": 1}
    assert wire.sent() == ["Update"]
    item = world.bucket_of(limiter, "e", "r")
    assert item is not None
    assert (item["b_rpm_tk"], item["b_rpm_tc"], item["b_tpm_tc"]) == (0, 10_000, 9_000)
    assert (item["ev"], item["sj"]) == (9, 4)


async def test_a_shadow_limit_gives_again_what_has_come_back(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    await take(limiter, "e", "r", rpm=500)
    await take(limiter, "e", "r", rpm=5)
    world.clock.advance(seconds=12)
    assert await shadowed(limiter, rpm=1) == []
    assert await shadowed(limiter, rpm=1) == ["rpm"]


async def test_an_enforced_limit_beside_it_refuses_and_nothing_is_counted_for_the_shadow_limit(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM, TPM])
    await take(limiter, "e", "r", rpm=5)
    with pytest.raises(RateLimitExceeded) as refused:
        await take(limiter, "e", "r", rpm=1, tpm=101)
    assert [status.limit_name for status in refused.value.violations] == ["tpm"]
    assert refused.value.primary_violation.limit == TPM
    assert {each["limit_name"]: each["shadow"] for each in refused.value.as_dict()["limits"]} == {
        "rpm": True,
        "tpm": False,
    }
    assert problem(refused.value)["violated-policies"] == ["tpm"]
    assert set(headers(refused.value)["RateLimit-Policy"].split(", ")) == {'"tpm";q=100;w=60'}
    item = world.bucket_of(limiter, "e", "r")
    assert item is not None
    assert "sj" not in item


async def test_the_fields_of_an_answer_show_no_shadow_limit(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    async with limiter.acquire("e", "r", {"rpm": 6}) as lease:
        assert headers(cast("Any", lease)) == {}
        assert headers(cast("Any", lease), legacy=True) == {}


async def test_a_shadow_limit_that_is_enforced_begins_with_what_it_has_left(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_system_defaults([RPM])
    for _ in range(9):
        await take(limiter, "e", "r", rpm=1)
    await limiter.set_system_defaults([replace(RPM, shadow=False)])
    assert not await passes(limiter, "e", "r", rpm=1)
    world.clock.advance(seconds=12)
    assert await passes(limiter, "e", "r", rpm=1)
    assert not await passes(limiter, "e", "r", rpm=1)
    await limiter.set_system_defaults([RPM])
    assert await shadowed(limiter, rpm=1) == ["rpm"]


async def test_a_flip_reaches_another_process_when_its_config_expires_and_reshapes_no_bucket(world: World) -> None:
    one, other = await world.process(), await world.process()
    await one.limiter.set_system_defaults([RPM])
    await take(other.limiter, "e", "r", rpm=5)
    await one.limiter.set_system_defaults([replace(RPM, shadow=False)])
    assert await passes(other.limiter, "e", "r", rpm=6)
    anchor = (world.bucket_of(other.limiter, "e", "r") or {})["rf"]
    world.clock.advance(seconds=61)
    assert not await passes(other.limiter, "e", "r", rpm=6)
    assert await passes(other.limiter, "e", "r", rpm=5)
    assert (world.bucket_of(other.limiter, "e", "r") or {})["rf"] == anchor


async def test_corrections_of_what_was_only_counted_are_only_counted(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    await take(limiter, "e", "r", rpm=5)
    async with limiter.acquire("e", "r", {"rpm": 3}) as lease:
        await lease.adjust(rpm=100)
    async with limiter.acquire("e", "r", {"rpm": 3}) as lease:
        await lease.settle(rpm=1)
    async with limiter.acquire("e", "r", {"rpm": 3}) as lease:
        await lease.release(rpm=3)
    with pytest.raises(LookupError):
        async with limiter.acquire("e", "r", {"rpm": 3}):
            raise LookupError
    bucket = await limiter.repository.get_bucket("e", "r")
    assert bucket is not None
    assert (bucket.limits[0].available, bucket.limits[0].consumed) == (0, 5 + 103 + 1)


async def test_a_debt_of_corrections_is_paid_back_before_the_shadow_limit_gives_again(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
        await lease.adjust(rpm=9)
    assert await limiter.available("e", "r") == {"rpm": -5}
    assert await shadowed(limiter, rpm=1) == ["rpm"]
    assert await limiter.available("e", "r") == {"rpm": -5}


async def test_corrections_of_a_limit_that_no_acquire_names_add_to_no_debt(world: World) -> None:
    unnamed = Limit.per_minute("tpm", 1000, shadow=True)
    limiter, _ = await world.process(default_limits=[Limit.per_minute("rpm", 1000), unnamed])
    for _ in range(20):
        async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
            await lease.settle(tpm=2000)
    bucket = await limiter.repository.get_bucket("e", "r")
    assert bucket is not None
    assert [(each.available, each.consumed) for each in bucket.limits] == [(980, 20), (-1000, 40_000)]


async def test_consume_in_a_block_is_judged_as_well(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    async with limiter.acquire("e", "r", {"rpm": 4}) as lease:
        assert not lease.shadowed
        await lease.consume(rpm=2)
        assert [status.requested for status in lease.shadowed] == [2]


async def test_it_waits_for_no_shadow_limit(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM, TPM])
    await take(limiter, "e", "r", rpm=5)
    async with limiter.acquire("e", "r", {"rpm": 1, "tpm": 1}, max_wait=30.0) as lease:
        assert (lease.waited, len(lease.shadowed)) == (0.0, 1)


async def test_what_is_available_and_what_would_pass(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM, TPM])
    await take(limiter, "e", "r", rpm=5, tpm=100)
    assert await limiter.available("e", "r") == {"rpm": 0, "tpm": 0}
    assert (await limiter.check("e", "r", {"rpm": 1})).passes
    assert await limiter.time_until_available("e", "r", {"rpm": 9}) == 0
    assert not (await limiter.check("e", "r", {"rpm": 1, "tpm": 1})).passes


async def test_limits_of_a_call_may_be_in_shadow(world: World) -> None:
    limiter, _ = await world.process()
    async with limiter.acquire("e", "r", {"rpm": 6}, limits=[RPM]) as lease:
        assert [status.limit for status in lease.shadowed] == [RPM]
    with pytest.raises(RateLimitExceeded):
        await limiter.acquire("e", "r", {"rpm": 6}, limits=[replace(RPM, shadow=False)]).__aenter__()


async def test_a_budget_that_is_over_refuses_nothing_in_shadow(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TPM])
    shadow = in_shadow(world, limiter, default_limits=[TPM])
    budgets = [of.budget("run-1", {"calls": 1}, within="team-a", expires=60) for of in (limiter, shadow, shadow)]
    await budgets[0].open()
    await budgets[1].open()
    world.clock.advance(61)
    for run in budgets[1], await budgets[2].open():
        async with run.acquire("gpt-4", {"tpm": 1}):
            pass
    with pytest.raises(BudgetEnded):
        await budgets[0].open()


async def test_a_capacity_of_0_in_shadow_blocks_nobody(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.per_minute("rpm", 0, shadow=True)])
    async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
        assert [math.isinf(status.retry_after_seconds) for status in lease.shadowed] == [True]
    item = world.bucket_of(limiter, "e", "r")
    assert item is not None
    assert (item["b_rpm_tk"], item["b_rpm_tc"], item["sj"]) == (0, 1_000, 1)


@pytest.mark.parametrize("limits", [[RPM], [RPM, TPM]], ids=["shadow", "mixed"])
async def test_without_the_store_shadow_limits_alone_let_through(world: World, limits: list[Limit]) -> None:
    limiter, wire = await world.process(default_limits=limits)
    consume = dict.fromkeys((limit.name for limit in limits), 1)
    await take(limiter, "e", "r", **consume)
    wire.break_down(Unreachable("connection refused"), on=(Update, Put))
    if limits == [RPM]:
        async with limiter.acquire("e", "r", consume) as lease:
            assert (lease.degraded, lease.shadowed) == (True, ())
        with pytest.raises(RateLimiterUnavailable):
            await limiter.acquire("e", "r", consume, on_unavailable="block").__aenter__()
    else:
        with pytest.raises(RateLimiterUnavailable):
            await limiter.acquire("e", "r", consume).__aenter__()


async def test_a_parent_in_shadow_lets_its_children_through(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_system_defaults([TPM])
    await limiter.set_limits("p", [replace(TPM, capacity=2, burst=2, shadow=True)])
    await limiter.create_entity("p")
    await limiter.create_entity("e", parent_id="p", cascade=True)
    for expected in ([], ["p"], ["p"]):
        async with limiter.acquire("e", "r", {"tpm": 2}) as lease:
            assert [status.entity_id for status in lease.shadowed] == expected
    parent, child = world.bucket_of(limiter, "p", "r"), world.bucket_of(limiter, "e", "r")
    assert parent is not None
    assert child is not None
    assert (parent["sj"], child.get("sj"), child["b_tpm_tk"]) == (2, None, 94_000)


async def test_a_refusal_by_the_parent_takes_the_count_of_the_child_back(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_system_defaults([RPM])
    await limiter.set_limits("p", [replace(RPM, capacity=1, burst=1, shadow=False)])
    await limiter.create_entity("p")
    await limiter.create_entity("e", parent_id="p", cascade=True)
    await take(limiter, "e", "r", rpm=1)
    world.clock.advance(seconds=2)
    assert not await passes(limiter, "e", "r", rpm=7)
    item = world.bucket_of(limiter, "e", "r")
    assert item is not None
    assert (item["ev"], item.get("sj", 0), item["b_rpm_tc"]) == (1, 0, 1_000)


async def test_all_shards_together_decide_and_one_write_takes(world: World) -> None:
    limiter, wire = await world.process(default_limits=[replace(TPM, shadow=True)])
    await take(limiter, "e", "r", tpm=1)
    split_into(world, limiter, 4)
    world.clock.advance(seconds=60)
    for shard in (0, 1, 2, 3, 0):
        aim_at(limiter, shard)
        await take(limiter, "e", "r", tpm=0 if shard else 1)
    wire.sent()
    aim_at(limiter, 1)
    assert await shadowed(limiter, tpm=60) == []  # a shard has 25
    assert wire.sent() == ["Update"]
    assert states(world, limiter)[1].tokens_milli("tpm") < 0
    async with limiter.acquire("e", "r", {"tpm": 60}) as lease:
        status = lease.shadowed[0]
        assert (status.available, status.requested) == (38, 60)
        assert status.retry_after_seconds == pytest.approx(13.2, abs=0.1)
    assert await shadowed(limiter, tpm=38) == []
    assert await shadowed(limiter, tpm=1) == ["tpm"]


async def test_callers_that_meet_share_what_is_there(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    await take(limiter, "e", "r", rpm=1)
    found = await asyncio.gather(*(shadowed(limiter, rpm=1) for _ in range(10)))
    assert sorted(found) == [[]] * 4 + [["rpm"]] * 6
    assert await limiter.available("e", "r") == {"rpm": 0}


async def test_a_limiter_in_shadow_refuses_nobody_beside_one_that_enforces(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TPM])
    trial = in_shadow(world, limiter, default_limits=[TPM])
    await take(limiter, "e", "r", tpm=60)
    assert await shadowed(trial, tpm=60) == ["tpm"]
    assert await shadowed(trial, tpm=30) == []
    assert (await trial.check("e", "r", {"tpm": 500})).passes
    assert not await passes(limiter, "e", "r", tpm=11)
    assert await passes(limiter, "e", "r", tpm=10)


async def test_observers_are_told_of_each_call_what_it_would_have_refused(world: World) -> None:
    seen: list[tuple[str, str, list[str]]] = []

    def note(event: object) -> None:
        if isinstance(event, AcquireEvent):
            seen.append((event.call, event.outcome, [status.limit_name for status in event.shadowed]))

    limiter, _ = await world.process(default_limits=[RPM], observers=[note])
    async with limiter.acquire("e", "r", {"rpm": 6}) as lease:
        await lease.consume(rpm=5)
        await lease.consume(rpm=1)
    assert seen == [
        ("acquire", "admitted", ["rpm"]),
        ("consume", "admitted", []),
        ("consume", "admitted", ["rpm"]),
    ]
