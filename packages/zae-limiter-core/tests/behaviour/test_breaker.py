"""A store that does not answer is left alone, but for a probe or two a second; who asks meanwhile learns it at once."""

import asyncio
import logging
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from support.core.wires import WRITES, SyncWireStore, Wire, WireStore
from support.core.worlds import Process, World, outcomes, take, until
from zae_limiter import Limit, Options, RateLimiter, RateLimiterUnavailable, Repository, SyncRateLimiter, SyncRepository
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.engines.sqlite.place import url_of
from zae_limiter.exceptions import RepositoryClosedError, StoreRefusedError
from zae_limiter.operations.errors import (
    ConditionFailed,
    Denied,
    NotApplied,
    OutcomeUnknown,
    StoreError,
    Throttled,
    Unreachable,
)
from zae_limiter.operations.guard import FIRST_PAUSE, LONGEST_PAUSE
from zae_limiter.operations.values import (
    BatchGet,
    BatchWrite,
    Check,
    Conditions,
    Delete,
    Get,
    Item,
    Key,
    Operation,
    Put,
    Scan,
    Transact,
    Update,
    changes_nothing,
    changing_nothing,
)
from zae_limiter.settings import OpenOptions

KEY = Key("ns/BUCKET#e#r#0", "#STATE")
RPM = Limit.per_hour("rpm", 100)


async def warm(world: World) -> Process:
    process = await world.process(default_limits=[RPM])
    await take(process.limiter, "e", "r", rpm=1)
    process.wire.sent()
    return process


def items_of(table: MemoryTable) -> list[Item]:
    return list(table.execute(Scan(limit=100)).items)


async def break_down(process: Process, error: StoreError) -> None:
    process.wire.break_down(error)
    for _ in range(3):
        with pytest.raises(RateLimiterUnavailable):
            await take(process.limiter, "e", "r", rpm=1)


@pytest.mark.parametrize("error", [OutcomeUnknown, Unreachable])  # an instance would keep its store for the whole run
async def test_it_opens_after_three_and_closes_with_the_first_answer(world: World, error: type[StoreError]) -> None:
    process = await warm(world)
    assert process.repository.get_store_stats().breaker == "closed"
    await break_down(process, error("no answer"))
    stats = process.repository.get_store_stats()
    assert (stats.breaker, stats.opened, stats.unanswered) == ("open", 1, 3)
    assert not await process.repository.ping()
    process.wire.repair()
    await until(lambda: process.repository.get_store_stats().breaker == "closed")
    await take(process.limiter, "e", "r", rpm=1)
    assert await process.repository.ping()
    assert process.repository.get_store_stats().probes >= 1


async def test_while_it_is_open_nothing_is_sent_but_probes(world: World) -> None:
    process = await warm(world)
    await break_down(process, OutcomeUnknown("no answer"))
    process.wire.sent()
    process.wire.hold(Get)  # the probe hangs
    begun = time.monotonic()
    answers = await outcomes(*(take(process.limiter, f"e{n}", "r", rpm=1) for n in range(200)))
    assert all(isinstance(answer, RateLimiterUnavailable) for answer in answers)
    await until(lambda: process.wire.in_flight > 0)
    await outcomes(*(take(process.limiter, "e", "r", rpm=1) for n in range(50)))
    seconds = time.monotonic() - begun
    sent = process.wire.sent()
    assert set(sent) <= {"Get", "Update"}  # probes of reads, and of writes
    assert len(sent) <= 2 + seconds / LONGEST_PAUSE
    assert seconds < 30
    assert process.repository.get_store_stats().not_sent >= 50
    process.wire.let_go()


async def test_probes_are_sent_though_nobody_calls(world: World) -> None:
    process = await warm(world)
    await break_down(process, OutcomeUnknown("no answer"))
    process.wire.repair()
    await until(lambda: process.repository.get_store_stats().breaker == "closed")
    assert process.repository.get_store_stats().not_sent == 0


async def test_allow_goes_on_at_once(world: World) -> None:
    process = await warm(world)
    await break_down(process, OutcomeUnknown("no answer"))
    async with process.limiter.acquire("e", "r", {"rpm": 1}, on_unavailable="allow") as lease:
        assert lease.degraded


async def test_an_answer_in_between_keeps_it_closed(world: World) -> None:
    process = await warm(world)
    for _ in range(5):
        for _ in range(2):
            process.wire.break_once(OutcomeUnknown("no answer"), on=Update)
            with pytest.raises(RateLimiterUnavailable):
                await take(process.limiter, "e", "r", rpm=1)
        await take(process.limiter, "e", "r", rpm=1)
    assert process.repository.get_store_stats().opened == 0


async def test_a_line_tells_that_it_opened_and_one_that_it_closed(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    process = await warm(world)
    with caplog.at_level(logging.INFO, "zae_limiter.operations.health"):
        await break_down(process, OutcomeUnknown("no answer"))
        await outcomes(*(take(process.limiter, "e", "r", rpm=1) for n in range(20)))
        process.wire.repair()
        await until(lambda: len(caplog.records) > 1)
    assert process.repository.get_store_stats().breaker == "closed"
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


async def test_it_does_not_go_on_asking_behind_a_repository_that_is_closed(world: World) -> None:
    process = await warm(world)
    await break_down(process, OutcomeUnknown("no answer"))
    await process.repository.close()
    process.wire.sent()
    await asyncio.sleep(0.4)
    assert len(process.wire.sent()) <= 1


# writes fail apart from reads


@pytest.mark.parametrize("error", [OutcomeUnknown, Unreachable])
async def test_answered_reads_do_not_hide_failed_writes(world: World, error: type[StoreError]) -> None:
    process = await warm(world)
    process.wire.break_down(error("no answer"), on=WRITES)
    for _ in range(3):
        with pytest.raises(RateLimiterUnavailable):
            await take(process.limiter, "e", "r", rpm=1)
        assert await process.repository.get_bucket("e", "r") is not None
    assert process.repository.get_store_stats().breaker == "open"
    process.wire.sent()
    with pytest.raises(RateLimiterUnavailable, match="does not answer writes"):
        await take(process.limiter, "e", "r", rpm=1)
    await until(lambda: process.repository.get_store_stats().probes >= 2)
    assert await process.repository.get_bucket("e", "r") is not None  # reads go on, and close nothing
    assert process.repository.get_store_stats().breaker == "open"
    assert process.repository.get_store_stats().opened == 1


async def test_the_probe_of_writes_is_a_write_that_changes_nothing(world: World) -> None:
    process = await warm(world)
    process.wire.break_down(OutcomeUnknown("no answer"), on=WRITES)
    for _ in range(3):
        with pytest.raises(RateLimiterUnavailable):
            await take(process.limiter, "e", "r", rpm=1)
    process.wire.seen.clear()
    before = items_of(world.table)
    await until(lambda: process.repository.get_store_stats().probes >= 2)
    probes = [each for each in process.wire.seen if isinstance(each, WRITES)]
    process.wire.repair()
    await until(lambda: process.repository.get_store_stats().breaker == "closed")
    assert probes
    assert all(changes_nothing(each) for each in probes)
    assert items_of(world.table) == before
    await take(process.limiter, "e", "r", rpm=1)


@pytest.mark.parametrize(
    "write",
    [
        Update(KEY, add={"n": 1}),
        Put({"PK": KEY.pk, "SK": KEY.sk}),
        Delete(KEY),
        Transact((Check(KEY, Conditions(exists=("PK",))), Update(KEY, add={"n": 1}))),
        BatchWrite((Put({"PK": KEY.pk, "SK": KEY.sk}),)),
    ],
)
def test_no_write_is_applied_as_a_probe(write: Operation[Any]) -> None:
    """Neither where there is no item, nor where there is one; it needs the permission of the write that failed."""
    table = MemoryTable()
    probe = changing_nothing(write)
    for _ in range(2):
        before = items_of(table)
        with pytest.raises(ConditionFailed):
            table.execute(probe)
        assert items_of(table) == before
        table.execute(Put({"PK": KEY.pk, "SK": KEY.sk, "n": 1}))
    parts = getattr(write, "writes", (write,))
    assert type(probe) in {type(part) for part in parts}


async def test_answered_writes_do_not_hide_failed_reads(world: World) -> None:
    process = await warm(world)
    process.wire.break_down(OutcomeUnknown("no answer"), on=(Get, BatchGet))
    for n in range(3):
        with pytest.raises(RateLimiterUnavailable):
            await take(process.limiter, f"cold{n}", "r", rpm=1)
        await take(process.limiter, "e", "r", rpm=1)
    process.wire.sent()
    with pytest.raises(RateLimiterUnavailable, match="does not answer reads"):
        await take(process.limiter, "cold", "r", rpm=1)
    await take(process.limiter, "e", "r", rpm=1)
    assert process.wire.sent().count("Update") == 1
    process.wire.repair()
    await until(lambda: process.repository.get_store_stats().breaker == "closed")
    await take(process.limiter, "cold", "r", rpm=1)


async def test_one_kind_is_served_again_before_the_other(world: World) -> None:
    process = await warm(world)
    process.wire.break_down(OutcomeUnknown("no answer"))
    for _ in range(4):
        with pytest.raises(RateLimiterUnavailable):
            await take(process.limiter, "e", "r", rpm=1)
    process.wire.repair()
    process.wire.break_down(OutcomeUnknown("no answer"), on=(Get, BatchGet))
    await until(lambda: not process.repository.driver.health.writes.in_a_row)
    await take(process.limiter, "e", "r", rpm=1)
    assert process.wire.sent().count("Update") >= 1


@pytest.mark.parametrize(
    "error",
    [
        OutcomeUnknown("no answer"),
        Unreachable("its disk is full"),
        Throttled("ThrottlingException: too many writes"),
        Denied("AccessDeniedException: not any more"),
    ],
)
async def test_ping_is_false_while_writes_fail(world: World, error: StoreError) -> None:
    process = await warm(world)
    assert await process.repository.ping()
    before = items_of(world.table)
    process.wire.break_down(error, on=WRITES)
    for _ in range(5):
        assert not await process.repository.ping()
        assert await process.repository.get_bucket("e", "r") is not None
    process.wire.repair()
    await until(lambda: process.repository.get_store_stats().breaker == "closed")
    assert await process.repository.ping()
    assert items_of(world.table) == before


async def test_denied_writes_are_logged_once_though_reads_are_answered(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    process = await warm(world)
    process.wire.break_down(Denied("AccessDeniedException: not any more"), on=WRITES)
    for _ in range(5):
        async with process.limiter.acquire("e", "r", {"rpm": 1}, on_unavailable="allow") as lease:
            assert lease.degraded
        assert await process.repository.get_bucket("e", "r") is not None
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["async", "sync"])
async def test_a_held_write_lock_costs_three_calls_their_time_and_no_other(tmp_path: Path, variant: str) -> None:
    """Of a file: SQLite answers reads while another process holds the write lock."""
    path = tmp_path / "limits.db"

    def seconds(entity: str) -> float:
        begun = time.monotonic()
        with limiter.acquire(entity, "r", {"rpm": 1}, on_unavailable="allow") as lease:
            assert lease.degraded
        return time.monotonic() - begun

    async def seconds_of_a_task(entity: str) -> float:
        begun = time.monotonic()
        async with in_tasks.acquire(entity, "r", {"rpm": 1}, on_unavailable="allow") as lease:
            assert lease.degraded
        return time.monotonic() - begun

    options: OpenOptions = {"store": url_of(path), "read_timeout": 0.3, "connect_timeout": 0.1}
    limiter = SyncRateLimiter(SyncRepository.open(**options), default_limits=[RPM])
    in_tasks = RateLimiter(await Repository.open(**options), default_limits=[RPM])
    with limiter.acquire("e", "r", {"rpm": 1}):
        pass
    async with in_tasks.acquire("e", "r", {"rpm": 1}):
        pass
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        taken = []
        for n in range(60):
            entity = "e" if n < 40 else f"cold{n}"  # a cold one reads first
            taken.append(seconds(entity) if variant == "sync" else await seconds_of_a_task(entity))
            await asyncio.sleep(0.02)
        repository = limiter.repository if variant == "sync" else in_tasks.repository
        stats = repository.get_store_stats()
        assert stats.breaker == "open"
        other.execute("ROLLBACK")
    assert stats.not_sent >= len(taken) - 3
    assert sorted(taken)[len(taken) // 2] < 0.3, taken  # a busy machine holds up some of the others, too
    await until(lambda: repository.get_store_stats().breaker == "closed")
    limiter.close()
    await in_tasks.close()


def test_ping_is_false_while_the_disk_takes_no_write(tmp_path: Path) -> None:
    """Also before any call has failed; a file may grow no more, which is a full disk for SQLite."""
    script = f"""
import resource, signal
from zae_limiter import SyncRepository
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
repository = SyncRepository.sqlite({str(tmp_path / "limits.db")!r})
assert repository.ping()
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))
print([repository.ping() for _ in range(5)])
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
while repository.get_store_stats().breaker == "open":
    pass
print(repository.ping())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["[False,", "False,", "False,", "False,", "False]", "True"], done.stderr


# what is not an outage


async def test_a_refusal_for_good_is_raised_whatever_the_policy(world: World) -> None:
    process = await warm(world)
    process.wire.break_down(NotApplied("RequestEntityTooLarge: too large"))
    for _ in range(5):
        with pytest.raises(StoreRefusedError):
            async with process.limiter.acquire("e", "r", {"rpm": 1}, on_unavailable="allow"):
                pytest.fail("the block ran")
    assert process.repository.get_store_stats().breaker == "closed"


async def test_access_that_is_lost_is_an_outage_with_an_error_in_the_log(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    process = await warm(world)
    process.wire.break_down(Denied("AccessDeniedException: not any more"))
    for _ in range(5):
        async with process.limiter.acquire("e", "r", {"rpm": 1}, on_unavailable="allow") as lease:
            assert lease.degraded
    with pytest.raises(RateLimiterUnavailable, match="not any more"):
        await take(process.limiter, "e", "r", rpm=1)
    assert process.repository.get_store_stats().denied == 6
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1


async def test_access_that_never_was_is_a_refusal(world: World) -> None:
    process = await world.process(default_limits=[RPM])
    process.repository.driver.health.__init__()  # type: ignore[misc]  # as if the repository had not been opened
    process.wire.break_down(Denied("AccessDeniedException: no"))
    with pytest.raises(StoreRefusedError, match="AccessDenied"):
        async with process.limiter.acquire("e", "r", {"rpm": 1}, on_unavailable="allow"):
            pytest.fail("the block ran")


@pytest.mark.parametrize("policy", ["allow", "block"])
async def test_a_closed_repository_refuses_whatever_the_policy(world: World, policy: str) -> None:
    process = await warm(world)
    await process.repository.close()
    with pytest.raises(RepositoryClosedError, match="closed"):
        async with process.limiter.acquire("e", "r", {"rpm": 1}, on_unavailable=policy):  # type: ignore[arg-type]
            pytest.fail("the block ran")
    with pytest.raises(RepositoryClosedError):
        await process.repository.ping()


def test_event_loops_that_end_before_a_probe_is_due_close_it_nevertheless() -> None:
    """A worker that calls ``asyncio.run`` for each short job."""
    wire = Wire(MemoryTable())
    limiter = RateLimiter(asyncio.run(Repository.over(WireStore(wire), Options())), default_limits=[RPM])

    async def job() -> bool:
        async with limiter.acquire("e", "r", {"rpm": 1}, on_unavailable="allow") as lease:
            return lease.degraded

    assert not asyncio.run(job())
    wire.sent()
    wire.break_down(OutcomeUnknown("no answer"))
    deadline = time.monotonic() + 1
    jobs = 0
    while time.monotonic() < deadline or jobs < 100:  # on a busy machine they take longer
        assert asyncio.run(job())
        jobs += 1
    assert 4 < len(wire.sent()) < jobs / 3  # three that open it, then a few probes
    wire.repair()
    deadline = time.monotonic() + 60
    while asyncio.run(job()):
        assert time.monotonic() < deadline
    assert limiter.repository.get_store_stats().breaker == "closed"
    wire.sent()
    wire.break_down(OutcomeUnknown("no answer"))
    begun = time.monotonic()
    for _ in range(10):
        asyncio.run(job())
    # three that open it; the next outage begins with a pause
    assert 3 <= len(wire.sent()) <= 3 + (time.monotonic() - begun) / (FIRST_PAUSE / 2)
    asyncio.run(limiter.close())


def test_a_probe_that_raises_what_no_store_should_is_followed_by_others() -> None:
    wire = Wire(MemoryTable())
    limiter = SyncRateLimiter(SyncRepository.over(SyncWireStore(wire), Options()), default_limits=[RPM])

    def job() -> bool:
        with limiter.acquire("e", "r", {"rpm": 1}, on_unavailable="allow") as lease:
            return lease.degraded

    assert not job()
    wire.break_down(OutcomeUnknown("no answer"))
    for _ in range(3):
        assert job()
    wire.repair()
    wire.break_down(RuntimeError("broken"))
    wire.sent()
    assert job()
    deadline = time.monotonic() + 60
    while len(wire.seen) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    wire.repair()
    while job():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    limiter.close()
