"""A store that does not answer is left alone, but for a probe or two a second; who asks meanwhile learns it at once."""

import asyncio
import logging
import time

import pytest

from support.core.wires import SyncWireStore, Wire, WireStore
from support.core.worlds import Process, World, outcomes, take, until
from zae_limiter import (
    InfrastructureNotFoundError,
    Limit,
    Options,
    RateLimiter,
    RateLimiterUnavailable,
    Repository,
    RepositoryClosedError,
    StoreRefusedError,
    SyncRateLimiter,
    SyncRepository,
)
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.operations.errors import Denied, NotApplied, OutcomeUnknown, StoreError, TableMissing, Unreachable
from zae_limiter.operations.probing import FIRST_PAUSE, LONGEST_PAUSE
from zae_limiter.operations.values import Get, Update

RPM = Limit.per_hour("rpm", 100)


async def warm(world: World) -> Process:
    process = await world.process(default_limits=[RPM])
    await take(process.limiter, "e", "r", rpm=1)
    process.wire.sent()
    return process


async def break_down(process: Process, error: StoreError) -> None:
    process.wire.break_down(error)
    for _ in range(3):
        with pytest.raises(RateLimiterUnavailable):
            await take(process.limiter, "e", "r", rpm=1)


@pytest.mark.parametrize("error", [OutcomeUnknown("no answer"), Unreachable("connection refused")])
async def test_it_opens_after_three_and_closes_with_the_first_answer(world: World, error: StoreError) -> None:
    process = await warm(world)
    assert process.repository.get_store_stats().breaker == "closed"
    await break_down(process, error)
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
    assert set(sent := process.wire.sent()) == {"Get"}
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


# what is no outage


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (NotApplied("ValidationException: too large"), StoreRefusedError),
        (TableMissing("gone"), InfrastructureNotFoundError),
    ],
)
async def test_a_refusal_for_good_is_raised_whatever_the_policy(
    world: World, error: StoreError, shown: type[Exception]
) -> None:
    process = await warm(world)
    process.wire.break_down(error)
    for _ in range(5):
        with pytest.raises(shown):
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
