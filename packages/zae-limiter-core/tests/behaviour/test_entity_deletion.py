"""A delete of an entity that is killed anywhere leaves nothing that the next one does not find; in both variants."""

from datetime import UTC, datetime
from typing import Any

import pytest

from support.core.copies import LateStore, opened
from support.core.shards import split
from support.core.wires import Crash
from support.core.worlds import Process, World, take
from zae_limiter import EntityNotFoundError, Limit, SyncRateLimiter
from zae_limiter.engines.effects import MAX_ITEM_BYTES, key_of
from zae_limiter.engines.memory.store import SyncMemoryStore
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.exceptions import EntityHasChildrenError
from zae_limiter.flows.records.entities import delete_entity
from zae_limiter.flows.records.levels import place_of
from zae_limiter.flows.steps import Parallel, play
from zae_limiter.operations.sizes import item_size
from zae_limiter.operations.values import Item, Put, Transact, Update
from zae_limiter.schema.attributes import CHILDREN
from zae_limiter.testing import ManualClock
from zae_limiter.values import AuditEvent
from zae_limiter.values.audit import Cause
from zae_limiter.values.limits import MAX_LIMITS

RPM = Limit.per_minute("rpm", 60)
CONFIGS, BUCKETS = 130, 30
WRITES_OF_A_DELETE = 3 + BUCKETS + 1  # limits in two transactions, the record, each shard of each bucket


async def family(world: World) -> Process:
    """A child with more limits than fit into a transaction, and more buckets than into a batch, one of them sharded."""
    process = await world.process(default_limits=[RPM])
    limiter = process.limiter
    for entity, parent in (("p", None), ("e", "p"), ("other", "p")):
        await limiter.create_entity(entity, parent_id=parent)
    places = [("e", f"r-{number:03}") for number in range(CONFIGS)]
    await limiter.repository.set_many_limits({place: [RPM] for place in (*places, ("other", "r-000"))})
    for number in range(BUCKETS):
        await take(limiter, "e", f"r-{number:03}", rpm=60)
    await take(limiter, "other", "r-000", rpm=60)
    split(world, limiter, "e", "r-000")
    process.wire.sent()
    return process


def of(table: MemoryTable, entity_id: str) -> dict[str, list[Item]]:
    """What there is of an entity, by kind; the audit events apart, which stay."""
    found: dict[str, list[Item]] = {"#META": [], "#CONFIG": [], "#STATE": []}
    for item in table._items.values():
        if item.get("entity_id") == entity_id and "#AUDIT#" not in item["SK"]:
            found["#" + item["SK"].split("#")[1]].append(item)
    return found


async def told(process: Process) -> list[AuditEvent]:
    events = (await process.repository.get_audit_events("e", limit=1000)).events
    return [event for event in events if event.action.endswith("deleted")]


async def test_a_delete_takes_as_many_writes_as_this_file_kills(world: World) -> None:
    process = await family(world)
    process.wire.crash_after(WRITES_OF_A_DELETE)
    await process.limiter.delete_entity("e")
    assert of(world.table, "e") == {"#META": [], "#CONFIG": [], "#STATE": []}


@pytest.mark.parametrize("writes", [*range(6), WRITES_OF_A_DELETE - 1])
async def test_a_delete_that_was_killed_is_finished_by_the_next_one(world: World, writes: int) -> None:
    process = await family(world)
    others = of(world.table, "other")
    process.wire.crash_after(writes)
    with pytest.raises(Crash):
        await process.limiter.delete_entity("e")
    left = of(world.table, "e")
    assert left["#META"] or not left["#CONFIG"]  # no limits without a record, by which they are found
    firsts = {item["resource"] for item in left["#STATE"] if item["PK"].endswith("#0")}
    assert {item["resource"] for item in left["#STATE"]} == firsts  # no shard without the first one

    later = await world.process()
    await later.limiter.delete_entity("e", principal="bob")
    assert of(world.table, "e") == {"#META": [], "#CONFIG": [], "#STATE": []}
    assert of(world.table, "other") == others
    assert of(world.table, "p")["#META"][0][CHILDREN] == 1
    with pytest.raises(EntityNotFoundError):
        await later.limiter.delete_entity("e")


@pytest.mark.long(keep=8)
@pytest.mark.parametrize("writes", range(WRITES_OF_A_DELETE + 1))
async def test_whatever_kills_a_delete_each_limit_is_told_to_be_gone_once(world: World, writes: int) -> None:
    process = await family(world)
    process.wire.crash_after(writes)
    later = await world.process()
    for deleting in (process, later):
        try:
            await deleting.limiter.delete_entity("e")
        except (Crash, EntityNotFoundError):
            continue
    events = await told(later)
    gone = [event.resource for event in events if event.action == "limits_deleted"]
    for event in events:
        gone += [*(event.before or {}).get("configs", ())] if event.action == "entity_deleted" else []
    assert sorted(map(str, gone)) == [f"r-{number:03}" for number in range(CONFIGS)]
    records = [event for event in events if "name" in (event.before or {})]
    assert [event.action for event in records] == ["entity_deleted"]


async def test_the_event_of_the_entity_is_the_newest_of_a_delete(world: World) -> None:
    process = await family(world)
    await process.limiter.delete_entity("e", principal="bob")
    newest, *older = await told(process)
    assert (newest.action, len((newest.before or {})["configs"])) == ("entity_deleted", 90)
    assert [event.action for event in older] == ["limits_deleted"] * (CONFIGS - 90)
    assert {event.principal for event in (newest, *older)} == {"bob"}
    assert len({event.event_id for event in (newest, *older)}) == CONFIGS - 90 + 1


@pytest.mark.slow
async def test_an_entity_is_deleted_however_large_its_limits_are_and_every_one_is_told(world: World) -> None:
    limiter, _ = await world.process()
    widest = [
        Limit.custom(f"{'x' * 62}{number:02d}", 10**14, refill_amount=10**14, refill_period=2_000_000, shadow=True)
        for number in range(MAX_LIMITS)
    ]
    places = [("e", f"{number:02d}{'r' * 126}") for number in range(90)]
    in_a_day = datetime.fromtimestamp(world.clock.now_ms() / 1000 + 86_400, UTC)
    await limiter.create_entity("e", metadata={str(number): "v" * 300 for number in range(50)})
    await limiter.repository.set_many_limits(dict.fromkeys(places, widest))
    for entity_id, resource in places[:50]:
        await limiter.set_limits(entity_id, widest, resource, override_until=in_a_day)
    await limiter.delete_entity("e")
    events = (await limiter.repository.get_audit_events("e", limit=1000)).events
    newest, *older = events
    told = [event.resource for event in older if event.action == "limits_deleted"]
    assert newest.action == "entity_deleted"
    assert sorted([*told, *(newest.before or {})["configs"]]) == [resource for _, resource in places]
    assert all(item_size(dict(event.before or {})) < MAX_ITEM_BYTES * 7 // 8 for event in events)


async def test_limits_that_are_set_while_an_entity_goes_go_with_it_and_are_told(async_world: World) -> None:
    process, table = await family(async_world), async_world.table
    namespace_state, raced = process.repository.namespace_state, False

    def perform(step: Any) -> Any:
        nonlocal raced
        if isinstance(step, Parallel):
            return [perform(part) for part in step.steps]
        if isinstance(step, Transact) and not raced and any(key_of(write).sk == "#META" for write in step.writes):
            raced = True
            table.execute(Update(key_of(step.writes[90]), add={"version": 1}))
            for number in range(CONFIGS - 40, CONFIGS):
                place = place_of(namespace_state, ("e", f"r-{number:03}"))
                table.execute(Put({"PK": place.key.pk, "SK": place.key.sk, **place.fixed, "config_version": 1}))
        return table.execute(step)

    play(delete_entity(namespace_state, "e", Cause(None, "2026", "serial", None)), perform)
    assert raced
    assert of(table, "e")["#CONFIG"] == []
    gone = [event.resource for event in await told(process) if event.action == "limits_deleted"]
    assert len(gone) == 80


async def test_limits_and_buckets_of_an_id_that_was_never_created_go_alike(world: World) -> None:
    process = await world.process(default_limits=[RPM])
    limiter = process.limiter
    await limiter.set_limits("stranger", [RPM], "r")
    await take(limiter, "stranger", "s", rpm=60)
    await limiter.delete_entity("stranger", principal="bob")
    assert of(world.table, "stranger") == {"#META": [], "#CONFIG": [], "#STATE": []}
    event, *_ = (await process.repository.get_audit_events("stranger")).events
    assert (event.action, event.principal, [*(event.before or {})["configs"]]) == ("entity_deleted", "bob", ["r"])
    with pytest.raises(EntityNotFoundError):
        await limiter.delete_entity("stranger")


async def test_a_parent_that_is_not_deleted_keeps_all(world: World) -> None:
    process = await family(world)
    await process.limiter.repository.set_many_limits({("p", f"r-{number}"): [RPM] for number in range(100)})
    before = of(world.table, "p")
    with pytest.raises(EntityHasChildrenError):
        await process.limiter.delete_entity("p")
    assert of(world.table, "p") == before


@pytest.mark.parametrize("lost", range(6))
def test_a_request_that_arrives_late_leaves_an_entity_alone_that_was_made_anew(lost: int) -> None:
    clock, store = ManualClock(), SyncMemoryStore(MemoryTable())

    def use(limiter: SyncRateLimiter) -> None:
        limiter.create_entity("e")
        limiter.set_limits("e", [RPM], "r")
        for resource in ("r", "s"):
            with limiter.acquire("e", resource, {"rpm": 50}):
                pass

    here = opened(store, clock)
    here.set_system_defaults([RPM])
    use(here)
    late = LateStore(store, {lost})
    opened(late, clock).delete_entity("e")
    clock.advance(1)
    use(here)
    late.arrive()
    assert late.writes > 2, "the record with its limits, and each bucket"
    there = opened(store, clock)
    assert [there.available("e", resource) for resource in ("r", "s")] == [{"rpm": 10}, {"rpm": 10}]
    assert there.get_entity("e") is not None
    assert there.get_limits("e", resource="r") == [RPM]
