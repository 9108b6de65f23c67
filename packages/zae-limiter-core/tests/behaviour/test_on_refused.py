"""What follows a refusal: wait, then overflow, then refuse; in both variants."""

import asyncio
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.core.owners import maintenance_of
from support.core.worlds import Process, World, outcomes, passes, take, until
from zae_limiter import (
    Limit,
    OnRefused,
    RateLimiterUnavailable,
    RateLimitExceeded,
    ValidationError,
)
from zae_limiter.http import headers
from zae_limiter.observers import AcquireEvent, Event, LeaseEvent
from zae_limiter.operations.errors import OutcomeUnknown, Unreachable
from zae_limiter.operations.values import BatchGet, Operation, Update
from zae_limiter.schema.attributes import ACQUIRES, REFUSED
from zae_limiter.testing import ManualClock
from zae_limiter.values.provisioner import StoredConfig
from zae_limiter.values.token_usage import TokenUsage

MONTH = Limit.per_month("credits", 10)
PREPAID = Limit.total("credits", 500)
OVERFLOW = OnRefused(overflow="credits")


async def opened(world: World, **options: Any) -> Process:
    """A month's quota on gpt-4, and prepaid credits."""
    process = await world.process(**options)
    await process.limiter.set_resource_defaults("gpt-4", [MONTH])
    await process.limiter.set_resource_defaults("credits", [PREPAID])
    process.wire.sent()
    return process


async def take_by(limiter: Any, entity_id: str, policy: OnRefused, amount: int = 4) -> None:
    async with limiter.acquire(entity_id, "gpt-4", {"credits": amount}, on_refused=policy):
        pass


async def refused(limiter: Any, **options: Any) -> RateLimitExceeded:
    with pytest.raises(RateLimitExceeded) as caught:
        async with limiter.acquire("acme", "gpt-4", {"credits": 4}, **options):
            pass
    return caught.value


async def test_what_the_month_lacks_is_taken_from_the_credits(world: World) -> None:
    limiter, _ = await opened(world)
    async with limiter.acquire("acme", "gpt-4", {"credits": 8}, on_refused=OVERFLOW) as lease:
        assert (lease.overflowed, lease.refusal, lease.resource) == (False, None, "gpt-4")
    async with limiter.acquire("acme", "gpt-4", {"credits": 4}, on_refused=OVERFLOW) as lease:
        assert (lease.overflowed, lease.resource, lease.entity_id) == (True, "credits", "acme")
        assert lease.refusal is not None
        assert lease.refusal.primary_violation.available == 2
        assert [(each.resource, each.available, each.requested) for each in lease.statuses] == [("credits", 496, 4)]
    assert await limiter.available("acme", "gpt-4") == {"credits": 2}
    assert await limiter.available("acme", "credits") == {"credits": 496}


@pytest.mark.parametrize("level", ["call", "entity", "entity_default", "resource", "system"])
async def test_each_level_may_have_the_policy(world: World, level: str) -> None:
    limiter, _ = await opened(world)
    options: dict[str, Any] = {}
    if level == "call":
        options = {"on_refused": OVERFLOW}
    elif level == "entity":
        await limiter.set_limits("acme", [MONTH], "gpt-4", on_refused=OVERFLOW)
    elif level == "entity_default":
        await limiter.set_limits("acme", [MONTH], on_refused=OVERFLOW)
        await limiter.set_limits("acme", [PREPAID], "credits")
    elif level == "resource":
        await limiter.set_resource_defaults("gpt-4", [MONTH], on_refused=OVERFLOW)
    else:
        await limiter.set_system_defaults(None, on_refused=OVERFLOW)
    for left in (500, 500, 496, 492):
        async with limiter.acquire("acme", "gpt-4", {"credits": 4}, **options):
            pass
        assert await limiter.available("acme", "credits") == {"credits": left}
    process = await world.process()
    async with process.limiter.acquire("acme", "gpt-4", {"credits": 4}, **options) as lease:
        assert lease.overflowed


async def test_the_calls_policy_comes_first_and_then_the_strongest_level(world: World) -> None:
    limiter, _ = await opened(world)
    await limiter.set_system_defaults(None, on_refused=OVERFLOW)
    await take(limiter, "acme", "gpt-4", credits=10)
    assert await passes(limiter, "acme", "gpt-4", credits=4)
    assert (await refused(limiter, on_refused=OnRefused())).overflow == ()
    await limiter.set_resource_defaults("gpt-4", [MONTH], on_refused=OnRefused())
    assert (await refused(limiter)).overflow == ()
    await limiter.set_limits("acme", [MONTH], "gpt-4", on_refused=OVERFLOW)
    assert await passes(limiter, "acme", "gpt-4", credits=4)
    assert await limiter.available("acme", "credits") == {"credits": 492}


async def test_a_policy_stays_with_new_limits_and_goes_with_the_limits(world: World) -> None:
    limiter, _ = await opened(world)
    repository = limiter.repository
    await limiter.set_limits("acme", [MONTH], "gpt-4", on_refused=OnRefused(2, "credits"))
    await limiter.set_limits("acme", [PREPAID], "gpt-4")
    place = ("acme", "gpt-4")
    stored = StoredConfig((PREPAID,), on_refused=OnRefused(2, "credits"))
    assert await maintenance_of(repository).get_configs([place]) == {place: stored}
    [event, _] = (await repository.get_audit_events("acme")).events
    assert event.after is not None
    assert event.after["on_refused"] == "wait=2,overflow=credits"
    await limiter.delete_limits("acme", "gpt-4")
    await limiter.set_limits("acme", [MONTH], "gpt-4")
    assert (await maintenance_of(repository).get_configs([place]))[place].on_refused is None
    await maintenance_of(repository).put_configs(
        {place: stored, (None, None): StoredConfig((), on_refused=OnRefused(1))}
    )
    assert await maintenance_of(repository).get_configs([place, (None, None)]) == {
        place: stored,
        (None, None): StoredConfig((), on_refused=OnRefused(1)),
    }
    await limiter.delete_system_defaults()
    assert await maintenance_of(repository).get_configs([(None, None)]) == {}


async def test_both_buckets_are_named_by_the_refusal_and_nothing_is_taken(world: World) -> None:
    limiter, _ = await opened(world)
    await limiter.set_resource_defaults("credits", [Limit.total("credits", 3)])
    await take(limiter, "acme", "gpt-4", credits=10)
    refusal = await refused(limiter, on_refused=OVERFLOW)
    assert [(each.resource, each.available) for each in refusal.statuses] == [("gpt-4", 0)]
    assert [(each.resource, each.available) for each in refusal.overflow] == [("credits", 3)]
    assert refusal.resource == "gpt-4"
    assert refusal.retry_after_seconds == refusal.primary_violation.retry_after_seconds < float("inf")
    assert str(refusal).endswith(
        " s; overflow acme/credits: 4 credits requested, which can never pass: the limit holds at most 3; ask for less,"
        " or raise its capacity"
    )
    assert [each["resource"] for each in refusal.as_dict()["overflow"]] == ["credits"]
    again = pickle.loads(pickle.dumps(refusal))
    assert (again.overflow, str(again)) == (refusal.overflow, str(refusal))
    assert await limiter.available("acme", "credits") == {"credits": 3}


async def test_the_refusal_says_the_shorter_of_both_waits(world: World) -> None:
    limiter, _ = await opened(world)
    await limiter.set_resource_defaults("credits", [Limit.per_minute("credits", 4)])
    await take(limiter, "acme", "gpt-4", credits=10)
    await take(limiter, "acme", "credits", credits=4)
    refusal = await refused(limiter, on_refused=OVERFLOW)
    assert 59.9 < refusal.retry_after_seconds <= 60
    assert refusal.retry_after_header == "60"


async def test_a_call_that_overflows_was_not_refused_and_one_that_is_refused_counts_at_both(world: World) -> None:
    limiter, _ = await opened(world)
    await limiter.set_resource_defaults("credits", [Limit.total("credits", 5)])
    await take(limiter, "acme", "gpt-4", credits=10)
    async with limiter.acquire("acme", "gpt-4", {"credits": 4}, on_refused=OVERFLOW):
        pass
    await refused(limiter, on_refused=OVERFLOW)
    await limiter.close()
    counts = {}
    for resource in ("gpt-4", "credits"):
        item = world.bucket_of(limiter, "acme", resource)
        assert item is not None
        counts[resource] = item[ACQUIRES], item[REFUSED]
    assert counts == {"gpt-4": (1, 1), "credits": (1, 1)}


async def test_the_wait_comes_first_in_the_one_waiting_line(world: World) -> None:
    world.clock = ManualClock(jumps=False)
    limiter, _ = await opened(world)
    policy = OnRefused(wait=1.5, overflow="credits")
    await limiter.set_resource_defaults("gpt-4", [Limit.per_second("credits", 1)], on_refused=policy)
    await take(limiter, "acme", "gpt-4", credits=1)

    async def one() -> tuple[str, float]:
        async with limiter.acquire("acme", "gpt-4", {"credits": 1}) as lease:
            return lease.resource, lease.waited

    first = asyncio.create_task(one())
    await until(lambda: world.clock.waiting == 1)
    assert await one() == ("credits", 0)  # behind the first one it would be two seconds
    world.clock.advance(ms=1_100)
    resource, waited = await first
    assert resource == "gpt-4"
    assert 1 <= waited <= 1.1


async def test_a_call_that_waited_in_vain_overflows_and_says_how_long_it_waited(world: World) -> None:
    world.clock = ManualClock(jumps=False)
    limiter, _ = await opened(world)
    elsewhere, _ = await world.process(clock=ManualClock(world.clock.now_ms() + 1_000))
    policy = OnRefused(wait=1.5, overflow="credits")
    await limiter.set_resource_defaults("gpt-4", [Limit.per_second("credits", 1)])
    await take(limiter, "acme", "gpt-4", credits=1)

    async def one() -> tuple[str, float]:
        async with limiter.acquire("acme", "gpt-4", {"credits": 1}, on_refused=policy) as lease:
            return lease.resource, lease.waited

    call = asyncio.create_task(one())
    await until(lambda: world.clock.waiting == 1)
    await take(elsewhere, "acme", "gpt-4", credits=1)  # by its clock the token has come
    world.clock.advance(ms=1_100)
    resource, waited = await call
    assert resource == "credits"
    assert 1 <= waited <= 1.1


async def test_a_wait_that_a_cold_process_learns_of_by_its_refusal_holds_too(world: World) -> None:
    limiter, _ = await opened(world)
    await limiter.set_resource_defaults("gpt-4", [Limit.per_second("credits", 1)], on_refused=OnRefused(wait=5))
    await take(limiter, "acme", "gpt-4", credits=1)
    cold, _ = await world.process()
    async with cold.acquire("acme", "gpt-4", {"credits": 1}) as lease:
        assert lease.waited >= 1
        assert not lease.overflowed


async def test_a_call_that_waits_by_max_wait_overflows_by_its_level(world: World) -> None:
    limiter, _ = await opened(world)
    await limiter.set_resource_defaults("gpt-4", [MONTH], on_refused=OnRefused(wait=3600, overflow="credits"))
    await take(limiter, "acme", "gpt-4", credits=10)
    async with limiter.acquire("acme", "gpt-4", {"credits": 4}, max_wait=0.001) as lease:
        assert lease.overflowed


@pytest.mark.parametrize(
    ("how", "left"),
    [("settle", 493), ("adjust", 493), ("release", 497), ("consume", 493), ("error", 500), ("kept", 496)],
)
async def test_the_lease_settles_where_it_took(world: World, how: str, left: int) -> None:
    limiter, _ = await opened(world)
    await take(limiter, "acme", "gpt-4", credits=10)
    lease = limiter.acquire("acme", "gpt-4", {"credits": 4}, on_refused=OVERFLOW)
    try:
        async with lease:
            if how == "settle":
                await lease.settle(credits=7)
            elif how == "error":
                raise KeyError
            elif how == "kept":
                lease.keep()
                raise KeyError
            else:
                await getattr(lease, how)(credits={"adjust": 3, "consume": 3, "release": 1}[how])
    except KeyError:
        pass
    assert await limiter.available("acme", "credits") == {"credits": left}
    assert await limiter.available("acme", "gpt-4") == {"credits": 0}


async def test_amounts_of_limits_that_the_overflow_lacks_count_nothing_there(world: World) -> None:
    limiter, _ = await opened(world)
    rpm, tpm = Limit.per_minute("rpm", 1), Limit.per_minute("tpm", 1000, weights={"input": 1, "output": 4})
    await limiter.set_resource_defaults("gpt-4", [rpm, tpm], on_refused=OVERFLOW)
    await limiter.set_resource_defaults("credits", [Limit.total("tpm", 10_000)])
    await take(limiter, "acme", "gpt-4", rpm=1, tpm=500)
    async with limiter.acquire("acme", "gpt-4", {"rpm": 1, "tpm": 500}) as lease:
        assert lease.consumed == {"tpm": 500}
        await lease.adjust(rpm=1)
        await lease.consume(rpm=1)
        await lease.settle(TokenUsage(input=20, output=5), rpm=1)
        assert lease.consumed == {"tpm": 40}
        with pytest.raises(ValidationError):
            await lease.adjust(unknown=1)
    assert await limiter.available("acme", "credits") == {"tpm": 9_960}
    assert await limiter.available("acme", "gpt-4") == {"rpm": 0, "tpm": 500}


@pytest.mark.parametrize("source", ["default_limits", "call", "system", "other names", "none"])
async def test_only_limits_of_the_overflow_itself_make_one(world: World, source: str) -> None:
    process = await world.process(default_limits=[PREPAID] if source == "default_limits" else None)
    limiter = process.limiter
    await limiter.set_resource_defaults("gpt-4", [MONTH], on_refused=OVERFLOW)
    if source == "system":
        await limiter.set_system_defaults([PREPAID])
    if source == "other names":
        await limiter.set_resource_defaults("credits", [Limit.total("other", 5)])
    await take(limiter, "acme", "gpt-4", credits=10)
    options: dict[str, Any] = {"limits": [MONTH]} if source == "call" else {}
    refusal = await refused(limiter, **options)
    assert refusal.overflow == ()
    assert await limiter.repository.get_bucket("acme", "credits") is None


async def test_a_call_with_limits_of_its_own_draws_on_the_stored_ones_of_the_overflow(world: World) -> None:
    limiter, _ = await opened(world)
    async with limiter.acquire("acme", "gpt-4", {"credits": 4}, [Limit.total("credits", 3)], on_refused=OVERFLOW):
        pass
    bucket = await limiter.repository.get_bucket("acme", "credits")
    assert bucket is not None
    assert [each.limit for each in bucket.limits] == [PREPAID]


async def test_an_overflow_has_no_overflow(world: World) -> None:
    limiter, _ = await opened(world)
    await limiter.set_resource_defaults("credits", [Limit.total("credits", 1)], on_refused=OnRefused(overflow="more"))
    await limiter.set_resource_defaults("more", [PREPAID])
    await limiter.set_system_defaults(None, on_refused=OVERFLOW)
    await take(limiter, "acme", "gpt-4", credits=10)
    assert [each.resource for each in (await refused(limiter)).overflow] == ["credits"]
    await limiter.delete_resource_defaults("credits")
    await limiter.set_resource_defaults("credits", [Limit.total("credits", 1)])
    with pytest.raises(RateLimitExceeded):  # the system's policy names itself: there is nothing to fall through to
        await take(limiter, "acme", "credits", credits=4)


async def test_the_overflow_cascades_as_its_own_buckets_do(world: World) -> None:
    limiter, _ = await opened(world)
    await limiter.create_entity("org")
    await limiter.create_entity("acme", parent_id="org", cascade=True)
    await limiter.set_limits("org", [Limit.total("credits", 6)], "credits")
    await limiter.set_limits("org", [Limit.per_month("credits", 1000)], "gpt-4")
    await take(limiter, "acme", "gpt-4", credits=10)
    assert await limiter.available("org", "gpt-4") == {"credits": 990}
    async with limiter.acquire("acme", "gpt-4", {"credits": 4}, on_refused=OVERFLOW) as lease:
        assert [each.entity_id for each in lease.statuses] == ["acme", "org"]
    refusal = await refused(limiter, on_refused=OVERFLOW)
    assert [(each.entity_id, each.available, each.exceeded) for each in refusal.overflow] == [
        ("acme", 496, False),
        ("org", 2, True),
    ]
    assert await limiter.available("org", "gpt-4") == {"credits": 990}
    assert await limiter.available("org", "credits") == {"credits": 2}
    assert await limiter.available("acme", "credits") == {"credits": 496}


async def test_a_parent_without_limits_there_leaves_the_refusal_as_it_is(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.create_entity("org")
    await limiter.create_entity("acme", parent_id="org", cascade=True)
    await limiter.set_resource_defaults("gpt-4", [MONTH])
    await limiter.set_limits("acme", [PREPAID], "credits")
    await take(limiter, "acme", "gpt-4", credits=10)
    refusal = await refused(limiter, on_refused=OVERFLOW)
    assert isinstance(refusal.__cause__, ValidationError)
    assert await limiter.repository.get_bucket("acme", "credits") is None


async def test_shadow_limits_never_overflow_and_those_of_the_overflow_admit(world: World) -> None:
    limiter, _ = await opened(world)
    await limiter.set_resource_defaults("gpt-4", [Limit.total("credits", 1, shadow=True)], on_refused=OVERFLOW)
    async with limiter.acquire("acme", "gpt-4", {"credits": 4}) as lease:
        assert not lease.overflowed
        assert [each.resource for each in lease.shadowed] == ["gpt-4"]
    await limiter.set_resource_defaults("gpt-4", [Limit.total("credits", 1)])
    await limiter.set_resource_defaults("credits", [Limit.total("credits", 1, shadow=True)])
    async with limiter.acquire("beta", "gpt-4", {"credits": 4}) as lease:
        assert lease.overflowed
        assert [each.resource for each in lease.shadowed] == ["credits"]


async def test_prefetched_tokens_serve_and_overflow(world: World) -> None:
    limiter, _ = await opened(world)
    held = Limit.per_minute("credits", 60, prefetch=1)
    await limiter.set_resource_defaults("gpt-4", [held], on_refused=OVERFLOW)
    leases = []
    for _ in range(80):
        async with limiter.acquire("acme", "gpt-4", {"credits": 1}) as lease:
            leases.append(lease.resource)
    left = (await limiter.available("acme", "credits"))["credits"]
    assert 0 < leases.count("gpt-4") <= held.usable_burst + 1
    assert 500 - left == leases.count("credits")


@pytest.mark.parametrize("policy", ["allow", "share", "block"])
@pytest.mark.parametrize("error", [Unreachable("away"), OutcomeUnknown("away")], ids=["not applied", "unknown"])
async def test_if_the_overflow_has_an_outage_the_refusal_stands(world: World, policy: Any, error: Exception) -> None:
    limiter, wire = await opened(world, on_unavailable=policy)
    await take(limiter, "acme", "gpt-4", credits=10)
    await take(limiter, "acme", "credits", credits=1)
    wire.break_down(error, on=Update)
    refusal = await refused(limiter, on_refused=OVERFLOW)
    assert isinstance(refusal.__cause__, RateLimiterUnavailable)
    assert refusal.overflow == ()
    wire.repair()
    assert await limiter.available("acme", "credits") == {"credits": 499}
    assert await limiter.available("acme", "gpt-4") == {"credits": 0}
    assert await passes(limiter, "acme", "credits", credits=1)


async def test_an_outage_while_the_limits_of_the_overflow_are_read_takes_nothing(world: World) -> None:
    limiter, wire = await opened(world, on_unavailable="allow")
    await take(limiter, "acme", "gpt-4", credits=10)
    wire.break_down(Unreachable("away"), on=BatchGet)
    refusal = await refused(limiter, on_refused=OVERFLOW)
    assert refusal.__cause__ is not None
    wire.repair()
    assert await limiter.repository.get_bucket("acme", "credits") is None


async def test_an_outage_does_not_overflow(world: World) -> None:
    limiter, wire = await opened(world, on_unavailable="allow")
    await take(limiter, "acme", "gpt-4", credits=1)
    await take(limiter, "acme", "credits", credits=1)
    wire.break_down(Unreachable("away"), on=Operation)
    async with limiter.acquire("acme", "gpt-4", {"credits": 4}, on_refused=OVERFLOW) as lease:
        assert (lease.degraded, lease.overflowed) == (True, False)


async def test_a_correction_in_an_outage_goes_by_the_policy_of_the_call(world: World) -> None:
    limiter, wire = await opened(world)
    await take(limiter, "acme", "gpt-4", credits=10)
    async with limiter.acquire("acme", "gpt-4", {"credits": 4}, on_refused=OVERFLOW, on_unavailable="allow") as lease:
        await lease.adjust(credits=1)
        wire.break_down(Unreachable("away"), on=Update)
    assert lease.degraded
    wire.repair()
    lease = limiter.acquire("acme", "gpt-4", {"credits": 4}, on_refused=OVERFLOW)
    await lease.__aenter__()
    await lease.adjust(credits=1)
    wire.break_down(Unreachable("away"), on=Update)
    with pytest.raises(RateLimiterUnavailable):
        await lease.__aexit__(None, None, None)


async def test_processes_at_once_never_take_more_than_there_is(world: World) -> None:
    processes = [await opened(world) for _ in range(4)]
    await processes[0].limiter.set_resource_defaults("gpt-4", [MONTH], on_refused=OVERFLOW)
    await processes[0].limiter.set_resource_defaults("credits", [Limit.total("credits", 37)])
    for each in processes:
        await each.repository.invalidate_config_cache()
    calls = [passes(each.limiter, "acme", "gpt-4", credits=1) for each in processes * 20]
    assert (await outcomes(*calls)).count(True) == 47
    assert await processes[0].limiter.available("acme", "credits") == {"credits": 0}


async def test_observers_hear_which_bucket_served(world: World) -> None:
    events: list[Event] = []
    limiter, _ = await opened(world, observers=[events.append])
    await take(limiter, "acme", "gpt-4", credits=10)
    events.clear()
    async with limiter.acquire("acme", "gpt-4", {"credits": 4}, on_refused=OVERFLOW):
        pass
    acquired, ended = events
    assert isinstance(acquired, AcquireEvent)
    assert isinstance(ended, LeaseEvent)
    assert (acquired.outcome, acquired.resource, acquired.overflow) == ("admitted", "gpt-4", "credits")
    assert (ended.consumed, ended.resource, ended.overflow) == ({"credits": 4}, "gpt-4", "credits")


async def test_header_fields_show_the_bucket_that_was_drawn_on(world: World) -> None:
    limiter, _ = await opened(world)
    await take(limiter, "acme", "gpt-4", credits=10)
    async with limiter.acquire("acme", "gpt-4", {"credits": 4}, on_refused=OVERFLOW) as lease:
        assert headers(lease) == {"RateLimit-Policy": '"credits";q=500', "RateLimit": '"credits";r=496'}
    await limiter.set_resource_defaults("credits", [Limit.per_minute("credits", 4)])
    await limiter.repository.invalidate_config_cache()
    await take(limiter, "beta", "gpt-4", credits=10)
    await take(limiter, "beta", "credits", credits=4)
    with pytest.raises(RateLimitExceeded) as caught:
        await take_by(limiter, "beta", OVERFLOW)
    assert headers(caught.value)["Retry-After"] == "60"


async def test_an_override_leaves_the_policy_beside_the_limits(world: World) -> None:
    limiter, _ = await opened(world)
    until = datetime.fromtimestamp(world.clock.now_ms() // 1000, UTC) + timedelta(hours=1)
    await limiter.set_limits("acme", [MONTH], "gpt-4", on_refused=OVERFLOW)
    await limiter.set_limits("acme", [Limit.total("credits", 3)], "gpt-4", override_until=until)
    async with limiter.acquire("acme", "gpt-4", {"credits": 4}) as lease:
        assert lease.resource == "credits"
    await limiter.repository.delete_override("acme", "gpt-4")
    found = await maintenance_of(limiter.repository).get_configs([("acme", "gpt-4")])
    assert found["acme", "gpt-4"].on_refused == OVERFLOW


async def test_a_decorated_function_follows_a_policy(world: World) -> None:
    limiter, _ = await opened(world)
    await take(limiter, "acme", "gpt-4", credits=10)
    if world.variant == "sync":
        called = limiter._target.limit("acme", "gpt-4", {"credits": 4}, on_refused=OVERFLOW)(lambda: "served")  # type: ignore[attr-defined]
        assert called() == "served"
    else:

        @limiter.limit("acme", "gpt-4", {"credits": 4}, on_refused=OVERFLOW)
        async def call() -> str:
            return "served"

        assert await call() == "served"
    assert await limiter.available("acme", "credits") == {"credits": 496}


async def test_a_cancelled_wait_takes_nothing_from_either_bucket(async_world: World) -> None:
    async_world.clock = ManualClock(jumps=False)
    limiter, _ = await opened(async_world)
    await limiter.set_resource_defaults("gpt-4", [Limit.per_second("credits", 1)])
    await take(limiter, "acme", "gpt-4", credits=1)
    call = asyncio.create_task(take_by(limiter, "acme", OnRefused(5, "credits"), amount=1))
    await until(lambda: async_world.clock.waiting == 1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await limiter.available("acme", "credits") == {"credits": 500}


async def test_an_admitted_call_asks_nothing_of_the_overflow(world: World) -> None:
    limiter, wire = await opened(world)
    await limiter.set_resource_defaults("gpt-4", [MONTH], on_refused=OVERFLOW)
    await take(limiter, "acme", "gpt-4", credits=1)
    wire.sent()
    await take(limiter, "acme", "gpt-4", credits=1)
    assert wire.sent() == ["Update"]


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        ("wait", "on_refused"),
        ({"wait": 2}, "on_refused"),
        (OnRefused(overflow="gpt-4"), "on_refused.overflow"),
    ],
    ids=str,
)
async def test_a_bad_policy_is_refused_before_any_request(world: World, policy: Any, field: str) -> None:
    limiter, wire = await opened(world)
    with pytest.raises(ValidationError) as caught:
        await limiter.acquire("acme", "gpt-4", {"credits": 1}, on_refused=policy).__aenter__()
    assert caught.value.field == field
    assert wire.sent() == []


async def test_no_level_overflows_to_its_own_resource(world: World) -> None:
    limiter, wire = await opened(world)
    own = OnRefused(overflow="gpt-4")
    for write in (
        limiter.set_limits("acme", [MONTH], "gpt-4", on_refused=own),
        limiter.set_resource_defaults("gpt-4", [MONTH], on_refused=own),
        limiter.repository.set_tier_limits("gold", [MONTH], "gpt-4", on_refused=own),
        maintenance_of(limiter.repository).put_configs({("acme", "gpt-4"): StoredConfig((MONTH,), on_refused=own)}),
    ):
        with pytest.raises(ValidationError, match="'gpt-4': is the resource that has refused: name another one"):
            await write
    assert wire.sent() == []
    await limiter.set_limits("acme", [MONTH], on_refused=own)  # of all resources, this one among them


async def test_two_waits_are_one_too_many(world: World) -> None:
    limiter, _ = await opened(world)
    with pytest.raises(ValidationError, match=r"max_wait 1.0: on_refused waits 2.0 s: leave one of them out"):
        await limiter.acquire("acme", "gpt-4", {"credits": 1}, max_wait=1.0, on_refused=OnRefused(2)).__aenter__()


async def test_an_override_has_no_policy(world: World) -> None:
    limiter, wire = await opened(world)
    until = datetime.fromtimestamp(world.clock.now_ms() // 1000, UTC) + timedelta(hours=1)
    with pytest.raises(ValidationError, match="on_refused"):
        await limiter.set_limits("acme", [MONTH], override_until=until, on_refused=OVERFLOW)
    for call in (
        limiter.set_limits("acme", [MONTH], on_refused="credits"),  # type: ignore[arg-type]
        limiter.set_system_defaults(None, on_refused="credits"),  # type: ignore[arg-type]
        limiter.set_system_defaults(None),
    ):
        with pytest.raises(ValidationError):
            await call
    assert wire.sent() == []
