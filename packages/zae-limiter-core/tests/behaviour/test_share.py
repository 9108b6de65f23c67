"""``on_unavailable="share"``: in an outage, each process goes on with its part of a limit; in both variants."""
# ruff: noqa: PT012 - a block under a lease that raises takes more than one line

import asyncio
from collections.abc import Sequence

import pytest

from support.core.shards import shard_items, split_into
from support.core.wires import Wire
from support.core.worlds import Process, World, take, until
from zae_limiter import Limit, RateLimiterUnavailable, RateLimitExceeded
from zae_limiter.operations.errors import Unreachable

RPM = Limit.per_minute("rpm", 600)  # 10 a second
AWAY = Unreachable("connection refused")


async def fleet(world: World, amounts: Sequence[int], *, rounds: int = 100, limit: Limit = RPM) -> list[Process]:
    """Processes that know their part: each took its amount once a second, for so many seconds."""
    processes = [await world.process(default_limits=[limit], on_unavailable="share") for _ in amounts]
    for _ in range(rounds):
        for process, amount in zip(processes, amounts, strict=True):
            if amount:
                await take(process.limiter, "e", "r", rpm=amount)
            world.clock.advance(seconds=1 / len(amounts))
    return processes


async def drain(process: Process, *, step: int = 1) -> int:
    """How many tokens the process lets through until it refuses."""
    taken = 0
    while True:
        try:
            await take(process.limiter, "e", "r", rpm=step)
        except (RateLimitExceeded, RateLimiterUnavailable):
            return taken
        taken += step


def consumed(world: World, process: Process) -> int:
    """What the table has counted, in tokens."""
    item = world.bucket_of(process.limiter, "e", "r")
    assert item is not None
    return int(item["b_rpm_tc"]) // 1000


async def balance(process: Process) -> int:
    return (await process.limiter.available("e", "r"))["rpm"]


async def test_processes_go_on_with_their_parts_which_add_up_to_the_whole_at_most(world: World) -> None:
    processes = await fleet(world, [4, 2, 2])
    before = await balance(processes[0])
    for process in processes:
        process.wire.break_down(AWAY)
    world.clock.advance(seconds=1)
    first = [await drain(process) for process in processes]
    assert before * 0.9 <= sum(first) <= before + 10
    assert first[0] == pytest.approx(2 * first[1], rel=0.1)
    later = []
    for _ in range(20):
        world.clock.advance(seconds=3)
        later.append(sum([await drain(process) for process in processes]))
    assert all(24 <= each <= 32 for each in later)
    assert 540 <= sum(later) <= 600 + len(processes)


async def test_a_lone_process_has_all(world: World) -> None:
    (process,) = await fleet(world, [4])
    before = await balance(process)
    process.wire.break_down(AWAY)
    assert await drain(process) == before


async def test_the_lease_is_degraded_and_its_statuses_are_empty(world: World) -> None:
    (process,) = await fleet(world, [4])
    process.wire.break_down(AWAY)
    async with process.limiter.acquire("e", "r", {"rpm": 5}) as lease:
        assert lease.degraded
        assert lease.consumed == {"rpm": 5}
        assert lease.statuses == []


async def test_a_process_without_two_whole_windows_behind_it_has_no_share(world: World) -> None:
    (process,) = await fleet(world, [4], rounds=50)
    process.wire.break_down(AWAY)
    with pytest.raises(RateLimiterUnavailable, match="the share of this process can never hold 1 rpm of e/r"):
        await take(process.limiter, "e", "r", rpm=1)


async def test_a_limit_that_nobody_has_seen_has_no_share(world: World) -> None:
    (process,) = await fleet(world, [4])
    process.wire.break_down(AWAY)
    with pytest.raises(RateLimiterUnavailable, match="this process does not know the limits of other/r"):
        await take(process.limiter, "other", "r", rpm=1)


async def test_a_process_whose_last_look_is_too_old_has_no_share(world: World) -> None:
    (process,) = await fleet(world, [4])
    process.wire.break_down(AWAY)
    world.clock.advance(seconds=62)
    with pytest.raises(RateLimiterUnavailable):
        await take(process.limiter, "e", "r", rpm=1)


async def test_a_share_that_is_not_used_for_two_windows_ends(world: World) -> None:
    (process,) = await fleet(world, [4])
    process.wire.break_down(AWAY)
    for _ in range(5):
        world.clock.advance(seconds=29)
        await take(process.limiter, "e", "r", rpm=1)
    world.clock.advance(seconds=62)
    with pytest.raises(RateLimiterUnavailable):
        await take(process.limiter, "e", "r", rpm=1)


async def test_a_share_that_is_used_up_refuses_and_says_when_to_retry_and_why(world: World) -> None:
    processes = await fleet(world, [4, 4])
    for process in processes:
        process.wire.break_down(AWAY)
    world.clock.advance(seconds=1)
    await drain(processes[0])
    with pytest.raises(RateLimitExceeded) as caught:
        await take(processes[0].limiter, "e", "r", rpm=10)
    assert caught.value.by_share
    assert "the store is away, and this process goes by its share of the limit" in str(caught.value)
    assert 1.8 <= caught.value.retry_after_seconds <= 2.3  # 10 tokens at half of 10 a second
    world.clock.advance(seconds=caught.value.retry_after_seconds)
    await take(processes[0].limiter, "e", "r", rpm=10)


async def test_an_amount_above_the_share_of_the_burst_waits_for_the_store(world: World) -> None:
    processes = await fleet(world, [4, 4])
    for process in processes:
        process.wire.break_down(AWAY)
    world.clock.advance(seconds=1)
    with pytest.raises(RateLimiterUnavailable, match="can never hold 400 rpm of e/r"):
        await take(processes[0].limiter, "e", "r", rpm=400)


async def test_an_amount_that_never_passes_and_a_blocked_limit_are_refused(world: World) -> None:
    (process,) = await fleet(world, [4])
    process.wire.break_down(AWAY)
    world.clock.advance(seconds=1)
    blocked = Limit.per_minute("rpm", 0)
    with pytest.raises(RateLimitExceeded, match="never pass"):
        await take(process.limiter, "e", "r", rpm=601)
    with pytest.raises(RateLimitExceeded, match="blocked"):
        async with process.limiter.acquire("e", "r", {"rpm": 1}, limits=[blocked]):
            pass


async def test_a_caller_that_waits_gets_its_tokens_by_the_share(world: World) -> None:
    processes = await fleet(world, [4, 4])
    for process in processes:
        process.wire.break_down(AWAY)
    world.clock.advance(seconds=1)
    await drain(processes[0])
    with pytest.raises(RateLimitExceeded) as caught:
        async with processes[0].limiter.acquire("e", "r", {"rpm": 10}, max_wait=0.1):
            pass
    assert caught.value.by_share


async def waited(process: Process, *, rpm: int, max_wait: float) -> float:
    """How long a caller waited for its tokens, which the share let through."""
    async with process.limiter.acquire("e", "r", {"rpm": rpm}, max_wait=max_wait) as lease:
        assert lease.degraded
        return lease.waited


async def test_a_caller_waits_as_long_as_its_share_takes_although_the_table_would_take_longer(world: World) -> None:
    (process,) = await fleet(world, [4])
    free = await balance(process)
    async with process.limiter.acquire("e", "r", {"rpm": free}) as lease:
        process.wire.break_down(AWAY)
        await lease.settle(rpm=free - 5)
    world.clock.advance(seconds=2)  # the table has 20, the share 5 besides, which came back to it: 0.5 s, and not 1 s
    assert 0 < await waited(process, rpm=30, max_wait=0.8) < 0.8


# when the table is back


async def back(*processes: Process) -> None:
    """Repair the wires, and wait until the breakers have noticed."""
    for process in processes:
        process.wire.repair()
    for process in processes:
        repository = process.repository
        await until(lambda repository=repository: repository.get_store_stats().breaker == "closed")  # type: ignore[misc]


async def test_all_amounts_are_counted_when_the_table_is_back_and_the_shares_are_merged(world: World) -> None:
    processes = await fleet(world, [4, 2, 2])
    before, free = consumed(world, processes[0]), await balance(processes[0])
    for process in processes:
        process.wire.break_down(AWAY)
    world.clock.advance(seconds=1)
    taken = sum([await drain(process) for process in processes])
    await back(*processes)
    for process in processes:
        await process.repository.close()
    assert consumed(world, processes[0]) == before + taken
    reader = await world.process(default_limits=[RPM])
    left = (await reader.limiter.available("e", "r"))["rpm"]
    assert left == pytest.approx(free + 10 - taken, abs=2)


async def test_a_long_outage_leaves_nobody_blocked(world: World) -> None:
    (process,) = await fleet(world, [4])
    before = consumed(world, process)
    process.wire.break_down(AWAY)
    taken = 0
    for _ in range(60):
        world.clock.advance(seconds=20)
        taken += await drain(process, step=20)
    assert taken >= 60 * 200
    await back(process)
    await process.repository.close()
    assert consumed(world, process) == before + taken
    reader = await world.process(default_limits=[RPM])
    assert 0 <= (await reader.limiter.available("e", "r"))["rpm"] <= 20


async def test_what_a_lease_gives_back_returns_to_the_share(world: World) -> None:
    (process,) = await fleet(world, [4])
    before, free = consumed(world, process), await balance(process)
    process.wire.break_down(AWAY)
    async with process.limiter.acquire("e", "r", {"rpm": 100}) as lease:
        await lease.settle(rpm=30)
    with pytest.raises(ZeroDivisionError):
        async with process.limiter.acquire("e", "r", {"rpm": 50}) as lease:
            await lease.consume(rpm=20)
            raise ZeroDivisionError
    assert await drain(process) == free - 30
    await back(process)
    await process.repository.close()
    assert consumed(world, process) == before + free


async def test_an_acquire_whose_amounts_all_came_back_to_the_share_is_counted_nevertheless(world: World) -> None:
    (process,) = await fleet(world, [4])
    before = world.bucket_of(process.limiter, "e", "r")
    process.wire.break_down(AWAY)
    with pytest.raises(ZeroDivisionError):
        async with process.limiter.acquire("e", "r", {"rpm": 50}):
            raise ZeroDivisionError
    await back(process)
    await process.repository.close()
    after = world.bucket_of(process.limiter, "e", "r")
    assert before is not None
    assert after is not None
    assert (after["ev"], after["b_rpm_tc"]) == (before["ev"] + 1, before["b_rpm_tc"])


async def test_what_a_lease_uses_beyond_its_estimate_is_taken_from_the_share_into_debt(world: World) -> None:
    (process,) = await fleet(world, [4])
    before, free = consumed(world, process), await balance(process)
    process.wire.break_down(AWAY)
    async with process.limiter.acquire("e", "r", {"rpm": 100}) as lease:
        await lease.settle(rpm=free + 50)
    with pytest.raises(RateLimitExceeded) as caught:
        await take(process.limiter, "e", "r", rpm=1)
    assert caught.value.statuses[0].available == -50
    await back(process)
    await process.repository.close()
    assert consumed(world, process) == before + free + 50
    reader = await world.process(default_limits=[RPM])
    assert (await reader.limiter.available("e", "r"))["rpm"] == -50


async def test_a_correction_that_an_outage_cuts_off_is_written_when_the_table_is_back(world: World) -> None:
    (process,) = await fleet(world, [4])
    before = consumed(world, process)
    async with process.limiter.acquire("e", "r", {"rpm": 10}) as lease:
        await lease.adjust(rpm=20)
        process.wire.break_down(AWAY)
    assert lease.degraded
    await back(process)
    await process.repository.close()
    assert consumed(world, process) == before + 30


async def test_the_next_acquire_of_the_bucket_pays_what_its_share_lacks(world: World) -> None:
    (process,) = await fleet(world, [4])
    before, free = consumed(world, process), await balance(process)
    process.wire.break_down(AWAY)
    await take(process.limiter, "e", "r", rpm=100)
    await back(process)
    await take(process.limiter, "e", "r", rpm=1)
    await process.repository.close()
    assert consumed(world, process) == before + 101
    reader = await world.process(default_limits=[RPM])
    assert await balance(reader) == free - 101


async def test_a_second_outage_goes_on_with_what_the_first_left(world: World) -> None:
    (process,) = await fleet(world, [4])
    free = await balance(process)
    process.wire.break_down(AWAY)
    await take(process.limiter, "e", "r", rpm=100)
    await back(process)
    await process.limiter.available("e", "r")
    process.wire.break_down(AWAY)
    assert await drain(process) == free - 100


async def test_a_process_that_ends_in_the_outage_says_what_is_never_counted(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    (process,) = await fleet(world, [4])
    process.wire.break_down(AWAY)
    await take(process.limiter, "e", "r", rpm=100)
    await process.repository.close()
    assert "the store is away, so these amounts are never counted" in caplog.text
    assert "e/r: 100 of rpm" in caplog.text


# all or nothing


async def test_the_parent_has_a_share_of_its_own_and_the_child_takes_nothing_without_it(world: World) -> None:
    process = await world.process(default_limits=[RPM], on_unavailable="share")
    admin = (await world.process()).repository
    await admin.create_entity("p")
    await admin.create_entity("e", parent_id="p", cascade=True)
    await admin.create_entity("other", parent_id="p", cascade=True)
    for _ in range(100):
        await take(process.limiter, "e", "r", rpm=2)
        await take(process.limiter, "other", "r", rpm=2)
        world.clock.advance(seconds=1)
    process.wire.break_down(AWAY)
    assert await drain(process) > 100
    with pytest.raises(RateLimitExceeded) as caught:
        await take(process.limiter, "other", "r", rpm=1)
    assert [(each.entity_id, each.exceeded) for each in caught.value.statuses] == [("other", False), ("p", True)]


async def test_several_limits_are_taken_together(world: World) -> None:
    limits = [RPM, Limit.per_minute("tpm", 6000)]
    process = await world.process(default_limits=limits, on_unavailable="share")
    for _ in range(100):
        await take(process.limiter, "e", "r", rpm=1, tpm=10)
        world.clock.advance(seconds=1)
    process.wire.break_down(AWAY)
    await take(process.limiter, "e", "r", rpm=600, tpm=1)
    with pytest.raises(RateLimitExceeded):
        await take(process.limiter, "e", "r", rpm=1, tpm=1000)
    await take(process.limiter, "e", "r", tpm=5999)


async def test_the_policy_of_the_call_comes_first(world: World) -> None:
    (process,) = await fleet(world, [4])
    process.wire.break_down(AWAY)
    with pytest.raises(RateLimiterUnavailable):
        async with process.limiter.acquire("e", "r", {"rpm": 1}, on_unavailable="block"):
            pass
    async with process.limiter.acquire("e", "r", {"rpm": 600}, on_unavailable="allow") as lease:
        assert lease.degraded


# shards, shadow limits


async def test_a_bucket_of_several_shards_has_one_share_and_each_shard_pays_its_part(world: World) -> None:
    (process,) = await fleet(world, [4], rounds=1)
    split_into(world, process.limiter, 2)
    for _ in range(300):
        await take(process.limiter, "e", "r", rpm=2)
        world.clock.advance(seconds=0.5)
    before = {shard: item["b_rpm_tc"] for shard, item in shard_items(world, process.limiter).items()}
    process.wire.break_down(AWAY)
    assert await drain(process, step=10) >= 580
    await back(process)
    await process.repository.close()
    after = {shard: item["b_rpm_tc"] for shard, item in shard_items(world, process.limiter).items()}
    assert len(after) == 2
    assert [after[shard] - before[shard] for shard in after] == pytest.approx([295_000, 295_000], abs=10_000)


async def test_a_shadow_limit_refuses_nobody_and_is_counted(world: World) -> None:
    limits = [Limit.per_minute("tpm", 60, shadow=True), RPM]
    process = await world.process(default_limits=limits, on_unavailable="share")
    for _ in range(100):
        await take(process.limiter, "e", "r", rpm=4, tpm=1)
        world.clock.advance(seconds=1)
    process.wire.break_down(AWAY)
    await take(process.limiter, "e", "r", rpm=100, tpm=500)
    await back(process)
    await process.repository.close()
    item = world.bucket_of(process.limiter, "e", "r")
    assert item is not None
    assert (item["b_rpm_tc"], item["b_tpm_tc"], item["ev"]) == (500_000, 600_000, 101)


async def test_callers_at_the_same_time_share_one_share(world: World) -> None:
    (process,) = await fleet(world, [4])
    free = await balance(process)
    process.wire.break_down(AWAY)
    calls = (take(process.limiter, "e", "r", rpm=60) for _ in range(30))
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(answer is None for answer in answers) == free // 60
    assert {type(answer) for answer in answers if answer is not None} == {RateLimitExceeded}


async def test_a_process_that_opens_in_an_outage_passes_nobody_until_the_store_answers(world: World) -> None:
    wire = Wire(world.table)
    wire.break_down(AWAY)
    process = await world.process(default_limits=[RPM], on_unavailable="share", wire=wire)
    with pytest.raises(RateLimiterUnavailable):
        await take(process.limiter, "e", "r", rpm=1)
    await back(process)
    await take(process.limiter, "e", "r", rpm=1)
