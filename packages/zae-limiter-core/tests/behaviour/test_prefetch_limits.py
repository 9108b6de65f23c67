"""A limit with ``prefetch`` has the lowered ceiling in every process, by the bucket's own shape; in both variants."""

import pytest

from support.core.worlds import World, drain, passes, take
from zae_limiter import Limit, RateLimitExceeded
from zae_limiter.http import headers

OFF = Limit.per_minute("rpm", 60)
ON = Limit.per_minute("rpm", 60, prefetch=2)


async def test_a_bucket_begins_with_the_usable_burst_and_fills_no_further(world: World) -> None:
    limiter, _ = await world.process(default_limits=[ON])
    assert await drain(limiter, "e", "r", "rpm") == 58
    world.clock.advance(seconds=1)
    assert await drain(limiter, "e", "r", "rpm") == 1
    world.clock.advance(seconds=600)
    assert await drain(limiter, "e", "r", "rpm") == 58


async def test_a_bucket_stores_the_rule_and_a_config_what_was_declared(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_resource_defaults("r", [ON])
    await take(limiter, "e", "r", rpm=1)
    item = world.bucket_of(limiter, "e", "r")
    assert item is not None
    assert (item["b_rpm_cp"], item["b_rpm_ra"], item["b_rpm_rp"]) == (58_000, 60_000, 60_000)
    assert {"b_rpm_pf", "b_rpm_bx"}.isdisjoint(item)
    assert await limiter.get_resource_defaults("r") == [ON]
    assert (await limiter.repository.resolve_limits("e", "r"))[0] == [ON]


async def test_turned_on_it_reaches_a_process_that_has_not_read_it(world: World) -> None:
    admin, user, late = await world.process(), await world.process(), await world.process()
    await admin.limiter.set_resource_defaults("r", [OFF])
    await take(user.limiter, "e", "r", rpm=1)
    world.clock.advance(seconds=30)
    await take(late.limiter, "e", "r", rpm=1)  # its config is younger
    await admin.limiter.set_resource_defaults("r", [ON])
    world.clock.advance(seconds=31)
    await take(user.limiter, "e", "r", rpm=1)  # reads again, and reshapes
    world.clock.advance(seconds=10)
    assert await drain(late.limiter, "e", "r", "rpm") == 58


async def test_turned_off_the_burst_is_whole_again(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_resource_defaults("r", [ON])
    assert await drain(limiter, "e", "r", "rpm") == 58
    await limiter.set_resource_defaults("r", [OFF])
    world.clock.advance(seconds=61)
    await take(limiter, "e", "r", rpm=1)
    world.clock.advance(seconds=60)
    assert await drain(limiter, "e", "r", "rpm") == 60


async def test_a_request_above_the_usable_burst_can_never_pass(world: World) -> None:
    limiter, _ = await world.process(default_limits=[ON])
    with pytest.raises(RateLimitExceeded, match="can never pass: the limit holds at most 58"):
        await take(limiter, "e", "r", rpm=59)
    assert await passes(limiter, "e", "r", rpm=58)


async def test_statuses_and_header_fields_tell_what_is_usable(world: World) -> None:
    limiter, _ = await world.process(default_limits=[ON])
    async with limiter.acquire("e", "r", {"rpm": 8}) as lease:
        [status] = lease.statuses
        assert (status.limit, status.available) == (ON._rule, 50)
        assert headers(lease) == {"RateLimit-Policy": '"rpm";q=58;w=58', "RateLimit": '"rpm";r=50;t=1'}


async def test_an_override_and_an_audit_event_have_it(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_limits("e", [ON], resource="r")
    [event] = (await limiter.repository.get_audit_events("e")).events
    assert event.after is not None
    assert event.after["limits"]["rpm"]["prefetch_ms"] == 2000
