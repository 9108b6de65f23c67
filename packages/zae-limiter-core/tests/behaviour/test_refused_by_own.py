"""Which limits of its own refused an entity's calls is counted beside the refusals, at no request."""

from datetime import UTC, datetime, timedelta

import pytest

from support.core.worlds import Process, World, passes, take
from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter.testing import ManualClock
from zae_limiter.values import Refuser

RPM, TPM = Limit.per_minute("rpm", 60), Limit.per_minute("tpm", 100)


def by(world: World, it: Process, entity_id: str = "e") -> dict[str, int]:
    """The refusals that a bucket's item names, by limit."""
    item = world.bucket_of(it.limiter, entity_id, "r") or {}
    return {name.removeprefix("rj_"): number for name, number in item.items() if name.startswith("rj_")}


async def test_each_refusal_names_the_limits_that_were_short(world: World) -> None:
    it = await world.process(default_limits=[RPM, TPM])
    await take(it.limiter, "e", "r", rpm=40, tpm=90)
    it.wire.sent()
    for consume in ({"rpm": 1, "tpm": 50}, {"rpm": 1, "tpm": 20}, {"rpm": 30, "tpm": 1}, {"rpm": 30, "tpm": 50}):
        assert not await passes(it.limiter, "e", "r", **consume)
    assert it.wire.sent() == []
    world.clock.advance(seconds=1)
    world.meter.reset()
    await take(it.limiter, "e", "r", rpm=1, tpm=1)
    assert (it.wire.sent(), world.meter.write_units) == (["Update"], 1)
    assert by(world, it) == {"e/tpm": 3, "e/rpm": 2}
    [bucket] = (await it.limiter.explain("e", "r")).buckets
    assert (bucket.refused, bucket.refused_by) == (4, {Refuser("e", "rpm"): 2, Refuser("e", "tpm"): 3})


async def test_a_refusal_by_an_answer_of_the_store_is_named(world: World) -> None:
    it, other = await world.process(default_limits=[RPM, TPM]), await world.process(default_limits=[RPM, TPM])
    await take(it.limiter, "e", "r", rpm=1, tpm=1)
    await take(other.limiter, "e", "r", rpm=1, tpm=98)
    world.clock.advance(seconds=2)
    assert not await passes(it.limiter, "e", "r", rpm=1, tpm=50)
    await it.limiter.close()
    assert by(world, it) == {"e/tpm": 1}


async def test_a_call_that_an_ancestor_and_the_key_refuse_names_both(world: World) -> None:
    it = await world.process(default_limits=[RPM])
    await it.limiter.create_entity("team")
    await it.limiter.create_entity("key", parent_id="team", cascade=True)
    await take(it.limiter, "key", "r", rpm=60)
    assert not await passes(it.limiter, "key", "r", rpm=2)
    world.clock.advance(seconds=1)
    await take(it.limiter, "key", "r", rpm=1)
    assert by(world, it, "key") == {"key/rpm": 1, "team/rpm": 1}
    assert by(world, it, "team") == {}


@pytest.mark.parametrize("count_units", [False, True], ids=["own table", "requests"])
def test_a_table_in_memory_names_them(*, count_units: bool) -> None:
    clock = ManualClock()
    repository = SyncRepository.in_memory(clock=clock, count_units=count_units)
    limiter = SyncRateLimiter(repository, default_limits=[RPM, TPM])
    with limiter.acquire("e", "r", {"rpm": 10, "tpm": 99}):
        pass
    for _ in range(4):
        assert not limiter.check("e", "r", {"rpm": 1, "tpm": 50}).passes
        with pytest.raises(RateLimitExceeded), limiter.acquire("e", "r", {"rpm": 1, "tpm": 50}):
            pass
    clock.advance(60)
    with limiter.acquire("e", "r", {"rpm": 1}):
        pass
    usage = repository.get_usage_summary(entity_id="e", resource="r", window="hourly")
    assert (usage.total_refused, usage.refused_by) == (4, {Refuser("e", "tpm"): 4})


async def test_what_a_disable_for_a_time_refuses_is_counted_by_no_limit(world: World) -> None:
    admin, it = await world.process(), await world.process()
    await admin.repository.set_resource_defaults("r", [RPM, TPM])
    await take(it.limiter, "e", "r", rpm=1, tpm=1)
    assert not await passes(it.limiter, "e", "r", tpm=100)
    nothing = [Limit.per_minute("rpm", 0), Limit.per_minute("tpm", 0)]
    until = datetime.fromtimestamp(world.clock.now_ms() / 1000, UTC) + timedelta(minutes=5)
    await admin.repository.set_limits("e", nothing, "r", override_until=until)
    world.clock.advance(seconds=1)
    for amounts in ({"tpm": 100}, {"rpm": 1, "tpm": 1}):
        assert not await passes(it.limiter, "e", "r", **amounts)
    world.clock.advance(seconds=360)
    assert not await passes(it.limiter, "e", "r", tpm=100)
    await it.limiter.close()
    assert by(world, it) == {"e/tpm": 2, "e/disabled": 2}


async def test_a_limit_of_0_beside_an_override_of_a_weaker_level_is_named(world: World) -> None:
    it = await world.process()
    await it.limiter.set_limits("e", [Limit.per_minute("rpm", 0)], "r")
    until = datetime.fromtimestamp(world.clock.now_ms() / 1000, UTC) + timedelta(minutes=5)
    await it.limiter.repository.set_limits("e", [RPM], override_until=until)
    assert not await passes(it.limiter, "e", "r", rpm=1)
    await it.limiter.close()
    assert by(world, it) == {"e/rpm": 1}
