"""What lives here: entities, lists, bulk changes and audit events on every store, and what each of them costs.
What never does: who is admitted (test_concurrency), limits at work (test_changes).
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeVar

import pytest

from support.integration.harness import Harness
from zae_limiter import EntityNotFoundError, Limit, RateLimiter, ValidationError
from zae_limiter.exceptions import EntityExistsError, EntityHasChildrenError
from zae_limiter.flows.pages import query_all
from zae_limiter.flows.records.levels import place_of
from zae_limiter.flows.retry import read_all
from zae_limiter.flows.steps import play
from zae_limiter.operations.values import BatchWrite, Key, Put, Query
from zae_limiter.schema import keys
from zae_limiter.schema.audit import read_audit_event

pytestmark = [pytest.mark.needs("atomic", "capacity"), pytest.mark.apart]


T = TypeVar("T")
RPM, TPM = Limit.per_minute("rpm", 60), Limit.per_minute("tpm", 10_000)
EVER = datetime(2020, 1, 1, tzinfo=UTC)
UNITS_PER_WRITE = 2  # in a transaction


async def costs(harness: Harness, call: Callable[[], Awaitable[T]], *, writes: int = 0, **requests: int) -> T:
    """The result of a call that sends exactly these requests and, in transactions, so many writes of up to 1 KB."""
    harness.meter.reset()
    result = await call()
    meter = harness.meter.snapshot()
    assert dict(meter.requests) == requests
    assert not harness.target.quirks.counts_transactions or meter.write_units == writes * UNITS_PER_WRITE
    return result


async def actions(limiter: RateLimiter, entity_id: str) -> list[tuple[str, str | None]]:
    page = await limiter.repository.get_audit_events(entity_id)
    return [(event.action, event.principal) for event in page.events]


async def test_limits_are_changed_with_their_events(harness: Harness) -> None:
    limiter = await harness.open()
    changed = {"GetItem": 1, "TransactWriteItems": 1}
    told = {**changed, "BatchGetItem": 1}  # the entity's buckets, which may be live
    await costs(harness, lambda: limiter.set_system_defaults([RPM], "allow", principal="ann"), writes=2, **changed)
    await costs(harness, lambda: limiter.set_resource_defaults("gpt-4", [RPM]), writes=2, **changed)
    await costs(harness, lambda: limiter.set_limits("e", [RPM, TPM], "gpt-4"), writes=2, **told)
    await costs(harness, lambda: limiter.set_limits("e", [TPM], "gpt-4", principal="bob"), writes=2, **told)
    assert await costs(harness, lambda: limiter.get_limits("e", "gpt-4"), GetItem=1) == [TPM]
    await costs(harness, lambda: limiter.delete_limits("e", "gpt-4"), writes=2, **told)
    await costs(harness, lambda: limiter.delete_limits("e", "gpt-4"), GetItem=1, BatchGetItem=1)
    await costs(harness, lambda: limiter.delete_resource_defaults("gpt-4"), writes=2, **changed)
    await costs(harness, limiter.delete_system_defaults, writes=2, **changed)
    page = await costs(harness, lambda: limiter.repository.get_audit_events("e"), Query=1)
    versions = [(each or {}).get("config_version") for event in page.events for each in (event.before, event.after)]
    assert versions == [2, None, 1, 2, None, 1]
    assert await actions(limiter, "$SYSTEM") == [("limits_deleted", None), ("limits_set", "ann")]
    assert await actions(limiter, "$RESOURCE:gpt-4") == [("limits_deleted", None), ("limits_set", None)]
    newest = await limiter.repository.get_audit_events("e", limit=1)
    older = await limiter.repository.get_audit_events("e", limit=5, start=newest.next)
    assert (*newest.events, *older.events) == page.events


async def test_the_changes_of_a_namespace_are_paged_by_time_also_those_of_before(harness: Harness) -> None:
    limiter = await harness.open()
    for number in range(7):
        await limiter.set_limits(f"e-{number % 3}", [RPM], "gpt-4", principal=f"author-{number}")
    found = await _authors(limiter, limit=2)
    assert found == [f"author-{number}" for number in reversed(range(7))]
    ns = harness.namespace_id
    rows = play(query_all(Query(ns, "GSI4", begins_with=keys.INDEX_AUDIT_PREFIX)), harness.perform)
    items = play(read_all([Key(item["PK"], item["SK"]) for item in rows[:4]]), harness.perform)
    harness.perform(BatchWrite(tuple(Put({**item, "GSI4SK": item["PK"]}) for item in items.values())))
    assert await _authors(limiter, limit=2) == await _authors(limiter, limit=3) == found


async def _authors(limiter: RateLimiter, *, limit: int) -> list[str | None]:
    """The authors of all changes of the namespace, in pages of so many."""
    found, start = list[str | None](), None
    while True:
        page = await limiter.repository.get_namespace_audit_events(EVER, limit=limit, start=start)
        found += [event.principal for event in page.events]
        if (start := page.next) is None:
            return found


async def test_entities_are_changed_with_their_events(harness: Harness) -> None:
    limiter = await harness.open()
    await costs(harness, lambda: limiter.create_entity("p"), writes=2, TransactWriteItems=1)
    made = await costs(
        harness,
        lambda: limiter.create_entity("e", "A key", "p", cascade=True, metadata={"team": "blue"}),
        writes=3,
        TransactWriteItems=1,
    )
    assert await costs(harness, lambda: limiter.get_entity("e"), GetItem=1) == made
    assert await costs(harness, lambda: limiter.get_children("p"), Query=1) == [made]
    await limiter.create_entity("q")
    update = {"BatchGetItem": 1, "TransactWriteItems": 1}
    await costs(harness, lambda: limiter.repository.update_entity("e", name=None, principal="ann"), writes=2, **update)
    moved = await costs(harness, lambda: limiter.repository.update_entity("e", parent_id="q"), writes=4, **update)
    assert (moved.name, moved.parent_id, moved.cascade, moved.version) == (None, "q", True, 3)
    assert await costs(harness, lambda: limiter.repository.update_entity("e", cascade=True), BatchGetItem=1) == moved
    assert (await limiter.get_children("p"), await limiter.get_children("q")) == ([], [moved])
    await limiter.set_resource_defaults("r", [RPM])
    async with limiter.acquire("e", "r", {"rpm": 1}):
        pass
    await limiter.set_limits("e", [RPM], "r")
    harness.meter.reset()
    await limiter.delete_entity("e", principal="bob")
    assert harness.meter.requests == {
        "GetItem": 1,
        "Query": 2,
        "TransactWriteItems": 1,
        "BatchGetItem": 1,
        "DeleteItem": 1,
    }
    if harness.target.quirks.counts_transactions:
        assert harness.meter.write_units == 4 * UNITS_PER_WRITE + 1
    assert (await limiter.get_entity("e"), await limiter.get_limits("e", "r")) == (None, [])
    assert (harness.bucket("e", "r"), harness.bucket("q", "r") is None) == (None, False)
    told = await actions(limiter, "e")
    assert [action for action, _ in told] == [
        "entity_deleted",
        "limits_set",
        "entity_updated",
        "entity_updated",
        "entity_created",
    ]
    assert [principal for _, principal in told] == ["bob", None, None, "ann", None]


async def test_the_tree_refuses_what_it_has_to(harness: Harness) -> None:
    limiter = await harness.open()
    await limiter.create_entity("p")
    await limiter.create_entity("c", parent_id="p")
    await limiter.create_entity("other")
    with pytest.raises(EntityExistsError):
        await limiter.create_entity("c", parent_id="p")
    with pytest.raises(EntityNotFoundError, match="'nobody'"):
        await limiter.create_entity("d", parent_id="nobody")
    with pytest.raises(EntityNotFoundError, match="'nobody'"):
        await limiter.create_entity("d", parent_ids=["c", "nobody"])
    with pytest.raises(ValidationError, match="no entity can be above itself"):
        await limiter.repository.update_entity("p", parent_ids=["other", "c"])
    with pytest.raises(EntityNotFoundError, match="'nobody'"):
        await limiter.repository.update_entity("nobody", name="x")
    with pytest.raises(EntityHasChildrenError, match="children, 1"):
        await costs(harness, lambda: limiter.delete_entity("p"), GetItem=1)
    with pytest.raises(EntityNotFoundError):
        await limiter.delete_entity("d")
    await limiter.delete_entity("c")
    await limiter.delete_entity("p")
    assert [await limiter.get_entity(entity) for entity in ("p", "c", "d")] == [None] * 3


async def test_lists_say_where_limits_are_set(harness: Harness) -> None:
    limiter = await harness.open()
    for resource in ("b", "a/1"):
        await limiter.set_resource_defaults(resource, [RPM])
    for entity, resource in (("y", "b"), ("x", "b"), ("x", "_default_")):
        await limiter.set_limits(entity, [RPM], resource)
    assert await costs(harness, limiter.repository.list_resources_with_defaults, Query=1, GetItem=1) == ["a/1", "b"]
    assert await costs(harness, lambda: limiter.repository.list_entities_with_custom_limits("b"), Query=1) == ["x", "y"]
    assert await costs(harness, limiter.repository.list_resources_with_entity_configs, Query=1) == ["_default_", "b"]


async def test_resources_with_many_entity_configs_cost_at_most_one_query_each(harness: Harness) -> None:
    limiter = await harness.open()
    counts = {"r-0": 1300, "r-1": 60, "r-2": 60, "r-3": 3}
    places = [
        place_of(limiter.repository.namespace_state, (f"e-{n}", r)) for r, count in counts.items() for n in range(count)
    ]
    puts = [Put({"PK": place.key.pk, "SK": place.key.sk, **place.fixed, "config_version": 1}) for place in places]
    for start in range(0, len(puts), 25):
        harness.perform(BatchWrite(tuple(puts[start : start + 25])))
    assert await costs(harness, limiter.repository.list_resources_with_entity_configs, Query=4) == list(counts)
    assert harness.meter.read_units < 25


@pytest.mark.long(keep=1)
async def test_the_limits_of_a_thousand_entities_are_set_and_removed(harness: Harness) -> None:
    many = harness.target.quirks.changes
    limiter = await harness.open(read_timeout=60)
    places = [(f"e-{number:04d}", f"r-{number % 4}") for number in range(many)]
    changes = {place: [RPM] for place in places}
    costs_of_all = {"writes": 2 * many, "BatchGetItem": many // 50, "TransactWriteItems": many // 25}
    result = await costs(harness, lambda: limiter.repository.set_many_limits(changes, principal="ann"), **costs_of_all)
    assert (result.done, result.failed) == (tuple(places), {})
    resources = await costs(harness, limiter.repository.list_resources_with_entity_configs, Query=1)
    assert resources == ["r-0", "r-1", "r-2", "r-3"]
    for resource in resources:
        own = [entity for entity, where in places if where == resource]
        assert await limiter.repository.list_entities_with_custom_limits(resource) == own
    assert await limiter.get_limits("e-0099", "r-3") == [RPM]
    assert audited(harness) == [(entity, resource, "limits_set", "ann") for entity, resource in places]
    gone = await costs(harness, lambda: limiter.repository.delete_many_limits(places), **costs_of_all)
    assert (len(gone.done), gone.failed) == (many, {})
    assert await limiter.repository.list_resources_with_entity_configs() == []
    assert len(audited(harness)) == 2 * many
    assert await actions(limiter, "e-0050") == [("limits_deleted", None), ("limits_set", "ann")]


def audited(harness: Harness) -> list[tuple[str, str, str, str | None]]:
    """Every audit event of the namespace: whose, on which resource, what, and who did it."""
    ns = harness.namespace_id
    found = play(query_all(Query(ns, "GSI4", begins_with=keys.INDEX_AUDIT_PREFIX)), harness.perform)
    items = play(read_all([Key(item["PK"], item["SK"]) for item in found]), harness.perform)
    events = sorted(map(read_audit_event, items.values()), key=lambda event: (event.entity_id, event.event_id))
    return [(event.entity_id, event.resource or "", event.action, event.principal) for event in events]
