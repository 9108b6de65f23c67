"""Tiers: which limits hold, what it costs to know them, how changes of them reach others; in both variants."""

import pytest

from support.core.owners import maintenance_of
from support.core.worlds import World, drain, passes, take
from zae_limiter import Limit, OnRefused, ValidationError, ZAELimiterError
from zae_limiter.maintenance import audit_tier
from zae_limiter.operations.values import BatchGet, Item, Put, Scan
from zae_limiter.values.provisioner import StoredConfig, StoredEntity

OWN, OWN_DEFAULT, TIER, TIER_DEFAULT, RESOURCE, SYSTEM = (Limit.per_minute("rpm", n) for n in (60, 50, 40, 30, 20, 10))
GOLD, SILVER = Limit.per_minute("rpm", 600), Limit.per_minute("rpm", 6)


def records(world: World) -> list[Item]:
    """Return the records of all entities."""
    return [item for item in world.table.execute(Scan(1000)).items if item["SK"] == "#META"]


async def test_a_tier_is_between_the_entity_and_the_resource(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_system_defaults([SYSTEM])
    await limiter.set_resource_defaults("r", [RESOURCE])
    await limiter.repository.set_tier_limits("gold", [TIER_DEFAULT])
    await limiter.create_entity("e", tier="gold")
    seen = []

    async def look() -> None:
        limits, _, source = await limiter.repository.resolve_limits("e", "r")
        explained = (await limiter.explain("e", "r", {"rpm": 1})).buckets[0]
        assert (explained.source, explained.tier) == (source, "gold")
        seen.append((limits[0].capacity, source))

    await look()
    await limiter.repository.set_tier_limits("gold", [TIER], "r")
    await look()
    await limiter.set_limits("e", [OWN_DEFAULT])
    await look()
    await limiter.set_limits("e", [OWN], "r")
    await look()
    await limiter.delete_limits("e", "r")
    await limiter.delete_limits("e")
    await look()
    await limiter.repository.delete_tier_limits("gold")
    await look()
    assert seen == [
        (30, "tier_default"),
        (40, "tier"),
        (50, "entity_default"),
        (60, "entity"),
        (40, "tier"),
        (40, "tier"),
    ]
    assert (await limiter.repository.resolve_limits("e", "other"))[2] == "system"
    assert (await limiter.repository.resolve_limits("nobody", "r"))[2] == "resource"


async def test_what_is_set_is_read_back_listed_and_deleted(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.repository.set_tier_limits("gold", [TIER], "r/1")
    await limiter.repository.set_tier_limits("gold", [TIER_DEFAULT])
    await limiter.repository.set_tier_limits("a.b-c_9", [SYSTEM])
    assert await limiter.repository.get_tier_limits("gold", "r/1") == [TIER]
    assert await limiter.repository.get_tier_limits("gold") == [TIER_DEFAULT]
    assert (
        await limiter.repository.get_tier_limits("gold", "x") == await limiter.repository.get_tier_limits("none") == []
    )
    assert await limiter.repository.list_tiers() == {"a.b-c_9": ["_default_"], "gold": ["_default_", "r/1"]}
    await limiter.repository.delete_tier_limits("gold")
    await limiter.repository.delete_tier_limits("gold", "r/1")
    await limiter.repository.delete_tier_limits("gold", "r/1")
    assert await limiter.repository.list_tiers() == {"a.b-c_9": ["_default_"]}


async def test_a_tier_in_use_keeps_its_last_limits(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.repository.set_tier_limits("gold", [TIER])
    await limiter.repository.set_tier_limits("gold", [TIER], "r")
    for each in ("a", "b/c"):
        await limiter.create_entity(each, tier="gold")
    assert await limiter.repository.list_entities_of_tier("gold") == ["a", "b/c"]
    await limiter.repository.delete_tier_limits("gold", "r")
    with pytest.raises(ValidationError, match="tier 'gold': 2 entities have it"):
        await limiter.repository.delete_tier_limits("gold")
    assert await limiter.repository.get_tier_limits("gold") == [TIER]
    await limiter.repository.update_entity("a", tier=None)
    with pytest.raises(ValidationError, match="1 entity has it"):
        await limiter.repository.delete_tier_limits("gold")
    await limiter.delete_entity("b/c")
    await limiter.repository.delete_tier_limits("gold")
    assert await limiter.repository.list_tiers() == {}


async def test_an_unknown_tier_is_refused_before_anything_is_written(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.repository.set_tier_limits("gold", [TIER])
    with pytest.raises(ValidationError, match=r"there is no tier of this name, did you mean 'gold'\?"):
        await limiter.create_entity("e", tier="golf")
    assert await limiter.repository.get_entity("e") is None
    await limiter.create_entity("e")
    with pytest.raises(ValidationError, match="set its limits first"):
        await limiter.repository.update_entity("e", tier="zinc", name="other")
    assert await limiter.repository.update_entity("e", tier=None) == await limiter.get_entity("e")


@pytest.mark.parametrize("name", ["", "1st", "a b", "a#b", "ä", "x" * 65, "$TIER:x", 5])
async def test_the_name_of_a_tier_is_checked_everywhere(world: World, name: str) -> None:
    limiter, _ = await world.process()
    for call in (
        limiter.repository.set_tier_limits(name, [TIER]),
        limiter.repository.get_tier_limits(name),
        limiter.repository.delete_tier_limits(name),
        limiter.repository.list_entities_of_tier(name),
        limiter.create_entity("e", tier=name),
        limiter.repository.update_entity("e", tier=name),
    ):
        with pytest.raises(ValidationError, match="tier"):
            await call


async def test_entities_keep_their_tier_and_an_item_without_one_has_the_same_attributes(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.repository.set_tier_limits("gold", [TIER])
    await limiter.create_entity("parent")
    created = await limiter.create_entity("e", parent_id="parent", cascade=True, tier="gold")
    assert created == await limiter.get_entity("e")
    assert (await limiter.repository.update_entity("e", name="E")).tier == "gold"
    gone = await limiter.repository.update_entity("e", tier=None)
    assert (gone.tier, gone.parent_id, gone.version) == (None, "parent", 3)
    items = {item["entity_id"]: item for item in records(world)}
    assert items["e"].keys() - items["parent"].keys() == {"name", "parent_id", "GSI1PK", "GSI1SK"}
    actions = (await limiter.repository.get_audit_events("e")).events
    assert [(event.before or {}).get("tier") for event in actions] == ["gold", "gold", None]


async def test_changes_of_a_tier_are_audited_beside_the_tier(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.repository.set_tier_limits("gold", [TIER], "r", principal="anna")
    await limiter.repository.delete_tier_limits("gold", "r", principal="ben")
    events = (await limiter.repository.get_audit_events(audit_tier("gold"))).events
    assert [(each.action, each.principal, each.resource) for each in events] == [
        ("limits_deleted", "ben", "r"),
        ("limits_set", "anna", "r"),
    ]


async def test_a_policy_for_refusals_holds_for_the_entities_of_the_tier(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.repository.set_tier_limits(
        "gold", [Limit.per_minute("rpm", 1)], "r", on_refused=OnRefused(overflow="spare")
    )
    await limiter.set_resource_defaults("spare", [Limit.per_minute("rpm", 5)])
    await limiter.create_entity("e", tier="gold")
    await take(limiter, "e", "r", rpm=1)
    async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
        assert lease.resource == "spare"


# requests


async def test_a_warm_acquire_sends_what_it_sends_without_a_tier(world: World) -> None:
    limiter, wire = await world.process()
    await limiter.repository.set_tier_limits("gold", [GOLD])
    await limiter.set_resource_defaults("r", [GOLD])
    await limiter.create_entity("aaaaaaa", tier="gold")
    await limiter.create_entity("bbbbbbb")
    written = []
    for entity in ("aaaaaaa", "bbbbbbb"):
        await take(limiter, entity, "r", rpm=1)
    world.clock.advance(seconds=2)
    for entity in ("aaaaaaa", "bbbbbbb"):
        wire.seen.clear()
        await take(limiter, entity, "r", rpm=1)
        [update] = wire.seen
        written.append(str(update).replace(entity, ""))
    assert len(written[0]) == len(written[1])  # the anchors differ


async def test_the_first_meeting_with_a_tier_costs_one_read_more_and_none_later(world: World) -> None:
    limiter, wire = await world.process()
    await limiter.repository.set_tier_limits("gold", [GOLD])
    for entity in ("a", "b"):
        await limiter.create_entity(entity, tier="gold")
    fresh, wire = await world.process()
    await take(fresh, "a", "r", rpm=1)
    assert wire.sent().count("BatchGet") == 2
    await take(fresh, "b", "r", rpm=1)  # the tier is known
    assert wire.sent().count("BatchGet") == 1
    world.clock.advance(seconds=61)
    wire.seen.clear()
    await take(fresh, "a", "r", rpm=1)  # all have expired, and the tier of the entity is remembered
    [read] = [each for each in wire.seen if isinstance(each, BatchGet)]
    assert len([key for key in read.keys if "TIER#" in key.pk]) == 2


async def test_without_tiers_no_key_of_a_tier_is_read(world: World) -> None:
    limiter, wire = await world.process()
    await limiter.set_resource_defaults("r", [GOLD])
    await limiter.create_entity("e")
    await take(limiter, "e", "r", rpm=1)
    world.clock.advance(seconds=61)
    await take(limiter, "e", "r", rpm=1)
    asked = [key for each in wire.seen if isinstance(each, BatchGet) for key in each.keys]
    assert not [key for key in asked if "TIER#" in key.pk]
    reads = [each for each in wire.seen if isinstance(each, BatchGet)]
    assert [len(each.keys) for each in reads] == [6, 5]  # four levels and the record, once with the bucket


async def test_one_change_of_a_tier_is_one_transaction_however_many_have_it(world: World) -> None:
    limiter, wire = await world.process()
    await limiter.repository.set_tier_limits("gold", [GOLD])
    records = {f"e{number}": StoredEntity(tier="gold") for number in range(100)}
    assert await maintenance_of(limiter.repository).put_entity_records(records) == {}
    wire.sent()
    await limiter.repository.set_tier_limits("gold", [SILVER])
    assert wire.sent() == ["Get", "Transact"]
    await take(limiter, "e7", "r", rpm=6)
    assert not await passes(limiter, "e7", "r", rpm=1)


# how changes reach others


async def test_a_change_of_a_tier_reaches_others_within_the_life_of_their_cache(world: World) -> None:
    admin, user = (await world.process())[0], (await world.process())[0]
    await admin.repository.set_tier_limits("gold", [GOLD])
    await admin.create_entity("e", tier="gold")
    await take(user, "e", "r", rpm=1)
    await admin.repository.set_tier_limits("gold", [SILVER])
    world.clock.advance(seconds=59)
    assert await passes(user, "e", "r", rpm=100)
    world.clock.advance(seconds=2)
    assert await drain(user, "e", "r", "rpm") == 6


async def test_another_tier_of_an_entity_bites_in_the_next_request(world: World) -> None:
    admin, user = (await world.process())[0], (await world.process())[0]
    await admin.repository.set_tier_limits("gold", [GOLD])
    await admin.repository.set_tier_limits("silver", [SILVER])
    await admin.set_resource_defaults("r", [Limit.per_minute("rpm", 3)])
    await admin.create_entity("e", tier="gold")
    await take(user, "e", "r", rpm=1)
    world.clock.advance(seconds=5)
    await admin.repository.update_entity("e", tier="silver")
    world.clock.advance(ms=10)  # the change moved the anchor on by a millisecond, while the clock stood still
    assert await drain(user, "e", "r", "rpm") == 6
    world.clock.advance(seconds=5)
    await admin.repository.update_entity("e", tier=None)
    world.clock.advance(seconds=120)
    assert await drain(user, "e", "r", "rpm") == 3


async def test_an_entity_that_was_used_before_it_was_created_with_a_tier_follows_at_once(world: World) -> None:
    admin, user = (await world.process())[0], (await world.process())[0]
    await admin.repository.set_tier_limits("silver", [SILVER])
    await admin.set_resource_defaults("r", [GOLD])
    await take(user, "e", "r", rpm=1)
    world.clock.advance(seconds=5)
    await admin.create_entity("e", tier="silver")
    world.clock.advance(ms=10)  # the change moved the anchor on by a millisecond, while the clock stood still
    assert await drain(user, "e", "r", "rpm") == 6


async def test_another_tier_by_the_provisioner_is_told_too(world: World) -> None:
    admin, user = (await world.process())[0], (await world.process())[0]
    await maintenance_of(admin.repository).put_configs(
        {(audit_tier("gold"), "_default_"): StoredConfig((GOLD,)), (audit_tier("silver"), "r"): StoredConfig((SILVER,))}
    )
    assert set(await maintenance_of(admin.repository).list_config_places()) >= {
        ("$TIER:gold", "_default_"),
        ("$TIER:silver", "r"),
    }
    await maintenance_of(admin.repository).put_entity_records({"e": StoredEntity(tier="gold")})
    await take(user, "e", "r", rpm=1)
    world.clock.advance(seconds=5)
    await maintenance_of(admin.repository).put_entity_records({"e": StoredEntity(tier="silver")})
    assert (await maintenance_of(admin.repository).get_entity_records(["e"]))["e"].tier == "silver"
    world.clock.advance(ms=10)  # the change moved the anchor on by a millisecond, while the clock stood still
    assert await drain(user, "e", "r", "rpm") == 6


async def test_this_process_obeys_its_own_changes_at_once(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.repository.set_tier_limits("gold", [GOLD])
    await limiter.create_entity("e", tier="gold")
    assert await limiter.available("e", "r") == {"rpm": 600}
    await limiter.repository.set_tier_limits("gold", [SILVER], "r")
    assert await limiter.available("e", "r") == {"rpm": 6}
    await limiter.repository.delete_tier_limits("gold", "r")
    assert await limiter.available("e", "r") == {"rpm": 600}


async def test_a_parent_has_the_limits_of_its_tier(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.repository.set_tier_limits("gold", [GOLD])
    await limiter.repository.set_tier_limits("silver", [SILVER])
    await limiter.create_entity("team", tier="silver")
    await limiter.create_entity("key", parent_id="team", cascade=True, tier="gold")
    fresh, _ = await world.process()
    assert await drain(fresh, "key", "r", "rpm") == 6


async def test_a_tier_that_is_unreadable_stops_the_acquire(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.repository.set_tier_limits("gold", [GOLD])
    await limiter.create_entity("e", tier="gold")
    [meta] = records(world)
    world.table.execute(Put({**meta, "tier": "not a name#"}))
    fresh, _ = await world.process()
    with pytest.raises(ZAELimiterError, match="ENTITY#e"):
        await take(fresh, "e", "r", rpm=1)
