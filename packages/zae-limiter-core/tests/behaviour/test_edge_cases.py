"""What docs/edge-cases.md decides; in both variants."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from support.core.owners import maintenance_of
from support.core.worlds import World, outcomes, take, until
from zae_limiter import EntityNotFoundError, Limit, RateLimiterUnavailable, RateLimitExceeded, ValidationError
from zae_limiter.exceptions import EntityExistsError, NamespaceNotFoundError
from zae_limiter.maintenance import ProvisionerState, StoredConfig
from zae_limiter.operations.errors import Unreachable
from zae_limiter.operations.values import Transact

RPM = Limit.per_minute("rpm", 60)


class Named(Limit):
    """A limit of a program that has a class of its own."""

    __slots__ = ()


async def test_an_acquire_of_nothing_is_refused(world: World) -> None:
    limiter, wire = await world.process(default_limits=[RPM])
    with pytest.raises(ValidationError, match=r"consume \{\}: name at least one limit and an amount"):
        limiter.acquire("e", "r", {})
    assert wire.sent() == []


async def test_an_amount_of_zero_takes_nothing_and_is_refused_in_debt_alone(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    async with limiter.acquire("e", "r", {"rpm": 60}) as lease:
        await take(limiter, "e", "r", rpm=0)
        assert await limiter.available("e", "r") == {"rpm": 0}
        await lease.adjust(rpm=5)
    with pytest.raises(RateLimitExceeded, match="0 rpm requested, -5 available"):
        await take(limiter, "e", "r", rpm=0)
    with pytest.raises(ValidationError, match=r"unknown limit .* on resource .r. \(known: rpm\)"):
        await take(limiter, "e", "r", tpm=0)


async def test_an_amount_of_zero_passes_a_blocked_limit(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.per_minute("rpm", 0), Limit.per_minute("tpm", 9)])
    await take(limiter, "e", "r", rpm=0)
    await take(limiter, "e", "r", rpm=0, tpm=1)
    assert (await limiter.check("e", "r", {"rpm": 0})).passes
    assert not (await limiter.check("e", "r", {"rpm": 1})).passes
    with pytest.raises(RateLimitExceeded, match="1 rpm requested, which is blocked"):
        await take(limiter, "e", "r", rpm=1)


@pytest.mark.parametrize("policy", ["allow", "block"])
async def test_what_only_asks_raises_in_an_outage_where_an_acquire_goes_on(world: World, policy: str) -> None:
    limits = [Limit.per_minute("rpm", 9, shadow=policy == "block")]
    limiter, wire = await world.process(default_limits=limits, on_unavailable=policy)
    await take(limiter, "e", "r", rpm=1)
    wire.break_down(Unreachable("connection refused"))
    async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
        assert lease.degraded
    for asking in (limiter.check, limiter.time_until_available):
        with pytest.raises(RateLimiterUnavailable):
            await asking("e", "r", {"rpm": 1})


async def test_an_amount_for_a_limit_that_does_not_exist_takes_nothing(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    with pytest.raises(ValidationError, match=r"unknown limit .* on resource .r. \(known: rpm\)"):
        await take(limiter, "e", "r", rpm=1, tpm=1)
    assert await limiter.available("e", "r") == {"rpm": 60}


async def test_no_limits_are_no_limits_to_set(world: World) -> None:
    limiter, wire = await world.process()
    for refused in (
        limiter.set_limits("e", []),
        limiter.set_resource_defaults("r", []),
        limiter.set_system_defaults([]),
    ):
        with pytest.raises(ValidationError, match="give at least one limit"):
            await refused
    assert wire.sent() == []


@pytest.mark.parametrize("none", [None, [], ()])
async def test_a_policy_alone_leaves_the_limits_as_they_are(world: World, none: Any) -> None:
    limiter, _ = await world.process()
    await limiter.set_system_defaults(none, "block")
    assert await limiter.get_system_defaults() == ([], "block")
    await limiter.set_system_defaults([RPM])
    await limiter.set_system_defaults(none, "allow")
    assert await limiter.get_system_defaults() == ([RPM], "allow")


async def test_deleting_limits_that_are_not_set_does_nothing(world: World) -> None:
    limiter, wire = await world.process()
    repository = limiter.repository
    await limiter.delete_limits("e", "r")
    await limiter.delete_resource_defaults("r")
    await limiter.delete_system_defaults()
    assert wire.sent() == ["Get", "BatchGet", "Get", "Get"]  # the second one looks for a bucket to tell
    assert (await repository.get_audit_events("e")).events == ()


async def test_deleting_an_entity_or_a_namespace_that_is_not_there_is_an_error(world: World) -> None:
    limiter, _ = await world.process()
    with pytest.raises(EntityNotFoundError, match="there is no entity 'nobody': check the id and the namespace"):
        await limiter.delete_entity("nobody")
    with pytest.raises(NamespaceNotFoundError):
        await limiter.repository.delete_namespace("nowhere")


async def test_a_cascade_without_a_parent_consumes_from_the_entity_alone(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    await limiter.create_entity("alone")
    for entity_id in ("alone", "never-created"):
        async with limiter.acquire(entity_id, "r", {"rpm": 1}, cascade=True):
            pass
        assert await limiter.available(entity_id, "r") == {"rpm": 59}
    with pytest.raises(ValidationError, match="cascade True: needs a parent_id to cascade to"):
        await limiter.create_entity("e", cascade=True)


async def test_a_missing_namespace_is_registered_with_a_warning_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        await world.process()
        assert caplog.messages == []
        prod = await world.process("prod")
        await world.process("prod")
        await prod.repository.namespace("prdo")
    assert [message.partition(":")[0] for message in caplog.messages] == [
        "registered the new namespace 'prod'",
        "registered the new namespace 'prdo'",
    ]
    assert "register=False" in caplog.messages[0]


async def test_register_false_refuses_a_missing_namespace(world: World) -> None:
    prod = await world.process("prod")
    strict = await world.process("prod", register=False)
    with pytest.raises(NamespaceNotFoundError, match="there is no namespace 'prdo': register it first"):
        await strict.repository.namespace("prdo")
    assert [each.name for each in await prod.repository.list_namespaces()] == ["prod"]


async def test_an_entity_that_may_exist_is_made_once_and_left_as_it_is(world: World) -> None:
    limiter, wire = await world.process()
    made = await limiter.create_entity("e", "A key", exist_ok=True)
    wire.sent()
    assert await limiter.create_entity("e", "Another name", metadata={"a": 1}, exist_ok=True) == made
    assert wire.sent() == ["Get"]
    with pytest.raises(EntityExistsError):
        await limiter.create_entity("e", "Another name")
    with pytest.raises(EntityNotFoundError, match="nobody"):
        await limiter.create_entity("f", parent_id="nobody", exist_ok=True)
    assert len((await limiter.repository.get_audit_events("e")).events) == 1


async def test_of_two_that_create_an_entity_at_once_both_get_the_same_one(world: World) -> None:
    here, there = [await world.process() for _ in range(2)]
    for process in (here, there):
        process.wire.hold(Transact)
    calls = [(here, "a"), (there, "b")]
    creating = asyncio.create_task(
        outcomes(*(each.limiter.create_entity("e", name, exist_ok=True) for each, name in calls))
    )
    await until(lambda: all(process.wire.seen and type(process.wire.seen[-1]) is Transact for process in (here, there)))
    for process in (here, there):
        process.wire.let_go()
    one, other = await creating
    assert one == other == await here.limiter.get_entity("e")


async def test_a_limit_of_a_subclass_works_like_one_of_its_base(world: World) -> None:
    mine = Named.per_minute("rpm", 5)
    stored, given = [await world.process() for _ in range(2)]
    await stored.limiter.set_limits("e", [mine], "r")
    await take(stored.limiter, "e", "r", rpm=1)
    for _ in range(2):
        async with given.limiter.acquire("e", "r", {"rpm": 1}, limits=[mine]) as lease:
            assert [type(status.limit) for status in lease.statuses] == [Limit]
    given.wire.sent()
    async with given.limiter.acquire("e", "r", {"rpm": 1}, limits=[mine]):
        pass
    assert given.wire.sent() == ["Update"]
    assert await stored.limiter.get_limits("e", "r") == [Limit.per_minute("rpm", 5)]
    assert await stored.limiter.available("e", "r") == {"rpm": 1}


async def test_every_spelling_of_an_id_is_one_entity(world: World) -> None:
    limiter, _ = await world.process()
    repository = limiter.repository
    await limiter.set_limits("e\u0301", [RPM], "n\u0303")
    await limiter.create_entity("ü")
    assert (await limiter.create_entity("e\u0301", parent_id="u\u0308")).parent_id == "ü"
    assert [child.entity_id for child in await repository.get_children("u\u0308")] == ["é"]
    assert (await repository.get_entity("é")) == (await repository.get_entity("e\u0301"))
    assert (await repository.update_entity("e\u0301", name="x")).entity_id == "é"
    async with limiter.acquire("é", "ñ", {"rpm": 1}):
        pass
    async with limiter.acquire("e\u0301", "n\u0303", {"rpm": 1}):
        pass
    assert (await repository.get_bucket("é", "ñ")).limits[0].consumed == 2  # type: ignore[union-attr]
    assert await limiter.repository.list_entities_with_custom_limits("n\u0303") == ["é"]
    await limiter.delete_entity("e\u0301")
    assert await repository.get_entity("é") is None


async def test_two_spellings_of_one_place_are_refused_before_anything_is_written(world: World) -> None:
    limiter, wire = await world.process()
    twice: list[Callable[[], Awaitable[object]]] = [
        lambda: limiter.repository.set_many_limits({("é", "r"): [RPM], ("e\u0301", "r"): [RPM]}),
        lambda: maintenance_of(limiter.repository).put_configs(
            {("é", "r"): None, ("e\u0301", "r"): StoredConfig((RPM,))}
        ),
    ]
    for call in twice:
        with pytest.raises(ValidationError, match="another spelling of Unicode"):
            await call()
    assert wire.sent() == []
    with pytest.raises(ValidationError, match="another spelling of Unicode"):
        ProvisionerState(managed_entities={"é": ["r"], "e\u0301": ["r"]})


async def test_two_spellings_of_one_place_are_one_in_a_call_that_reads_or_deletes(world: World) -> None:
    limiter, _ = await world.process()
    places = [("é", "r"), ("e\u0301", "r")]
    await limiter.set_limits("é", [RPM], "r")
    assert await maintenance_of(limiter.repository).get_configs(places) == {("é", "r"): StoredConfig((RPM,))}
    assert (await limiter.repository.delete_many_limits(places)).done == (("é", "r"),)
    assert await limiter.get_limits("é", "r") == []


async def test_ids_are_listed_in_their_order_whatever_it_is_in_keys(world: World) -> None:
    limiter, _ = await world.process()
    ids = ["a-b", "a|b", "é", "日"]
    await limiter.create_entity("p")
    for each in ids:
        await limiter.create_entity(each, parent_id="p")
        await limiter.set_limits(each, [RPM], each)
        await limiter.set_limits(each, [RPM], "r")
        await limiter.set_resource_defaults(each, [RPM])
        async with limiter.acquire("a-b", each, {"rpm": 1}, limits=[RPM]):
            pass
    assert [child.entity_id for child in await limiter.repository.get_children("p")] == ids
    assert await limiter.repository.list_entities_with_custom_limits("r") == ids
    assert await limiter.repository.list_resources_with_defaults() == ids
    assert await limiter.repository.list_resources_with_entity_configs() == sorted([*ids, "r"])
    assert [bucket.resource for bucket in await limiter.repository.get_buckets("a-b")] == ids
