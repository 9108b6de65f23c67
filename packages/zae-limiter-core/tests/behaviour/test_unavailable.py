"""A store that is away, slow or throttling at each step, in both variants: ``block`` raises, ``allow`` lets through."""
# ruff: noqa: PT012 - a block under a lease that raises takes more than one line

from collections.abc import Callable
from typing import Any

import pytest

from support.core.worlds import Process, World, take
from zae_limiter import Limit, RateLimiterUnavailable, RateLimitExceeded
from zae_limiter.operations.errors import OutcomeUnknown, StoreError, Throttled, Unreachable
from zae_limiter.operations.values import BatchGet, Put, Update
from zae_limiter.values.limits import Policy

RPM = Limit.per_day("rpm", 60)  # the pauses after throttling refill nothing

FAULTS: dict[str, Callable[[], StoreError]] = {
    "away": lambda: Unreachable("connection refused"),
    "slow": lambda: OutcomeUnknown("read timed out"),
    "throttling": lambda: Throttled("slow down"),
}


@pytest.fixture(params=FAULTS)
def fault(request: pytest.FixtureRequest) -> StoreError:
    error: StoreError = FAULTS[request.param]()
    return error


async def warm(world: World, **options: Any) -> Process:
    """A process that knows its limits and its bucket, of which one token is taken."""
    process = await world.process(default_limits=[RPM], **options)
    await take(process.limiter, "e", "r", rpm=1)
    return process


# acquire


@pytest.mark.parametrize("step", ["read", "create", "write", "write beside a read"])
async def test_block_raises_with_the_cause_at_each_step_of_acquire(world: World, fault: StoreError, step: str) -> None:
    process = await (warm(world) if step.startswith("write") else world.process(default_limits=[RPM]))
    limiter, wire = process
    if step == "write beside a read":
        world.clock.advance(seconds=61)
    wire.break_down(fault, on={"read": BatchGet, "create": Put}.get(step, (Update, Put)))
    with pytest.raises(RateLimiterUnavailable) as caught:
        async with limiter.acquire("e", "r", {"rpm": 10}):
            pytest.fail("the block ran")
    assert caught.value.__cause__ is fault
    assert str(fault) in str(caught.value)
    wire.repair()
    assert await limiter.available("e", "r") == {"rpm": 59 if step.startswith("write") else 60}


@pytest.mark.parametrize("step", ["read", "create", "write"])
async def test_allow_lets_through_a_lease_that_is_degraded_at_each_step_of_acquire(
    world: World, fault: StoreError, step: str
) -> None:
    process = await (warm(world) if step == "write" else world.process(default_limits=[RPM]))
    limiter, wire = process
    wire.break_down(fault, on={"read": BatchGet, "create": Put}.get(step, (Update, Put)))
    async with limiter.acquire("e", "r", {"rpm": 10}, on_unavailable="allow") as lease:
        assert lease.degraded
        assert lease.consumed == {"rpm": 10}
        assert lease.statuses == []
        await lease.consume(rpm=5)
        await lease.adjust(rpm=-3)
        await lease.release(rpm=2)
        wire.repair()
    assert await limiter.available("e", "r") == {"rpm": 60 if step != "write" else 59}  # nothing was counted


async def test_a_refresh_that_fails_beside_a_write_that_succeeds_keeps_the_old_limits(world: World) -> None:
    limiter, wire = await warm(world)
    world.clock.advance(seconds=61)
    wire.break_down(OutcomeUnknown("slow"), on=BatchGet)
    async with limiter.acquire("e", "r", {"rpm": 10}) as lease:
        assert not lease.degraded
    item = world.bucket_of(limiter, "e", "r")
    assert item is not None
    assert item["b_rpm_tc"] == 11_000


async def test_a_write_whose_answer_is_lost_is_neither_repeated_nor_given_back(world: World) -> None:
    limiter, wire = await warm(world)
    wire.sent()
    wire.break_once(OutcomeUnknown("slow"), on=Update, applied=True)
    with pytest.raises(RateLimiterUnavailable):
        await take(limiter, "e", "r", rpm=10)
    assert wire.sent() == ["Update"]
    assert await limiter.available("e", "r") == {"rpm": 49}  # leaked: never admitted twice


async def test_throttling_that_passes_is_waited_for(world: World) -> None:
    limiter, wire = await warm(world)
    wire.break_once(Throttled("slow down"), on=Update)
    async with limiter.acquire("e", "r", {"rpm": 10}) as lease:
        assert not lease.degraded
    assert await limiter.available("e", "r") == {"rpm": 49}


async def test_what_the_state_refuses_is_refused_whether_the_store_is_there_or_not(world: World) -> None:
    limiter, wire = await warm(world)
    await take(limiter, "e", "r", rpm=59)
    wire.break_down(Unreachable("away"))
    with pytest.raises(RateLimitExceeded):
        async with limiter.acquire("e", "r", {"rpm": 1}, on_unavailable="allow"):
            pass


# in the block, and behind it


async def test_block_raises_where_more_cannot_be_consumed_and_the_rest_is_given_back(
    world: World, fault: StoreError
) -> None:
    limiter, wire = await warm(world)
    with pytest.raises(RateLimiterUnavailable):
        async with limiter.acquire("e", "r", {"rpm": 10}) as lease:
            wire.break_down(fault, on=Update)
            try:
                await lease.consume(rpm=5)
            finally:
                wire.repair()
    assert await limiter.available("e", "r") == {"rpm": 59}


async def test_allow_lets_more_be_consumed_without_counting_it(world: World, fault: StoreError) -> None:
    limiter, wire = await warm(world)
    async with limiter.acquire("e", "r", {"rpm": 10}, on_unavailable="allow") as lease:
        wire.break_down(fault, on=Update)
        await lease.consume(rpm=5)
        assert lease.degraded
        assert lease.consumed == {"rpm": 15}
        wire.repair()
    assert await limiter.available("e", "r") == {"rpm": 49}


@pytest.mark.parametrize("by", ["release", "adjust"])
async def test_what_was_let_through_uncounted_does_not_go_back_as_tokens(world: World, by: str) -> None:
    limiter, wire = await warm(world)
    async with limiter.acquire("e", "r", {"rpm": 1}, on_unavailable="allow") as lease:
        wire.break_down(Unreachable("away"), on=Update)
        await lease.consume(rpm=40)
        wire.repair()
        await (lease.release(rpm=40) if by == "release" else lease.adjust(rpm=-40))
        await take(limiter, "e", "r", rpm=50)
    assert await limiter.available("e", "r") == {"rpm": 8}


async def test_block_raises_where_corrections_cannot_be_written(world: World, fault: StoreError) -> None:
    limiter, wire = await warm(world)
    with pytest.raises(RateLimiterUnavailable):
        async with limiter.acquire("e", "r", {"rpm": 10}) as lease:
            await lease.adjust(rpm=20)
            wire.break_down(fault, on=Update)
    wire.repair()
    assert await limiter.available("e", "r") == {"rpm": 49}


async def test_allow_does_not_and_the_lease_is_degraded(world: World, fault: StoreError) -> None:
    limiter, wire = await warm(world)
    async with limiter.acquire("e", "r", {"rpm": 10}, on_unavailable="allow") as lease:
        await lease.adjust(rpm=20)
        wire.break_down(fault, on=Update)
    assert lease.degraded
    wire.repair()
    assert await limiter.available("e", "r") == {"rpm": 49}


async def test_the_error_of_a_kept_block_goes_on_where_corrections_cannot_be_written(
    world: World, fault: StoreError
) -> None:
    limiter, wire = await warm(world)
    with pytest.raises(ZeroDivisionError):
        async with limiter.acquire("e", "r", {"rpm": 10}, rollback=False) as lease:
            await lease.adjust(rpm=20)
            wire.break_down(fault, on=Update)
            raise ZeroDivisionError


async def test_a_rollback_that_fails_lets_the_blocks_own_error_go_on_and_says_what_is_lost(
    world: World, fault: StoreError, caplog: pytest.LogCaptureFixture
) -> None:
    limiter, wire = await warm(world)
    with pytest.raises(ZeroDivisionError):
        async with limiter.acquire("e", "r", {"rpm": 10}):
            wire.break_down(fault, on=Update)
            raise ZeroDivisionError
    wire.repair()
    assert await limiter.available("e", "r") == {"rpm": 49}  # lost, never created
    assert "e/r: 10 of rpm were not given back: " in caplog.text


async def test_lines_of_lost_tokens_are_one_a_minute(world: World, caplog: pytest.LogCaptureFixture) -> None:
    limiter, wire = await warm(world)
    for _ in range(10):
        with pytest.raises(ZeroDivisionError):
            async with limiter.acquire("e", "r", {"rpm": 1}):
                wire.break_once(OutcomeUnknown("no answer"), on=Update)
                raise ZeroDivisionError
    lines = [record.getMessage() for record in caplog.records if "not given back" in record.getMessage()]
    assert lines == ["e/r: 1 of rpm were not given back: no answer"]


async def test_a_give_back_whose_answer_is_lost_is_not_queued_again(world: World) -> None:
    limiter, wire = await warm(world)
    with pytest.raises(ZeroDivisionError):
        async with limiter.acquire("e", "r", {"rpm": 10}):
            wire.sent()
            wire.break_once(OutcomeUnknown("slow"), on=Update, applied=True)
            raise ZeroDivisionError
    assert wire.sent() == ["Update"]
    assert await limiter.available("e", "r") == {"rpm": 59}


async def test_a_degraded_lease_is_logged_as_a_warning(world: World, caplog: pytest.LogCaptureFixture) -> None:
    limiter, wire = await warm(world)
    wire.break_down(Unreachable("connection refused"))
    async with limiter.acquire("e", "r", {"rpm": 10}, on_unavailable="allow"):
        pass
    assert [(record.levelname, record.name) for record in caplog.records] == [
        ("WARNING", "zae_limiter.flows.acquire.outage")
    ]
    assert "e/r: not counted, because the store is away: connection refused" in caplog.text


async def test_a_lease_that_is_degraded_in_its_block_or_at_its_end_is_logged_too(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    limiter, wire = await warm(world)
    async with limiter.acquire("e", "r", {"rpm": 10}, on_unavailable="allow") as lease:
        wire.break_down(Unreachable("connection refused"))
        await lease.consume(rpm=1)
        assert lease.degraded
        assert len(caplog.records) == 1
        await lease.consume(rpm=1)  # within the minute of the first line
        assert len(caplog.records) == 1
        world.clock.advance(seconds=61)
        await lease.adjust(rpm=50)
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert ["not counted" in line for line in lines] == [True, True]
    assert lines[1].endswith("; 1 more since the last line")


# which policy


@pytest.mark.parametrize(
    ("call", "system", "repository", "allows"),
    [
        (None, None, "block", False),
        (None, None, "allow", True),
        (None, "allow", "block", True),
        (None, "block", "allow", False),
        ("block", "allow", "allow", False),
        ("allow", "block", "block", True),
    ],
)
async def test_the_call_comes_before_the_system_config_and_that_before_the_repository(
    world: World, call: Policy | None, system: Policy | None, repository: Policy, allows: object
) -> None:
    limiter, wire = await world.process(on_unavailable=repository)
    await limiter.set_system_defaults([RPM], system)
    await take(limiter, "e", "r", rpm=1)
    wire.break_down(Unreachable("away"))
    if allows:
        async with limiter.acquire("e", "r", {"rpm": 1}, on_unavailable=call) as lease:
            assert lease.degraded
    else:
        with pytest.raises(RateLimiterUnavailable):
            async with limiter.acquire("e", "r", {"rpm": 1}, on_unavailable=call):
                pass


async def test_what_the_system_config_said_is_remembered_while_the_store_is_away(world: World) -> None:
    limiter, wire = await world.process()
    await limiter.set_system_defaults([RPM], "allow")
    await take(limiter, "e", "r", rpm=1)
    wire.break_down(Unreachable("away"))
    world.clock.advance(seconds=24 * 3600)
    for entity in ("e", "never-seen"):
        async with limiter.acquire(entity, "r", {"rpm": 1}) as lease:
            assert lease.degraded


@pytest.mark.parametrize(
    "ask",
    [
        lambda limiter: limiter.available("e", "r"),
        lambda limiter: limiter.get_limits("e"),
        lambda limiter: limiter.set_limits("e", [RPM]),
        lambda limiter: limiter.set_system_defaults([RPM]),
        lambda limiter: limiter.delete_limits("e"),
        lambda limiter: limiter.repository.resolve_limits("x", "r"),
        lambda limiter: limiter.create_entity("e"),
        lambda limiter: limiter.get_entity("e"),
        lambda limiter: limiter.get_children("e"),
    ],
)
async def test_everything_else_raises_with_the_cause(world: World, ask: Callable[..., object]) -> None:
    limiter, wire = await world.process(default_limits=[RPM])
    fault = Unreachable("connection refused")
    wire.break_down(fault)
    with pytest.raises(RateLimiterUnavailable, match="connection refused") as caught:
        await ask(limiter)  # type: ignore[misc]
    assert caught.value.__cause__ is fault
    assert not await limiter.repository.ping()
    wire.repair()
    assert await limiter.repository.ping()


async def test_a_read_whose_answer_is_lost_once_is_asked_again(world: World) -> None:
    limiter, wire = await world.process(default_limits=[RPM])
    wire.break_once(OutcomeUnknown("slow"), on=BatchGet)
    await take(limiter, "e", "r", rpm=1)
    assert wire.sent() == ["BatchGet", "BatchGet", "Put"]
