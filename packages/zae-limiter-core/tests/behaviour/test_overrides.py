"""Limits that replace an entity's own until an instant; in both variants."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.core.owners import maintenance_of
from support.core.worlds import Process, World, drain, passes, take
from zae_limiter import EntityNotFoundError, Limit, Override, RateLimiterUnavailable, RateLimitExceeded, ValidationError
from zae_limiter.maintenance import StoredConfig
from zae_limiter.operations.errors import Unreachable
from zae_limiter.operations.values import BatchGet, Get, Item, Key
from zae_limiter.schema import keys

OWN = Limit.per_hour("rpm", 10)
MORE = Limit.per_hour("rpm", 100)
BLOCKED = Limit.per_hour("rpm", 0)


def at(world: World, **later: float) -> datetime:
    return datetime.fromtimestamp(world.clock.now_ms() / 1000, UTC) + timedelta(**later)


def config(world: World, process: Process, entity: str, resource: str) -> Item | None:
    pk = keys.pk_entity(process.repository.namespace_id, entity)
    item: Item | None = world.table.execute(Get(Key(pk, keys.sk_config(resource))))
    return item


async def limits_of(process: Process) -> list[Limit]:
    return (await process.limiter.repository.resolve_limits("e", "r"))[0]


@pytest.mark.parametrize("resource", ["r", "_default_"])
async def test_an_override_holds_until_its_instant_to_the_millisecond(world: World, resource: str) -> None:
    process = await world.process()
    await process.limiter.set_limits("e", [OWN], resource)
    await process.limiter.set_limits("e", [MORE], resource, override_until=at(world, seconds=10))
    assert await limits_of(process) == [MORE]
    world.clock.advance(ms=9_999)
    assert await limits_of(process) == [MORE]
    world.clock.advance(ms=1)
    assert await limits_of(process) == [OWN]


async def test_other_processes_follow_the_end_at_the_instant_and_the_beginning_in_a_cache_life(world: World) -> None:
    admin, one, two = await world.process(), await world.process(), await world.process()
    await admin.limiter.set_resource_defaults("r", [OWN])
    assert [await limits_of(each) for each in (one, two)] == [[OWN], [OWN]]
    await admin.limiter.set_limits("e", [MORE], "r", override_until=at(world, seconds=90))
    world.clock.advance(ms=60_001)
    assert [await limits_of(each) for each in (one, two)] == [[MORE], [MORE]]
    world.clock.advance(ms=29_998)
    assert [await limits_of(each) for each in (one, two)] == [[MORE], [MORE]]
    world.clock.advance(ms=1)
    assert [await limits_of(each) for each in (one, two)] == [[OWN], [OWN]]


async def test_the_bucket_has_the_own_limits_again_with_the_first_acquire_after_the_end(world: World) -> None:
    admin, user, other = await world.process(), await world.process(), await world.process()
    await admin.limiter.set_limits("e", [OWN], "r")
    await admin.limiter.set_limits("e", [MORE], "r", override_until=at(world, seconds=70))
    await take(user.limiter, "e", "r", rpm=90)  # knows the override from now
    world.clock.advance(seconds=20)
    await take(other.limiter, "e", "r", rpm=1)  # and this one from a later read
    world.clock.advance(seconds=50)
    assert not await passes(user.limiter, "e", "r", rpm=11)
    assert await passes(user.limiter, "e", "r", rpm=10)
    item = world.bucket_of(user.limiter, "e", "r")
    assert item is not None
    assert item["b_rpm_cp"] == 10_000


async def test_an_ended_override_admits_nobody_while_configs_cannot_be_read(world: World) -> None:
    admin, user = await world.process(), await world.process()
    await admin.limiter.set_resource_defaults("r", [OWN])
    await admin.limiter.set_limits("e", [MORE], "r", override_until=at(world, seconds=10))
    await take(user.limiter, "e", "r", rpm=1)
    user.wire.break_down(Unreachable("no connection"), on=BatchGet)
    world.clock.advance(ms=9_999)
    assert await passes(user.limiter, "e", "r", rpm=1)
    world.clock.advance(ms=1)
    user.wire.sent()
    with pytest.raises(RateLimiterUnavailable):
        await take(user.limiter, "e", "r", rpm=1)
    assert user.wire.sent() == ["BatchGet"]
    user.wire.repair()
    assert await passes(user.limiter, "e", "r", rpm=10)


async def test_who_slept_through_an_override_takes_nothing_by_its_limits_when_it_has_ended(world: World) -> None:
    admin, sleeper, user = await world.process(), await world.process(), await world.process()
    await admin.limiter.set_resource_defaults("r", [OWN])
    await take(sleeper.limiter, "e", "r", rpm=1)
    await admin.limiter.set_limits("e", [MORE], "r", override_until=at(world, seconds=70))
    world.clock.advance(seconds=61)
    await take(user.limiter, "e", "r", rpm=1)  # the bucket has the override's limits
    world.clock.advance(seconds=7200)
    assert await drain(sleeper.limiter, "e", "r", "rpm", step=5) == 10


async def test_an_entity_is_blocked_for_a_time(world: World) -> None:
    process = await world.process()
    await process.limiter.set_limits("e", [OWN], "r")
    await take(process.limiter, "e", "r", rpm=1)
    await process.limiter.set_limits("e", [BLOCKED], "r", override_until=at(world, seconds=5))
    assert not await passes(process.limiter, "e", "r", rpm=1)
    world.clock.advance(seconds=5)
    assert not await passes(process.limiter, "e", "r", rpm=1)  # a bucket that was blocked begins empty
    world.clock.advance(seconds=3600)
    assert await drain(process.limiter, "e", "r", "rpm") == 10


async def test_a_warm_acquire_under_an_override_is_one_write(world: World) -> None:
    process = await world.process()
    await process.limiter.set_limits("e", [MORE], "r", override_until=at(world, days=1))
    await take(process.limiter, "e", "r", rpm=1)
    process.wire.sent()
    await take(process.limiter, "e", "r", rpm=1)
    assert process.wire.sent() == ["Update"]
    world.clock.advance(ms=60_001)
    await take(process.limiter, "e", "r", rpm=1)
    assert sorted(process.wire.sent()) == ["BatchGet", "Update"]


async def test_an_override_alone_leaves_no_bucket_that_never_expires_and_no_item(world: World) -> None:
    process = await world.process()
    await process.limiter.set_resource_defaults("r", [OWN])
    await process.limiter.set_limits("e", [MORE], "r", override_until=at(world, seconds=10))
    await take(process.limiter, "e", "r", rpm=1)
    bucket, item = world.bucket_of(process.limiter, "e", "r"), config(world, process, "e", "r")
    assert bucket is not None
    assert "ttl" in bucket
    assert item is not None
    assert item["ttl"] * 1000 > item["override_until"]
    world.clock.advance(seconds=80)
    assert world.expire() == 1
    assert config(world, process, "e", "r") is None


async def test_own_limits_are_set_and_deleted_beneath_an_override(world: World) -> None:
    process = await world.process()
    limiter, until = process.limiter, at(world, hours=1)
    await limiter.set_limits("e", [MORE], "r", override_until=until)
    await limiter.set_limits("e", [OWN], "r")
    assert (await limiter.get_limits("e", "r"), await limits_of(process)) == ([OWN], [MORE])
    item = config(world, process, "e", "r")
    assert item is not None
    assert "ttl" not in item
    await limiter.delete_limits("e", "r")
    await limiter.delete_limits("e", "r")  # is not an error
    assert (await limiter.get_limits("e", "r"), await limits_of(process)) == ([], [MORE])
    override = await limiter.repository.get_override("e", "r")
    assert override is not None
    assert (override.limits, override.until) == ((MORE,), until.replace(microsecond=until.microsecond // 1000 * 1000))
    item = config(world, process, "e", "r")
    assert item is not None
    assert "ttl" in item
    await limiter.repository.delete_override("e", "r")
    assert config(world, process, "e", "r") is None


async def test_an_override_ends_by_hand_at_once(world: World) -> None:
    process = await world.process()
    await process.limiter.set_limits("e", [OWN], "r")
    await process.limiter.set_limits("e", [MORE], "r", override_until=at(world, hours=1))
    await process.limiter.repository.delete_override("e", "r")
    await process.limiter.repository.delete_override("e", "r")  # is not an error
    assert (await process.limiter.repository.get_override("e", "r"), await limits_of(process)) == (None, [OWN])


async def test_an_ended_override_is_absent_everywhere(world: World) -> None:
    process = await world.process()
    limiter, repository = process.limiter, process.repository
    await limiter.set_limits("e", [MORE], "r", override_until=at(world, seconds=1))
    override = await limiter.repository.get_override("e", "r")
    assert await maintenance_of(repository).get_configs([("e", "r")]) == {
        ("e", "r"): StoredConfig((), override=override)
    }
    assert await limiter.repository.list_entities_with_custom_limits("r") == ["e"]
    world.clock.advance(seconds=1)
    assert await limiter.repository.get_override("e", "r") is None
    assert await maintenance_of(repository).get_configs([("e", "r")]) == {}
    assert await limiter.repository.list_entities_with_custom_limits("r") == []
    assert await limiter.repository.list_resources_with_entity_configs() == []
    await limiter.set_limits("e", [OWN], "r")
    newest = (await repository.get_audit_events("e")).events[0]
    assert (newest.action, newest.before) == ("limits_set", None)
    assert "override_until" not in (config(world, process, "e", "r") or {})
    assert await limiter.repository.list_entities_with_custom_limits("r") == ["e"]


async def test_what_the_provisioner_writes_and_removes_leaves_an_override_in_force(world: World) -> None:
    process = await world.process()
    repository = process.repository
    place = ("e", "r")
    await process.limiter.set_limits("e", [MORE], "r", override_until=at(world, hours=1))
    override = await process.limiter.repository.get_override("e", "r")
    await maintenance_of(repository).put_configs({place: StoredConfig((OWN,), fingerprint="f")})
    assert await maintenance_of(repository).get_configs([place]) == {
        place: StoredConfig((OWN,), fingerprint="f", override=override)
    }
    await process.limiter.set_limits("e", [BLOCKED], "r", override_until=at(world, hours=2))
    [found] = (await maintenance_of(repository).get_configs([place])).values()
    assert (found.limits, found.fingerprint) == ((OWN,), "f")
    await maintenance_of(repository).put_configs({place: None})
    assert await limits_of(process) == [BLOCKED]
    with pytest.raises(ValidationError, match="override"):
        await maintenance_of(repository).put_configs({place: StoredConfig((OWN,), override=override)})


async def test_setting_changing_and_ending_are_audited(world: World) -> None:
    process = await world.process()
    await process.limiter.set_limits("e", [OWN], "r")
    for limit, hours in ((MORE, 1), (BLOCKED, 2)):
        await process.limiter.set_limits("e", [limit], "r", override_until=at(world, hours=hours), principal="ann")
    await process.limiter.repository.delete_override("e", "r", principal="bob")
    ended, changed, begun, _ = (await process.repository.get_audit_events("e")).events
    assert [each.action for each in (ended, changed, begun)] == ["override_deleted", "override_set", "override_set"]
    assert [each.principal for each in (ended, changed, begun)] == ["bob", "ann", "ann"]
    told: Any = begun.after
    assert told["override"]["limits"]["rpm"]["capacity"] == 100
    assert datetime.fromisoformat(told["override"]["until"]) == (at(world, hours=1))
    assert told["limits"]["rpm"]["capacity"] == 10
    assert ended.after is not None
    assert "override" not in ended.after


async def test_deleting_the_entity_deletes_its_overrides(world: World) -> None:
    process = await world.process()
    await process.limiter.create_entity("e")
    await process.limiter.set_limits("e", [MORE], "r", override_until=at(world, hours=1))
    await process.limiter.delete_entity("e")
    assert config(world, process, "e", "r") is None


async def test_an_entity_with_nothing_but_an_ended_override_is_not_there_to_delete(world: World) -> None:
    process = await world.process()
    limiter = process.limiter
    await limiter.set_limits("e", [MORE], "r", override_until=at(world, seconds=10))
    world.clock.advance(ms=10_000)
    with pytest.raises(EntityNotFoundError):
        await limiter.delete_entity("e")
    assert [each.action for each in (await process.repository.get_audit_events("e")).events] == ["override_set"]
    assert config(world, process, "e", "r") is not None  # TTL removes it
    await limiter.set_resource_defaults("r", [OWN])
    await take(limiter, "e", "r", rpm=1)
    await limiter.delete_entity("e")
    assert (config(world, process, "e", "r"), world.bucket_of(limiter, "e", "r")) == (None, None)


async def test_a_wait_does_not_count_on_the_end_of_an_override(world: World) -> None:
    process = await world.process()
    limiter = process.limiter
    await limiter.set_limits("e", [OWN], "r")
    await limiter.set_limits("e", [BLOCKED], "r", override_until=at(world, seconds=1))
    assert await limiter.time_until_available("e", "r", {"rpm": 1}) == math.inf
    with pytest.raises(RateLimitExceeded, match="blocked") as caught:
        await limiter.acquire("e", "r", {"rpm": 1}, max_wait=60).__aenter__()
    assert caught.value.retry_after_seconds == math.inf
    slow = Limit.custom("rpm", 1, refill_amount=1, refill_period=8)
    await limiter.set_limits("f", [Limit.per_second("rpm", 100)], "r")
    await limiter.set_limits("f", [slow], "r", override_until=at(world, seconds=2))
    await take(limiter, "f", "r", rpm=1)
    assert await limiter.time_until_available("f", "r", {"rpm": 1}) == 8
    with pytest.raises(RateLimitExceeded):
        await limiter.acquire("f", "r", {"rpm": 1}, max_wait=7).__aenter__()
    world.clock.advance(seconds=2)
    assert await limiter.time_until_available("f", "r", {"rpm": 1}) < 0.01


async def test_a_bad_end_is_refused_before_any_request(world: World) -> None:
    process = await world.process()
    now: datetime = at(world)
    bad: Any
    other_types = (now.replace(tzinfo=None), "2h", 7200, timedelta(days=1))
    for bad in (now, now - timedelta(days=1), now + timedelta(days=367), *other_types):
        with pytest.raises(ValidationError, match="override_until"):
            await process.limiter.set_limits("e", [MORE], "r", override_until=bad)
    with pytest.raises(ValidationError, match="limits"):
        await process.limiter.set_limits("e", [], "r", override_until=now + timedelta(hours=1))
    for bad in (0, True, "x", 10**15):
        with pytest.raises(ValidationError, match="until_ms"):
            Override((MORE,), bad)
    assert process.wire.sent() == []


async def test_a_lease_goes_by_the_limits_that_were_read_beside_its_acquire(
    world: World,
) -> None:
    process, admin = await world.process(config_cache_ttl=0), await world.process(config_cache_ttl=0)
    await admin.limiter.set_limits("e", [OWN], "r")
    await take(process.limiter, "e", "r", rpm=0)
    world.clock.advance(1)
    await admin.limiter.set_limits("e", [MORE], "r", override_until=at(world, seconds=10))
    await take(admin.limiter, "e", "r", rpm=1)
    world.clock.advance(3600)  # the bucket still has the override's limits, and what these have minted
    async with process.limiter.acquire("e", "r", {"rpm": 0}) as lease:
        with pytest.raises(RateLimitExceeded):
            await lease.consume(rpm=50)
        await lease.consume(rpm=9)
