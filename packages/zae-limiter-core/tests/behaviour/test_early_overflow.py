"""``OnRefused(at=…)``: from a part of a limit used on, the overflow comes first; in both variants.

What follows a refusal: test_on_refused.
"""

from datetime import UTC, datetime
from typing import Any

import pytest

from support.core.worlds import Process, World, take
from zae_limiter import UNLIMITED, Draw, Limit, OnRefused, RateLimiter, RateLimiterUnavailable, RateLimitExceeded
from zae_limiter.observers import AcquireEvent, Event, LeaseEvent
from zae_limiter.operations.errors import Unreachable
from zae_limiter.operations.values import Operation

MONTH = Limit.per_month("credits", 10)
PREPAID = Limit.total("credits", 500)
EARLY = OnRefused(overflow="credits", at="80%")


async def opened(world: World, *limits: Limit, policy: OnRefused | None = EARLY, **options: Any) -> Process:
    """Limits on gpt-4 with the policy, by default a month's quota, and prepaid credits."""
    process = await world.process(**options)
    await process.limiter.set_resource_defaults("gpt-4", list(limits) or [MONTH], on_refused=policy)
    await process.limiter.set_resource_defaults("credits", [PREPAID])
    process.wire.sent()
    return process


async def served_by(limiter: RateLimiter, amount: int = 1, entity_id: str = "acme", **options: Any) -> str:
    async with limiter.acquire(entity_id, "gpt-4", {"credits": amount}, **options) as lease:
        return lease.resource


async def test_from_the_part_on_the_overflow_comes_first_and_the_lease_says_why(world: World) -> None:
    limiter, _ = await opened(world)
    assert [await served_by(limiter) for _ in range(9)] == ["gpt-4"] * 8 + ["credits"]
    async with limiter.acquire("acme", "gpt-4", {"credits": 1}) as lease:
        assert (lease.overflowed, lease.resource, lease.refusal) == (True, "credits", None)
        early = lease.overflowed_early
        assert early is not None
        assert (early.resource, early.limit_name, early.available, early.exceeded) == ("gpt-4", "credits", 2, False)
    assert await limiter.available("acme", "gpt-4") == {"credits": 2}
    assert await limiter.available("acme", "credits") == {"credits": 498}


async def test_a_lease_before_the_part_and_one_after_a_refusal_are_not_early(world: World) -> None:
    limiter, _ = await opened(world)
    async with limiter.acquire("acme", "gpt-4", {"credits": 1}) as lease:
        assert (lease.overflowed, lease.overflowed_early) == (False, None)
    async with limiter.acquire("acme", "gpt-4", {"credits": 11}) as lease:  # more than the limit ever has
        assert lease.overflowed
        assert lease.overflowed_early is None
        assert lease.refusal is not None


@pytest.mark.parametrize("level", ["call", "entity", "entity_default", "tier", "resource", "system"])
async def test_each_level_may_have_the_part(world: World, level: str) -> None:
    limiter, _ = await opened(world, policy=None)
    options: dict[str, Any] = {}
    if level == "call":
        options = {"on_refused": EARLY}
    elif level == "entity":
        await limiter.set_limits("acme", [MONTH], "gpt-4", on_refused=EARLY)
    elif level == "entity_default":
        await limiter.set_limits("acme", [MONTH], on_refused=EARLY)
        await limiter.set_limits("acme", [PREPAID], "credits")
    elif level == "tier":
        await limiter.repository.set_tier_limits("gold", [MONTH], "gpt-4", on_refused=EARLY)
        await limiter.create_entity("acme", tier="gold")
    elif level == "resource":
        await limiter.set_resource_defaults("gpt-4", [MONTH], on_refused=EARLY)
    else:
        await limiter.set_system_defaults(None, on_refused=EARLY)
    assert [await served_by(limiter, 8, **options), await served_by(limiter, **options)] == ["gpt-4", "credits"]


async def test_it_comes_back_by_itself_in_the_next_window(world: World) -> None:
    limiter, wire = await opened(world, Limit.per_day("credits", 10, timezone="UTC"))
    await take(limiter, "acme", "gpt-4", credits=9)
    assert await served_by(limiter) == "credits"
    world.clock.advance(ms=86_400_000)
    wire.sent()
    assert await served_by(limiter) == "gpt-4"


async def test_a_rate_comes_back_as_its_tokens_do(world: World) -> None:
    limiter, _ = await opened(world, Limit.per_minute("credits", 60))
    await take(limiter, "acme", "gpt-4", credits=50)
    assert await served_by(limiter) == "credits"
    world.clock.advance(ms=3_000)
    assert await served_by(limiter) == "gpt-4"


async def test_the_last_part_is_for_calls_that_the_overflow_cannot_serve(world: World) -> None:
    limiter, _ = await opened(world)
    await limiter.set_resource_defaults("credits", [Limit.total("credits", 1)])
    await take(limiter, "acme", "gpt-4", credits=8)
    assert [await served_by(limiter) for _ in range(3)] == ["credits", "gpt-4", "gpt-4"]
    with pytest.raises(RateLimitExceeded) as caught:
        await served_by(limiter)
    assert [each.resource for each in (*caught.value.statuses, *caught.value.overflow)] == ["gpt-4", "credits"]


async def test_an_overflow_without_limits_leaves_the_call_to_its_bucket(world: World) -> None:
    limiter, _ = await opened(world)
    await limiter.delete_resource_defaults("credits")
    assert [await served_by(limiter, 8), await served_by(limiter)] == ["gpt-4", "gpt-4"]


async def test_an_early_call_makes_one_request_and_no_call_makes_one_more(world: World) -> None:
    limiter, wire = await opened(world)
    await take(limiter, "acme", "gpt-4", credits=8)
    await take(limiter, "acme", "credits", credits=1)
    wire.sent()
    assert await served_by(limiter) == "credits"
    assert wire.sent() == ["Update"]
    assert await served_by(limiter, entity_id="new") == "gpt-4"
    wire.sent()
    assert await served_by(limiter, entity_id="new") == "gpt-4"
    assert wire.sent() == ["Update"]


async def test_expired_limits_are_read_with_their_bucket_before_the_decision(world: World) -> None:
    limiter, wire = await opened(world)
    elsewhere, _ = await world.process()
    await take(limiter, "acme", "gpt-4", credits=1)
    await take(elsewhere, "acme", "gpt-4", credits=8)
    await take(limiter, "acme", "credits", credits=1)
    world.clock.advance(ms=61_000)
    wire.sent()
    async with limiter.acquire("acme", "gpt-4", {"credits": 1}) as lease:
        assert lease.overflowed_early is not None
        assert lease.overflowed_early.available == 1
    assert wire.sent() == ["BatchGet", "BatchGet", "Update"]


async def test_what_others_gave_back_is_seen_when_the_limits_expire(world: World) -> None:
    limiter, _ = await opened(world, PREPAID)
    await take(limiter, "acme", "gpt-4", credits=450)
    assert await served_by(limiter) == "credits"
    elsewhere, _ = await world.process()
    await elsewhere.repository.credit_bucket("acme", "gpt-4", {"credits": 400})
    assert await served_by(limiter) == "credits"
    world.clock.advance(ms=61_000)
    assert await served_by(limiter) == "gpt-4"


async def test_raised_limits_hold_at_once_in_the_process_that_raised_them(world: World) -> None:
    limiter, _ = await opened(world)
    await take(limiter, "acme", "gpt-4", credits=9)
    assert await served_by(limiter) == "credits"
    await limiter.set_limits("acme", [Limit.per_month("credits", 1_000)], "gpt-4")
    assert await served_by(limiter) == "gpt-4"


async def test_a_lifted_limit_counts_while_it_is_lifted(world: World) -> None:
    limiter, _ = await opened(world, Limit.per_month("credits", 10))
    await take(limiter, "acme", "gpt-4", credits=9)
    assert await served_by(limiter) == "credits"
    end = datetime.fromtimestamp(world.clock.now_ms() / 1000 + 3_600, UTC)
    await limiter.set_limits("acme", [Limit.per_month("credits", 100)], "gpt-4", override_until=end)
    assert await served_by(limiter) == "gpt-4"


async def test_the_schedule_says_of_how_much(world: World) -> None:
    always = Limit.custom("credits", 10, schedule=["all: mon-sun UTC 100/min"])
    limiter, _ = await opened(world, always)
    assert [await served_by(limiter, 9), await served_by(limiter)] == ["gpt-4", "gpt-4"]
    assert [await served_by(limiter, 75), await served_by(limiter)] == ["gpt-4", "credits"]


async def test_shadow_limits_and_limits_that_the_call_does_not_name_send_no_call_away(world: World) -> None:
    limiter, _ = await opened(world, Limit.per_month("credits", 10, shadow=True), Limit.per_month("calls", 10))
    await take(limiter, "acme", "gpt-4", credits=9)
    assert await served_by(limiter) == "gpt-4"
    await take(limiter, "acme", "gpt-4", calls=9)
    assert await served_by(limiter) == "gpt-4"
    async with limiter.acquire("acme", "gpt-4", {"credits": 1, "calls": 0}) as lease:
        assert not lease.overflowed
    async with limiter.acquire("acme", "gpt-4", {"credits": 1, "calls": 1}) as lease:
        assert lease.overflowed


async def test_a_limit_of_a_parent_counts_and_one_of_a_draw_does_not(world: World) -> None:
    limiter, _ = await opened(world)
    await limiter.create_entity("org")
    await limiter.create_entity("acme", parent_id="org", cascade=True)
    await limiter.set_limits("org", [Limit.per_month("credits", 20)], "gpt-4")
    await limiter.set_limits("org", UNLIMITED, "credits")
    await take(limiter, "org", "gpt-4", credits=16)
    assert await served_by(limiter) == "gpt-4"
    async with limiter.acquire("acme", "gpt-4", {"credits": 1}) as lease:
        assert lease.overflowed_early is not None
        assert lease.overflowed_early.entity_id == "org"
    await limiter.set_limits("pool", [Limit.per_month("credits", 10)], "gpt-4")
    await take(limiter, "pool", "gpt-4", credits=9)
    assert await served_by(limiter, entity_id="beta", draws=[Draw("pool")]) == "gpt-4"


async def test_slots_that_this_process_has_not_seen_for_long_are_asked_for_first(world: World) -> None:
    limiter, _ = await opened(world, Limit.concurrent("credits", 5))
    await limiter.set_resource_defaults("credits", [Limit.concurrent("credits", 100)])
    held = [limiter.acquire("acme", "gpt-4", {"credits": 1}) for _ in range(4)]
    for each in held:
        await each.__aenter__()
    assert await served_by(limiter) == "credits"
    world.clock.advance(ms=1_000)
    assert await served_by(limiter) == "gpt-4"
    for each in held:
        await each.__aexit__(None, None, None)
    assert await served_by(limiter) == "gpt-4"


async def test_prefetched_tokens_are_not_used_yet(world: World) -> None:
    limiter, _ = await opened(world, Limit.per_minute("credits", 600, prefetch=10))
    resources = [await served_by(limiter) for _ in range(520)]
    burst = Limit.per_minute("credits", 600, prefetch=10).usable_burst
    assert resources.count("gpt-4") == burst * 8 // 10
    assert resources.index("credits") == burst * 8 // 10


async def test_disabled_levels_refuse_for_good(world: World) -> None:
    limiter, _ = await opened(world)
    await take(limiter, "acme", "gpt-4", credits=9)
    await limiter.repository.set_switches("acme", disabled=True)
    with pytest.raises(RateLimitExceeded) as caught:
        await served_by(limiter)
    assert caught.value.reason == "disabled"


async def test_an_early_call_does_not_wait(world: World) -> None:
    policy = OnRefused(wait=60, overflow="credits", at="80%")
    limiter, _ = await opened(world, Limit.per_minute("credits", 60), policy=policy)
    await take(limiter, "acme", "gpt-4", credits=60)
    async with limiter.acquire("acme", "gpt-4", {"credits": 2}) as lease:
        assert (lease.resource, lease.waited) == ("credits", 0)
    await limiter.set_resource_defaults("credits", [Limit.total("credits", 1)])
    async with limiter.acquire("acme", "gpt-4", {"credits": 2}) as lease:
        assert (lease.resource, lease.waited > 0) == ("gpt-4", True)


@pytest.mark.parametrize("expired", [False, True])
async def test_an_outage_does_not_overflow_early(world: World, *, expired: bool) -> None:
    limiter, wire = await opened(world, on_unavailable="allow")
    await take(limiter, "acme", "gpt-4", credits=9)
    await take(limiter, "acme", "credits", credits=1)
    wire.break_down(Unreachable("away"), on=Operation)
    if expired:
        world.clock.advance(ms=61_000)
    wire.sent()
    async with limiter.acquire("acme", "gpt-4", {"credits": 1}) as lease:
        assert (lease.degraded, lease.overflowed, lease.resource) == (True, False, "gpt-4")
    with pytest.raises(RateLimiterUnavailable):
        await served_by(limiter, on_unavailable="block")


@pytest.mark.parametrize("policy", [None, EARLY], ids=["plain", "early"])
async def test_an_outage_while_expired_limits_are_read_leaves_a_process_its_share(
    world: World, policy: OnRefused | None
) -> None:
    rate = Limit.per_minute("credits", 600)
    limiter, wire = await opened(world, rate, policy=policy, on_unavailable="share")
    for _ in range(110):  # the limits were read again after a minute
        await take(limiter, "acme", "gpt-4", credits=2)
        world.clock.advance(seconds=1)
    wire.break_down(Unreachable("away"), on=Operation)
    world.clock.advance(seconds=15)
    for _ in range(3):
        async with limiter.acquire("acme", "gpt-4", {"credits": 1}) as lease:
            assert (lease.degraded, lease.overflowed) == (True, False)


@pytest.mark.parametrize("how", ["settle", "error"])
async def test_the_lease_settles_where_it_took(world: World, how: str) -> None:
    limiter, _ = await opened(world)
    await take(limiter, "acme", "gpt-4", credits=9)
    lease = limiter.acquire("acme", "gpt-4", {"credits": 4})
    try:
        async with lease:
            assert lease.overflowed
            if how == "error":
                raise KeyError
            await lease.settle(credits=7)
    except KeyError:
        pass
    assert await limiter.available("acme", "credits") == {"credits": 493 if how == "settle" else 500}
    assert await limiter.available("acme", "gpt-4") == {"credits": 1}


async def test_events_say_that_it_was_early(world: World) -> None:
    events = list[Event]()
    limiter, _ = await opened(world, observers=[events.append])
    await take(limiter, "acme", "gpt-4", credits=9)
    await take(limiter, "acme", "gpt-4", credits=1)
    assert [(type(each), each.overflow) for each in events] == [
        (AcquireEvent, None),
        (LeaseEvent, None),
        (AcquireEvent, "credits"),
        (LeaseEvent, "credits"),
    ]
    early = [each.overflowed_early for each in events if isinstance(each, AcquireEvent)]
    assert [each and each.limit_name for each in early] == [None, "credits"]


async def test_an_explanation_says_what_is_asked_first(world: World) -> None:
    limiter, _ = await opened(world)
    await take(limiter, "acme", "gpt-4", credits=7)
    assert (await limiter.explain("acme", "gpt-4", {"credits": 1})).overflows_to is None
    await take(limiter, "acme", "gpt-4", credits=1)
    found = await limiter.explain("acme", "gpt-4", {"credits": 1})
    assert (found.passes, found.overflows_to) == (True, "credits")
    cold, _ = await world.process()
    assert (await cold.explain("acme", "gpt-4")).overflows_to == "credits"
    await limiter.repository.set_switches("acme", disabled=True)
    assert (await limiter.explain("acme", "gpt-4", {"credits": 1})).overflows_to is None
