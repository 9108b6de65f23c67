"""A table at its limit, a hot key, and a store that serves no write: what each costs, and what it splits.

An event loop runs in virtual time: it jumps to the next instant at which somebody goes on.
"""

import asyncio
import math
import selectors
from collections import Counter
from collections.abc import Coroutine, Sequence
from contextlib import nullcontext
from typing import Any

import pytest

from support.core.shards import shard_items
from support.core.wires import WRITES, Wire
from support.core.worlds import World, take
from zae_limiter import Limit, RateLimiter, RateLimiterUnavailable
from zae_limiter.operations.errors import Throttled
from zae_limiter.operations.retry_budget import BURST
from zae_limiter.operations.values import BatchGet, Found, Operation, Put, Transact
from zae_limiter.schema.attributes import PK

LIMIT = Limit.per_second("rpm", 10_000)
TABLE = ("TableWriteAccountLimitExceeded",)
HOT_KEY = ("TableWriteKeyRangeThroughputExceeded",)


class Jumps(selectors.SelectSelector):
    """A selector that waits for nothing, and moves the time on instead."""

    seconds = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.seconds += timeout or 0.0
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in the time of its selector."""

    def __init__(self) -> None:
        self._jumps = Jumps()
        super().__init__(self._jumps)

    def time(self) -> float:
        return self._jumps.seconds


class VirtualClock:
    """The time of the running loop, as a limiter wants it."""

    def now_ms(self) -> int:
        """Epoch milliseconds."""
        return 1_700_000_000_000 + round(self.monotonic() * 1000)

    def monotonic(self) -> float:
        """Seconds."""
        return asyncio.get_running_loop().time()


def in_virtual_time(scene: Coroutine[Any, Any, None]) -> None:
    """Run the scene."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(scene)


class Capacity:
    """Write units a second, of a table or of each key, between two instants; with the reasons that DynamoDB gives."""

    def __init__(
        self, per_second: float, reasons: Sequence[str], *, begins: float = 0.001, ends: float = math.inf
    ) -> None:
        self._begins, self._ends = begins, ends
        self._clock, self._per_second, self._reasons = VirtualClock(), per_second, tuple(reasons)
        self._of_keys = reasons == HOT_KEY
        self._left: dict[object, tuple[float, int]] = {}

    @property
    def is_on(self) -> bool:
        """Whether it bounds anything now."""
        return self._begins <= self._clock.monotonic() < self._ends

    def take(self, operation: Operation[Any]) -> None:
        """Take what a write costs. Raises ``Throttled``."""
        writes = operation.writes if isinstance(operation, Transact) else (operation,)
        now_ms, cost = self._clock.now_ms(), 2 if isinstance(operation, Transact) else 1
        for key in [_pk(write) if self._of_keys else "table" for write in writes]:
            left, at_ms = self._left.get(key, (1.0, now_ms))
            left = min(self._per_second, left + (now_ms - at_ms) * self._per_second / 1000)
            if left < 1:
                raise Throttled("slow down", self._reasons)
            self._left[key] = left - cost, now_ms


def _pk(write: Any) -> str:
    return str(write.item[PK] if isinstance(write, Put) else write.key.pk)


class CappedWire(Wire):
    """What one process sends to a table that has so much capacity; ``writes``: by whether it was bounded then."""

    def __init__(self, world: World, capacity: Capacity) -> None:
        super().__init__(world.table)
        self._capacity = capacity
        self.writes = Counter[bool]()

    def answer(self, operation: Operation[Any]) -> Any:
        if isinstance(operation, WRITES):
            self.writes[self._capacity.is_on] += 1
            if self._capacity.is_on:
                self._capacity.take(operation)
        return super().answer(operation)


class Demand:
    """Acquires at a steady rate, each in its turn by another process; ``fates``: by the second in which it began."""

    def __init__(self, limiters: Sequence[RateLimiter], *, buckets: int, per_second: int) -> None:
        self._limiters, self._buckets, self._per_second = limiters, buckets, per_second
        self.admitted, self.failed = Counter[int](), Counter[int]()

    async def last(self, seconds: int) -> None:
        """Ask for so long, and wait until each acquire has its answer."""
        tasks = [asyncio.create_task(self._ask(turn)) for turn in range(seconds * self._per_second)]
        await asyncio.gather(*tasks)

    async def _ask(self, turn: int) -> None:
        second = turn // self._per_second
        await asyncio.sleep(turn / self._per_second)
        try:
            await take(self._limiters[turn % len(self._limiters)], f"e{turn * 7 % self._buckets}", "r", rpm=1)
        except RateLimiterUnavailable:
            self.failed[second] += 1
        else:
            self.admitted[second] += 1


async def scene(
    capacity: Capacity, *, buckets: int, per_second: int, seconds: int, split_above: int, processes: int = 4
) -> tuple[Demand, Counter[bool], World, RateLimiter]:
    """Processes that ask a table for so long; with their writes, and one of their limiters to look at the table."""
    world = World("async")
    wires = [CappedWire(world, capacity) for _ in range(processes)]
    options: dict[str, Any] = {"clock": VirtualClock(), "split_above": split_above, "default_limits": [LIMIT]}
    limiters = [(await world.process(wire=wire, **options)).limiter for wire in wires]
    demand = Demand(limiters, buckets=buckets, per_second=per_second)
    await demand.last(seconds)
    return demand, sum((wire.writes for wire in wires), Counter[bool]()), world, limiters[0]


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("buckets", [8, 1000])
def test_a_table_at_half_the_demand_costs_few_requests_and_no_split(buckets: int) -> None:
    """With a thousand buckets no write is shared: each call above the limit waits for itself alone."""

    async def run() -> None:
        capacity = Capacity(30, TABLE, begins=2, ends=12)
        asked = 60 * 10
        demand, writes, world, limiter = await scene(
            capacity, buckets=buckets, per_second=60, seconds=15, split_above=50
        )

        assert writes[True] <= 1.6 * asked
        assert sum(demand.admitted[second] for second in range(2, 12)) >= 0.9 * 30 * 10
        assert not any(demand.failed[second] for second in (0, 1, 14))
        assert [*shard_items(world, limiter, "e0")] == [0]

    in_virtual_time(run())


def test_a_hot_key_is_split_and_few_of_its_calls_fail() -> None:
    async def run() -> None:
        capacity = Capacity(30, HOT_KEY)
        demand, _, world, limiter = await scene(capacity, buckets=1, per_second=90, seconds=8, split_above=25)

        assert len(shard_items(world, limiter, "e0")) >= 4
        assert demand.failed.total() <= 0.01 * 720

    in_virtual_time(run())


def test_without_any_capacity_each_call_soon_costs_one_request_and_a_moment() -> None:
    async def run() -> None:
        capacity = Capacity(0, TABLE)
        begun = asyncio.get_running_loop().time()
        demand, writes, _, _ = await scene(capacity, buckets=1000, per_second=40, seconds=10, split_above=50)
        assert demand.failed.total() == 400 - 1  # the first one came before
        assert writes[True] <= 400 + 4 * BURST
        assert asyncio.get_running_loop().time() - begun < 11  # the last calls have not waited for seconds

    in_virtual_time(run())


def test_nothing_is_sent_again_for_callers_who_have_gone() -> None:
    async def run() -> None:
        world, capacity = World("async"), Capacity(0, TABLE, begins=1)
        wire = CappedWire(world, capacity)
        limiter, _ = await world.process(default_limits=[LIMIT], wire=wire, clock=VirtualClock())
        await take(limiter, "e", "r", rpm=1)
        await asyncio.sleep(1)
        caller = asyncio.create_task(take(limiter, "e", "r", rpm=1))
        await asyncio.sleep(0.05)
        caller.cancel()
        await asyncio.sleep(10)
        assert wire.writes[True] == 1

    in_virtual_time(run())


class HalfRead(Wire):
    """Leaves all keys of so many batches unread, as DynamoDB does with what it throttles."""

    leaves: float = 0

    def answer(self, operation: Operation[Any]) -> Any:
        if isinstance(operation, BatchGet) and self.leaves > 0:
            self.leaves -= 1
            return Found({}, operation.keys)
        return super().answer(operation)


@pytest.mark.parametrize(("leaves", "admitted"), [(3, True), (math.inf, False)])
def test_keys_that_a_batch_leaves_unread_are_read_after_a_pause(leaves: float, *, admitted: bool) -> None:
    async def run() -> None:
        world = World("async")
        wire = HalfRead(world.table)
        limiter, _ = await world.process(default_limits=[LIMIT], wire=wire, clock=VirtualClock())
        begun, wire.leaves = asyncio.get_running_loop().time(), leaves
        with nullcontext() if admitted else pytest.raises(RateLimiterUnavailable):
            await take(limiter, "e", "r", rpm=1)
        assert asyncio.get_running_loop().time() > begun
        assert wire.sent().count("BatchGet") <= 10

    in_virtual_time(run())
