"""A level that is unlimited, and one that extends the next one; in both variants."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.core.owners import maintenance_of
from support.core.shards import shard_items, split_into
from support.core.worlds import World, drain, passes, take
from zae_limiter import UNLIMITED, Draw, Limit, ValidationError
from zae_limiter.values.provisioner import ConfigPlace, StoredConfig

RPM, TPM, USD = Limit.per_minute("rpm", 3), Limit.per_minute("tpm", 100), Limit.per_minute("usd", 50)
FAST: Any = {"writes_per_second": 100_000}


async def test_an_unlimited_entity_is_admitted_and_counted(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_resource_defaults("r", [RPM, TPM])
    await limiter.set_limits("e", UNLIMITED)
    for _ in range(10):
        await take(limiter, "e", "r", rpm=1, tpm=50)
    found = await limiter.repository.resolve_limits("e", "r")
    assert (found, found.unlimited) == (([], None, "entity_default"), True)
    [bucket] = (await limiter.explain("e", "r", {"rpm": 1})).buckets
    assert (bucket.is_unlimited, bucket.limits, bucket.admitted, bucket.unlimited) == (True, (), 10, ("rpm", "tpm"))
    item = world.bucket_of(limiter, "e", "r")
    assert item is not None
    assert item["b_tpm_tc"] == 500_000
    with pytest.raises(ValidationError, match="unknown limit 'tmp'"):
        await take(limiter, "e", "r", tmp=1)


async def test_an_unlimited_level_ends_the_search(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    await limiter.set_system_defaults([RPM])
    await limiter.set_resource_defaults("r", UNLIMITED)
    assert [await passes(limiter, "e", "r", rpm=9), await passes(limiter, "e", "other", rpm=9)] == [True, False]
    await limiter.repository.set_tier_limits("gold", [TPM])
    await limiter.create_entity("e", tier="gold")
    assert (await limiter.repository.resolve_limits("e", "r")).source == "tier_default"
    await limiter.repository.set_tier_limits("gold", UNLIMITED, "r")
    assert await limiter.repository.list_tiers() == {"gold": ["_default_", "r"]}
    assert (await limiter.repository.resolve_limits("e", "r")).source == "tier"
    assert (await limiter.repository.get_tier_limits("gold", "r")).unlimited
    await limiter.delete_resource_defaults("r")
    assert not (await limiter.get_resource_defaults("r")).unlimited


async def test_no_name_is_known_where_nothing_is_limited(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_system_defaults(UNLIMITED)
    async with limiter.acquire("e", "r", {"anything": 1}) as lease:
        await lease.adjust(anything=4)
    item = world.bucket_of(limiter, "e", "r")
    assert item is not None
    assert item["b_anything_tc"] == 5_000
    assert await passes(limiter, "e", "r", other=5)


async def test_an_empty_list_names_the_word(world: World) -> None:
    limiter, _ = await world.process()
    with pytest.raises(ValidationError, match="UNLIMITED"):
        await limiter.set_limits("e", [])
    with pytest.raises(ValidationError, match="give limits with it"):
        await limiter.set_limits("e", UNLIMITED, extends=True)
    until = datetime.fromtimestamp(world.clock.now_ms() / 1000, UTC) + timedelta(hours=1)
    with pytest.raises(ValidationError, match="bypass"):
        await limiter.set_limits("e", UNLIMITED, override_until=until)


async def test_an_unlimited_parent_refuses_nothing(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_resource_defaults("r", [RPM, TPM])
    await limiter.create_entity("team")
    await limiter.set_limits("team", UNLIMITED)
    for key in ("a", "b"):
        await limiter.create_entity(key, parent_id="team", cascade=True)
        assert await drain(limiter, key, "r", "rpm") == 3
    item = world.bucket_of(limiter, "team", "r")
    assert item is not None
    assert item["b_rpm_tc"] == 6_000  # the team's own use is known


async def test_an_unlimited_key_obeys_its_limited_parent(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_resource_defaults("r", [RPM])
    await limiter.create_entity("team")
    await limiter.create_entity("key", parent_id="team", cascade=True)
    await limiter.set_limits("key", UNLIMITED)
    assert await drain(limiter, "key", "r", "rpm") == 3


async def test_a_draw_on_an_unlimited_entity_is_counted(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_resource_defaults("r", [RPM, TPM])
    await limiter.set_limits("account", UNLIMITED)
    for _ in range(3):
        async with limiter.acquire("e", "r", {"rpm": 1}, draws=[Draw("account", "r", {"tpm": 90})]):
            pass
    item = world.bucket_of(limiter, "account", "r")
    assert item is not None
    assert item["b_tpm_tc"] == 270_000


async def test_an_unlimited_bucket_on_shards_counts_on(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_resource_defaults("r", [RPM])
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, 4)
    await limiter.set_limits("e", UNLIMITED)
    for _ in range(10):
        assert await passes(limiter, "e", "r", rpm=9)
    assert sum(item["b_rpm_tc"] for item in shard_items(world, limiter).values()) == 91_000
    assert await maintenance_of(limiter.repository).invalidate_live_buckets("r", **FAST)


async def test_limits_come_back_after_unlimited(world: World) -> None:
    here, there = await world.process(), await world.process()
    await here.limiter.set_limits("e", [RPM], "r")
    await take(there.limiter, "e", "r", rpm=1)
    await here.limiter.set_limits("e", UNLIMITED, "r")
    world.clock.advance(ms=1_001)  # until then a balance seen a moment ago refuses
    assert await passes(there.limiter, "e", "r", rpm=50)
    await here.limiter.set_limits("e", [RPM], "r")
    assert not await passes(there.limiter, "e", "r", rpm=50)
    await here.limiter.set_limits("e", UNLIMITED, "r")
    await here.limiter.delete_limits("e", "r")
    with pytest.raises(ValidationError, match="no limits are configured"):
        await take(there.limiter, "f", "r", rpm=50)


async def test_what_a_lease_took_once_it_was_limited_comes_back(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_resource_defaults("r", [TPM])
    await limiter.set_limits("e", UNLIMITED, "r")
    async with limiter.acquire("e", "r", {"tpm": 2}) as lease:
        await limiter.set_limits("e", [Limit.total("tpm", 100)], "r")
        await lease.consume(tpm=40)
        assert await limiter.available("e", "r") == {"tpm": 60}
        await lease.release(tpm=41)
    assert await limiter.available("e", "r") == {"tpm": 99}
    item = world.bucket_of(limiter, "e", "r")
    assert item is not None
    assert item["b_tpm_tc"] == 1_000


async def test_a_limit_that_came_since_gets_back_what_a_lease_returns(world: World) -> None:
    limiter, _ = await world.process()
    other = (await world.process()).limiter
    await limiter.set_limits("e", [TPM], "r")
    async with limiter.acquire("e", "r", {"tpm": 40}) as lease:
        await limiter.set_limits("e", UNLIMITED, "r")
        world.clock.advance(seconds=120)
        for _ in range(3):
            await take(limiter, "e", "r", tpm=1)  # the limit leaves the bucket, which goes on counting
        await other.set_limits("e", [Limit.total("tpm", 100)], "r")
        await take(other, "e", "r", tpm=50)
        await lease.release(tpm=40)
    assert await other.available("e", "r") == {"tpm": 90}


async def test_a_parent_without_limits_is_told_how_to_bound_nothing(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.create_entity("team")
    await limiter.create_entity("key", parent_id="team", cascade=True)
    await limiter.set_limits("key", [RPM], "r")
    with pytest.raises(ValidationError, match=r"set_limits\('team', UNLIMITED\) if it is to bound nothing of key"):
        await take(limiter, "key", "r", rpm=1)
    await limiter.set_limits("team", UNLIMITED)
    assert await passes(limiter, "key", "r", rpm=1)


async def test_extends_overrides_the_limits_it_names(world: World) -> None:
    limiter, _ = await world.process()
    repository = limiter.repository
    await limiter.set_system_defaults([USD, Limit.per_minute("rpm", 1)])
    await limiter.set_resource_defaults("r", [RPM, TPM], extends=True)
    await repository.set_tier_limits("gold", [Limit.per_minute("tpm", 900)], extends=True)
    await limiter.create_entity("e", tier="gold")
    await limiter.set_limits("e", [Limit.per_minute("rpm", 7)], "r", extends=True)
    assert await limiter.available("e", "r") == {"rpm": 7, "tpm": 900, "usd": 50}
    found = await repository.resolve_limits("e", "r")
    assert found.sources == {"rpm": "entity", "tpm": "tier_default", "usd": "system"}
    explained = (await limiter.explain("e", "r", {"rpm": 1})).buckets[0]
    assert {each.limit.name: each.source for each in explained.limits} == found.sources
    assert explained.source == found.source == "entity"
    own = await limiter.get_limits("e", "r")
    assert (own, own.extends, own.unlimited) == ([Limit.per_minute("rpm", 7)], True, False)
    await limiter.set_limits("e", [Limit.per_minute("rpm", 7)], "r")
    assert await limiter.available("e", "r") == {"rpm": 7}


async def test_extends_stops_at_the_first_that_does_not(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_system_defaults([USD])
    await limiter.set_resource_defaults("r", [TPM])
    await limiter.set_limits("e", [RPM], extends=True)
    assert await limiter.available("e", "r") == {"rpm": 3, "tpm": 100}
    await limiter.set_resource_defaults("r", UNLIMITED)
    assert await limiter.available("e", "r") == {"rpm": 3}


async def test_a_changed_resource_is_told_to_who_extends_it(world: World) -> None:
    admin, user = await world.process(), await world.process()
    await admin.limiter.set_resource_defaults("r", [RPM, TPM])
    await admin.limiter.set_limits("e", [Limit.per_minute("rpm", 60)], "r", extends=True)
    await admin.limiter.set_limits("own", [RPM], "r")
    await take(user.limiter, "e", "r", rpm=1, tpm=1)
    await take(user.limiter, "own", "r", rpm=1)
    await admin.limiter.set_resource_defaults("r", [RPM, Limit.per_minute("tpm", 5)])
    told = await maintenance_of(admin.repository).invalidate_live_buckets("r", **FAST)
    assert told.invalidated == 1
    world.clock.advance(ms=10)
    assert not await passes(user.limiter, "e", "r", tpm=6)
    assert await user.repository.list_entities_with_custom_limits("r") == ["e", "own"]


async def test_a_changed_system_is_told_through_extending_levels(world: World) -> None:
    admin, user = await world.process(), await world.process()
    await admin.limiter.set_system_defaults([TPM])
    await admin.limiter.set_resource_defaults("r", [RPM], extends=True)
    await admin.limiter.set_resource_defaults("s", [RPM])
    await take(user.limiter, "e", "r", rpm=1, tpm=1)
    await take(user.limiter, "e", "s", rpm=1)
    await admin.limiter.set_system_defaults([Limit.per_minute("tpm", 5)])
    told = await maintenance_of(admin.repository).invalidate_live_buckets(**FAST)
    assert told.invalidated == 1
    world.clock.advance(ms=10)
    assert not await passes(user.limiter, "e", "r", tpm=6)
    assert await user.repository.list_resources_with_defaults() == ["r", "s"]


async def test_an_entity_that_extends_itself_is_told(world: World) -> None:
    admin, user = await world.process(), await world.process()
    await admin.limiter.set_limits("e", [TPM])
    await admin.limiter.set_limits("e", [RPM], "r", extends=True)
    await take(user.limiter, "e", "r", rpm=1, tpm=1)
    assert await admin.limiter.set_limits("e", [Limit.per_minute("tpm", 5)]) == 1
    world.clock.advance(ms=10)
    assert not await passes(user.limiter, "e", "r", tpm=6)


async def test_an_override_that_extends_adds_to_what_holds(world: World) -> None:
    limiter, _ = await world.process()
    until = datetime.fromtimestamp(world.clock.now_ms() / 1000, UTC) + timedelta(hours=1)
    await limiter.set_resource_defaults("r", [RPM, TPM])
    await limiter.set_limits("e", [Limit.per_minute("rpm", 60)], "r", extends=True, override_until=until)
    assert await limiter.available("e", "r") == {"rpm": 60, "tpm": 100}
    await limiter.set_limits("e", [USD], "r", extends=True)
    assert await limiter.available("e", "r") == {"rpm": 60, "tpm": 100, "usd": 50}
    await limiter.set_limits("e", [USD], "r")
    assert await limiter.available("e", "r") == {"rpm": 60, "usd": 50}
    await limiter.set_limits("e", UNLIMITED, "r")
    assert await limiter.available("e", "r") == {"rpm": 60}
    override = await limiter.repository.get_override("e", "r")
    assert override is not None
    assert override.extends
    world.clock.advance(ms=3_600_001)
    assert (await limiter.repository.resolve_limits("e", "r")).unlimited


async def test_switches_stay_beside_both_modes(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_resource_defaults("r", [RPM])
    await limiter.set_limits("e", UNLIMITED)
    await limiter.repository.set_switches("e", disabled=True)
    assert not await passes(limiter, "e", "r", rpm=1)
    await limiter.repository.set_switches("e", disabled=None)
    assert await passes(limiter, "e", "r", rpm=9)


async def test_a_stored_level_has_its_mode(world: World) -> None:
    limiter, _ = await world.process()
    maintenance = maintenance_of(limiter.repository)
    extending, unlimited = StoredConfig((RPM,), mode="extends"), StoredConfig((), mode="unlimited")
    configs: dict[ConfigPlace, StoredConfig | None] = {("e", "r"): extending, ("team", "_default_"): unlimited}
    await maintenance.put_configs(configs, principal="test")
    assert await maintenance.get_configs(list(configs)) == configs
    with pytest.raises(ValidationError, match="mode"):
        StoredConfig((RPM,), mode="unlimited")
    [event] = (await limiter.repository.get_audit_events("team")).events
    assert event.after == {"limits": {}, "config_version": 1, "level_mode": "unlimited"}
