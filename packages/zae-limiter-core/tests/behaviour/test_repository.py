"""Opening a repository and closing it, in both variants."""

import asyncio
from typing import Any

import pytest

from support.core.wires import SyncWireStore, Wire, WireStore
from support.core.worlds import World, outcomes, take, until
from zae_limiter import Limit, Options, RateLimiter, RateLimiterUnavailable, Repository, SyncRateLimiter, SyncRepository
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.exceptions import InfrastructureNotFoundError, NamespaceNotFoundError
from zae_limiter.operations.errors import OutcomeUnknown, TableMissing, TransactionCancelled, Unreachable
from zae_limiter.operations.values import DescribeTable, EnableTtl, Query, Transact, Update
from zae_limiter.schema import keys
from zae_limiter.testing import ManualClock

RPM = Limit.per_minute("rpm", 60)


class ClosableStore(WireStore):
    closed = 0

    async def close(self) -> None:
        self.closed += 1


class SyncClosableStore(SyncWireStore):
    closed = 0

    def close(self) -> None:
        self.closed += 1


async def test_a_namespace_that_is_missing_is_registered_once(world: World) -> None:
    processes = await outcomes(*(world.process("prod") for _ in range(8)))
    assert len({process.repository.namespace_id for process in processes}) == 1
    names = world.table.execute(Query(keys.pk_system(keys.REGISTRY), begins_with=keys.sk_namespace("")))
    assert [item["name"] for item in names.items] == ["prod"]
    assert len(processes[0].repository.namespace_id) == 11
    assert processes[0].repository.name == "prod"


async def test_with_register_off_a_missing_namespace_is_an_error_and_stays_missing(world: World) -> None:
    for _ in range(2):
        with pytest.raises(NamespaceNotFoundError, match="'prod'"):
            await world.process("prod", register=False)
    await world.process("prod")
    assert (await world.process("prod", register=False)).repository.name == "prod"


async def open_over(world: World, wire: Wire, *, create_table: bool = False) -> ClosableStore | SyncClosableStore:
    """A store that a repository was opened over in the variant; raises what opening raises, with the store closed."""
    options = Options(stack="my-app", clock=world.clock, create_table=create_table)
    store = ClosableStore(wire) if world.variant == "async" else SyncClosableStore(wire)
    try:
        if isinstance(store, ClosableStore):
            await Repository.over(store, options)
        else:
            SyncRepository.over(store, options)
    except BaseException:
        assert store.closed == 1
        raise
    return store


async def test_a_missing_table_says_what_to_run_and_the_store_is_closed(world: World) -> None:
    wire = Wire(world.table)
    wire.break_down(TableMissing("no such table"))
    with pytest.raises(InfrastructureNotFoundError, match="zae-limiter deploy --name my-app"):
        await open_over(world, wire)


async def test_a_store_that_is_away_is_unavailable_and_is_closed(world: World) -> None:
    wire = Wire(world.table)
    wire.break_down(Unreachable("connection refused"))
    with pytest.raises(RateLimiterUnavailable, match="connection refused"):
        await open_over(world, wire)


async def test_what_opens_stays_open(world: World) -> None:
    assert (await open_over(world, Wire(world.table))).closed == 0


@pytest.mark.parametrize("error", [OutcomeUnknown("slow"), TransactionCancelled(())])
async def test_a_registration_whose_answer_is_lost_is_found(
    world: World, error: OutcomeUnknown | TransactionCancelled
) -> None:
    wire = Wire(world.table)
    wire.break_once(error, on=Transact, applied=True)
    assert (await open_over(world, wire)).closed == 0
    names = world.table.execute(Query(keys.pk_system(keys.REGISTRY), begins_with=keys.sk_namespace("")))
    assert len(names.items) == 1


async def test_closing_a_namespace_leaves_the_store_to_the_repository_that_opened_it() -> None:
    store = ClosableStore(Wire(MemoryTable()))
    async with await Repository.over(store, Options()) as repository:
        async with await repository.namespace("other"):
            pass
        assert store.closed == 0
    assert store.closed == 1
    sync_store = SyncClosableStore(Wire(MemoryTable()))
    with SyncRepository.over(sync_store, Options()) as sync_repository:
        with sync_repository.namespace("other"):
            pass
        assert sync_store.closed == 0
    assert sync_store.closed == 1


async def test_closing_a_limiter_closes_its_repository() -> None:
    store, sync_store = ClosableStore(Wire(MemoryTable())), SyncClosableStore(Wire(MemoryTable()))
    async with RateLimiter(await Repository.over(store, Options())):
        pass
    with SyncRateLimiter(SyncRepository.over(sync_store, Options())):
        pass
    assert (store.closed, sync_store.closed) == (1, 1)


async def test_namespaces_of_one_repository_share_the_clock_and_the_table(world: World) -> None:
    limiter, _ = await world.process()
    other = await limiter.repository.namespace("other")
    await other.set_system_defaults([RPM])
    separate, _ = await world.process("other")
    assert await separate.get_system_defaults() == ([RPM], None)


async def test_in_memory_needs_nothing_and_shares_nothing() -> None:
    clock = ManualClock()
    one, two = (Repository.in_memory(clock=clock) for _ in range(2))
    await one.set_system_defaults([RPM])
    assert await two.get_system_defaults() == ([], None)
    sync = SyncRepository.in_memory("prod", clock=clock)
    sync.set_system_defaults([RPM])
    assert (sync.name, sync.get_system_defaults()) == ("prod", ([RPM], None))


async def test_in_memory_without_a_clock_takes_the_systems() -> None:
    async with RateLimiter(Repository.in_memory(), default_limits=[Limit.per_hour("rpm", 60)]) as limiter:
        await take(limiter, "e", "r", rpm=60)
        assert 0 < await limiter.time_until_available("e", "r", {"rpm": 1}) <= 60


@pytest.mark.parametrize(
    ("options", "splits"), [({}, False), ({"split_above": 10}, True)], ids=["by default", "where asked"]
)
def test_in_memory_a_bucket_splits_only_where_that_is_asked_for(options: dict[str, Any], *, splits: bool) -> None:
    clock = ManualClock()
    repository = SyncRepository.in_memory(clock=clock, **options)
    limiter = SyncRateLimiter(repository, default_limits=[Limit.per_day("rpm", 10**6)])
    for _ in range(2):
        for _ in range(1_000):
            with limiter.acquire("e", "r", {"rpm": 1}):
                pass
        clock.advance(seconds=1)
    bucket = repository.get_bucket("e", "r")
    assert bucket is not None
    assert (bucket.shard_count > 1) is splits


async def test_closing_the_repository_waits_for_the_writes_of_its_namespaces(async_world: World) -> None:
    root = await async_world.process()
    limiter = RateLimiter(await root.repository.namespace("tenant"), default_limits=[RPM])
    await take(limiter, "e", "r", rpm=1)
    root.wire.hold(Update)
    task = asyncio.create_task(take(limiter, "e", "r", rpm=10))
    await until(lambda: root.wire.in_flight == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    asyncio.get_running_loop().call_later(0.02, root.wire.let_go)
    await root.repository.close()
    item = async_world.bucket_of(limiter, "e", "r")
    assert item is not None
    assert (item["b_rpm_tc"], root.wire.in_flight) == (1000, 0)  # given back by then


async def test_a_table_that_is_created_but_not_yet_known_everywhere_is_waited_for(world: World) -> None:
    wire = Wire(world.table)
    wire.break_once(TableMissing("not yet"), on=DescribeTable)
    assert (await open_over(world, wire, create_table=True)).closed == 0
    asked = ["CreateTable", "DescribeTable", "DescribeTable", "BatchGet", "Query"]  # whose the table is that exists
    assert wire.sent()[:6] == [*asked, "EnableTtl"]


async def test_a_table_whose_ttl_cannot_be_switched_on_is_unavailable(world: World) -> None:
    wire = Wire(world.table)
    wire.break_down(Unreachable("access denied"), on=EnableTtl)
    with pytest.raises(RateLimiterUnavailable, match=r"'my-app' could not be created: access denied"):
        await open_over(world, wire, create_table=True)
