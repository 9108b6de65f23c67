"""Observers are told what became of every acquire and of every block; in both variants."""

import asyncio
import logging
import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from support.core.worlds import World, take, until
from zae_limiter import (
    Limit,
    RateLimiter,
    RateLimiterUnavailable,
    RateLimitExceeded,
    Repository,
    SyncRateLimiter,
    SyncRepository,
    ValidationError,
)
from zae_limiter.clock.system import SystemClock
from zae_limiter.exceptions import LeaseExpiredError, RepositoryClosedError
from zae_limiter.observers import AcquireEvent, Event, LeaseEvent
from zae_limiter.operations.errors import Unreachable
from zae_limiter.operations.values import Update

RPM, TPM = Limit.per_minute("rpm", 60), Limit.per_minute("tpm", 1000)


class Seen(list[Event]):
    """An observer that keeps what it is told."""

    def __call__(self, event: Event) -> None:
        self.append(event)

    @property
    def calls(self) -> list[AcquireEvent]:
        return [event for event in self if isinstance(event, AcquireEvent)]

    @property
    def ends(self) -> list[LeaseEvent]:
        return [event for event in self if isinstance(event, LeaseEvent)]


async def observed(world: World, **options: Any) -> tuple[RateLimiter, Seen]:
    seen = Seen()
    limiter, _ = await world.process(default_limits=[RPM, TPM], observers=[seen], **options)
    return limiter, seen


async def test_an_admitted_acquire_and_its_end_are_two_events(world: World) -> None:
    limiter, seen = await observed(world)
    async with limiter.acquire("e", "r", {"rpm": 1, "tpm": 500}) as lease:
        assert [type(event) for event in seen] == [AcquireEvent]
        await asyncio.sleep(0.02)
        await lease.settle(tpm=700)
    (call,), (end,) = seen.calls, seen.ends
    assert (call.namespace, call.entity_id, call.resource, call.call) == ("default", "e", "r", "acquire")
    assert (call.amounts, call.outcome, call.waited, call.error) == ({"rpm": 1, "tpm": 500}, "admitted", 0, None)
    assert call.seconds > 0
    assert (end.namespace, end.entity_id, end.resource) == ("default", "e", "r")
    assert (end.consumed, end.ending, end.degraded, end.error) == ({"rpm": 1, "tpm": 700}, "settled", False, None)
    assert end.seconds >= 0.02


async def test_a_refusal_names_the_limits_that_were_short(world: World) -> None:
    limiter, seen = await observed(world)
    with pytest.raises(RateLimitExceeded) as refusal:
        await take(limiter, "e", "r", rpm=61, tpm=1)
    (call,) = seen.calls
    assert (call.outcome, call.error) == ("refused", None)
    assert [status.limit_name for status in call.violations] == ["rpm"]
    assert call.statuses == refusal.value.statuses
    assert seen.ends == []


async def test_a_refusal_by_the_parent_has_the_path_to_it(world: World) -> None:
    limiter, seen = await observed(world)
    await limiter.create_entity("acme-corp")
    await limiter.create_entity("key-1", parent_id="acme-corp", cascade=True)
    await limiter.set_limits("acme-corp", [Limit.per_minute("rpm", 1)])
    await take(limiter, "key-1", "r", rpm=1)
    with pytest.raises(RateLimitExceeded):
        await take(limiter, "key-1", "r", rpm=1)
    admitted, refused = seen.calls
    assert (admitted.refused_by, admitted.path) == (None, ())
    assert (admitted.reason, refused.reason) == (None, "rate")
    assert (refused.refused_by, refused.path) == ("acme-corp", ("key-1", "acme-corp"))
    assert [(each.entity_id, each.limit_name) for each in refused.violations] == [("acme-corp", "rpm")]


async def test_an_event_says_that_a_switch_refused(world: World) -> None:
    limiter, seen = await observed(world)
    await limiter.repository.set_switches("e", disabled=True)
    with pytest.raises(RateLimitExceeded) as refusal:
        await take(limiter, "e", "r", rpm=1)
    assert [call.reason for call in seen.calls] == ["disabled"] == [refusal.value.reason]


async def test_an_outage_is_degraded_or_failed_as_the_policy_says(world: World) -> None:
    seen = Seen()
    process = await world.process(default_limits=[RPM], observers=[seen])
    process.wire.break_down(Unreachable("no answer"))
    with pytest.raises(RateLimiterUnavailable):
        await take(process.limiter, "e", "r", rpm=1)
    async with process.limiter.acquire("e", "r", {"rpm": 1}, on_unavailable="allow"):
        pass
    assert [call.outcome for call in seen.calls] == ["failed", "degraded"]
    assert isinstance(seen.calls[0].error, RateLimiterUnavailable)
    assert [end.degraded for end in seen.ends] == [True]


async def test_a_consume_is_an_event_of_its_own(world: World) -> None:
    limiter, seen = await observed(world)
    async with limiter.acquire("e", "r", {"tpm": 100}) as lease:
        await lease.consume(tpm=50)
        with pytest.raises(RateLimitExceeded):
            await lease.consume(tpm=5000)
    assert [(call.call, call.outcome, call.amounts) for call in seen.calls] == [
        ("acquire", "admitted", {"tpm": 100}),
        ("consume", "admitted", {"tpm": 50}),
        ("consume", "refused", {"tpm": 5000}),
    ]
    assert seen.ends[0].consumed == {"tpm": 150}


async def test_a_consume_in_an_outage_is_degraded_and_so_is_the_end(world: World) -> None:
    seen = Seen()
    process = await world.process(default_limits=[RPM], observers=[seen])
    async with process.limiter.acquire("e", "r", {"rpm": 1}, on_unavailable="allow") as lease:
        process.wire.break_down(Unreachable("no answer"))
        await lease.consume(rpm=1)
        process.wire.repair()
    assert [call.outcome for call in seen.calls] == ["admitted", "degraded"]
    assert (seen.ends[0].degraded, seen.ends[0].consumed) == (True, {"rpm": 2})


@pytest.mark.parametrize(("rollback", "ending", "used"), [(True, "rolled_back", 0), (False, "settled", 5)])
async def test_a_block_that_raises_is_rolled_back_unless_it_is_kept(
    world: World, *, rollback: bool, ending: str, used: int
) -> None:
    limiter, seen = await observed(world)
    with pytest.raises(ZeroDivisionError):
        async with limiter.acquire("e", "r", {"rpm": 5}, rollback=rollback):
            raise ZeroDivisionError
    (end,) = seen.ends
    assert (end.ending, end.consumed, end.error) == (ending, {"rpm": used}, None)


async def test_corrections_that_were_not_written_fail_the_end(world: World) -> None:
    seen = Seen()
    process = await world.process(default_limits=[TPM], observers=[seen])
    lease = process.limiter.acquire("e", "r", {"tpm": 1})
    await lease.__aenter__()
    await lease.settle(tpm=9)
    process.wire.break_down(Unreachable("no answer"))
    with pytest.raises(RateLimiterUnavailable) as raised:
        await lease.__aexit__(None, None, None)
    assert (seen.ends[0].ending, seen.ends[0].error) == ("failed", raised.value)


@pytest.mark.parametrize("rollback", [True, False])
async def test_an_end_that_was_not_written_behind_a_block_that_raised_fails_too(
    world: World, *, rollback: bool
) -> None:
    seen = Seen()
    process = await world.process(default_limits=[TPM], observers=[seen])
    lease = process.limiter.acquire("e", "r", {"tpm": 1}, rollback=rollback)
    await lease.__aenter__()
    await lease.settle(tpm=9)
    await process.repository.close()
    await lease.__aexit__(ZeroDivisionError, ZeroDivisionError(), None)
    (end,) = seen.ends
    assert (end.ending, type(end.error), end.consumed) == ("failed", RepositoryClosedError, {"tpm": 9})


async def test_the_wait_for_tokens_is_told(world: World) -> None:
    slow = Limit.custom("rpm", 1, refill_amount=2, refill_period=1)
    seen = Seen()
    limiter, _ = await world.process(default_limits=[slow], observers=[seen], clock=SystemClock())
    await take(limiter, "e", "r", rpm=1)
    async with limiter.acquire("e", "r", {"rpm": 1}, max_wait=20) as lease:
        assert seen.calls[-1].waited == lease.waited > 0
    assert seen.calls[-1].seconds >= seen.calls[-1].waited


async def test_a_cancelled_acquire_is_told(async_world: World) -> None:
    seen = Seen()
    process = await async_world.process(default_limits=[RPM], observers=[seen])
    await take(process.limiter, "e", "r", rpm=1)
    process.wire.hold(Update)
    task = asyncio.create_task(take(process.limiter, "e", "r", rpm=1))
    await until(lambda: process.wire.in_flight > 0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    process.wire.let_go()
    assert seen.calls[-1].outcome == "cancelled"
    assert isinstance(seen.calls[-1].error, asyncio.CancelledError)


async def test_mistakes_of_a_caller_are_no_events(world: World) -> None:
    limiter, seen = await observed(world)
    with pytest.raises(ValidationError):
        await take(limiter, "e", "r", unheard_of=1)
    lease = limiter.acquire("e", "r", {"rpm": 1})
    async with lease:
        seen.clear()
        with pytest.raises(ValidationError):
            await lease.consume(rpm=-1)
        with pytest.raises(LeaseExpiredError):
            await lease.__aenter__()
        assert seen == []


async def test_each_unit_that_the_store_writes_is_told_once(world: World) -> None:
    seen, second = Seen(), Seen()
    process = await world.process(default_limits=[RPM, TPM], observers=[seen, second])
    world.meter.newly_written()
    for _ in range(5):
        async with process.limiter.acquire("e", "r", {"rpm": 1, "tpm": 10}) as lease:
            await lease.adjust(tpm=1)
    written = 5 + 5 + 3  # an acquire and a correction each; the new bucket has three index entries
    assert sum(event.write_units for event in seen) == written
    assert second == seen


async def test_an_observer_that_raises_breaks_no_call_and_logs_once_a_minute(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(event: Event) -> None:
        raise ZeroDivisionError("of the observer")

    seen = Seen()
    limiter, _ = await world.process(default_limits=[RPM], observers=[broken, seen])
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            await take(limiter, "e", "r", rpm=1)
        assert len(caplog.records) == 1
        world.clock.advance(seconds=61)
        await take(limiter, "e", "r", rpm=1)
    assert [record.message.rpartition("failed; ")[2] for record in caplog.records] == [
        "0 more failures since the last line",
        "5 more failures since the last line",
    ]
    assert caplog.records[0].exc_info is not None
    assert len(seen) == 8


class Interruption(BaseException):
    """What a signal handler raises while an observer is told."""


@pytest.mark.parametrize("rollback", [True, False])
async def test_an_interruption_of_an_observer_gives_back_what_the_acquire_took(world: World, *, rollback: bool) -> None:
    def interrupted(event: Event) -> None:
        if isinstance(event, AcquireEvent) and event.resource == "bad":
            raise Interruption

    first, last, entered = Seen(), Seen(), False
    limiter, _ = await world.process(default_limits=[RPM], observers=[first, interrupted, last])
    lease = limiter.acquire("e", "bad", {"rpm": 20}, rollback=rollback)
    with pytest.raises(Interruption):
        async with lease:
            entered = True
    assert not entered
    assert await limiter.available("e", "bad") == {"rpm": 60}
    assert [event.outcome for event in first.calls] == ["admitted"]
    for seen in (first, last):
        assert [(event.ending, event.consumed) for event in seen.ends] == [("rolled_back", {"rpm": 0})]
        assert seen.ends[0].seconds < 5
    with pytest.raises(LeaseExpiredError):
        await lease.consume(rpm=1)


async def test_an_interruption_of_an_observer_that_hears_of_a_refusal_gives_nothing_back(world: World) -> None:
    def interrupted(event: Event) -> None:
        if isinstance(event, AcquireEvent) and event.outcome == "refused":
            raise Interruption

    seen = Seen()
    limiter, _ = await world.process(default_limits=[RPM], observers=[seen, interrupted])
    async with limiter.acquire("e", "r", {"rpm": 60}):
        with pytest.raises(Interruption):
            await take(limiter, "e", "r", rpm=1)
        assert seen.ends == []
        assert await limiter.available("e", "r") == {"rpm": 0}


async def asynchronous(event: Event) -> None:
    """An observer that somebody would have to await."""


class Asynchronous:
    async def __call__(self, event: Event) -> None:
        """The same."""


def generator(event: Event) -> Iterator[Event]:
    yield event


@pytest.mark.parametrize("observer", [asynchronous, partial(asynchronous), Asynchronous(), generator])
async def test_an_observer_whose_result_somebody_would_have_to_await_is_refused_by_its_name(
    world: World, observer: Any
) -> None:
    with pytest.raises(
        ValidationError, match=r"(?i)observers .*(asynchronous|generator).*: must be a function by `def`"
    ):
        await world.process(observers=[observer])


@pytest.mark.parametrize("bad", [print, [7], "print", [Seen]])
async def test_what_cannot_be_called_with_an_event_is_refused(world: World, bad: Any) -> None:
    with pytest.raises(ValidationError, match="observers"):
        await world.process(observers=bad)


async def test_a_repository_that_counts_units_tells_them() -> None:
    seen = Seen()
    async with RateLimiter(Repository.in_memory(count_units=True), default_limits=[RPM], observers=[seen]) as limiter:
        await take(limiter, "e", "r", rpm=1)
    assert seen.calls[0].write_units > 1
    sync_seen = Seen()
    repository = SyncRepository.in_memory(count_units=True)
    with (
        SyncRateLimiter(repository, default_limits=[RPM], observers=[sync_seen]) as sync_limiter,
        sync_limiter.acquire("e", "r", {"rpm": 1}),
    ):
        pass
    assert sync_seen.calls[0].write_units == seen.calls[0].write_units


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_tells_nothing_of_its_parents_block() -> None:
    seen = Seen()
    limiter = SyncRateLimiter(SyncRepository.in_memory(), default_limits=[RPM], observers=[seen])
    lease = limiter.acquire("e", "r", {"rpm": 1})
    lease.__enter__()
    child = os.fork()
    if not child:
        lease.__exit__(None, None, None)
        os._exit(len(seen))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    lease.__exit__(None, None, None)
    assert len(seen) == 2
