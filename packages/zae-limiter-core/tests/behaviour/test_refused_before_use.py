"""Refusals of an entity that was never admitted on a resource are counted, by a bucket that they make."""

from pathlib import Path
from typing import Any

import pytest

from support.core.worlds import Process, World, passes, take
from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter.values import Refuser

RPM, DAY = Limit.per_minute("rpm", 60), Limit.per_day("rpm", 100)


async def spent(world: World, **options: Any) -> Process:
    """A team whose day is spent, with a key that was never admitted."""
    it = await world.process(**options)
    await it.limiter.create_entity("team")
    await it.limiter.create_entity("key", parent_id="team", cascade=True)
    await it.limiter.set_limits("team", [DAY])
    await it.limiter.set_resource_defaults("r", [RPM])
    await take(it.limiter, "team", "r", rpm=100)
    it.wire.sent()
    return it


async def test_a_key_that_its_team_refuses_from_the_first_call_on_has_its_refusals(world: World) -> None:
    it = await spent(world)
    for _ in range(3):
        assert not await passes(it.limiter, "key", "r", rpm=1)
    assert "Put" not in it.wire.sent(), "a refusal costs what it costs"
    assert world.bucket_of(it.limiter, "key", "r") is None
    await it.limiter.close()
    item = world.bucket_of(it.limiter, "key", "r")
    assert item is not None
    assert (item["rj"], item["rj_team/rpm"], item["ev"], item["rq"]) == (3, 3, 0, "rpm:1")
    assert (item["b_rpm_tk"], item["b_rpm_tc"]) == (60_000, 0)


async def test_its_bucket_is_full_and_serves_as_any_other(world: World) -> None:
    it = await spent(world)
    assert not await passes(it.limiter, "key", "r", rpm=1)
    await it.limiter.close()
    other = await world.process()
    await other.repository.reset_bucket("team", "r")
    for _ in range(3):
        await take(other.limiter, "key", "r", rpm=20)
    assert not await passes(other.limiter, "key", "r", rpm=1)
    [own, _] = (await other.limiter.explain("key", "r")).buckets
    assert (own.admitted, own.refused, own.refused_by) == (3, 1, {Refuser("team", "rpm"): 1})


async def test_two_processes_make_one_bucket_with_the_refusals_of_both(world: World) -> None:
    it, other = await spent(world), await world.process()
    for each in (it, other, it):
        assert not await passes(each.limiter, "key", "r", rpm=1)
    await it.limiter.close()
    await other.limiter.close()
    item = world.bucket_of(it.limiter, "key", "r")
    assert item is not None
    assert (item["rj"], item["rj_team/rpm"]) == (3, 3)


async def test_a_key_asks_for_more_than_it_can_ever_have(world: World) -> None:
    it = await spent(world)
    assert not await passes(it.limiter, "key", "r", rpm=61)
    await it.limiter.close()
    item = world.bucket_of(it.limiter, "key", "r")
    assert item is not None
    assert (item["rj"], item["rj_key/rpm"]) == (1, 1)


async def test_ids_and_resources_that_nobody_has_made_write_nothing(world: World) -> None:
    it = await spent(world)
    await it.limiter.set_system_defaults([Limit.per_minute("rpm", 5)])
    for number in range(4):
        assert not await passes(it.limiter, f"made-up-{number}", "r", rpm=61)
        assert not await passes(it.limiter, "key", f"made-up-{number}", rpm=6)
    it.wire.sent()
    await it.limiter.close()
    assert not {"Put", "Update", "Transact"} & set(it.wire.sent())
    assert world.bucket_of(it.limiter, "made-up-1", "r") is None
    assert world.bucket_of(it.limiter, "key", "made-up-1") is None


def test_its_usage_has_them(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'limits.db'}"
    with SyncRepository.open(store=url) as repository, SyncRateLimiter(repository) as limiter:
        limiter.create_entity("team")
        limiter.create_entity("key", parent_id="team", cascade=True)
        limiter.set_limits("team", [DAY])
        limiter.set_resource_defaults("r", [RPM])
        with limiter.acquire("team", "r", {"rpm": 100}):
            pass
        for _ in range(2):
            with pytest.raises(RateLimitExceeded), limiter.acquire("key", "r", {"rpm": 1}):
                pass
    with SyncRepository.open(store=url) as repository:
        usage = repository.get_usage_summary(entity_id="key", resource="r", window="hourly")
    assert (usage.total_events, usage.total_refused, usage.refused_by) == (0, 2, {Refuser("team", "rpm"): 2})
