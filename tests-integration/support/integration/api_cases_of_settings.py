"""What lives here: what changes of settings, and the reads of them, answer and how they refuse, case by case.
What never does: every case of a rule (core's own tests), a cost (test_costs).
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from support.core.owners import maintenance_of
from zae_limiter import AccessDisabled, EntityNotFoundError, Switches, ValidationError
from zae_limiter.exceptions import (
    EntityExistsError,
    EntityHasChildrenError,
    NamespaceNotFoundError,
    NamespaceStateError,
    StaleEntityError,
    StaleStateError,
)
from zae_limiter.maintenance import LiveBuckets, ProvisionerState, StoredConfig, VersionRecord
from zae_limiter.values.provisioner import StoredEntity
from zae_limiter.values.versions import record_of_this_release

from .api_case import RPM, TPM, ApiCase, refused


async def system_and_resource_limits(api_case: ApiCase) -> None:
    limiter = api_case.limiter
    assert await limiter.get_system_defaults() == ([], None)
    await limiter.set_system_defaults([TPM, RPM], "allow", principal="ann")
    await limiter.set_system_defaults([RPM])
    assert await limiter.get_system_defaults() == ([RPM], "allow")
    await limiter.set_resource_defaults("openai/gpt-4", [RPM, TPM])
    await limiter.set_resource_defaults("gpt-4", [TPM])
    assert await limiter.get_resource_defaults("openai/gpt-4") == [RPM, TPM]
    assert await limiter.get_resource_defaults("other") == []
    assert await limiter.repository.list_resources_with_defaults() == ["gpt-4", "openai/gpt-4"]
    await limiter.delete_resource_defaults("gpt-4")
    await limiter.delete_resource_defaults("gpt-4")
    assert await limiter.repository.list_resources_with_defaults() == ["openai/gpt-4"]
    await limiter.delete_system_defaults()
    assert await limiter.get_system_defaults() == ([], None)
    await refused(
        ValidationError,
        limiter.set_system_defaults([]),
        limiter.set_system_defaults([RPM], "maybe"),  # type: ignore[arg-type]
        limiter.delete_system_defaults(principal=""),
        limiter.set_resource_defaults("_default_", [RPM]),
        limiter.get_resource_defaults("a b"),
        limiter.delete_resource_defaults(""),
    )


async def tiers(api_case: ApiCase) -> None:
    limiter, repository = api_case.limiter, api_case.repository
    await limiter.repository.set_tier_limits("gold", [RPM, TPM], principal="ann")
    await limiter.repository.set_tier_limits("gold", [TPM], "openai/gpt-4")
    await limiter.repository.set_tier_limits("silver", [RPM])
    assert await limiter.repository.get_tier_limits("gold") == [RPM, TPM]
    assert await limiter.repository.get_tier_limits("silver", "gpt-4") == []
    assert await limiter.repository.list_tiers() == {"gold": ["_default_", "openai/gpt-4"], "silver": ["_default_"]}
    await limiter.set_resource_defaults("openai/gpt-4", [RPM])
    await limiter.create_entity("e/1", tier="gold")
    assert (await limiter.repository.resolve_limits("e/1", "openai/gpt-4"))[::2] == ([TPM], "tier")
    assert (await limiter.repository.resolve_limits("e/1", "other"))[::2] == ([RPM, TPM], "tier_default")
    async with limiter.acquire("e/1", "openai/gpt-4", {"tpm": 10}) as lease:
        assert lease.consumed == {"tpm": 10}
    assert await limiter.repository.list_entities_of_tier("gold") == ["e/1"]
    await refused(
        ValidationError,
        limiter.create_entity("new", tier="golf"),
        limiter.repository.update_entity("e/1", tier="a b"),
        limiter.repository.set_tier_limits("gold", []),
        limiter.repository.set_tier_limits("1", [RPM]),
        limiter.repository.get_tier_limits("gold", ""),
        limiter.repository.list_entities_of_tier("$SYSTEM"),
    )
    await limiter.repository.delete_tier_limits("gold")
    await refused(ValidationError, limiter.repository.delete_tier_limits("gold", "openai/gpt-4"))
    assert (await limiter.repository.update_entity("e/1", tier="silver")).tier == "silver"
    await limiter.repository.delete_tier_limits("gold", "openai/gpt-4")
    assert await limiter.repository.list_tiers() == {"silver": ["_default_"]}
    assert (await limiter.repository.resolve_limits("e/1", "openai/gpt-4"))[::2] == ([RPM], "tier_default")
    assert [event.action for event in (await repository.get_audit_events("$TIER:gold")).events] == [
        "limits_deleted",
        "limits_deleted",
        "limits_set",
        "limits_set",
    ]


async def live_buckets_of_a_level(api_case: ApiCase) -> None:
    limiter, repository = api_case.limiter, api_case.repository
    await limiter.set_system_defaults([RPM])
    await limiter.set_limits("own", [RPM], "r")
    for entity, resource in (("e", "r"), ("own", "r"), ("e", "s")):
        async with limiter.acquire(entity, resource, {"rpm": 1}):
            pass
    assert await maintenance_of(repository).count_live_buckets("r") == LiveBuckets(1, 1, 1)
    assert await maintenance_of(repository).count_live_buckets() == LiveBuckets(2, 2, 1)
    told = await maintenance_of(repository).invalidate_live_buckets("r", writes_per_second=10_000)
    assert (told.invalidated, told.failed) == (1, {})
    assert (await maintenance_of(repository).invalidate_live_buckets()).invalidated == 2
    await refused(
        ValidationError,
        maintenance_of(repository).count_live_buckets("a b"),
        maintenance_of(repository).invalidate_live_buckets("_default_"),
        maintenance_of(repository).invalidate_live_buckets(writes_per_second=0),
    )


async def limits_of_entities(api_case: ApiCase) -> None:
    limiter = api_case.limiter
    assert await limiter.get_limits("e", "r") == []
    await limiter.set_limits("e", [RPM, TPM], "r")
    await limiter.set_limits("e", [TPM], principal="ann")
    assert (await limiter.get_limits("e", "r"), await limiter.get_limits("e")) == ([RPM, TPM], [TPM])
    result = await limiter.repository.set_many_limits({("f", "r"): [RPM], ("f", "s"): [RPM]})
    assert (result.done, result.failed) == ((("f", "r"), ("f", "s")), {})
    assert await limiter.repository.list_entities_with_custom_limits("r") == ["e", "f"]
    assert await limiter.repository.list_entities_with_custom_limits("r", limit=1) == ["e"]
    assert await limiter.repository.list_entities_with_custom_limits("r", limit=1, next="e", begins_with="f") == ["f"]
    assert await limiter.repository.list_resources_with_entity_configs() == ["_default_", "r", "s"]
    gone = await limiter.repository.delete_many_limits([("f", "r"), ("f", "s"), ("nobody", "r")])
    assert (len(gone.done), gone.failed) == (3, {})
    until = datetime.fromtimestamp(api_case.clock.now_ms() // 1000, UTC) + timedelta(hours=1)
    await limiter.set_limits("e", [TPM], "r", override_until=until, principal="ann")
    override = await limiter.repository.get_override("e", "r")
    assert override is not None
    assert (override.limits, override.until, await limiter.get_limits("e", "r")) == ((TPM,), until, [RPM, TPM])
    await limiter.delete_limits("e", "r")
    assert await limiter.repository.list_entities_with_custom_limits("r") == ["e"]
    await limiter.repository.delete_override("e", "r")
    assert await limiter.repository.list_entities_with_custom_limits("r") == []
    assert await limiter.repository.list_resources_with_entity_configs() == ["_default_"]
    await refused(
        ValidationError,
        limiter.set_limits("e", [], "r"),
        limiter.get_limits("e", "r "),
        limiter.set_limits("e", [RPM], "r", override_until=datetime(2000, 1, 1, tzinfo=UTC)),
        limiter.repository.get_override("e "),
        limiter.repository.delete_override("e", "r "),
        limiter.delete_limits("e "),
        limiter.repository.set_many_limits({("e", "r"): [RPM, RPM]}),
        limiter.repository.delete_many_limits(["er"]),  # type: ignore[list-item]
        limiter.repository.list_entities_with_custom_limits("r "),
        limiter.repository.list_entities_with_custom_limits("r", next="e"),
    )


async def which_limits_hold(api_case: ApiCase) -> None:
    limiter, repository = api_case.limiter, api_case.repository
    assert await limiter.repository.resolve_limits("e", "r") == ([], None, None)
    levels: list[tuple[str, Callable[[], Awaitable[object]]]] = [
        ("system", lambda: limiter.set_system_defaults([RPM], "allow")),
        ("resource", lambda: limiter.set_resource_defaults("r", [TPM])),
        ("entity_default", lambda: limiter.set_limits("e", [RPM])),
        ("entity", lambda: limiter.set_limits("e", [TPM], "r")),
    ]
    for number, (source, set_them) in enumerate(levels):
        await set_them()
        assert await limiter.repository.resolve_limits("e", "r") == ([(RPM, TPM)[number % 2]], "allow", source)
    before = repository.get_cache_stats()
    await limiter.repository.resolve_limits("e", "r")
    assert repository.get_cache_stats() == replace(before, hits=before.hits + 1)
    assert repository.get_store_stats().breaker == "closed"
    other = await api_case.harness.open(namespace=repository.name, clock=api_case.clock)
    await other.delete_limits("e", "r")
    assert (await limiter.repository.resolve_limits("e", "r"))[2] == "entity"
    await repository.invalidate_config_cache()
    assert (await limiter.repository.resolve_limits("e", "r"))[2] == "entity_default"
    await refused(
        ValidationError, limiter.repository.resolve_limits("e", "_default_"), limiter.repository.resolve_limits("", "r")
    )


async def switches_of_every_level(api_case: ApiCase) -> None:
    limiter, repository = api_case.limiter, api_case.repository
    await limiter.set_limits("e", [RPM], "r")
    async with limiter.acquire("e", "r", {"rpm": 1}):
        pass
    await limiter.repository.set_system_switches(cascade="off", bypass=True)
    await limiter.repository.set_resource_switches("r", disabled=True, reason="down")
    resolved = await limiter.repository.resolve_switches("e", "r")
    assert (resolved.disables, resolved.bypasses) == (True, False)
    await refused(AccessDisabled, limiter.acquire("e", "r", {"rpm": 1}).__aenter__())
    assert await limiter.repository.set_switches("e", "r", disabled=False) == 1
    assert (await limiter.repository.resolve_switches("e", "r")).bypasses
    assert await limiter.repository.get_switches() == Switches(bypass=True, cascade="off")
    assert await limiter.repository.get_switches(None, "r") == Switches(disabled=True, reason="down")
    assert await limiter.repository.get_switches("e", "r") == Switches(disabled=False)
    assert not await limiter.repository.get_switches("e")
    assert (await maintenance_of(repository).invalidate_live_buckets("r", for_switches=True)).invalidated == 1
    async with limiter.acquire("e", "r", {"rpm": 1000}) as lease:
        assert [status.limit_name for status in lease.shadowed] == ["rpm"]
    await limiter.delete_limits("e", "r")
    assert await limiter.repository.get_switches("e", "r") == Switches(disabled=False)
    await refused(
        ValidationError,
        limiter.repository.set_system_switches(),
        limiter.repository.set_resource_switches("_default_", disabled=True),
        limiter.repository.set_switches("e ", disabled=True),
        limiter.repository.set_switches("e", disabled=True, bypass=True),
        limiter.repository.get_switches("e", "r "),
        limiter.repository.resolve_switches("e", "_default_"),
    )


async def entities(api_case: ApiCase) -> None:
    limiter = api_case.limiter
    await limiter.create_entity("p")
    made = await limiter.create_entity("e", "A key", "p", cascade=True, metadata={"team": "blue"}, principal="ann")
    assert (await limiter.get_entity("e"), await limiter.get_entity("nobody")) == (made, None)
    assert await limiter.get_children("p") == [made]
    after = await limiter.repository.update_entity("e", name=None, cascade=False, expected_version=1)
    assert after == replace(made, name=None, cascade=False, version=2)
    await refused(StaleEntityError, limiter.repository.update_entity("e", name="x", expected_version=1))
    await refused(EntityHasChildrenError, limiter.delete_entity("p"))
    await limiter.delete_entity("e")
    assert (await limiter.get_entity("e"), await limiter.get_children("p")) == (None, [])
    await refused(EntityExistsError, limiter.create_entity("p"))
    plan: dict[str, Any] = {"tier": 2, "price": 9.99, "tags": ["a", None], "tiny": 5e-324, "none": {"": False}}
    made = await limiter.create_entity("g", metadata=plan, exist_ok=True)
    assert made == await limiter.get_entity("g") == await limiter.create_entity("g", "Another", exist_ok=True)
    assert (made.name, made.metadata) == (None, plan)
    await refused(
        EntityNotFoundError,
        limiter.create_entity("f", parent_id="nobody"),
        limiter.repository.update_entity("nobody", name="x"),
        limiter.repository.update_entity("p", parent_id="nobody"),
        limiter.delete_entity("e"),
    )
    await refused(
        ValidationError,
        limiter.create_entity("f", cascade=True),
        limiter.get_entity("a b"),
        limiter.get_children(" "),
        limiter.repository.update_entity("p", parent_id="p"),
        limiter.delete_entity(""),
    )


async def paths(api_case: ApiCase) -> None:
    limiter = api_case.limiter
    for entity_id, parents in {"org": [], "user": ["org"], "team": ["org"], "key": ["user", "team"]}.items():
        await limiter.create_entity(entity_id, parent_ids=parents, cascade=bool(parents))
    made = await limiter.get_entity("key")
    assert made is not None
    assert (made.parent_id, made.parent_ids) == ("user", ("user", "team"))
    assert await limiter.get_children("user") == await limiter.get_children("team") == [made]
    assert [each.entity_id for each in await limiter.repository.get_ancestors("key")] == ["user", "team", "org"]
    await refused(EntityNotFoundError, limiter.repository.get_ancestors("nobody"))
    await refused(
        ValidationError,
        limiter.repository.get_ancestors(" "),
        limiter.repository.update_entity("org", parent_ids=["key"]),
        limiter.repository.update_entity("org", parent_ids=["user", "user"]),
        limiter.create_entity("f", parent_ids=["user"], parent_id="team"),
        limiter.create_entity("f", parent_ids=["1", "2", "3", "4", "5"]),
    )
    moved = await limiter.repository.update_entity("key", parent_ids=["team", "org"])
    assert moved == await limiter.get_entity("key")
    assert [each.entity_id for each in await limiter.get_children("org")] == ["key", "team", "user"]
    assert await limiter.get_children("user") == []
    await limiter.repository.update_entity("team", parent_ids=["user"])
    assert [each.entity_id for each in await limiter.repository.get_ancestors("key")] == ["team", "org", "user"]
    await refused(EntityHasChildrenError, limiter.delete_entity("team"))
    for each in ("key", "team", "user", "org"):
        await limiter.delete_entity(each)


async def namespaces(api_case: ApiCase) -> None:
    repository = api_case.repository
    made = await repository.register_namespace("prod")
    assert (await repository.get_namespace("prod"), await repository.get_namespace("other")) == (made, None)
    assert {"namespaces", "prod"} <= {each.name for each in await repository.list_namespaces()}
    prod = await repository.namespace("prod")
    assert (prod.name, prod.namespace_id) == ("prod", made.namespace_id)
    await prod.set_system_defaults([RPM])
    for call in (maintenance_of(repository).recover_namespace, maintenance_of(repository).purge_namespace):
        await refused(NamespaceStateError, call(made.namespace_id))
        await refused(NamespaceNotFoundError, call("unknown"))
        await refused(ValidationError, call(" "))
    deleted = await repository.delete_namespace("prod")
    assert (await repository.get_namespace("prod"), await maintenance_of(repository).list_orphan_namespaces()) == (
        None,
        [deleted],
    )
    await refused(NamespaceNotFoundError, repository.delete_namespace("prod"), repository.namespace("prod"))
    assert await maintenance_of(repository).recover_namespace(made.namespace_id) == made
    await repository.delete_namespace("prod")
    assert await maintenance_of(repository).purge_namespace(made.namespace_id) == 2
    assert await maintenance_of(repository).list_orphan_namespaces() == []
    await refused(
        ValidationError,
        repository.register_namespace("a b"),
        repository.get_namespace(""),
        repository.delete_namespace("1"),
        repository.namespace(" "),
    )


async def versions_and_state(api_case: ApiCase) -> None:
    repository = api_case.repository
    assert await maintenance_of(repository).get_version_record() in (
        None,
        record_of_this_release(),
    )  # of a table that it made
    record = VersionRecord(1, "0.1.0", "0.1.0")
    await maintenance_of(repository).set_version_record(record)
    assert await maintenance_of(repository).get_version_record() == record
    assert await maintenance_of(repository).get_provisioner_state() == ProvisionerState()
    state = ProvisionerState(True, ["r"], {"e": ["r", "_default_"]}, owner="cli")
    put = await maintenance_of(repository).put_provisioner_state(state, expected_serial=0)
    assert (put.serial, await maintenance_of(repository).get_provisioner_state()) == (1, put)
    await refused(StaleStateError, maintenance_of(repository).put_provisioner_state(state, expected_serial=0))
    at = await maintenance_of(repository).note_applied(expected_serial=1)
    assert (await maintenance_of(repository).get_provisioner_state()).last_applied == at
    await refused(StaleStateError, maintenance_of(repository).note_applied(expected_serial=2))
    await refused(
        ValidationError,
        maintenance_of(repository).set_version_record("0.1.0"),  # type: ignore[arg-type]
        maintenance_of(repository).put_provisioner_state(state, expected_serial=-1),
    )
    assert await repository.ping()


async def configs_of_all_levels(api_case: ApiCase) -> None:
    repository = api_case.repository
    config = StoredConfig((RPM,), fingerprint="f")
    configs = {(None, None): StoredConfig((), "allow"), (None, "r"): config, ("e", "_default_"): config}
    assert set((await maintenance_of(repository).put_configs(configs)).done) == set(configs)
    assert await maintenance_of(repository).get_configs([*configs, ("e", "r")]) == configs
    assert set(await maintenance_of(repository).list_config_places()) == set(configs)
    await repository.set_limits("e", [TPM])
    assert await maintenance_of(repository).get_configs([("e", "_default_")]) == {
        ("e", "_default_"): StoredConfig((TPM,), fingerprint="f")
    }
    await maintenance_of(repository).put_configs(dict.fromkeys(configs))
    assert await maintenance_of(repository).get_configs(list(configs)) == {}
    await refused(
        ValidationError,
        maintenance_of(repository).get_configs([("e ", "r")]),
        maintenance_of(repository).put_configs({("e", " "): config}),
    )


async def records_of_entities(api_case: ApiCase) -> None:
    repository = api_case.repository
    top, child = StoredEntity(name="n", metadata={"k": [1]}, fingerprint="f"), StoredEntity("p", cascade=True)
    assert await maintenance_of(repository).put_entity_records({"p": top, "a": child, "b": child}) == {}
    assert await maintenance_of(repository).get_entity_records(["p", "a", "none"]) == {
        "p": replace(top, children=2),
        "a": child,
    }
    assert await maintenance_of(repository).list_entity_ids() == ["a", "b", "p"]
    failed = await maintenance_of(repository).put_entity_records({"p": None, "b": None, "c": StoredEntity("nobody")})
    assert {entity: type(error) for entity, error in failed.items()} == {
        "p": EntityHasChildrenError,
        "c": EntityNotFoundError,
    }
    assert (
        await maintenance_of(repository).put_entity_records({"q": StoredEntity(), "a": StoredEntity("q"), "p": None})
        == {}
    )
    assert await maintenance_of(repository).get_entity_records(["q", "p"]) == {"q": StoredEntity(children=1)}
    both = StoredEntity(parent_ids=["a", "q"], cascade=True)
    assert await maintenance_of(repository).put_entity_records({"both": both, "low": StoredEntity("both")}) == {}
    assert await maintenance_of(repository).get_entity_records(["both"]) == {"both": replace(both, children=1)}
    assert [each.entity_id for each in await repository.get_ancestors("low")] == ["both", "a", "q"]
    (circle,) = (await maintenance_of(repository).put_entity_records({"q": StoredEntity("low")})).values()
    assert isinstance(circle, ValidationError)
    assert await maintenance_of(repository).put_entity_records({"low": None, "both": StoredEntity("q")}) == {}
    assert await repository.get_children("a") == []
    await maintenance_of(repository).put_entity_records({"both": None, "a": None, "q": None})
    assert await maintenance_of(repository).list_entity_ids() == []
    await refused(
        ValidationError,
        maintenance_of(repository).get_entity_records(["e "]),
        maintenance_of(repository).put_entity_records({"e": StoredEntity("e")}),
        maintenance_of(repository).put_entity_records({"e": 5}),  # type: ignore[dict-item]
    )


API_CASES = (
    system_and_resource_limits,
    tiers,
    live_buckets_of_a_level,
    limits_of_entities,
    which_limits_hold,
    switches_of_every_level,
    entities,
    paths,
    namespaces,
    versions_and_state,
    configs_of_all_levels,
    records_of_entities,
)
