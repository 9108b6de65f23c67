"""A purge leaves nothing of a namespace and all of the others; in both variants."""

from datetime import UTC, datetime

import pytest

from support.core.kinds import of_every_kind
from support.core.owners import maintenance_of
from support.core.snapshots import usage_item
from support.core.wires import Crash
from support.core.worlds import Process, World, take
from zae_limiter import Limit, RateLimiterUnavailable
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.exceptions import NamespaceNotFoundError, NamespaceStateError
from zae_limiter.maintenance import ProvisionerState
from zae_limiter.operations.errors import OutcomeUnknown, Unreachable
from zae_limiter.operations.values import BatchWrite, Delete, Get, Item, Put, Query, Transact, Unwritten
from zae_limiter.schema.attributes import PURGED
from zae_limiter.values.usage import UsageSnapshot

RPM = Limit.per_minute("rpm", 60)
pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index of a table in memory does not lag."""
    monkeypatch.setattr("zae_limiter.flows.records.registry.SETTLE_SECONDS", 0)


def every_item(table: MemoryTable) -> list[Item]:
    """What a scan finds, but for the record of an id that was purged."""
    return [item for item in table._items.values() if PURGED not in item]


def items_of(table: MemoryTable, namespace_id: str) -> list[Item]:
    """What has the id anywhere: in a key of the table or of an index."""
    return [
        item
        for item in every_item(table)
        if any(str(item[name]).startswith((f"{namespace_id}/", namespace_id)) for name in keys_of(item))
        or item.get("namespace_id") == namespace_id
    ]


def keys_of(item: Item) -> list[str]:
    return [name for name in item if name.endswith(("PK", "SK"))]


async def filled(world: World, name: str, *, entities: int = 2) -> Process:
    """A namespace with a bit of everything."""
    process = await world.process(name)
    limiter, repository = process.limiter, process.repository
    await limiter.set_system_defaults([RPM], "allow")
    await limiter.set_resource_defaults("gpt-4", [RPM])
    await limiter.create_entity("project")
    await maintenance_of(repository).put_provisioner_state(ProvisionerState(managed_system=True), expected_serial=0)
    usage = UsageSnapshot("project", "gpt-4", "hourly", datetime(2026, 1, 1, tzinfo=UTC), {"rpm": 1}, 1)
    world.table.execute(Put(usage_item(repository.namespace_id, usage)))
    for number in range(entities):
        entity_id = f"key-{number}"
        await limiter.create_entity(entity_id, parent_id="project", cascade=True)
        await limiter.set_limits(entity_id, [RPM], "gpt-4")
        await take(limiter, entity_id, "gpt-4", rpm=0 if number % 2 else 1)
    process.wire.sent()
    return process


async def deleted(world: World, name: str = "prod", *, entities: int = 2) -> Process:
    process = await filled(world, name, entities=entities)
    await process.repository.delete_namespace(name)
    process.wire.sent()
    return process


async def test_a_purge_removes_all_of_a_namespace_and_nothing_of_another(world: World) -> None:
    prod = await deleted(world)
    other = await filled(world, "other")
    everything, own = every_item(world.table), items_of(world.table, prod.repository.namespace_id)
    kinds = {item["SK"].split("#")[1] for item in own}
    assert {"META", "STATE", "CONFIG", "USAGE", "AUDIT", "PROVISIONER", "NAMESPACE", "NSID"} <= kinds
    removed = await maintenance_of(other.repository).purge_namespace(prod.repository.namespace_id)
    assert removed == len(own) - 2
    assert every_item(world.table) == [item for item in everything if item not in own]
    assert await maintenance_of(other.repository).list_orphan_namespaces() == []


async def test_after_a_purge_the_name_is_free_and_nothing_comes_back(world: World) -> None:
    prod = await deleted(world)
    namespace_id = prod.repository.namespace_id
    await maintenance_of(prod.repository).purge_namespace(namespace_id)
    with pytest.raises(NamespaceStateError, match="its purge has begun"):
        await maintenance_of(prod.repository).recover_namespace(namespace_id)
    assert (await world.process("prod")).repository.namespace_id != namespace_id
    assert await maintenance_of(prod.repository).purge_namespace(namespace_id) == 0


async def test_what_is_written_after_a_purge_is_listed_and_goes_by_the_next_one(world: World) -> None:
    prod, other = await deleted(world), await filled(world, "other")
    repository, namespace_id = prod.repository, prod.repository.namespace_id
    everything, own = every_item(world.table), items_of(world.table, namespace_id)
    await maintenance_of(repository).purge_namespace(namespace_id)
    fill(world.table, namespace_id, 3)
    late = items_of(world.table, namespace_id)
    assert [each.namespace_id for each in await maintenance_of(other.repository).list_orphan_namespaces()] == [
        namespace_id
    ]
    assert await maintenance_of(other.repository).purge_namespace(namespace_id) == len(late) > 0
    assert every_item(world.table) == [item for item in everything if item not in own]
    assert await maintenance_of(other.repository).list_orphan_namespaces() == []


async def test_the_id_is_remembered_for_longer_than_the_stream_remembers_what_was_written(world: World) -> None:
    prod = await deleted(world)
    repository, namespace_id = prod.repository, prod.repository.namespace_id
    await maintenance_of(repository).purge_namespace(namespace_id)
    world.clock.advance(47 * 3600)
    world.table.expire(world.clock.now_ms() // 1000)
    assert await maintenance_of(repository).purge_namespace(namespace_id) == 0
    world.clock.advance(49 * 3600)
    world.table.expire(world.clock.now_ms() // 1000)
    with pytest.raises(NamespaceNotFoundError, match=f"'{namespace_id}'"):
        await maintenance_of(repository).purge_namespace(namespace_id)


async def test_a_namespace_in_use_is_not_purged_and_keeps_all(world: World) -> None:
    prod = await filled(world, "prod")
    before = every_item(world.table)
    with pytest.raises(NamespaceStateError, match="it is in use: delete it first"):
        await maintenance_of(prod.repository).purge_namespace(prod.repository.namespace_id)
    assert every_item(world.table) == before


async def test_a_name_that_was_taken_anew_stays_with_its_new_namespace(world: World) -> None:
    prod = await deleted(world)
    again = await prod.repository.register_namespace("prod")
    await maintenance_of(prod.repository).purge_namespace(prod.repository.namespace_id)
    assert await prod.repository.get_namespace("prod") == again
    assert items_of(world.table, prod.repository.namespace_id) == []


async def test_progress_tells_what_is_gone_so_far(world: World) -> None:
    prod = await deleted(world)
    fill(world.table, prod.repository.namespace_id, 1_500)
    seen: list[int] = []
    removed = await maintenance_of(prod.repository).purge_namespace(
        prod.repository.namespace_id, on_progress=seen.append
    )
    assert removed > 1_500
    assert seen == [*range(100, removed, 100), removed]


async def test_what_the_store_leaves_unwritten_is_asked_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    prod = await deleted(world)
    fill(world.table, prod.repository.namespace_id, 500)
    execute = world.table.execute
    left: list[tuple[Put | Delete, ...]] = []

    def half(operation: object) -> object:
        if isinstance(operation, BatchWrite) and len(operation.writes) > 1 and len(left) < 3:
            rest = operation.writes[1:]
            left.append(rest)
            execute(BatchWrite(operation.writes[:1]))
            return Unwritten(rest)
        return execute(operation)  # type: ignore[arg-type]

    monkeypatch.setattr(world.table, "execute", half)
    await maintenance_of(prod.repository).purge_namespace(prod.repository.namespace_id)
    assert len(left) == 3
    assert items_of(world.table, prod.repository.namespace_id) == []


async def test_a_purge_that_was_stopped_goes_on_and_leaves_no_way_back_between(world: World) -> None:
    prod = await deleted(world)
    repository, namespace_id = prod.repository, prod.repository.namespace_id
    fill(world.table, namespace_id, 500)

    class Killed(Exception):
        """By the test."""

    def kill(removed: int) -> None:
        if removed >= 50:
            raise Killed

    with pytest.raises(Killed):
        await maintenance_of(repository).purge_namespace(namespace_id, on_progress=kill)
    rest = len(items_of(world.table, namespace_id)) - 2
    with pytest.raises(NamespaceStateError, match="its purge has begun"):
        await maintenance_of(repository).recover_namespace(namespace_id)
    assert [each.namespace_id for each in await maintenance_of(repository).list_orphan_namespaces()] == [namespace_id]
    other, _ = await world.process("other")
    assert await maintenance_of(other.repository).purge_namespace(namespace_id) == rest > 0
    assert items_of(world.table, namespace_id) == []


@pytest.mark.parametrize("writes", range(6))
async def test_a_purge_that_was_killed_behind_any_write_is_finished_by_the_next_one(world: World, writes: int) -> None:
    prod, other = await deleted(world), await filled(world, "other")
    namespace_id = prod.repository.namespace_id
    fill(world.table, namespace_id, 150)
    kept = [item for item in every_item(world.table) if item not in items_of(world.table, namespace_id)]
    prod.wire.crash_after(writes)
    with pytest.raises(Crash):
        await maintenance_of(prod.repository).purge_namespace(namespace_id)
    assert await other.repository.get_namespace("prod") is None
    assert [each.namespace_id for each in await maintenance_of(other.repository).list_orphan_namespaces()] == [
        namespace_id
    ]
    await maintenance_of(other.repository).purge_namespace(namespace_id)
    assert every_item(world.table) == kept


async def test_a_purge_that_meets_an_outage_says_so_and_goes_on_later(world: World) -> None:
    prod = await deleted(world)
    repository, namespace_id = prod.repository, prod.repository.namespace_id
    prod.wire.break_down(Unreachable("refused"), on=BatchWrite)
    with pytest.raises(RateLimiterUnavailable, match="refused"):
        await maintenance_of(repository).purge_namespace(namespace_id)
    prod.wire.repair()
    await maintenance_of(repository).purge_namespace(namespace_id)
    assert items_of(world.table, namespace_id) == []


@pytest.mark.parametrize("kind", [Get, Query, Put, BatchWrite, Transact])
async def test_a_purge_survives_a_lost_answer(world: World, kind: type) -> None:
    prod = await deleted(world)
    prod.wire.break_once(OutcomeUnknown("slow"), on=kind, applied=True)
    await maintenance_of(prod.repository).purge_namespace(prod.repository.namespace_id)
    assert items_of(world.table, prod.repository.namespace_id) == []


async def test_a_purge_ends_though_somebody_goes_on_writing_and_says_so(world: World) -> None:
    prod = await deleted(world)
    repository, namespace_id = prod.repository, prod.repository.namespace_id

    def write(removed: int) -> None:
        assert removed < 10_000, "the purge does not end"
        world.table.execute(Put(of_every_kind(namespace_id, 1)[0]))

    with pytest.raises(NamespaceStateError, match="something still writes to it") as refused:
        await maintenance_of(repository).purge_namespace(namespace_id, on_progress=write)
    assert refused.value.namespace_id == namespace_id
    assert [each.namespace_id for each in await maintenance_of(repository).list_orphan_namespaces()] == [namespace_id]
    with pytest.raises(NamespaceStateError, match="its purge has begun"):
        await maintenance_of(repository).recover_namespace(namespace_id)
    assert await maintenance_of(repository).purge_namespace(namespace_id) == 1
    assert items_of(world.table, namespace_id) == []


async def test_thousands_of_items_go_in_batches_of_25_and_a_killed_purge_goes_on(world: World) -> None:
    prod, other = await deleted(world), await filled(world, "other")
    namespace_id = prod.repository.namespace_id
    fill(world.table, namespace_id, 3_000)
    kept = items_of(world.table, other.repository.namespace_id)
    total = len(items_of(world.table, namespace_id)) - 2

    class Killed(Exception):
        """By the test."""

    def kill(removed: int) -> None:
        if removed >= 1_000:
            raise Killed

    with pytest.raises(Killed):
        await maintenance_of(other.repository).purge_namespace(namespace_id, on_progress=kill)
    world.meter.reset()
    removed = await maintenance_of(other.repository).purge_namespace(namespace_id)
    assert removed == total - 1_000
    assert items_of(world.table, namespace_id) == []
    assert items_of(world.table, other.repository.namespace_id) == kept
    assert world.meter.requests["BatchWriteItem"] <= removed // 25 + 8  # a page ends with a batch of its own


def fill(table: MemoryTable, namespace_id: str, count: int) -> None:
    """So many items of every kind, without the requests that make them."""
    for item in of_every_kind(namespace_id, count):
        table.execute(Put(item))
