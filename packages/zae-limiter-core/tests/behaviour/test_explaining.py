"""``explain``: which bucket and limit refuse an acquire, until when; without a trace, in two reads."""

import math
from datetime import timedelta

import pytest

from support.core.shards import split_into
from support.core.worlds import Process, World, again, drain, take, until
from zae_limiter import Draw, Explanation, Limit, RateLimiterUnavailable, RateLimitExceeded, ValidationError
from zae_limiter.operations.errors import Unreachable
from zae_limiter.values.usage import Refuser

KEY = Limit.per_minute("rpm", 25)
TEAM = Limit.per_minute("rpm", 30)


async def family(world: World, *, cascade: bool = True) -> Process:
    """A team of 30 a minute, and two keys of 25 a minute each."""
    process = await world.process()
    repository = process.repository
    await repository.create_entity("acme-corp")
    for key in ("key-1", "key-2"):
        await repository.create_entity(key, parent_id="acme-corp", cascade=cascade)
    await repository.set_resource_defaults("gpt-4", [KEY])
    await repository.set_limits("acme-corp", [TEAM])
    return process


async def exhausted(world: World) -> Process:
    """The same, with a team that has no tokens left, and a key that was refused 3 times for it."""
    process = await family(world)
    await take(process.limiter, "key-1", "gpt-4", rpm=10)
    await take(process.limiter, "key-2", "gpt-4", rpm=20)
    for _ in range(3):
        with pytest.raises(RateLimitExceeded):
            await take(process.limiter, "key-1", "gpt-4", rpm=1)
    return process


def bound_by(explanation: Explanation) -> tuple[str, str] | None:
    if explanation.binding is None:
        return None
    bucket, limit = explanation.binding
    return bucket.entity_id, limit.limit.name


async def test_a_key_that_its_parent_refuses_has_the_parents_limit_as_the_cause(world: World) -> None:
    limiter, _ = await exhausted(world)
    found = await limiter.explain("key-1", "gpt-4", {"rpm": 1})
    own, parent = found.buckets
    assert bound_by(found) == ("acme-corp", "rpm")
    assert (found.passes, found.wait_seconds, found.passes_at) == (False, 2.0, found.at + timedelta(seconds=2))
    assert (own.entity_id, own.source, own.limits[0].available, own.limits[0].wait_seconds) == (
        "key-1",
        "resource",
        15,
        0,
    )
    assert (parent.entity_id, parent.source, parent.limits[0].available) == ("acme-corp", "entity_default", 0)
    world.clock.advance(seconds=2)
    assert (await limiter.explain("key-1", "gpt-4", {"rpm": 1})).passes
    await take(limiter, "key-1", "gpt-4", rpm=1)


async def test_the_refusals_are_named_by_ancestor_and_limit(world: World) -> None:
    limiter, _ = await exhausted(world)
    world.clock.advance(seconds=2)
    await take(limiter, "key-1", "gpt-4", rpm=1)  # brings the count
    own, parent = (await limiter.explain("key-1", "gpt-4")).buckets
    assert (own.admitted, own.refused, own.refused_by) == (2, 3, {Refuser("acme-corp", "rpm"): 3})
    assert (parent.refused, parent.refused_by) == (3, {})


async def test_it_agrees_with_the_wait_and_leaves_no_trace(world: World) -> None:
    limiter, wire = await exhausted(world)
    counts = dict(limiter.repository.namespace_state.pending_refusals.counts)
    wire.sent()
    for rpm in (0, 1, 7, 26):
        found = await limiter.explain("key-1", "gpt-4", {"rpm": rpm})
        assert found.wait_seconds == await limiter.time_until_available("key-1", "gpt-4", {"rpm": rpm})
    assert {*wire.sent()} == {"BatchGet"}
    assert dict(limiter.repository.namespace_state.pending_refusals.counts) == counts


@pytest.mark.parametrize("shards", [1, 4])
async def test_an_entity_and_its_parent_take_two_reads(world: World, shards: int) -> None:
    limiter, wire = await exhausted(world)
    split_into(world, limiter, shards, "key-1", "gpt-4")
    wire.sent()
    found = await limiter.explain("key-1", "gpt-4")
    assert wire.sent() == ["BatchGet"] * 2
    assert (found.buckets[0].shard_count, found.buckets[0].limits[0].available) == (shards, 15)


async def test_a_parent_in_shards_takes_a_third_read_and_an_entity_without_a_parent_one(world: World) -> None:
    limiter, wire = await exhausted(world)
    split_into(world, limiter, 4, "acme-corp", "gpt-4")
    wire.sent()
    assert (await limiter.explain("key-1", "gpt-4")).buckets[1].shard_count == 4
    assert wire.sent() == ["BatchGet"] * 3
    await limiter.explain("alone", "gpt-4")
    assert wire.sent() == ["BatchGet"]


async def test_it_goes_by_what_the_store_has_and_not_by_what_this_process_remembers(world: World) -> None:
    limiter, _ = await exhausted(world)
    other = await world.process()
    await other.repository.set_limits("acme-corp", [Limit.per_minute("rpm", 60)])
    assert (await limiter.explain("key-1", "gpt-4")).buckets[1].limits[0].limit.capacity == 60


async def test_a_parent_is_asked_if_the_entity_or_the_call_cascades(world: World) -> None:
    limiter, _ = await family(world, cascade=False)
    alone = await limiter.explain("key-1", "gpt-4")
    both = await limiter.explain("key-1", "gpt-4", cascade=True)
    assert (alone.parent_id, alone.cascades, len(alone.buckets)) == ("acme-corp", False, 1)
    assert (both.parent_id, both.cascades, len(both.buckets)) == ("acme-corp", True, 2)


async def test_a_block_is_an_override_with_its_end_and_refuses_for_ever(world: World) -> None:
    limiter, _ = await family(world)
    end = (await limiter.explain("key-1", "gpt-4")).at + timedelta(hours=2)
    blocked = [Limit.per_minute("rpm", 0)]
    await limiter.set_limits("key-1", blocked, "gpt-4", override_until=end)
    found = await limiter.explain("key-1", "gpt-4")
    assert found.binding is not None
    bucket, limit = found.binding
    assert (bucket.source, bucket.override_until, limit.blocked) == ("entity", end, True)
    assert (found.wait_seconds, found.passes_at) == (math.inf, None)
    world.clock.advance(seconds=2 * 3600)
    ended = await limiter.explain("key-1", "gpt-4")
    assert (ended.passes, ended.buckets[0].source, ended.buckets[0].override_until) == (True, "resource", None)


async def test_a_shadow_limit_binds_nobody(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_resource_defaults("r", [Limit.per_minute("rpm", 5, shadow=True), Limit.per_minute("tpm", 100)])
    found = await limiter.explain("e", "r", {"rpm": 6, "tpm": 100})
    [rpm, _] = found.buckets[0].limits
    assert (found.passes, rpm.limit.shadow, rpm.refuses, rpm.wait_seconds) == (True, True, False, math.inf)
    shadowed = again(limiter, shadow=True)
    assert (await shadowed.explain("e", "r", {"tpm": 101})).passes


async def test_of_several_limits_the_one_with_the_longest_wait_binds(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_resource_defaults("r", [Limit.per_minute("rpm", 60), Limit.per_hour("rph", 60)])
    await drain(limiter, "e", "r", "rph")
    await drain(limiter, "e", "r", "rpm")
    assert bound_by(await limiter.explain("e", "r")) == ("e", "rph")
    of_one = await limiter.explain("e", "r", {"rpm": 1})
    assert (bound_by(of_one), of_one.wait_seconds) == (("e", "rpm"), 1.0)
    assert {each.limit.name: each.requested for each in of_one.buckets[0].limits} == {"rph": None, "rpm": 1}


async def test_prefetched_tokens_are_named_and_serve(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_resource_defaults("r", [Limit.per_minute("rpm", 6_000, prefetch=1)])
    for _ in range(100):
        await take(limiter, "e", "r", rpm=1)
        world.clock.advance(seconds=0.02)
    await until(lambda: not limiter.repository.driver._active)  # the writes in the background
    [rpm] = (await limiter.explain("e", "r")).buckets[0].limits
    assert (rpm.limit.burst, rpm.limit.usable_burst) == (6_000, 5_900)
    assert rpm.prefetched > 0
    in_all = min(rpm.available + rpm.prefetched, rpm.limit.usable_burst)
    assert in_all == (await limiter.available("e", "r"))["rpm"]
    other = await world.process()
    assert (await other.limiter.explain("e", "r")).buckets[0].limits[0].prefetched == 0
    left = (await other.limiter.available("e", "r"))["rpm"]
    await take(other.limiter, "e", "r", rpm=left)  # at once, as a block ends by the time of the machine, too
    assert not (await other.limiter.explain("e", "r", {"rpm": 1})).passes
    [rpm] = (await limiter.explain("e", "r")).buckets[0].limits
    assert (rpm.available, (await limiter.explain("e", "r", {"rpm": rpm.prefetched})).passes) == (0, True)
    assert not (await limiter.explain("e", "r", {"rpm": rpm.prefetched + 1})).passes
    await take(limiter, "e", "r", rpm=rpm.prefetched)


async def test_limits_that_no_level_has_come_from_the_caller_or_from_the_bucket(world: World) -> None:
    limiter, _ = await world.process(default_limits=[KEY])
    await take(limiter, "e", "r", rpm=5)
    assert (await limiter.explain("e", "r")).buckets[0].source == "default_limits"
    assert (await limiter.explain("e", "r", limits=[TEAM])).buckets[0].source == "call"
    operator, _ = await world.process()
    [bucket] = (await operator.explain("e", "r")).buckets
    assert (bucket.source, bucket.limits[0].limit, bucket.limits[0].available) == ("bucket", KEY, 20)


async def test_what_an_acquire_would_not_take_is_refused_in_its_words(world: World) -> None:
    limiter, wire = await family(world)
    for entity, resource, consume in (("e", "none", None), ("key-1", "gpt-4", {"tpm": 1}), ("key-1", "gpt-4", {})):
        with pytest.raises(ValidationError) as of_explain:
            await limiter.explain(entity, resource, consume)
        with pytest.raises(ValidationError) as of_acquire:
            await take(limiter, entity, resource, **({"rpm": 1} if consume is None else consume))
        assert str(of_explain.value) == str(of_acquire.value)
    wire.break_down(Unreachable("away"))
    with pytest.raises(RateLimiterUnavailable):
        await limiter.explain("key-1", "gpt-4")


async def test_it_names_the_buckets_that_the_acquire_draws_on(world: World) -> None:
    """By parents of parents, a parent that is met twice, draws, and a switch."""
    limiter, _ = await world.process()
    await limiter.set_system_defaults([KEY])
    await limiter.create_entity("org")
    await limiter.create_entity("team", parent_id="org", cascade=True)
    await limiter.create_entity("project", parent_id="org", cascade=True)
    await limiter.create_entity("key", parent_ids=["team", "project"], cascade=True)
    for switch in (None, "off"):
        draws = [Draw("project", resource="tools"), Draw("team"), Draw("other", cascade=False)]
        found = await limiter.explain("key", "gpt", {"rpm": 1}, draws=draws)
        async with limiter.acquire("key", "gpt", {"rpm": 1}, draws=draws) as lease:
            taken = [(each.entity_id, each.resource, each.path) for each in lease.statuses]
        assert taken == [(each.entity_id, each.resource, each.path) for each in found.buckets]
        assert len(taken) == (7 if switch is None else 4)
        await limiter.repository.set_system_switches(cascade="off")
