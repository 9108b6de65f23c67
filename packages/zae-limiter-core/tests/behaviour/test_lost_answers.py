"""A write whose answer was lost is sent again, is applied once, and its callers are served: in both variants."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from support.core.wires import Wire
from support.core.worlds import Process, World, outcomes, take
from zae_limiter import Limit, RateLimiterUnavailable, RateLimitExceeded
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.operations.errors import ConditionFailed, OutcomeUnknown, ServerFault, StoreError
from zae_limiter.operations.values import BatchGet, Get, Operation, Put, Transact, Update
from zae_limiter.schema.attributes import WRITE_TOKENS
from zae_limiter.stores import DynamoDBStore, MemoryStore, SyncDynamoDBStore

RPM = Limit.per_minute("rpm", 60)
LOST: Sequence[StoreError] = [ServerFault("InternalServerError: injected"), OutcomeUnknown("the connection broke")]


async def opened(world: World, **options: Any) -> Process:
    """A process over a store that loses answers."""
    wire = options.pop("wire", None) or Wire(world.table)
    wire.lossy = True
    return await world.process(default_limits=[RPM], wire=wire, **options)


def counted(world: World, process: Process, entity_id: str = "e") -> tuple[int, int]:
    """The tokens that its bucket has counted, and the acquires."""
    item = world.bucket_of(process.limiter, entity_id, "r")
    assert item is not None
    return item["b_rpm_tc"] // 1000, item["ev"]


def held(world: World, process: Process) -> list[str]:
    """The cells of the bucket that have a token."""
    item = world.bucket_of(process.limiter, "e", "r")
    assert item is not None
    return [cell for cell in WRITE_TOKENS if cell in item]


def writes(process: Process) -> list[Operation[Any]]:
    return [operation for operation in process.wire.seen if isinstance(operation, Put | Update | Transact)]


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("error", LOST, ids=["500", "connection"])
@pytest.mark.parametrize("kind", ["create", "acquire", "more", "less"])
async def test_one_lost_answer_is_no_failed_call_and_counts_once(
    world: World, error: StoreError, kind: str, *, applied: bool
) -> None:
    process = await opened(world)
    limiter, wire = process
    if kind != "create":
        await take(limiter, "e", "r", rpm=1)
    before = (0, 0) if kind == "create" else counted(world, process)
    if kind in {"create", "acquire"}:
        wire.break_once(error, on=(Put, Update), applied=applied)
    wire.sent()
    async with limiter.acquire("e", "r", {"rpm": 3}) as lease:
        if kind in {"more", "less"}:
            await lease.adjust(rpm=2 if kind == "more" else -2)
            wire.sent()
            wire.break_once(error, on=Update, applied=applied)
    first, second = writes(process)
    assert first is second
    total = {"more": 5, "less": 1}.get(kind, 3)
    assert counted(world, process) == (before[0] + total, before[1] + 1)
    assert await limiter.available("e", "r") == {"rpm": 60 - before[0] - total}


@pytest.mark.parametrize("applied", [False, True])
async def test_a_late_copy_changes_nothing(world: World, *, applied: bool) -> None:
    process = await opened(world)
    await take(process.limiter, "e", "r", rpm=1)
    process.wire.break_once(ServerFault("500"), on=Update, applied=applied)
    await take(process.limiter, "e", "r", rpm=2)
    first, before = writes(process)[-2], counted(world, process)
    with pytest.raises(ConditionFailed):
        world.table.execute(first)
    await take(process.limiter, "e", "r", rpm=3)
    with pytest.raises(ConditionFailed):
        world.table.execute(first)
    assert counted(world, process) == (before[0] + 3, before[1] + 1)


@pytest.mark.parametrize("applied", [False, True])
async def test_callers_who_share_a_write_share_no_loss(world: World, *, applied: bool) -> None:
    process = await opened(world)
    await take(process.limiter, "e", "r", rpm=1)
    process.wire.break_once(ServerFault("503"), on=Update, applied=applied)
    assert await outcomes(*(take(process.limiter, "e", "r", rpm=1) for _ in range(20))) == [None] * 20
    assert counted(world, process) == (21, 21)


@pytest.mark.parametrize("applied", [False, True])
async def test_the_first_buckets_of_a_path_are_put_once(world: World, *, applied: bool) -> None:
    process = await opened(world)
    await process.repository.create_entity("parent")
    await process.repository.create_entity("e", parent_id="parent", cascade=True)
    process.wire.sent()
    process.wire.break_once(ServerFault("500"), on=Transact, applied=applied)
    await take(process.limiter, "e", "r", rpm=2)
    assert counted(world, process) == counted(world, process, "parent") == (2, 1)


class Scripted(Wire):
    """A wire that plays the ``acts`` for the next updates, one for each."""

    def __init__(self, table: MemoryTable) -> None:
        super().__init__(table)
        self.acts: list[Callable[[Update], Any]] = []

    def answer(self, operation: Operation[Any]) -> Any:
        if isinstance(operation, Update) and self.acts:
            return self.acts.pop(0)(operation)
        return super().answer(operation)

    def reshape(self, write: Update, *, back: bool = False) -> None:
        """Have another process move the anchor of the bucket, or move it back."""
        item = self.table.execute(Get(write.key))
        self.table.execute(Update(write.key, add={"b_wcu_tc": 1000}, set={"rf": item["rf"] + (-1 if back else 1)}))

    def lose_and_reshape(self, write: Update) -> None:
        """Lose a write, after which the bucket has another shape."""
        self.reshape(write)
        raise ServerFault("500")


async def test_a_repeat_that_loses_a_race_is_decided_again(world: World) -> None:
    wire = Scripted(world.table)
    process = await opened(world, wire=wire)
    await take(process.limiter, "e", "r", rpm=1)
    wire.sent()
    wire.acts = [wire.lose_and_reshape]
    await take(process.limiter, "e", "r", rpm=2)
    first, repeat, decided_again = writes(process)
    assert first is repeat
    assert counted(world, process) == (3, 2)
    wire.reshape(decided_again, back=True)  # type: ignore[arg-type]
    with pytest.raises(ConditionFailed):
        world.table.execute(first)


async def test_a_first_copy_that_is_applied_behind_its_repeat_is_counted_once(world: World) -> None:
    wire = Scripted(world.table)
    process = await opened(world, wire=wire)
    await take(process.limiter, "e", "r", rpm=1)
    wire.sent()

    def late(write: Update) -> Any:
        wire.reshape(write, back=True)
        wire.table.execute(writes(process)[0])
        wire.reshape(write)
        return wire.table.execute(write)

    wire.acts = [wire.lose_and_reshape, wire.table.execute, late]
    with pytest.raises(RateLimiterUnavailable):
        await take(process.limiter, "e", "r", rpm=2)
    assert counted(world, process) == (3, 2)
    await take(process.limiter, "e", "r", rpm=1)


async def test_eight_other_processes_leave_no_cell_and_then_a_lost_answer_is_a_failed_call(world: World) -> None:
    others = [await opened(world) for _ in WRITE_TOKENS]
    for _ in range(3):
        for each in others:
            await take(each.limiter, "e", "r", rpm=1)
    assert len(held(world, others[0])) == len(WRITE_TOKENS)
    process = await opened(world)
    await take(process.limiter, "e", "r", rpm=1)
    process.wire.break_once(ServerFault("500"), on=Update)
    with pytest.raises(RateLimiterUnavailable):
        await take(process.limiter, "e", "r", rpm=1)
    world.clock.advance(seconds=61)  # the others are gone
    process.wire.break_once(ServerFault("500"), on=Update, applied=True)
    await take(process.limiter, "e", "r", rpm=1)
    assert counted(world, process)[1] == 26


async def test_processes_find_cells_of_their_own(world: World) -> None:
    processes = [await opened(world) for _ in range(4)]
    for _ in range(5):
        for each in processes:
            await take(each.limiter, "e", "r", rpm=1)
    for each in processes:
        each.wire.sent()
    for each in processes:
        await take(each.limiter, "e", "r", rpm=1)
        assert each.wire.sent() == ["Update"]
    assert len(held(world, processes[0])) == 4


async def test_one_call_shows_no_outage_and_the_second_one_does(world: World) -> None:
    process = await opened(world)
    await take(process.limiter, "e", "r", rpm=1)
    process.wire.sent()
    process.wire.break_down(ServerFault("500"), on=Update)
    for requests, breaker in ((4, "closed"), (1, "open")):
        with pytest.raises(RateLimiterUnavailable, match="500"):
            await take(process.limiter, "e", "r", rpm=1)
        assert process.wire.sent().count("Update") >= requests
        assert process.repository.get_store_stats().breaker == breaker


@pytest.mark.parametrize("applied", [False, True])
async def test_a_refused_caller_stays_refused_after_a_lost_answer(world: World, *, applied: bool) -> None:
    process, other = await opened(world), await opened(world)
    await take(process.limiter, "e", "r", rpm=1)
    await take(other.limiter, "e", "r", rpm=59)
    process.wire.break_once(ServerFault("500"), on=Update, applied=applied)
    with pytest.raises(RateLimitExceeded):
        await take(process.limiter, "e", "r", rpm=5)
    assert counted(world, process)[0] == 60


def test_dynamodb_loses_answers_and_a_table_in_this_process_does_not() -> None:
    lossy = DynamoDBStore("t"), SyncDynamoDBStore("t")
    assert all(store.capabilities.lossy for store in lossy)
    assert not MemoryStore().capabilities.lossy


async def test_reads_are_repeated(world: World) -> None:
    process = await opened(world)
    for _ in range(2):
        process.wire.break_once(ServerFault("500"), on=(BatchGet, Get))
    await take(process.limiter, "e", "r", rpm=1)
    assert counted(world, process) == (1, 1)


async def test_a_warm_write_costs_the_same_with_a_token(world: World) -> None:
    plain, signed = await world.process(default_limits=[RPM]), await opened(world)
    costs = []
    for process, entity_id in ((plain, "a"), (signed, "b")):
        for _ in range(2):
            await take(process.limiter, entity_id, "r", rpm=1)
        process.wire.sent()
        world.meter.reset()
        await take(process.limiter, entity_id, "r", rpm=1)
        costs.append((world.meter.write_units, world.meter.read_units, process.wire.sent()))
    assert costs[0] == costs[1]
