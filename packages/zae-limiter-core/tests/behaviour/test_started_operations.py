"""A store that starts operations: no task waits for a write, and callers see no other difference."""

import asyncio
import selectors
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from support.core.echoes import STORE, get, serving
from zae_limiter import Limit, Options, RateLimiter, RateLimiterUnavailable, RateLimitExceeded, Repository
from zae_limiter.engines.dynamodb.aio.store import DynamoDBStore
from zae_limiter.engines.memory.store import MemoryStore
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.exceptions import InfrastructureError
from zae_limiter.operations.errors import OutcomeUnknown, StoreError
from zae_limiter.operations.values import Get, Key, Operation, Update
from zae_limiter.stores import Capabilities

LIMIT = Limit.per_day("rpm", 100)
Done = Callable[[Any, Exception | None], None]


class Starting(MemoryStore):
    """A table in memory whose updates are answered a turn of the loop later, or when the test says so."""

    def __init__(self) -> None:
        super().__init__(MemoryTable())
        self.held: list[Callable[[], None]] | None = None
        self.error: Exception | None = None
        self.starts = True
        self.updates = 0

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, deadlines="engine")

    async def perform(self, operation: Operation[Any]) -> Any:
        self.updates += isinstance(operation, Update)
        return await super().perform(operation)

    def start(self, operation: Operation[Any], done: Done) -> bool:
        if not self.starts:
            return False
        self.updates += isinstance(operation, Update)

        def answer() -> None:
            if self.error is not None:
                return done(None, self.error)
            try:
                found = self.table.execute(operation)
            except StoreError as error:
                return done(None, error)
            return done(found, None)

        if self.held is None:
            asyncio.get_running_loop().call_soon(answer)
        else:
            self.held.append(answer)
        return True


@asynccontextmanager
async def warm(store: Starting) -> AsyncIterator[RateLimiter]:
    async with RateLimiter(await Repository.over(store, Options(acquire_timeout=None))) as limiter:
        await limiter.set_resource_defaults("api", [LIMIT])
        await take(limiter)
        yield limiter


async def take(limiter: RateLimiter) -> None:
    async with limiter.acquire("user", "api", {"rpm": 1}):
        pass


async def left(limiter: RateLimiter) -> int:
    return (await limiter.available("user", "api"))["rpm"]


async def turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Counting(selectors.DefaultSelector):
    """Counts the turns of its loop."""

    turns = 0

    def select(self, timeout: float | None = None) -> Any:
        self.turns += 1
        return super().select(timeout)


def test_an_acquire_takes_two_turns_and_no_task() -> None:
    selector, tasks = Counting(), list[Any]()

    def counted(loop: asyncio.AbstractEventLoop, work: Any) -> "asyncio.Task[Any]":
        tasks.append(work)
        return asyncio.Task(work, loop=loop)

    async def acquires() -> None:
        async with warm(Starting()) as limiter:
            loop, begun = asyncio.get_running_loop(), selector.turns
            loop.set_task_factory(counted)
            for _ in range(10):
                await take(limiter)
            loop.set_task_factory(None)
            assert (selector.turns - begun, len(tasks)) == (20, 0)

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(acquires())


async def test_callers_of_one_turn_share_a_write() -> None:
    async with warm(store := Starting()) as limiter:
        for _ in range(3):
            before = store.updates
            await asyncio.gather(*(take(limiter) for _ in range(10)))
            assert store.updates - before == 1
        assert await left(limiter) == 69


async def test_a_caller_that_leaves_during_its_write_gives_back() -> None:
    async with warm(store := Starting()) as limiter:
        store.held = []
        call = asyncio.ensure_future(take(limiter))
        await turn()
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call
        answers, store.held = store.held, None
        [answer] = answers
        answer()
        await turn()
        assert await left(limiter) == 99


@pytest.mark.parametrize("error", [OutcomeUnknown("lost"), ValueError("a fault of the engine")])
async def test_an_error_of_an_answer_reaches_the_caller_and_the_bucket_lives(error: Exception) -> None:
    async with warm(store := Starting()) as limiter:
        store.error = error
        with pytest.raises(InfrastructureError):
            await take(limiter)
        store.error = None
        await take(limiter)
        assert await left(limiter) == 98


async def test_a_refusal_is_that_of_a_task() -> None:
    async with warm(Starting()) as limiter:
        with pytest.raises(RateLimitExceeded):
            async with limiter.acquire("user", "api", {"rpm": 100}):
                pass
        await take(limiter)


async def test_a_second_answer_to_an_operation_counts_nothing() -> None:
    async with warm(store := Starting()) as limiter:
        store.held = []
        call = asyncio.ensure_future(take(limiter))
        await turn()
        [answer], store.held = store.held, None
        answer()
        answer()
        await call
        await take(limiter)


async def test_a_store_that_stops_starting_is_served_by_tasks() -> None:
    async with warm(store := Starting()) as limiter:
        for starts in (False, True, False):
            store.starts = starts
            await asyncio.gather(*(take(limiter) for _ in range(5)))
        assert await left(limiter) == 84


async def test_closing_cuts_off_a_write_without_an_answer() -> None:
    store = Starting()
    repository = await Repository.over(store, Options(acquire_timeout=None, read_timeout=0.05, connect_timeout=0.05))
    limiter = RateLimiter(repository)
    await limiter.set_resource_defaults("api", [LIMIT])
    await take(limiter)
    store.held = []
    call = asyncio.ensure_future(take(limiter))
    await turn()
    await limiter.close()
    with pytest.raises(RateLimiterUnavailable):
        await call


def test_a_write_of_a_loop_that_ended_is_forgotten() -> None:
    store = Starting()
    with asyncio.Runner() as first:
        limiter = first.run(opened(store))
        store.held = []
        first.run(begun(limiter))
    store.held = None
    with asyncio.Runner() as second:
        second.run(take(limiter))
        second.run(limiter.close())


async def opened(store: Starting) -> RateLimiter:
    limiter = RateLimiter(await Repository.over(store, Options(acquire_timeout=None)))
    await limiter.set_resource_defaults("api", [LIMIT])
    await take(limiter)
    return limiter


async def begun(limiter: RateLimiter) -> None:
    """Begin an acquire that the end of the loop cancels."""
    asyncio.ensure_future(take(limiter)).add_done_callback(lambda _: None)
    await turn()


def test_a_loop_that_stops_before_a_write_begins_leaves_the_bucket_to_the_next_loop() -> None:
    store = Starting()

    async def begin(limiter: RateLimiter) -> None:
        for _ in range(2):  # the first one waits for the second, which may share its write
            abandoned.append(asyncio.ensure_future(take(limiter)))

    abandoned = list[asyncio.Task[None]]()
    first = asyncio.new_event_loop()
    limiter = first.run_until_complete(opened(store))
    first.run_until_complete(begin(limiter))  # it stops in this turn
    with asyncio.Runner() as second:
        second.run(take(limiter))
        assert second.run(left(limiter)) == 98
    for task in abandoned:
        task.cancel()
    first.run_until_complete(asyncio.gather(*abandoned, return_exceptions=True))
    first.close()


@pytest.mark.usefixtures("nothing_of_this_computer")
async def test_an_answer_that_a_signal_handler_interrupts_is_told_as_lost() -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # the transport reports it
    told, twice = list[Any](), asyncio.Event()

    def done(answer: Any, error: Exception | None) -> None:
        told.append((answer, error))
        if len(told) == 1:
            raise ZeroDivisionError
        twice.set()

    with serving() as server:
        store = DynamoDBStore("t", endpoint_url=server.url, **STORE)
        await get(store, "opens")
        assert store.start(Get(Key("first", "s")), done)
        await twice.wait()
        assert isinstance(told[1][1], OutcomeUnknown)
        assert await get(store, "second") == "second"
        await store.close()
