"""How a process ends, forks, changes its event loop: nobody waits for ever, nothing is lost but what is documented."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from support.core.wires import SyncWireStore, Wire, WireStore
from support.core.worlds import until
from zae_limiter import (
    Limit,
    Options,
    RateLimiter,
    RateLimiterUnavailable,
    RateLimitExceeded,
    Repository,
    SyncRateLimiter,
    SyncRepository,
)
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.exceptions import EventLoopError, RepositoryClosedError
from zae_limiter.operations.values import Scan, Update
from zae_limiter.testing import ManualClock

RPM = Limit.per_hour("rpm", 1_000_000)
BUSY_SECONDS = 30.0  # what hangs takes longer, what does not takes less on any machine
PATIENT: dict[str, Any] = {"acquire_timeout": None, "read_timeout": 2 * BUSY_SECONDS}


class Life:
    """An async limiter over a wire, for as many event loops as come."""

    def __init__(self, **options: Any) -> None:
        self.wire = Wire(MemoryTable())
        self.clock = ManualClock()
        self.options = Options(clock=self.clock, **PATIENT | options)
        self.limiter: RateLimiter

    async def open(self) -> "Life":
        repository = await Repository.over(WireStore(self.wire), self.options)
        self.limiter = RateLimiter(repository, default_limits=[RPM])
        await self.take()
        return self

    async def take(self, amount: int = 1) -> None:
        async with self.limiter.acquire("e", "r", {"rpm": amount}):
            pass

    async def take_for_ever(self) -> None:
        while True:
            await self.take()

    async def left(self) -> int:
        return (await self.limiter.available("e", "r"))["rpm"]


async def bounded(awaitable: Any) -> Any:
    async with asyncio.timeout(BUSY_SECONDS):
        return await awaitable


# close


async def test_close_returns_at_once_when_idle() -> None:
    it = await Life().open()
    await bounded(it.limiter.close())


async def test_close_under_load_returns_and_the_others_are_told_that_it_is_closed() -> None:
    it = await Life().open()
    tasks = [asyncio.create_task(it.take_for_ever()) for _ in range(50)]
    await asyncio.sleep(0.05)
    await bounded(it.limiter.close())
    done, pending = await asyncio.wait(tasks, timeout=BUSY_SECONDS)
    assert not pending
    assert {type(task.exception()) for task in done} == {RepositoryClosedError}


async def test_close_waits_for_the_write_under_way_and_refuses_who_waits_behind_it() -> None:
    it = await Life().open()
    it.wire.hold(Update)
    first = asyncio.create_task(it.take())
    await until(lambda: it.wire.in_flight == 1)
    second = asyncio.create_task(it.take())
    await asyncio.sleep(0)
    closing = asyncio.create_task(it.limiter.close())
    with pytest.raises(RepositoryClosedError):
        await bounded(second)
    assert not closing.done()
    it.wire.let_go()
    await bounded(first)
    await bounded(closing)


async def test_close_cuts_off_a_write_that_takes_longer_than_an_operation_may() -> None:
    it = await Life(connect_timeout=0.1, read_timeout=0.1).open()
    it.wire.hold(Update)
    first = asyncio.create_task(it.take())
    await until(lambda: it.wire.in_flight == 1)
    await bounded(it.limiter.close())
    with pytest.raises(RateLimiterUnavailable):
        await bounded(first)
    it.wire.let_go()


async def test_a_close_that_is_cancelled_cancels_nobodys_write() -> None:
    it = await Life().open()
    it.wire.hold(Update)
    first = asyncio.create_task(it.take())
    await until(lambda: it.wire.in_flight == 1)
    closing = asyncio.create_task(it.limiter.close())
    await asyncio.sleep(0.01)
    closing.cancel()
    it.wire.let_go()
    await bounded(first)
    await bounded(it.limiter.close())


# shutdown


@pytest.mark.parametrize("turns", range(6))
async def test_whoever_is_cancelled_with_all_others_ends_and_the_bucket_lives(turns: int) -> None:
    """As ``asyncio.run`` does at its end, on SIGINT, and as servers do: every task is cancelled, then waited for."""
    it = await Life().open()
    mine = asyncio.current_task()
    tasks = [asyncio.create_task(it.take_for_ever()) for _ in range(5)]
    for _ in range(turns):
        await asyncio.sleep(0)
    everything = [task for task in asyncio.all_tasks() if task is not mine]
    for task in everything:
        task.cancel()
    _, pending = await asyncio.wait([*tasks, *everything], timeout=BUSY_SECONDS)
    assert not pending
    await bounded(it.take())
    await bounded(it.limiter.close())


async def test_a_serve_task_that_is_cancelled_before_it_begins_leaves_nobody_waiting() -> None:
    it = await Life().open()
    before = asyncio.all_tasks()
    waiting = asyncio.create_task(it.take())
    await asyncio.sleep(0)
    (serving,) = asyncio.all_tasks() - before - {waiting}
    serving.cancel()
    with contextlib.suppress(RateLimiterUnavailable):
        await bounded(waiting)
    await bounded(it.take())


async def test_a_serve_task_that_is_cancelled_in_flight_tells_its_callers_and_serves_the_next() -> None:
    it = await Life().open()
    it.wire.hold(Update)
    before = asyncio.all_tasks()
    first = asyncio.create_task(it.take())
    await until(lambda: it.wire.in_flight == 1)
    second = asyncio.create_task(it.take())
    await asyncio.sleep(0)
    (serving,) = asyncio.all_tasks() - before - {first, second}
    serving.cancel()
    it.wire.let_go()
    with pytest.raises(RateLimiterUnavailable, match="cut off"):
        await bounded(first)
    await bounded(second)


def test_a_loop_that_is_closed_with_a_write_in_flight_does_not_leave_the_bucket_dead() -> None:
    it = Life()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(it.open())
    it.wire.hold(Update)
    stuck = loop.create_task(it.take())
    loop.run_until_complete(asyncio.sleep(0.02))
    stuck._log_destroy_pending = False  # type: ignore[attr-defined]  # it is destroyed on purpose
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.close()
    it.wire.let_go()
    asyncio.run(bounded(it.take()))
    del stuck
    gc.collect()  # what the closed loop left behind ends silently


async def test_close_on_another_loop_than_the_one_that_was_used_returns() -> None:
    it = Life()

    def elsewhere() -> None:
        async def leave_a_write() -> None:
            await it.open()
            it.wire.hold(Update)
            asyncio.get_running_loop().stuck = asyncio.ensure_future(it.take())  # type: ignore[attr-defined]
            await until(lambda: it.wire.in_flight == 1)

        asyncio.run(leave_a_write())

    await asyncio.to_thread(elsewhere)
    await bounded(it.limiter.close())
    with pytest.raises(RepositoryClosedError):
        await it.take()
    it.wire.let_go()


# event loops


def test_one_repository_serves_event_loops_in_turn() -> None:
    it = Life()
    asyncio.run(it.open())
    for _ in range(3):
        asyncio.run(bounded(it.take()))
    assert asyncio.run(it.left()) == 999_996


def test_another_loop_at_the_same_time_is_an_error_that_says_so_and_nobody_hangs() -> None:
    it = Life(on_unavailable="allow")
    opened, done = threading.Event(), threading.Event()

    async def live() -> None:
        await it.open()
        opened.set()
        while not done.is_set():
            await it.take()
            await asyncio.sleep(0.001)

    thread = threading.Thread(target=lambda: asyncio.run(live()))
    thread.start()
    assert opened.wait(BUSY_SECONDS)
    with pytest.raises(EventLoopError):
        asyncio.run(bounded(it.take()))
    done.set()
    thread.join(BUSY_SECONDS)
    assert not thread.is_alive()
    asyncio.run(bounded(it.take()))


# signals


class TimeLimit(Exception):
    """What a signal handler raises; an ``Exception``, as Celery's soft time limit is one."""


@pytest.mark.parametrize("limit", [TimeLimit, KeyboardInterrupt])
def test_what_a_signal_handler_raises_reaches_its_caller_and_the_bucket_lives(limit: type[BaseException]) -> None:
    wire = Wire(MemoryTable())
    repository = SyncRepository.over(SyncWireStore(wire), Options(clock=ManualClock(), **PATIENT))
    limiter = SyncRateLimiter(repository, default_limits=[RPM])

    def take() -> None:
        with limiter.acquire("e", "r", {"rpm": 1}, on_unavailable="allow"):
            pass

    def strike(*_: object) -> None:
        raise limit

    take()
    wire.hold(Update)
    before = signal.signal(signal.SIGALRM, strike)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(limit):
            take()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    wire.let_go()
    take()


def test_daemon_threads_keep_no_interpreter_alive() -> None:
    program = """
import threading
from zae_limiter import Limit, SyncRateLimiter, SyncRepository
limiter = SyncRateLimiter(SyncRepository.in_memory(), default_limits=[Limit.per_second("rpm", 10**9)])
def work():
    while True:
        with limiter.acquire("e", "r", {"rpm": 1}):
            pass
for _ in range(8):
    threading.Thread(target=work, daemon=True).start()
threading.Event().wait(0.3)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], timeout=2 * BUSY_SECONDS, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_daemon_threads_over_a_slow_store_keep_no_interpreter_alive() -> None:
    program = """
import random, threading, time
from zae_limiter import Limit, Options, SyncRateLimiter, SyncRepository
from zae_limiter.engines.memory.store import SyncMemoryStore
class Slow(SyncMemoryStore):
    def perform(self, operation):
        time.sleep(0.05)
        return super().perform(operation)
repository = SyncRepository.over(Slow(), Options())
limiter = SyncRateLimiter(repository, default_limits=[Limit.per_second("rpm", 10**9)])
def work():
    while True:
        with limiter.acquire("e", "r", {"rpm": 1}) as lease:
            lease.adjust(rpm=1)
            time.sleep(random.uniform(0, 0.1))
for _ in range(10):
    threading.Thread(target=work, daemon=True).start()
threading.Event().wait(0.3)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], timeout=2 * BUSY_SECONDS, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_threads_go_on_when_the_main_thread_has_ended() -> None:
    program = """
import threading
from zae_limiter import Limit, SyncRateLimiter, SyncRepository
limiter = SyncRateLimiter(SyncRepository.in_memory(), default_limits=[Limit.per_second("rpm", 10**9)])
def work():
    threading.main_thread().join()
    for _ in range(300):
        with limiter.acquire("e", "r", {"rpm": 1}):
            pass
    print("done")
for _ in range(8):
    threading.Thread(target=work).start()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], timeout=2 * BUSY_SECONDS, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.count("done"), done.stderr) == (0, 8, "")


# forks


def in_child(work: Callable[[], None]) -> int:
    """The exit code of a forked child that does the work; 99 where it hangs."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    latest = time.monotonic() + BUSY_SECONDS
    while time.monotonic() < latest:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return 99


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_does_not_wait_for_the_writes_of_its_parents_threads() -> None:
    wire = Wire(MemoryTable())
    limiter = SyncRateLimiter(
        SyncRepository.over(SyncWireStore(wire), Options(clock=ManualClock(), **PATIENT)), default_limits=[RPM]
    )

    def take() -> None:
        with limiter.acquire("e", "r", {"rpm": 1}):
            pass

    take()
    wire.hold(Update)
    threads = [threading.Thread(target=take) for _ in range(3)]
    for thread in threads:
        thread.start()
    while wire.in_flight == 0:
        time.sleep(0.001)
    time.sleep(0.02)

    def child() -> None:
        wire.let_go()
        take()

    assert in_child(child) == 0
    wire.let_go()
    for thread in threads:
        thread.join(BUSY_SECONDS)
    take()
    assert limiter.available("e", "r") == {"rpm": 999_995}


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_counts_none_of_the_refusals_of_its_parent() -> None:
    table = MemoryTable()
    repository = SyncRepository.over(SyncWireStore(Wire(table)), Options(clock=ManualClock(), **PATIENT))
    limiter = SyncRateLimiter(repository, default_limits=[Limit.per_day("rpm", 5)])
    with limiter.acquire("e", "r", {"rpm": 5}):
        pass

    def refused_and_counted(times: int) -> int:
        for _ in range(times):
            with pytest.raises(RateLimitExceeded), limiter.acquire("e", "r", {"rpm": 1}):
                pass
        repository.close()
        [item] = [each for each in table.execute(Scan(100)).items if each["SK"] == "#STATE"]
        return int(item["rj"])

    with pytest.raises(RateLimitExceeded), limiter.acquire("e", "r", {"rpm": 1}):
        pass

    def child() -> None:
        assert refused_and_counted(1) == 1

    assert in_child(child) == 0
    assert refused_and_counted(2) == 3


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
async def test_a_child_of_a_process_with_a_running_loop_has_loops_of_its_own() -> None:
    it = await Life().open()
    it.wire.hold(Update)
    first = asyncio.create_task(it.take())
    await until(lambda: it.wire.in_flight == 1)

    def child() -> None:
        asyncio.events._set_running_loop(None)
        it.wire.let_go()
        asyncio.new_event_loop().run_until_complete(bounded(it.take()))

    assert in_child(child) == 0
    it.wire.let_go()
    await bounded(first)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_lease_of_the_parent_is_given_back_by_the_parent_alone() -> None:
    table = MemoryTable()
    limiter = SyncRateLimiter(
        SyncRepository.over(SyncWireStore(Wire(table)), Options(clock=ManualClock(), **PATIENT)), default_limits=[RPM]
    )
    lease = limiter.acquire("e", "r", {"rpm": 10})
    lease.__enter__()

    def child() -> None:
        lease.__exit__(ValueError, ValueError(), None)
        assert limiter.available("e", "r") == {"rpm": 999_990}

    assert in_child(child) == 0
    lease.__exit__(ValueError, ValueError(), None)
    assert limiter.available("e", "r") == {"rpm": 1_000_000}


# logging


class Acquiring(logging.Handler):
    """A handler that acquires for every line, on the bucket that the line is about."""

    def __init__(self, limiter: SyncRateLimiter) -> None:
        super().__init__()
        self.limiter = limiter
        self.lines = 0
        self._inside = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        if not getattr(self._inside, "now", False):
            self._inside.now = True
            try:
                with self.limiter.acquire("e", "r", {"rpm": 1}, on_unavailable="allow"):
                    self.lines += 1
            finally:
                self._inside.now = False


def test_a_log_handler_may_acquire() -> None:
    from zae_limiter.operations.errors import OutcomeUnknown

    wire = Wire(MemoryTable())
    repository = SyncRepository.over(SyncWireStore(wire), Options(clock=ManualClock(), **PATIENT))
    limiter = SyncRateLimiter(repository, default_limits=[RPM])
    with limiter.acquire("e", "r", {"rpm": 1}):
        pass
    handler = Acquiring(limiter)
    logger = logging.getLogger("zae_limiter")
    logger.addHandler(handler)
    begun = time.monotonic()
    try:
        with contextlib.suppress(ZeroDivisionError), limiter.acquire("e", "r", {"rpm": 1}):
            wire.break_down(OutcomeUnknown("no answer"), on=Update)
            raise ZeroDivisionError  # what goes back is lost, which is logged
        for _ in range(5):
            with limiter.acquire("e", "r", {"rpm": 1}, on_unavailable="allow"):
                pass
    finally:
        logger.removeHandler(handler)
    assert handler.lines >= 2
    assert time.monotonic() - begun < BUSY_SECONDS
