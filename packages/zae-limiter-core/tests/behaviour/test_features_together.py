"""Where draws, slots, switches, schedules, estimates and what follows a refusal meet, in both variants."""

from typing import Any

import pytest

from support.core.owners import maintenance_of
from support.core.worlds import World
from zae_limiter import AccessDisabled, Draw, Limit, OnRefused, RateLimitExceeded, ValidationError

SLOTS = Limit.concurrent("parallel", 2)
RPM = Limit.per_minute("rpm", 10)
OVERFLOW = OnRefused(overflow="credits")


async def opened(world: World) -> Any:
    limiter = (await world.process()).limiter
    await limiter.set_resource_defaults("gpt-4", [RPM, SLOTS])
    await limiter.set_resource_defaults("tools", [RPM, SLOTS])
    await limiter.set_resource_defaults("credits", [Limit.total("rpm", 100)])
    return limiter


async def free(limiter: Any, *places: tuple[str, str]) -> list[int]:
    return [(await limiter.available(*place))["parallel"] for place in places]


async def test_the_end_of_a_block_frees_the_slots_of_its_draws(world: World) -> None:
    limiter, places = await opened(world), [("a", "gpt-4"), ("b", "gpt-4"), ("a", "tools")]
    draws = [Draw("b"), Draw(resource="tools", consume={"rpm": 1, "parallel": 2})]
    async with limiter.acquire("a", "gpt-4", {"rpm": 1, "parallel": 1}, draws=draws) as lease:
        assert await free(limiter, *places) == [1, 1, 0]
        await lease.draw("b").release(parallel=1)
        assert await free(limiter, *places) == [1, 2, 0]
        assert lease.lost_slots == ()
    assert await free(limiter, *places) == [2, 2, 2]


async def test_slots_that_a_draw_takes_later_are_freed_too(world: World) -> None:
    limiter = await opened(world)
    async with limiter.acquire("a", "gpt-4", {"rpm": 1}, draws=[Draw("b")]) as lease:
        await lease.draw("b").consume(parallel=2)
        assert await free(limiter, ("b", "gpt-4")) == [0]
    assert await free(limiter, ("b", "gpt-4")) == [2]


async def test_the_slots_of_a_draw_come_back_if_the_call_is_refused_or_fails(world: World) -> None:
    limiter, draws = await opened(world), [Draw("b", consume={"rpm": 1, "parallel": 1})]
    with pytest.raises(RateLimitExceeded):
        async with limiter.acquire("a", "gpt-4", {"rpm": 11}, draws=draws):
            pass
    with pytest.raises(KeyError):
        async with limiter.acquire("a", "gpt-4", {"rpm": 1}, draws=draws):
            raise KeyError
    assert await free(limiter, ("b", "gpt-4")) == [2]
    assert (await limiter.available("b", "gpt-4"))["rpm"] == 10


@pytest.mark.parametrize("of_draw", [False, True])
async def test_nothing_follows_a_disabled_bucket(world: World, *, of_draw: bool) -> None:
    limiter = await opened(world)
    await limiter.repository.set_switches("b" if of_draw else "a", "gpt-4", disabled=True, reason="unpaid")
    with pytest.raises(AccessDisabled) as caught:
        async with limiter.acquire("a", "gpt-4", {"rpm": 1}, draws=[Draw("b")], on_refused=OnRefused(30, "credits")):
            pass
    assert (caught.value.refused_by, caught.value.overflow) == ("b" if of_draw else "a", ())
    check = await limiter.check("a", "gpt-4", {"rpm": 1}, draws=[Draw("b")])
    assert (check.passes, check.retry_after_seconds) == (False, float("inf"))
    assert not (await limiter.explain("a", "gpt-4", {"rpm": 1}, draws=[Draw("b")])).passes


async def test_a_disabled_bucket_refuses_for_ever_also_if_another_of_its_entity_comes_first(world: World) -> None:
    limiter = await opened(world)
    await limiter.repository.set_switches("a", "tools", disabled=True)
    with pytest.raises(AccessDisabled) as caught:
        async with limiter.acquire("a", "gpt-4", {"rpm": 1}, draws=[Draw("a", "tools")], max_wait=30):
            pass
    assert (caught.value.refused_by, caught.value.primary_violation.resource) == ("a", "tools")
    assert caught.value.retry_after_seconds == float("inf")


async def test_an_overflow_takes_the_draws_of_the_call_along(world: World) -> None:
    limiter = await opened(world)
    async with limiter.acquire("a", "gpt-4", {"rpm": 8}):
        pass
    async with limiter.acquire("a", "gpt-4", {"rpm": 4}, draws=[Draw("b")], on_refused=OVERFLOW) as lease:
        assert (lease.resource, lease.draw("b").consumed) == ("credits", {"rpm": 4})
        await lease.draw("b").settle(rpm=3)
        await lease.settle(rpm=5)
    left = [(await limiter.available(*place))["rpm"] for place in (("a", "gpt-4"), ("a", "credits"), ("b", "gpt-4"))]
    assert left == [2, 95, 7]


async def test_a_bucket_that_a_draw_names_is_no_overflow(world: World) -> None:
    limiter = await opened(world)
    draws = [Draw(resource="credits", consume={"rpm": 1})]
    with pytest.raises(RateLimitExceeded) as caught:
        async with limiter.acquire("a", "gpt-4", {"rpm": 11}, draws=draws, on_refused=OVERFLOW):
            pass
    assert caught.value.overflow == ()
    with pytest.raises(ValidationError, match="already"):
        limiter.acquire("a", "gpt-4", {"rpm": 1}, draws=[Draw()])


async def test_an_estimate_is_lowered_for_the_call_and_for_draws_with_its_amounts(world: World) -> None:
    limiter = (await world.process()).limiter
    await limiter.set_system_defaults([Limit.per_minute("tpm", 50)])
    estimate = limiter.estimate("gpt-4", default=80, most=80)
    async with limiter.acquire("a", "gpt-4", {"tpm": estimate}, draws=[Draw("b")]) as lease:
        assert (lease.consumed, lease.draw("b").consumed) == ({"tpm": 50}, {"tpm": 50})
    assert [(await limiter.available(each, "gpt-4"))["tpm"] for each in "ab"] == [0, 0]


async def test_a_bypass_leaves_the_limits_of_a_draw_as_they_are(world: World) -> None:
    limiter = await opened(world)
    await limiter.repository.set_switches("a", "gpt-4", bypass=True)
    async with limiter.acquire("a", "gpt-4", {"rpm": 30}, draws=[Draw("b", consume={"rpm": 3})]):
        pass
    with pytest.raises(RateLimitExceeded) as caught:
        async with limiter.acquire("a", "gpt-4", {"rpm": 1}, draws=[Draw("b", consume={"rpm": 8})]):
            pass
    assert caught.value.refused_by == "b"


async def test_a_schedule_holds_for_a_draw(world: World) -> None:
    limiter = await opened(world)
    always = ["always: mon-sun capacity 3"]
    await limiter.set_limits("b", [Limit.custom("rpm", 10, schedule=always)], "gpt-4")
    check = await limiter.check("a", "gpt-4", {"rpm": 4}, draws=[Draw("b")])
    assert (check.passes, [each.schedule.split()[0] for each in check.statuses if each.exceeded]) == (False, ["always"])
    with pytest.raises(RateLimitExceeded) as caught:
        async with limiter.acquire("a", "gpt-4", {"rpm": 4}, draws=[Draw("b")]):
            pass
    assert caught.value.refused_by == "b"


async def test_deleted_defaults_of_the_system_take_its_policy_and_leave_its_switches(world: World) -> None:
    limiter = (await world.process()).limiter
    await limiter.set_system_defaults(None, on_refused=OVERFLOW)
    await limiter.repository.set_system_switches(bypass=True)
    await limiter.delete_system_defaults()
    [config] = (await maintenance_of(limiter.repository).get_configs([(None, None)])).values()
    assert (config.on_refused, config.switches.bypass) == (None, True)
