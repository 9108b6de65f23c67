"""Patterns of resources: which one holds, what it costs, and changes of several in one item; in both variants."""

from typing import Any

import pytest

from support.core.owners import maintenance_of
from support.core.worlds import World, drain, passes, take
from zae_limiter import UNLIMITED, Limit, OnRefused, ValidationError
from zae_limiter.exceptions import AccessDisabled, InvalidIdentifierError
from zae_limiter.flows.records import levels
from zae_limiter.operations.errors import Unreachable
from zae_limiter.operations.values import Get, Key, Put, Transact
from zae_limiter.schema import keys
from zae_limiter.schema.attributes import PATTERNS
from zae_limiter.values.provisioner import ConfigPlace, StoredConfig
from zae_limiter.values.switches import Switches

ALL, MODELS, SONNETS, EXACT, SYSTEM = (Limit.per_minute("rpm", capacity) for capacity in (2, 3, 4, 5, 6))
TPM = Limit.per_minute("tpm", 100)
SYSTEM_PLACE: ConfigPlace = (None, None)


def system_key(process: Any) -> Key:
    return Key(keys.pk_system(process.limiter.repository.namespace_id), keys.sk_config())


async def test_the_longest_pattern_holds_after_the_name(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_system_defaults([SYSTEM])
    found = [await limiter.repository.resolve_limits("e", "other")]
    await limiter.set_resource_defaults("*", [ALL])
    await limiter.set_resource_defaults("anthropic/*", [MODELS])
    await limiter.set_resource_defaults("anthropic/claude-sonnet*", [SONNETS])
    await limiter.set_resource_defaults("anthropic/claude-sonnet-4", [EXACT])
    names = ("other", "anthropic/", "anthropic/opus", "anthropic/claude-sonnet-3", "anthropic/claude-sonnet-4")
    found += [await limiter.repository.resolve_limits("e", each) for each in names]
    assert [(each.limits[0].capacity, each.source, each.pattern) for each in found] == [
        (6, "system", None),
        (2, "pattern", "*"),
        (3, "pattern", "anthropic/*"),
        (3, "pattern", "anthropic/*"),
        (4, "pattern", "anthropic/claude-sonnet*"),
        (5, "resource", None),
    ]
    [bucket] = (await limiter.explain("e", "anthropic/opus", {"rpm": 1})).buckets
    assert (bucket.source, bucket.pattern) == ("pattern", "anthropic/*")


async def test_each_matching_resource_has_its_own_bucket(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_resource_defaults("anthropic/*", [MODELS])
    assert [await drain(limiter, "e", f"anthropic/{model}", "rpm") for model in ("a", "b")] == [3, 3]


async def test_entities_and_tiers_come_before_patterns(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_resource_defaults("*", [ALL])
    await limiter.repository.set_tier_limits("gold", [EXACT])
    await limiter.create_entity("e", tier="gold")
    assert (await limiter.repository.resolve_limits("e", "r")).source == "tier_default"
    await limiter.set_limits("e", [TPM], "r", extends=True)
    found = await limiter.repository.resolve_limits("e", "r")
    assert (found.sources, found.pattern) == ({"rpm": "tier_default", "tpm": "entity"}, None)


async def test_a_pattern_extends_the_shorter_one(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_system_defaults([SYSTEM])
    await limiter.set_resource_defaults("*", [ALL], extends=True)
    await limiter.set_resource_defaults("a/*", [TPM], extends=True)
    assert (await limiter.repository.resolve_limits("e", "a/b")).limits == [ALL, TPM]
    await limiter.set_resource_defaults("a/x*", UNLIMITED)
    assert await passes(limiter, "e", "a/x", rpm=1_000)


async def test_a_switch_of_a_pattern_leaves_limits_alone(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_resource_defaults("*", [ALL])
    await limiter.repository.set_resource_switches("a/*", disabled=True, reason="moved")
    with pytest.raises(AccessDisabled, match=r"the config of the pattern a/\*"):
        await take(limiter, "e", "a/b", rpm=1)
    assert (await limiter.repository.resolve_limits("e", "a/b")).limits == [ALL]
    assert await limiter.repository.list_resources_with_defaults() == ["*"]
    await limiter.repository.set_resource_switches("a/*", disabled=None)
    assert await passes(limiter, "e", "a/b", rpm=1)


async def test_patterns_cost_no_request_more(world: World) -> None:
    limiter, _wire = await world.process()
    await limiter.set_system_defaults([SYSTEM])
    other, plain = await world.process()
    await take(other, "e", "a/b", rpm=1)
    await limiter.set_resource_defaults("a/*", [ALL])
    another, with_pattern = await world.process()
    await take(another, "f", "a/b", rpm=1)
    first = with_pattern.sent()
    assert first == plain.sent()
    await take(another, "f", "a/b", rpm=1)
    assert len(with_pattern.sent()) == 1


async def test_another_process_follows_within_its_cache(world: World) -> None:
    limiter, _ = await world.process()
    other, _ = await world.process(config_cache_ttl=60)
    await limiter.set_resource_defaults("*", [ALL])
    assert await passes(other, "e", "a/b", rpm=1)
    await limiter.set_resource_defaults("a/*", [EXACT])
    assert (await other.repository.resolve_limits("e", "a/b")).limits == [ALL]
    world.clock.advance(61)
    assert (await other.repository.resolve_limits("e", "a/b")).limits == [EXACT]
    await limiter.delete_resource_defaults("a/*")
    world.clock.advance(61)
    assert await drain(other, "new", "a/b", "rpm") == 2


async def test_the_system_and_patterns_keep_each_other(world: World) -> None:
    process = await world.process()
    limiter = process.limiter
    await limiter.set_resource_defaults("a/*", [ALL])
    assert await limiter.get_system_defaults() == ([], None)
    await limiter.set_system_defaults([SYSTEM], "allow")
    await limiter.set_resource_defaults("b/*", [EXACT], on_refused=OnRefused.parse("on_refused", "overflow=c"))
    await limiter.delete_system_defaults()
    assert (await limiter.repository.resolve_limits("e", "r")).source is None
    assert await limiter.get_resource_defaults("a/*") == [ALL]
    assert await limiter.repository.list_resources_with_defaults() == ["a/*", "b/*"]
    for pattern in ("a/*", "b/*"):
        await limiter.delete_resource_defaults(pattern)
    assert world.table.execute(Get(system_key(process))) is None
    events = (await limiter.repository.get_audit_events("$RESOURCE:a/*")).events
    assert [each.action for each in events] == ["limits_deleted", "limits_set"]


async def test_many_patterns_are_put_together(world: World) -> None:
    process = await world.process()
    repository = process.repository
    places: dict[ConfigPlace, StoredConfig | None] = {
        (None, f"p{number}/*"): StoredConfig((ALL,), fingerprint="f") for number in range(60)
    }
    places |= {SYSTEM_PLACE: StoredConfig((SYSTEM,)), (None, "r"): StoredConfig((EXACT,))}
    process.wire.sent()
    maintenance = maintenance_of(repository)
    assert (await maintenance.put_configs(places)).failed == {}
    assert process.wire.sent().count("Transact") == 2
    assert await maintenance.get_configs(list(places)) == places
    assert set(await maintenance.list_config_places()) == places.keys()
    places[None, "p1/*"] = StoredConfig((), switches=Switches(disabled=True))
    assert (await maintenance.put_configs({**places, (None, "p0/*"): None})).failed == {}
    assert await maintenance.get_configs([(None, "p0/*"), (None, "p1/*")]) == {(None, "p1/*"): places[None, "p1/*"]}
    swapped = dict.fromkeys(places) | {(None, f"q{number}/*"): places[None, "p2/*"] for number in range(70)}
    assert (await maintenance.put_configs(swapped)).failed == {}
    assert len(await maintenance.list_config_places()) == 71


async def test_a_lost_race_loses_no_pattern(world: World) -> None:
    process = await world.process()
    rival = world.rival()
    process.wire.first(lambda: rival.set_resource_defaults("b/*", [ALL]), on=Transact)
    await process.limiter.set_resource_defaults("a/*", [ALL])
    assert await process.repository.list_resources_with_defaults() == ["a/*", "b/*"]


async def test_a_pattern_too_many_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    limiter, _ = await world.process()
    maintenance = maintenance_of(limiter.repository)
    hundred: dict[ConfigPlace, StoredConfig | None] = {
        (None, f"p{number}/*"): StoredConfig((ALL,)) for number in range(100)
    }
    assert (await maintenance.put_configs(hundred)).failed == {}
    with pytest.raises(ValidationError, match="a namespace has 100"):
        await limiter.set_resource_defaults("one/*", [ALL])
    monkeypatch.setattr(levels, "LARGEST_SHARED", 1024)
    with pytest.raises(ValidationError, match="with the system's limits"):
        await limiter.set_resource_defaults("p1/*", [ALL, TPM])


@pytest.mark.parametrize("name", ["a*b*", "**", "a b*", "a" * 128 + "*"])
async def test_other_patterns_are_refused(world: World, name: str) -> None:
    limiter, _ = await world.process()
    with pytest.raises(InvalidIdentifierError):
        await limiter.set_resource_defaults(name, [ALL])


async def test_calls_and_entities_name_no_pattern(world: World) -> None:
    limiter, _ = await world.process()
    with pytest.raises(InvalidIdentifierError, match="those of a pattern"):
        await take(limiter, "e", "a/*", rpm=1)
    with pytest.raises(InvalidIdentifierError, match="those of a pattern"):
        await limiter.set_limits("e", [ALL], "a/*")


async def test_live_buckets_of_a_pattern_are_invalidated(world: World) -> None:
    limiter, _ = await world.process()
    other, _ = await world.process(config_cache_ttl=3600)
    for pattern in ("*", "a/*"):
        await limiter.set_resource_defaults(pattern, [ALL])
    for resource in ("a/b", "x", "own"):
        await take(other, "e", resource, rpm=1)
    await limiter.set_resource_defaults("own", [ALL])
    maintenance = maintenance_of(limiter.repository)
    assert [(await maintenance.count_live_buckets(each)).buckets for each in ("*", "a/*", None)] == [1, 1, 0]
    world.clock.advance(10)
    await limiter.set_resource_defaults("a/*", [SYSTEM])
    assert (await maintenance.invalidate_live_buckets("a/*")).invalidated == 1
    await take(other, "e", "a/b", rpm=1)
    assert (await other.repository.resolve_limits("e", "a/b")).limits == [SYSTEM]


async def test_a_damaged_pattern_is_named(world: World) -> None:
    process = await world.process()
    await process.limiter.set_resource_defaults("a/*", [ALL])
    item = world.table.execute(Get(system_key(process)))
    assert item is not None
    world.table.execute(Put({**item, PATTERNS: {"a/*": {"config_version": "no"}}}))
    other, _ = await world.process()
    with pytest.raises(Exception, match=r"SYSTEM#.*the pattern a/\*"):
        await take(other, "e", "a/b", rpm=1)


async def test_too_many_limits_of_several_levels_are_refused_by_name(world: World) -> None:
    limiter, _ = await world.process()
    for level, count in {"s": 16, "p": 10, "e": 6}.items():
        limits = [Limit.per_minute(f"{level}{number}", 9) for number in range(count)]
        if level == "e":
            await limiter.set_limits("e", limits, "a/b", extends=True)
        elif level == "p":
            await limiter.set_resource_defaults("a/*", limits, extends=True)
        else:
            await limiter.set_system_defaults(limits)
    assert await passes(limiter, "e", "a/b", s0=1, p0=1, e0=1)
    together, seven = "33 come together from the levels", [Limit.per_minute(f"e{number}", 9) for number in range(7)]
    with pytest.raises(ValidationError, match=f"limits 'e/a/b': {together} entity, pattern, system, and a bucket has"):
        await limiter.set_limits("e", seven, "a/b", extends=True)
    await limiter.repository.set_tier_limits("gold", [TPM], extends=True)
    await limiter.create_entity("e", tier="gold")
    with pytest.raises(ValidationError, match="33 come together from the levels entity, tier_default, pattern, system"):
        await limiter.set_limits("e", seven[:6], "a/b", extends=True)
    with pytest.raises(
        ValidationError, match="limits 'gold/a/x': 34 come together from the levels tier, tier_default, "
    ):
        await limiter.repository.set_tier_limits("gold", seven, "a/x", extends=True)
    for place in ("a/c", "a/b*"):
        with pytest.raises(ValidationError, match=f"limits '{place[:3]}.*: 33 come together from the levels"):
            await limiter.set_resource_defaults(place, seven, extends=True)
    await limiter.set_resource_defaults("a/*", seven, extends=True)


async def test_a_lower_level_that_adds_too_many_is_refused_by_calls(world: World) -> None:
    limiter, _ = await world.process(config_cache_ttl=60)
    await limiter.set_system_defaults([Limit.per_minute(f"s{number}", 9) for number in range(26)])
    await limiter.set_resource_defaults("a/*", [TPM], extends=True)
    await limiter.set_limits("e", [MODELS, Limit.per_minute("own", 9)], "a/b", extends=True)
    assert await passes(limiter, "e", "a/b", s0=1, tpm=1)
    await limiter.set_system_defaults([Limit.per_minute(f"s{number}", 9) for number in range(30)])
    expected = "limits 'e/a/b': 33 come together from the levels entity, pattern, system, and a bucket has at most 32"
    for call in (limiter.check("e", "a/b", {"s0": 1}), limiter.explain("e", "a/b", {"s0": 1})):
        with pytest.raises(ValidationError, match=expected):
            await call
    for _ in range(2):
        with pytest.raises(ValidationError, match=expected):
            await take(limiter, "e", "a/b", s0=1)
    await limiter.set_limits("e", [MODELS], "a/b", extends=True)
    assert await passes(limiter, "e", "a/b", s0=1, tpm=1)


async def test_shares_in_an_outage_are_of_the_pattern(world: World) -> None:
    process = await world.process(on_unavailable="share")
    await process.limiter.set_system_defaults([Limit.per_minute("rpm", 100_000)])
    await process.limiter.set_resource_defaults("a/*", [Limit.per_minute("rpm", 60)])
    for _ in range(100):
        await take(process.limiter, "e", "a/b", rpm=1)
        world.clock.advance(seconds=1)
    process.wire.break_down(Unreachable("connection refused"))
    world.clock.advance(seconds=1)
    assert 30 < await drain(process.limiter, "e", "a/b", "rpm") <= 60


async def test_prefetched_tokens_of_a_pattern_cost_no_request(world: World) -> None:
    process = await world.process()
    limit = Limit.custom("rpm", 600, refill_amount=600, refill_period=60, prefetch=2)
    await process.limiter.set_resource_defaults("a/*", [limit])
    for _ in range(20):
        await take(process.limiter, "e", "a/b", rpm=1)
    process.wire.sent()
    for _ in range(5):
        await take(process.limiter, "e", "a/b", rpm=1)
    assert len(process.wire.sent()) <= 1
