"""What a lease gives back and what it keeps, in both variants."""
# ruff: noqa: PT012 - a block under a lease that raises takes more than one line

import asyncio
import math
from contextlib import suppress

import pytest

from support.core.shards import aim_at, split_into
from support.core.worlds import World, outcomes, passes, take, until
from zae_limiter import Lease, Limit, RateLimiter, RateLimitExceeded, ValidationError
from zae_limiter.exceptions import LeaseExpiredError
from zae_limiter.operations.errors import OutcomeUnknown
from zae_limiter.operations.values import Update

RPM = Limit.per_minute("rpm", 60)
TPM = Limit.per_minute("tpm", 6000)


class BodyError(Exception):
    """What goes wrong in a block."""


def standing(lease: Lease) -> dict[str, tuple[int, float]]:
    """What is left of each limit, and the seconds until there is more, rounded up."""
    return {each.limit_name: (each.available, -(-each.next_token_seconds // 1)) for each in lease.statuses}


async def test_consumption_is_written_before_the_block_runs(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    other, _ = await world.process(default_limits=[RPM])
    async with limiter.acquire("e", "r", {"rpm": 10}) as lease:
        assert await other.available("e", "r") == {"rpm": 50}
        assert (lease.consumed, lease.degraded) == ({"rpm": 10}, False)
    assert await other.available("e", "r") == {"rpm": 50}


async def test_an_exception_in_the_block_gives_everything_back_and_goes_on(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM, TPM])
    with pytest.raises(BodyError):
        async with limiter.acquire("e", "r", {"rpm": 10, "tpm": 100}) as lease:
            await lease.consume(rpm=5)
            await lease.adjust(tpm=900)
            raise BodyError
    assert await limiter.available("e", "r") == {"rpm": 60, "tpm": 6000}
    item = world.bucket_of(limiter, "e", "r")
    assert item is not None
    assert (item["b_rpm_tc"], item["b_tpm_tc"]) == (0, 0)


async def test_the_statuses_have_the_corrections_of_a_bucket_that_is_to_come(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    async with limiter.acquire("e", "r", {"rpm": 0}) as lease:
        await lease.adjust(rpm=7)
        assert [each.available for each in lease.statuses] == [53]
    assert await limiter.available("e", "r") == {"rpm": 53}


async def test_a_cancellation_in_the_block_gives_everything_back(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    inside = asyncio.Event()

    async def work() -> None:
        async with limiter.acquire("e", "r", {"rpm": 10}) as lease:
            await lease.consume(rpm=5)
            inside.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await inside.wait()
    assert await limiter.available("e", "r") == {"rpm": 45}
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await limiter.available("e", "r") == {"rpm": 60}


@pytest.mark.parametrize("how", ["keep", "rollback=False"])
async def test_what_is_kept_stays_consumed_and_is_corrected_whatever_the_block_raises(world: World, how: str) -> None:
    limiter, _ = await world.process(default_limits=[RPM, TPM])
    with pytest.raises(BodyError):
        async with limiter.acquire("e", "r", {"rpm": 1, "tpm": 100}, rollback=how == "keep") as lease:
            await lease.adjust(tpm=50)
            if how == "keep":
                lease.keep()
            raise BodyError
    assert await limiter.available("e", "r") == {"rpm": 59, "tpm": 5850}


async def test_more_can_be_consumed_at_once(world: World) -> None:
    limiter, wire = await world.process(default_limits=[RPM, TPM])
    async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
        wire.sent()
        await lease.consume(tpm=500)
        assert wire.sent() == ["Update"]
        assert await limiter.available("e", "r") == {"rpm": 59, "tpm": 5500}
        assert lease.consumed == {"rpm": 1, "tpm": 500}
    assert await limiter.available("e", "r") == {"rpm": 59, "tpm": 5500}


async def test_what_is_refused_in_the_block_is_not_consumed_and_may_be_caught(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM, TPM])
    async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
        with pytest.raises(RateLimitExceeded) as caught:
            await lease.consume(rpm=1, tpm=7000)
        assert [(each.limit_name, each.exceeded) for each in caught.value.statuses] == [("rpm", False), ("tpm", True)]
        assert lease.consumed == {"rpm": 1}
    assert await limiter.available("e", "r") == {"rpm": 59, "tpm": 6000}


async def test_a_refusal_that_leaves_the_block_gives_the_rest_back(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    with pytest.raises(RateLimitExceeded):
        async with limiter.acquire("e", "r", {"rpm": 40}) as lease:
            await lease.consume(rpm=21)
    assert await limiter.available("e", "r") == {"rpm": 60}


async def test_adjusts_and_releases_are_one_write_at_the_end_of_the_block(world: World) -> None:
    limiter, wire = await world.process(default_limits=[RPM, TPM])
    async with limiter.acquire("e", "r", {"rpm": 5, "tpm": 1000}) as lease:
        wire.sent()
        await lease.adjust(tpm=500)
        await lease.adjust(tpm=-200)
        await lease.release(rpm=2)
        assert lease.consumed == {"rpm": 3, "tpm": 1300}
        assert wire.sent() == []
    assert wire.sent() == ["Update"]
    assert await limiter.available("e", "r") == {"rpm": 57, "tpm": 4700}


async def test_corrections_that_cancel_out_write_nothing(world: World) -> None:
    limiter, wire = await world.process(default_limits=[TPM])
    async with limiter.acquire("e", "r", {"tpm": 1000}) as lease:
        wire.sent()
        await lease.adjust(tpm=500)
        await lease.adjust(tpm=-500)
    assert wire.sent() == []


async def test_an_adjust_is_never_refused_and_may_go_into_debt(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TPM])
    async with limiter.acquire("e", "r", {"tpm": 6000}) as lease:
        await lease.adjust(tpm=3000)
    assert await limiter.available("e", "r") == {"tpm": -3000}
    assert await limiter.time_until_available("e", "r", {"tpm": 1}) == 30.01
    world.clock.advance(seconds=30)
    assert not await passes(limiter, "e", "r", tpm=1)
    world.clock.advance(ms=10)
    assert await passes(limiter, "e", "r", tpm=1)


@pytest.mark.parametrize("by", ["adjust", "release"])
async def test_no_more_goes_back_than_the_lease_holds(world: World, by: str) -> None:
    limiter, _ = await world.process(default_limits=[TPM])
    async with limiter.acquire("e", "r", {"tpm": 100}) as lease:
        give, sign = (lease.adjust, -1) if by == "adjust" else (lease.release, 1)
        await give(tpm=60 * sign)
        with pytest.raises(ValidationError, match=f"{by} 'tpm={41 * sign}': the lease holds 40"):
            await give(tpm=41 * sign)
        await give(tpm=40 * sign)
    assert await limiter.available("e", "r") == {"tpm": 6000}


async def test_a_bad_amount_in_the_block_is_refused_and_changes_nothing(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM, TPM])
    async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
        for bad in (-1, 0.5, True, "1"):
            with pytest.raises(ValidationError):
                await lease.consume(rpm=bad)  # type: ignore[arg-type]
            with pytest.raises(ValidationError):
                await lease.release(rpm=bad)  # type: ignore[arg-type]
        for act in (lease.consume, lease.adjust, lease.release):
            with pytest.raises(ValidationError, match=r"unknown limit .* in this lease \(known: rpm, tpm\)"):
                await act(rps=1)
        with pytest.raises(ValidationError):
            await lease.adjust(rpm=0.5)  # type: ignore[arg-type]
        assert lease.consumed == {"rpm": 1}
    assert await limiter.available("e", "r") == {"rpm": 59, "tpm": 6000}


async def test_behind_its_block_a_lease_is_expired(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
        pass
    for act in (lease.consume, lease.adjust, lease.release):
        with pytest.raises(LeaseExpiredError, match="e/r"):
            await act(rpm=1)
    with pytest.raises(LeaseExpiredError):
        lease.keep()
    assert lease.consumed == {"rpm": 1}
    assert await limiter.available("e", "r") == {"rpm": 59}


async def test_before_its_block_a_lease_cannot_be_used(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    lease = limiter.acquire("e", "r", {"rpm": 1})
    for act in (lease.consume, lease.adjust, lease.release):
        with pytest.raises(LeaseExpiredError, match="inside its `with` block only"):
            await act(rpm=1)
    async with lease:
        assert lease.consumed == {"rpm": 1}


@pytest.mark.parametrize("when", ["inside", "behind"])
async def test_a_lease_is_entered_once(world: World, when: str) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    lease = limiter.acquire("e", "r", {"rpm": 1})
    async with lease:
        if when == "inside":
            with pytest.raises(LeaseExpiredError):
                await lease.__aenter__()
    if when == "behind":
        with pytest.raises(LeaseExpiredError):
            await lease.__aenter__()
    assert await limiter.available("e", "r") == {"rpm": 59}


async def test_a_lease_whose_first_enter_is_still_waiting_is_not_entered_again(world: World) -> None:
    limiter, wire = await world.process(default_limits=[RPM])
    lease = limiter.acquire("e", "r", {"rpm": 1})
    wire.hold()
    first = asyncio.create_task(lease.__aenter__())
    await until(lambda: wire.in_flight == 1)
    for _ in range(2):
        with pytest.raises(LeaseExpiredError):
            await lease.__aenter__()
    wire.let_go()
    await first
    await lease.__aexit__(None, None, None)
    assert await limiter.available("e", "r") == {"rpm": 59}


async def test_of_many_who_enter_a_lease_at_once_one_does(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    lease = limiter.acquire("e", "r", {"rpm": 1})
    found = await outcomes(*(lease.__aenter__() for _ in range(20)))
    assert sum(isinstance(each, LeaseExpiredError) for each in found) == 19
    assert await limiter.available("e", "r") == {"rpm": 59}


async def test_a_lease_that_was_refused_is_not_entered_again(world: World) -> None:
    limiter, wire = await world.process(default_limits=[RPM])
    lease = limiter.acquire("e", "r", {"rpm": 61})
    with pytest.raises(RateLimitExceeded):
        await lease.__aenter__()
    wire.sent()
    with pytest.raises(LeaseExpiredError):
        await lease.__aenter__()
    assert wire.sent() == []


@pytest.mark.parametrize("end", ["fails", "ends", "is kept"])
async def test_what_is_consumed_while_the_block_ends_goes_back(world: World, end: str) -> None:
    limiter, wire = await world.process(default_limits=[RPM])
    lease = limiter.acquire("e", "r", {"rpm": 10})
    await lease.__aenter__()
    if end == "is kept":
        lease.keep()
    wire.hold(Update)
    more = asyncio.create_task(lease.consume(rpm=5))
    await until(lambda: wire.in_flight == 1)
    error = None if end == "ends" else BodyError()
    closing = asyncio.create_task(lease.__aexit__(type(error) if error else None, error, None))
    await asyncio.sleep(0.05)
    wire.let_go()
    with pytest.raises(LeaseExpiredError):
        await more
    await closing
    assert lease.consumed == {"rpm": 10}
    assert await limiter.available("e", "r") == {"rpm": 60 if end == "fails" else 50}
    item = world.bucket_of(limiter, "e", "r")
    assert item is not None
    assert item["ev"] == (0 if end == "fails" else 1)


async def test_what_is_consumed_of_child_and_parent_while_the_block_fails_goes_back_to_both(world: World) -> None:
    limiter, wire = await world.process(default_limits=[RPM])
    await limiter.create_entity("parent")
    await limiter.create_entity("child", parent_id="parent", cascade=True)
    lease = limiter.acquire("child", "r", {"rpm": 10})
    await lease.__aenter__()
    wire.hold(Update)
    more = asyncio.create_task(lease.consume(rpm=5))
    await until(lambda: wire.in_flight == 2)
    closing = asyncio.create_task(lease.__aexit__(BodyError, BodyError(), None))
    await asyncio.sleep(0.05)
    wire.let_go()
    assert isinstance((await outcomes(more))[0], LeaseExpiredError)
    await closing
    assert [await limiter.available(each, "r") for each in ("child", "parent")] == [{"rpm": 60}] * 2


async def test_what_is_refused_while_the_block_ends_says_that_it_has_ended(world: World) -> None:
    limiter, wire = await world.process(default_limits=[RPM])
    lease = limiter.acquire("e", "r", {"rpm": 10})
    await lease.__aenter__()
    other = (await world.process(default_limits=[RPM])).limiter
    await take(other, "e", "r", rpm=50)
    wire.hold(Update)
    more = asyncio.create_task(lease.consume(rpm=5))
    await until(lambda: wire.in_flight == 1)
    await lease.__aexit__(None, None, None)
    wire.let_go()
    assert isinstance((await outcomes(more))[0], LeaseExpiredError)


async def test_what_is_consumed_uncounted_while_the_block_ends_says_that_it_has_ended(world: World) -> None:
    limiter, wire = await world.process(default_limits=[RPM])
    lease = limiter.acquire("e", "r", {"rpm": 10}, on_unavailable="allow")
    await lease.__aenter__()
    wire.hold(Update)
    wire.break_down(OutcomeUnknown("no answer"))
    more = asyncio.create_task(lease.consume(rpm=5))
    await until(lambda: wire.in_flight == 1)
    await lease.__aexit__(None, None, None)
    wire.let_go()
    assert isinstance((await outcomes(more))[0], LeaseExpiredError)
    assert (lease.consumed, lease.degraded) == ({"rpm": 10}, False)


async def test_no_consumption_is_lost_by_a_block_that_ends_at_any_instant(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.per_day("rpm", 1000)])
    await take(limiter, "e", "r", rpm=0)
    for _ in range(100):
        lease = limiter.acquire("e", "r", {"rpm": 1})
        await lease.__aenter__()
        await outcomes(lease.consume(rpm=1), lease.__aexit__(BodyError, BodyError(), None), lease.consume(rpm=1))
        assert await limiter.available("e", "r") == {"rpm": 1000}


async def test_a_lease_shows_how_its_limits_stand_behind_its_writes(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM, TPM])
    async with limiter.acquire("e", "r", {"rpm": 10, "tpm": 100}) as lease:
        shown = {each.limit_name: (each.available, each.requested, each.exceeded) for each in lease.statuses}
        assert shown == {"rpm": (50, 10, False), "tpm": (5900, 100, False)}
        await lease.consume(rpm=5)
        shown = {each.limit_name: (each.available, each.requested, each.exceeded) for each in lease.statuses}
        assert shown == {"rpm": (45, 15, False), "tpm": (5900, 100, False)}


async def test_a_lease_shows_its_corrections_before_they_are_written(world: World) -> None:
    limiter, wire = await world.process(default_limits=[Limit.per_day("tpd", 10_000), RPM])
    async with limiter.acquire("e", "r", {"tpd": 500}) as lease:
        wire.sent()
        await lease.settle(tpd=20)
        assert standing(lease) == {"tpd": (9980, 9)}
        await lease.settle(tpd=12_000)
        assert standing(lease) == {"tpd": (-2000, 17289)}
        await lease.release(tpd=11_000)
        await lease.adjust(tpd=-900, rpm=61)
        assert standing(lease) == {"tpd": (9900, 9), "rpm": (-1, 2)}
        assert wire.sent() == []
    assert {name: left for name, (left, _) in standing(lease).items()} == await limiter.available("e", "r")


async def test_a_lease_never_shows_more_than_its_limits_hold(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    await take(limiter, "e", "r", rpm=5)
    async with limiter.acquire("e", "r", {"rpm": 10}) as lease:
        world.clock.advance(8)
        await lease.consume(rpm=0)
        await lease.settle(rpm=0)
        assert [(each.available, each.next_token_seconds) for each in lease.statuses] == [(60, math.inf)]


async def test_a_lease_shows_the_corrections_of_every_shard(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.per_day("rpd", 100)])
    await take(limiter, "e", "r", rpd=10)
    split_into(world, limiter, 4)
    async with limiter.acquire("e", "r", {"rpd": 80}) as lease:
        assert standing(lease) == {"rpd": (10, 864)}
        await lease.settle(rpd=5)
        assert standing(lease) == {"rpd": (85, 864)}
    assert await limiter.available("e", "r") == {"rpd": 85}


async def test_a_lease_shows_the_corrections_of_a_shard_that_was_split_meanwhile(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.per_day("rpd", 100)])
    async with limiter.acquire("e", "r", {"rpd": 10}) as lease:
        split_into(world, limiter, 2)
        aim_at(limiter, 0)
        await lease.consume(rpd=16)
        assert standing(lease)["rpd"][0] == 29  # of the shard that the process has seen
        await lease.release(rpd=20)
        assert standing(lease)["rpd"][0] == 49
    assert await limiter.available("e", "r") == {"rpd": 94}


async def test_a_status_tells_when_the_next_whole_token_is_there(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.per_day("rpd", 100)])
    await take(limiter, "e", "r", rpd=100)
    world.clock.advance(2.25 * 864)
    async with limiter.acquire("e", "r", {"rpd": 1}) as lease:
        assert standing(lease) == {"rpd": (1, 648)}
    seconds = lease.statuses[0].next_token_seconds
    world.clock.advance(seconds - 0.001)
    assert await limiter.available("e", "r") == {"rpd": 1}
    world.clock.advance(0.001)
    assert await limiter.available("e", "r") == {"rpd": 2}


async def test_counts_acquires_not_corrections_and_not_those_that_were_refused(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    for _ in range(3):
        async with limiter.acquire("e", "r", {"rpm": 20}) as lease:
            await lease.adjust(rpm=0)
    assert not await passes(limiter, "e", "r", rpm=20)
    item = world.bucket_of(limiter, "e", "r")
    assert item is not None
    assert (item["ev"], item["b_rpm_tc"]) == (3, 60_000)


async def test_an_acquire_that_is_cancelled_while_its_write_is_under_way_gives_back(async_world: World) -> None:
    world = async_world
    limiter, wire = await world.process(default_limits=[RPM])
    await take(limiter, "e", "r", rpm=1)
    wire.hold(Update)
    task = asyncio.create_task(take(limiter, "e", "r", rpm=10))
    await until(lambda: wire.in_flight == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    wire.let_go()
    await limiter.repository.driver.drain()  # waits for the writes that are under way
    assert await limiter.available("e", "r") == {"rpm": 59}
    item = world.bucket_of(limiter, "e", "r")
    assert item is not None
    assert (item["ev"], item["b_rpm_tc"]) == (1, 1000)


async def test_a_cancellation_while_the_rollback_is_written_does_not_stop_it(async_world: World) -> None:
    world = async_world
    limiter, wire = await world.process(default_limits=[RPM])

    async def work() -> None:
        async with limiter.acquire("e", "r", {"rpm": 10}):
            wire.hold(Update)
            raise BodyError

    task = asyncio.create_task(work())
    await until(lambda: wire.in_flight == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    wire.let_go()
    await limiter.repository.driver.drain()
    assert await limiter.available("e", "r") == {"rpm": 60}


async def test_no_task_outlives_its_write(async_world: World) -> None:
    limiter, _ = await async_world.process(default_limits=[RPM])
    before = asyncio.all_tasks()
    await asyncio.gather(*(passes(limiter, "e", "r", rpm=7) for _ in range(20)))
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_settle_sets_what_was_really_used(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM, TPM])
    async with limiter.acquire("e", "r", {"rpm": 1, "tpm": 500}) as lease:
        await lease.consume(tpm=100)
        before = lease.corrected
        await lease.settle(tpm=lease.consumed["tpm"])
        assert (before, lease.corrected) == (False, True)  # though nothing changes
        await lease.settle(tpm=250)
        assert lease.consumed == {"rpm": 1, "tpm": 250}
        await lease.settle(tpm=900)
        await lease.settle(tpm=900, rpm=0)
    assert lease.consumed == {"rpm": 0, "tpm": 900}
    assert await limiter.available("e", "r") == {"rpm": 60, "tpm": 5100}


async def test_settle_may_go_into_debt_and_refuses_what_it_does_not_know(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
        with pytest.raises(ValidationError, match="rpm"):
            await lease.settle(rpm=-1)
        with pytest.raises(ValidationError, match="tpm"):
            await lease.settle(tpm=1)
        await lease.settle(rpm=70)
    assert await limiter.available("e", "r") == {"rpm": -10}
    with pytest.raises(LeaseExpiredError):
        await lease.settle(rpm=1)


async def test_limits_of_the_call_count_in_what_is_available(world: World) -> None:
    limiter, _ = await world.process()
    await take_with(limiter, 4)
    assert await limiter.available("e", "r", limits=[RPM]) == {"rpm": 56}
    assert await limiter.time_until_available("e", "r", {"rpm": 58}, limits=[RPM]) == 2
    assert (await limiter.check("e", "r", {"rpm": 56}, limits=[RPM])).passes
    with pytest.raises(ValidationError, match="limits"):
        await limiter.available("e", "r")


async def take_with(limiter: RateLimiter, amount: int) -> None:
    async with limiter.acquire("e", "r", {"rpm": amount}, limits=[RPM]):
        pass


async def test_a_call_that_did_not_take_place_is_not_counted(world: World) -> None:
    """Two acquires around a call: the second refuses, so the first gives everything back, at the parents as well."""
    limiter, _ = await world.process(default_limits=[RPM])
    await limiter.repository.create_entity("org")
    await limiter.repository.create_entity("key", parent_id="org", cascade=True)
    await limiter.repository.set_resource_defaults("gpt", [Limit.per_day("rpd", 2)])
    for _ in range(5):
        with suppress(RateLimitExceeded):
            async with limiter.acquire("key", "account", {"rpm": 1}), limiter.acquire("key", "gpt", {"rpd": 1}):
                pass
    for entity in ("key", "org"):
        item = world.bucket_of(limiter, entity, "account")
        assert item is not None
        assert (item["ev"], item["b_rpm_tc"]) == (2, 2000)
