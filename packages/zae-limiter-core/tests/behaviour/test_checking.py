"""``check``: whether a call would pass, what is left, and when it passes; by one read, without a trace.

What lives here: the answer of ``check``, and that it is the one of ``explain``. What never does: where limits come from
(test_explaining).
"""

import math
import random

import pytest

from support.core.shards import split_into
from support.core.worlds import Process, World, again, passes, take
from zae_limiter import Check, Draw, Limit, RateLimiterUnavailable, RateLimitExceeded, ValidationError
from zae_limiter.http import headers
from zae_limiter.operations.errors import Unreachable

RPM, TPM = Limit.per_minute("rpm", 60), Limit.per_minute("tpm", 600)


async def family(world: World) -> Process:
    process = await world.process(default_limits=[RPM, TPM])
    await process.repository.create_entity("org")
    await process.repository.create_entity("key-1", parent_id="org", cascade=True)
    await process.repository.set_limits("org", [Limit.per_minute("rpm", 6)])
    process.wire.sent()
    return process


async def test_what_is_left_and_whether_it_passes(world: World) -> None:
    it = await family(world)
    await take(it.limiter, "key-1", "r", rpm=5, tpm=100)
    found = await it.limiter.check("key-1", "r", {"rpm": 1, "tpm": 400})
    assert (found.entity_id, found.resource, found.passes, found.binding) == ("key-1", "r", True, None)
    assert found.retry_after_seconds == 0
    assert [(each.entity_id, each.limit_name, each.available, each.requested) for each in found.statuses] == [
        *(("key-1", "rpm", 55, 1), ("key-1", "tpm", 500, 400), ("org", "rpm", 1, 1)),
    ]
    assert [each.next_token_seconds for each in found.statuses] == [1.0, 0.1, 10.0]
    assert [each.limit for each in found.statuses] == [RPM, TPM, Limit.per_minute("rpm", 6)]


async def test_what_binds_and_when_it_passes(world: World) -> None:
    it = await family(world)
    await take(it.limiter, "key-1", "r", rpm=5, tpm=100)
    found = await it.limiter.check("key-1", "r", {"rpm": 2, "tpm": 510})
    assert not found.passes
    assert found.binding is not None
    assert (found.binding.entity_id, found.binding.limit_name, found.binding.path) == ("org", "rpm", ("key-1", "org"))
    assert found.retry_after_seconds == found.binding.retry_after_seconds == 10.0
    assert [each.exceeded for each in found.statuses] == [False, True, True]
    never = await it.limiter.check("key-1", "r", {"rpm": 7})
    assert never.retry_after_seconds == math.inf
    world.clock.advance(seconds=10)
    assert await passes(it.limiter, "key-1", "r", rpm=2, tpm=510)


async def test_without_amounts_it_asks_for_one_of_each(world: World) -> None:
    it = await family(world)
    found = await it.limiter.check("key-1", "r")
    assert [(each.limit_name, each.requested, each.available) for each in found.statuses] == [
        *(("rpm", 1, 60), ("tpm", 1, 600), ("rpm", 1, 6)),
    ]


async def test_it_is_one_read_and_leaves_no_trace(world: World) -> None:
    it = await family(world)
    await take(it.limiter, "key-1", "r", rpm=1, tpm=1)
    it.wire.sent()
    before = world.bucket_of(it.limiter, "key-1", "r")
    for consume in ({"rpm": 1}, {"rpm": 7}):
        await it.limiter.check("key-1", "r", consume)
        assert it.wire.sent() == ["BatchGet"]
    await it.limiter.check("key-1", "r", {"rpm": 1}, draws=[Draw("key-1", "s"), Draw("user-7")])
    assert it.wire.sent() == ["BatchGet"] * 3  # the limits of the draws, those of the organisation on `s`, all buckets
    await it.limiter.check("key-1", "r", {"rpm": 1}, draws=[Draw("key-1", "s"), Draw("user-7")])
    assert it.wire.sent() == ["BatchGet"]
    assert world.bucket_of(it.limiter, "key-1", "r") == before
    assert world.bucket_of(it.limiter, "user-7", "r") is None
    await it.limiter.close()
    assert world.bucket_of(it.limiter, "key-1", "r") == before


async def test_draws_are_checked_with_the_call(world: World) -> None:
    it = await family(world)
    await take(it.limiter, "user-7", "r", tpm=500)
    draws = [Draw("user-7"), Draw(resource="s", consume={"tpm": 601})]
    found = await it.limiter.check("key-1", "r", {"rpm": 1, "tpm": 101}, draws=draws)
    told = [(each.draw, each.entity_id, each.resource, each.limit_name, each.exceeded) for each in found.statuses]
    assert told == [
        (0, "key-1", "r", "rpm", False),
        (0, "key-1", "r", "tpm", False),
        (0, "org", "r", "rpm", False),
        (1, "user-7", "r", "rpm", False),
        (1, "user-7", "r", "tpm", True),
        (2, "key-1", "s", "tpm", True),
    ]
    explained = await it.limiter.explain("key-1", "r", {"rpm": 1, "tpm": 101}, draws=draws)
    assert [(each.entity_id, each.resource) for each in explained.buckets] == [
        *(("key-1", "r"), ("org", "r"), ("user-7", "r"), ("key-1", "s"), ("org", "s")),
    ]
    assert explained.binding is not None
    assert explained.binding[0].resource == "s"
    assert math.isinf(explained.wait_seconds)
    with pytest.raises(ValidationError, match="name each one once"):
        await it.limiter.check("key-1", "r", draws=[Draw()])
    with pytest.raises(ValidationError, match="unknown limit 'usd' on resource 'r'"):
        await it.limiter.explain("key-1", "r", {"rpm": 1}, draws=[Draw("user-7", consume={"usd": 1})])
    await it.repository.create_entity("key-2", parent_id="org", cascade=True)
    for asked in (it.limiter.explain, it.limiter.check):
        with pytest.raises(ValidationError, match="name it by a draw of its own"):
            await asked("key-1", "r", {"rpm": 1}, draws=[Draw("key-2", consume={"rpm": 2})])


async def test_a_shadow_limit_refuses_nobody(world: World) -> None:
    it = await world.process(default_limits=[RPM, Limit.per_minute("tpm", 5, shadow=True)])
    found = await it.limiter.check("e", "r", {"rpm": 1, "tpm": 10})
    assert found.passes
    assert [(each.limit.shadow, each.exceeded) for each in found.statuses] == [(False, False), (True, True)]
    shadow = again(it.limiter, default_limits=[RPM], shadow=True)
    assert (await shadow.check("e", "r", {"rpm": 100})).passes


async def test_it_goes_by_all_shards(world: World) -> None:
    it = await world.process(default_limits=[RPM, TPM])
    await take(it.limiter, "e", "r", rpm=4)
    split_into(world, it.limiter, 4)
    found = await it.limiter.check("e", "r", {"rpm": 56})
    assert (found.passes, found.statuses[0].available) == (True, 56)
    assert (await it.limiter.check("e", "r", {"rpm": 57})).retry_after_seconds == pytest.approx(1, abs=0.2)


async def test_prefetched_tokens_are_available(world: World) -> None:
    it = await world.process(default_limits=[Limit.per_minute("rpm", 600, prefetch=5)])
    for _ in range(30):
        await take(it.limiter, "e", "r", rpm=5)
        world.clock.advance(ms=100)
    found = await it.limiter.check("e", "r", {"rpm": 1})
    assert found.statuses[0].available == (await it.limiter.available("e", "r"))["rpm"]
    explained = (await it.limiter.explain("e", "r", {"rpm": 1})).buckets[0].limits[0]
    assert explained.prefetched
    assert found.statuses[0].available == explained.available + explained.prefetched


async def test_header_fields_are_made_of_it(world: World) -> None:
    it = await family(world)
    found = await it.limiter.check("key-1", "r", {"rpm": 1})
    assert headers(found, show="all")["RateLimit"] == '"rpm";r=60, "parent/rpm";r=6'


async def test_limits_of_the_call_replace_the_stored_ones(world: World) -> None:
    it = await family(world)
    found = await it.limiter.check("key-1", "r", {"rpm": 9}, limits=[Limit.per_minute("rpm", 8)])
    assert found.retry_after_seconds == math.inf
    assert {each.limit.capacity for each in found.statuses} == {8}


async def test_the_cascade_of_the_call(world: World) -> None:
    it = await family(world)
    await it.repository.update_entity("key-1", cascade=False)
    assert len((await it.limiter.check("key-1", "r", {"rpm": 1})).statuses) == 1
    assert len((await it.limiter.check("key-1", "r", {"rpm": 1}, cascade=True)).statuses) == 2


async def test_without_the_store_there_is_no_answer(world: World) -> None:
    it = await family(world)
    it.wire.break_down(Unreachable("gone"))
    with pytest.raises(RateLimiterUnavailable):
        await it.limiter.check("key-1", "r", {"rpm": 1})


@pytest.mark.long(keep=3)
@pytest.mark.parametrize("seed", range(12))
async def test_it_says_what_the_acquire_does_and_what_explain_says(world: World, seed: int) -> None:
    rng = random.Random(seed)
    it = await family(world)
    for _ in range(25):
        consume = {name: rng.choice((0, 1, 3, 40, 300)) for name in rng.sample(["rpm", "tpm"], rng.randint(1, 2))}
        draws: list[Draw] = rng.choice(([], [Draw("user-7")], [Draw("key-1", "s", consume={"tpm": 50})]))
        found: Check = await it.limiter.check("key-1", "r", consume, draws=draws)
        explained = await it.limiter.explain("key-1", "r", consume, draws=draws)
        assert (found.passes, found.retry_after_seconds) == (explained.passes, explained.wait_seconds)
        assert await admits(it, consume, draws) == found.passes
        world.clock.advance(ms=rng.choice((0, 500, 5_000)))


async def admits(it: Process, consume: dict[str, int], draws: list[Draw]) -> bool:
    try:
        async with it.limiter.acquire("key-1", "r", consume, draws=draws):
            return True
    except RateLimitExceeded:
        return False
