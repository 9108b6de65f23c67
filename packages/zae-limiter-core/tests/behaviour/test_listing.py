"""Where limits are set, and many of them set and removed at once; in both variants."""

from typing import Any

import pytest

from support.core.worlds import World, passes, take
from zae_limiter import Limit, RateLimiter, RateLimiterUnavailable, ValidationError
from zae_limiter.flows.records.levels import place_of
from zae_limiter.operations.errors import (
    OutcomeUnknown,
    Reason,
    StoreError,
    TableMissing,
    Throttled,
    TransactionCancelled,
    Unreachable,
)
from zae_limiter.operations.values import BatchGet, Put, Query, Transact
from zae_limiter.schema import keys

RPM, TPM = Limit.per_minute("rpm", 60), Limit.per_minute("tpm", 1000)
THOUSAND = [(f"e-{number:04d}", "gpt-4") for number in range(1000)]
UUID = "123e4567-e89b-12d3-a456-4266141740"  # two characters short: the number of an entity follows
LOST_RACE = TransactionCancelled((Reason("ConditionalCheckFailed"),) + (Reason(None),) * 49)


async def test_resources_with_defaults_are_listed_by_name(world: World) -> None:
    limiter, _ = await world.process()
    assert await limiter.repository.list_resources_with_defaults() == []
    for resource in ("z", "openai/gpt-4", "a"):
        await limiter.set_resource_defaults(resource, [RPM])
    await limiter.set_system_defaults([RPM])
    await limiter.set_limits("e", [RPM], "only-an-entity")
    assert await limiter.repository.list_resources_with_defaults() == ["a", "openai/gpt-4", "z"]
    await limiter.delete_resource_defaults("a")
    assert await limiter.repository.list_resources_with_defaults() == ["openai/gpt-4", "z"]
    other = await limiter.repository.namespace("other")
    assert await other.list_resources_with_defaults() == []


async def test_entities_with_limits_of_their_own_are_listed_by_resource(world: World) -> None:
    limiter, _ = await world.process()
    for entity, resource in (("b", "r"), ("a", "r"), ("c", "r/2"), ("d", "_default_")):
        await limiter.set_limits(entity, [RPM], resource)
    lists = [
        await limiter.repository.list_entities_with_custom_limits(resource)
        for resource in ("r", "r/2", "_default_", "s")
    ]
    assert lists == [["a", "b"], ["c"], ["d"], []]
    await limiter.delete_limits("a", "r")
    assert await limiter.repository.list_entities_with_custom_limits("r") == ["b"]
    with pytest.raises(ValidationError):
        await limiter.repository.list_entities_with_custom_limits("r ")


async def test_entities_with_limits_of_their_own_are_listed_by_pages(world: World) -> None:
    limiter, wire = await world.process()
    ids = ["a", "a-b", "a.b", "a/b", "aa", "b", "é", "z"]
    await limiter.repository.set_many_limits({(each, "r"): [RPM] for each in ids})
    await limiter.set_limits("other", [RPM], "r/2")
    whole = [
        each.entity_id for each in (await limiter.repository.list_entities()).entities if each.entity_id != "other"
    ]
    found: list[str] = []
    wire.sent()
    while True:
        page = await limiter.repository.list_entities_with_custom_limits(
            "r", limit=3, next=found[-1] if found else None
        )
        found += page
        if len(page) < 3:
            break
    assert wire.sent() == ["Query"] * 3
    assert (found, sorted(found)) == (whole, await limiter.repository.list_entities_with_custom_limits("r"))
    starts_so = await limiter.repository.list_entities_with_custom_limits("r", limit=2, begins_with="a", next="a-b")
    assert starts_so == [each for each in whole[whole.index("a-b") + 1 :] if each[0] == "a"][:2]
    assert await limiter.repository.list_entities_with_custom_limits("r", limit=1000, next=found[-1]) == []


@pytest.mark.parametrize(
    ("field", "page"),
    [
        ("limit", {"limit": 0}),
        ("limit", {"limit": 1001}),
        ("next", {"limit": 1, "next": "a b"}),
        ("begins_with", {"limit": 1, "begins_with": "a b"}),
        ("next", {"next": "a"}),
        ("begins_with", {"begins_with": "a"}),
    ],
)
async def test_a_page_that_is_none_is_refused(world: World, field: str, page: dict[str, Any]) -> None:
    limiter, wire = await world.process()
    with pytest.raises(ValidationError, match=field):
        await limiter.repository.list_entities_with_custom_limits("r", **page)
    assert wire.sent() == []


async def test_resources_with_entity_configs_are_listed_by_name_once(world: World) -> None:
    limiter, wire = await world.process()
    assert await limiter.repository.list_resources_with_entity_configs() == []
    resources = ["a", "a-b", "a.b", "a/b", "a:b", "aa", "b"]
    await limiter.repository.set_many_limits({(f"e-{n}", resource): [RPM] for resource in resources for n in range(40)})
    await limiter.set_limits("e", [RPM])
    await limiter.set_resource_defaults("not-of-an-entity", [RPM])
    wire.sent()
    assert await limiter.repository.list_resources_with_entity_configs() == sorted([*resources, "_default_"])
    assert wire.sent() == ["Query"]


@pytest.mark.parametrize(
    ("entities", "queries"),
    [
        ([], 1),
        ([1], 1),
        ([1000], 1),
        ([250, 250, 250, 250], 1),
        ([1] * 1000, 1),
        ([600, 600, 600], 3),
        ([2000, 24], 2),
        ([2000, 1, 1, 1, 1], 2),
        ([2000, 30, 30, 1], 4),
        ([2000, 30, 30, 30], 5),  # no resource has fewer than a page: the end is a query of its own
    ],
)
async def test_resources_with_entity_configs_cost_at_most_one_query_each(
    async_world: World, entities: list[int], queries: int
) -> None:
    limiter, wire = await async_world.process()
    for number, count in enumerate(entities):
        for entity in range(count):
            async_world.table.execute(config(limiter, f"{UUID}-{entity}", f"resource-{number:04}"))
    async_world.meter.reset()
    assert await limiter.repository.list_resources_with_entity_configs() == [
        f"resource-{n:04}" for n in range(len(entities))
    ]
    assert wire.sent() == ["Query"] * queries
    assert async_world.meter.read_units <= 25 + queries


def config(limiter: RateLimiter, entity: str, resource: str) -> Put:
    """The write of an entity config, without what else a change does."""
    place = place_of(limiter.repository.namespace_state, (entity, resource))
    return Put({"PK": place.key.pk, "SK": place.key.sk, **place.fixed, "config_version": 1})


@pytest.mark.long
async def test_a_thousand_entities_get_limits_and_lose_them_again(world: World) -> None:
    limiter, _ = await world.process()
    world.meter.reset()
    result = await limiter.repository.set_many_limits({place: [RPM, TPM] for place in THOUSAND}, principal="ann")
    assert (result.done, result.failed) == (tuple(THOUSAND), {})
    # Entities and configs are read before the writes, buckets that may be live behind them.
    assert world.meter.requests == {"BatchGetItem": 2 * 10, "TransactWriteItems": 40}
    assert world.meter.write_units == 1000 * 2 * 2
    assert await limiter.repository.list_entities_with_custom_limits("gpt-4") == [entity for entity, _ in THOUSAND]
    assert await limiter.repository.list_resources_with_entity_configs() == ["gpt-4"]
    for entity, _ in THOUSAND[::99]:
        assert await limiter.get_limits(entity, "gpt-4") == [RPM, TPM]
        [event] = (await limiter.repository.get_audit_events(entity)).events
        assert (event.action, event.principal, event.resource) == ("limits_set", "ann", "gpt-4")
    assert audited(world, limiter) == 1000
    again = await limiter.repository.delete_many_limits([*THOUSAND, ("never", "gpt-4")])
    assert (len(again.done), again.failed) == (1001, {})
    assert await limiter.repository.list_entities_with_custom_limits("gpt-4") == []
    assert audited(world, limiter) == 2000


def audited(world: World, limiter: RateLimiter) -> int:
    """How many events there are."""
    ns = limiter.repository.namespace_id
    return len(world.table.execute(Query(ns, index="GSI4", begins_with=keys.INDEX_AUDIT_PREFIX)).items)


async def test_acquires_obey_limits_that_were_set_in_bulk_at_once(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    await take(limiter, "e", "r", rpm=1)
    await limiter.repository.set_many_limits({("e", "r"): [Limit.per_minute("rpm", 100)], ("e", "_default_"): [RPM]})
    assert await passes(limiter, "e", "r", rpm=50)
    assert not await passes(limiter, "e", "r", rpm=60)
    assert (await limiter.repository.resolve_limits("e", "r"))[2] == "entity"


async def test_what_lost_a_race_is_decided_again_and_counts_on(world: World) -> None:
    here, wire = await world.process()
    places = THOUSAND[:50]
    await here.repository.set_many_limits({place: [RPM] for place in places})
    wire.break_once(LOST_RACE, on=Transact)
    result = await here.repository.set_many_limits({place: [TPM] for place in places})
    assert (len(result.done), result.failed) == (50, {})
    for entity, resource in places:
        newest, oldest = (await here.repository.get_audit_events(entity)).events
        assert [(event.after or {})["config_version"] for event in (oldest, newest)] == [1, 2]
        assert await here.get_limits(entity, resource) == [TPM]


@pytest.mark.parametrize("failure", [Throttled("slow down"), OutcomeUnknown("lost")])
async def test_what_was_throttled_or_lost_is_asked_again_and_written_once(world: World, failure: StoreError) -> None:
    limiter, wire = await world.process()
    wire.break_once(failure, on=Transact, applied=isinstance(failure, OutcomeUnknown))
    result = await limiter.repository.set_many_limits({place: [RPM] for place in THOUSAND[:60]})
    assert (len(result.done), result.failed) == (60, {})
    assert audited(world, limiter) == 60


async def test_one_that_cannot_be_written_is_named_and_the_others_are(world: World) -> None:
    limiter, wire = await world.process()
    places = THOUSAND[:25]
    stuck = Reason("ItemCollectionSizeLimitExceeded")
    reasons = [Reason(None) for _ in range(50)]
    reasons[6] = stuck  # the write of the fourth of them
    wire.break_once(TransactionCancelled(tuple(reasons)), on=Transact)
    result = await limiter.repository.set_many_limits({place: [RPM] for place in places})
    assert list(result.failed) == [places[3]]
    assert "ItemCollectionSizeLimitExceeded" in str(result.failed[places[3]])
    assert set(result.done) == set(places) - {places[3]}
    assert await limiter.repository.list_entities_with_custom_limits("gpt-4") == [entity for entity, _ in result.done]


async def test_a_store_that_fails_is_told_place_by_place_once_it_was_written_to(world: World) -> None:
    limiter, wire = await world.process()
    wire.break_down(Unreachable("no"), on=Transact)
    result = await limiter.repository.set_many_limits({place: [RPM] for place in THOUSAND[:30]})
    assert (result.done, set(result.failed)) == ((), set(THOUSAND[:30]))
    assert {type(error) for error in result.failed.values()} == {RateLimiterUnavailable}
    wire.repair()
    wire.break_down(LOST_RACE, on=Transact)
    lost = await limiter.repository.set_many_limits({place: [RPM] for place in THOUSAND[:25]})
    assert "others changed the item" in str(lost.failed[THOUSAND[0]])
    wire.repair()
    wire.break_down(TransactionCancelled((Reason("Unknown"),) * 2), on=Transact)
    unexplained = await limiter.repository.set_many_limits({THOUSAND[0]: [RPM]})
    assert list(unexplained.failed) == [THOUSAND[0]]
    wire.break_down(TableMissing("gone"), on=BatchGet)
    with pytest.raises(RateLimiterUnavailable, match="gone"):
        await limiter.repository.set_many_limits({THOUSAND[0]: [RPM]})


@pytest.mark.parametrize(
    "changes",
    [
        {("e", "r"): []},
        {("e ", "r"): [RPM]},
        {("e", "r "): [RPM]},
        {"er": [RPM]},
        {("e",): [RPM]},
        {("e", "r"): [RPM, RPM]},
    ],
)
async def test_bad_changes_are_refused_before_any_request(world: World, changes: Any) -> None:
    limiter, wire = await world.process()
    with pytest.raises(ValidationError):
        await limiter.repository.set_many_limits({("good", "r"): [RPM], **changes})
    assert wire.sent() == []


async def test_no_change_is_no_request(world: World) -> None:
    limiter, wire = await world.process()
    for result in (await limiter.repository.set_many_limits({}), await limiter.repository.delete_many_limits([])):
        assert (result.done, result.failed) == ((), {})
    with pytest.raises(ValidationError):
        await limiter.repository.delete_many_limits([("e", "r"), "er"])  # type: ignore[list-item]
    assert wire.sent() == []
