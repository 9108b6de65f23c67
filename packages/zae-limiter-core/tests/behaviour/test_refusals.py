"""Refusals are counted on the bucket of the one who asked, and on its parent's, by writes that are made anyway."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import pytest

from support.core.shards import shard_items, split_into
from support.core.worlds import Awaited, Process, World, outcomes, passes, take, until
from zae_limiter import Limit, RateLimiter, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter.flows.process import refusals
from zae_limiter.operations.errors import OutcomeUnknown, Throttled
from zae_limiter.operations.values import Update
from zae_limiter.schema.attributes import read_ask, write_ask

RPM = Limit.per_minute("rpm", 60)  # a token a second


async def emptied(world: World, *refusals: int, **options: Any) -> Process:
    """A process whose bucket is empty, after refusals of so many tokens each."""
    process = await world.process(default_limits=[RPM], **options)
    await take(process.limiter, "e", "r", rpm=60)
    await refused(process.limiter, *refusals or (1,))
    process.wire.sent()
    return process


async def refused(limiter: RateLimiter, *amounts: int, entity_id: str = "e") -> None:
    for amount in amounts:
        assert not await passes(limiter, entity_id, "r", rpm=amount)


def busy(limiter: RateLimiter) -> bool:
    """Whether a run serves the bucket, or requests wait for one."""
    cached = limiter.repository.namespace_state.cached_shards.get(("e", "r", 0))
    return cached is not None and (cached.busy or bool(cached.waiting))


def counted(world: World, limiter: RateLimiter, entity_id: str = "e") -> int | None:
    """The refusals that the bucket's item has; ``None`` if none was ever counted."""
    item = world.bucket_of(limiter, entity_id, "r")
    return None if item is None else item.get("rj")


async def test_refusals_go_with_the_next_write_which_is_one_write_of_one_unit(world: World) -> None:
    limiter, wire = await emptied(world, 1, 2, 3)
    assert wire.sent() == []
    world.clock.advance(seconds=1)
    world.meter.reset()
    await take(limiter, "e", "r", rpm=1)
    assert wire.sent() == ["Update"]
    assert (world.meter.write_units, world.meter.read_units) == (1, 0)
    assert counted(world, limiter) == 3
    bucket = await limiter.repository.get_bucket("e", "r")
    assert bucket is not None
    assert bucket.refused == 3


async def test_a_refusal_by_a_fresh_copy_sends_nothing(world: World) -> None:
    limiter, wire = await emptied(world)
    await refused(limiter, *[1] * 50)
    assert wire.sent() == []
    assert counted(world, limiter) is None


async def test_a_bucket_that_refused_nothing_has_no_count(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    for _ in range(3):
        await take(limiter, "e", "r", rpm=1)
    item = world.bucket_of(limiter, "e", "r")
    assert item is not None
    assert item["ev"] == 3
    assert not {"rj", "sj"} & item.keys()


async def test_writes_of_every_kind_take_them(world: World) -> None:
    limiter, _ = await emptied(world)
    world.clock.advance(seconds=10)
    async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
        assert counted(world, limiter) == 1
        await refused(limiter, 60)
        await lease.release(rpm=1)
    assert counted(world, limiter) == 2, "a give-back"
    await refused(limiter, 60)
    async with limiter.acquire("e", "r", {"rpm": 1}, limits=[Limit.per_minute("rpm", 70)]):
        assert counted(world, limiter) == 3, "a reshape"


async def family(world: World, *of_project: Limit) -> Process:
    """A project with two keys, each of 60 a minute, the first of which has just used it up."""
    process = await world.process(default_limits=[RPM])
    await process.limiter.create_entity("project")
    for key in ("key-1", "key-2"):
        await process.limiter.create_entity(key, parent_id="project", cascade=True)
    await process.repository.set_limits("project", [*(of_project or [RPM])])
    await take(process.limiter, "key-1", "r", rpm=60)
    return process


def by_parent(world: World, limiter: RateLimiter, entity_id: str, parent: str = "project") -> dict[str, int]:
    """The refusals that the item of a bucket has, by the parent's limit."""
    item = world.bucket_of(limiter, entity_id, "r") or {}
    prefix = f"rj_{parent}/"
    return {name.removeprefix(prefix): number for name, number in item.items() if name.startswith(prefix)}


async def test_the_one_who_asked_counts_and_a_parent_that_was_short(world: World) -> None:
    limiter, _ = await family(world)
    await refused(limiter, 1, entity_id="key-2")
    world.clock.advance(seconds=30)
    await take(limiter, "key-2", "r", rpm=1)
    assert (counted(world, limiter, "project"), counted(world, limiter, "key-2")) == (1, 1)
    assert by_parent(world, limiter, "key-2") == {"rpm": 1}
    await refused(limiter, 31, entity_id="key-1")  # which both have not
    world.clock.advance(seconds=30)
    await take(limiter, "key-1", "r", rpm=1)
    assert (counted(world, limiter, "project"), counted(world, limiter, "key-1")) == (2, 1)
    assert by_parent(world, limiter, "key-1") == {"rpm": 1}
    await refused(limiter, 61, entity_id="project")
    await take(limiter, "project", "r", rpm=1)
    assert by_parent(world, limiter, "project") == {"rpm": 1}, "its own call"


async def test_a_refusal_by_the_key_itself_is_none_of_its_parent(world: World) -> None:
    limiter, _ = await family(world, Limit.per_minute("rpm", 600))
    await refused(limiter, 60, entity_id="key-1")
    world.clock.advance(seconds=30)
    await take(limiter, "key-1", "r", rpm=1)
    assert (counted(world, limiter, "project"), counted(world, limiter, "key-1")) == (None, 1)
    assert by_parent(world, limiter, "key-1") == {}


async def test_refusals_by_a_parent_cost_no_request_and_are_each_counted_under_its_limits(world: World) -> None:
    limiter, wire = await family(world, RPM, Limit.per_minute("tpm", 60))
    await take(limiter, "key-2", "r", rpm=0, tpm=60)
    world.clock.advance(seconds=1)
    await take(limiter, "key-2", "r", rpm=1, tpm=1)
    wire.sent()
    for consume in ({"rpm": 30}, {"tpm": 30}, {"rpm": 30, "tpm": 30}):
        assert not await passes(limiter, "key-2", "r", **consume)
    assert wire.sent() == []
    world.clock.advance(seconds=20)
    world.meter.reset()
    await take(limiter, "key-2", "r", rpm=1)
    assert sorted(wire.sent()) == ["Update", "Update"]
    assert (world.meter.write_units, world.meter.read_units) == (2, 0)
    assert (counted(world, limiter, "key-2"), by_parent(world, limiter, "key-2")) == (3, {"rpm": 2, "tpm": 2})


async def test_who_has_had_another_parent_has_the_refusals_of_both(world: World) -> None:
    limiter, _ = await family(world)
    await limiter.create_entity("group/7")
    await limiter.set_limits("group/7", [Limit.per_day("tpm", 1)])
    await refused(limiter, 2, 2, entity_id="key-2")
    await limiter.repository.update_entity("key-2", parent_id="group/7")
    world.clock.advance(seconds=61)
    await take(limiter, "key-2", "r", rpm=1, tpm=1)
    assert not await passes(limiter, "key-2", "r", tpm=1)
    await take(limiter, "key-2", "r", rpm=1)
    assert (by_parent(world, limiter, "key-2"), counted(world, limiter, "key-2")) == ({"rpm": 2}, 3)
    assert by_parent(world, limiter, "key-2", "group/7") == {"tpm": 1}


async def test_a_key_without_a_bucket_that_its_parent_refuses_has_one_within_a_minute(world: World) -> None:
    limiter, _ = await family(world, Limit.per_day("rpm", 60))
    for _ in range(130):
        world.clock.advance(seconds=0.5)
        await refused(limiter, 1, entity_id="key-1")  # sees the parent, so that copies can refuse the other one
        await refused(limiter, 1, entity_id="key-2")
    await limiter.close()
    assert (counted(world, limiter, "key-2"), by_parent(world, limiter, "key-2")) == (130, {"rpm": 130})


async def test_the_give_back_of_a_refused_call_counts_the_refusals_before_it(world: World) -> None:
    limiter, wire = await family(world)
    world.clock.advance(seconds=1)
    await take(limiter, "key-2", "r", rpm=1)
    await refused(limiter, 2, entity_id="key-2")
    world.clock.advance(seconds=3)  # by its copy the project has enough, and no write has found it short
    other = await world.process(default_limits=[RPM])
    await take(other.limiter, "project", "r", rpm=3)
    wire.sent()
    await refused(limiter, 2, entity_id="key-2")
    assert wire.sent() == ["Update", "Update", "Update"], "one on each side, and the give-back"
    assert (counted(world, limiter, "key-2"), by_parent(world, limiter, "key-2")) == (1, {"rpm": 1})


async def test_closing_writes_those_by_a_parent_too(world: World) -> None:
    limiter, _ = await family(world)
    world.clock.advance(seconds=1)
    await take(limiter, "key-2", "r", rpm=1)
    await refused(limiter, 1, 1, 1, entity_id="key-2")
    await limiter.close()
    assert (counted(world, limiter, "key-2"), by_parent(world, limiter, "key-2")) == (3, {"rpm": 3})
    assert counted(world, limiter, "project") == 3


async def test_a_write_counts_a_few_limits_of_the_parent_and_the_next_ones_the_rest(world: World) -> None:
    limiter, _ = await family(world)
    many = [Limit.per_day(f"limit_{number}", 1) for number in range(20)]
    await limiter.repository.set_limits("project", [RPM, *many])
    world.clock.advance(seconds=61)
    await take(limiter, "key-2", "r", rpm=1)
    assert not await passes(limiter, "key-2", "r", rpm=1, **{limit.name: 2 for limit in many})
    seen = []
    for _ in range(4):
        await take(limiter, "key-2", "r", rpm=1)
        seen.append(len(by_parent(world, limiter, "key-2")))
    assert seen == [7, 15, 20, 20]
    assert set(by_parent(world, limiter, "key-2").values()) == {1}
    assert counted(world, limiter, "key-2") == 1


async def test_a_bucket_counts_a_bounded_number_of_its_parents_limits(world: World) -> None:
    limiter, _ = await family(world)
    for generation in range(3):
        limits = [Limit.per_day(f"limit_{generation}_{number}", 1) for number in range(20)]
        await limiter.repository.set_limits("project", [RPM, *limits])
        world.clock.advance(seconds=61)
        await take(limiter, "key-2", "r", rpm=1)
        assert not await passes(limiter, "key-2", "r", rpm=1, **{limit.name: 2 for limit in limits})
        for _ in range(4):
            await take(limiter, "key-2", "r", rpm=1)
    assert len(by_parent(world, limiter, "key-2")) == 20
    assert counted(world, limiter, "key-2") == 3


async def test_who_waits_in_vain_is_counted_once_and_who_waits_with_success_is_not(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.custom("rpm", 4, refill_amount=20, refill_period=1)])
    await take(limiter, "e", "r", rpm=4)
    async with limiter.acquire("e", "r", {"rpm": 4}, max_wait=5) as lease:
        assert lease.waited > 0
    with pytest.raises(RateLimitExceeded):
        await limiter.acquire("e", "r", {"rpm": 4}, max_wait=0.01).__aenter__()
    world.clock.advance(seconds=0.3)
    await take(limiter, "e", "r", rpm=1)
    assert counted(world, limiter) == 1


async def test_a_consume_of_a_lease_that_is_refused_is_counted(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    async with limiter.acquire("e", "r", {"rpm": 30}) as lease:
        with pytest.raises(RateLimitExceeded):
            await lease.consume(rpm=31)
        await lease.consume(rpm=1)
    assert counted(world, limiter) == 1


async def test_checks_before_a_call_are_no_refusals(world: World) -> None:
    limiter, _ = await emptied(world)
    assert not (await limiter.check("e", "r", {"rpm": 1})).passes
    assert await limiter.time_until_available("e", "r", {"rpm": 61})
    world.clock.advance(seconds=1)
    await take(limiter, "e", "r", rpm=1)
    assert counted(world, limiter) == 1


async def test_refusals_are_in_the_bucket_without_a_further_call(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "WITHIN_MS", 200)
    limiter, wire = await emptied(world, 1, 2, 3, clock=None)
    assert counted(world, limiter) is None
    wire.sent()
    world.meter.reset()
    await until(lambda: counted(world, limiter) is not None)
    assert counted(world, limiter) == 3
    await asyncio.sleep(0.5)
    assert wire.sent() == ["Update"]
    assert world.meter.write_units == 1


async def test_a_bucket_that_goes_on_refusing_has_one_write_for_it_in_that_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "WITHIN_MS", 200)
    limiter, wire = await world.process(default_limits=[Limit.per_day("rpm", 5)], clock=None)
    await take(limiter, "e", "r", rpm=5)
    await refused(limiter, 1)
    wire.sent()
    begun, told, late = time.monotonic(), 1, 0
    while (passed := time.monotonic() - begun) < 1.5:
        await refused(limiter, 1)
        told += 1
        await asyncio.sleep(0.01)
        late = max(late, told - (counted(world, limiter) or 0))
    updates = wire.sent().count("Update")
    assert 3 <= updates <= 1 + passed / 0.2 + 2 * passed / 0.87, "and two tries by its calls where a copy is too old"
    assert late <= told / 2
    await until(lambda: counted(world, limiter) == told)


async def test_a_write_in_between_begins_their_time_anew(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "WITHIN_MS", 400)
    limiter, wire = await emptied(world, 1, clock=None)
    async with limiter.acquire("e", "r", {"rpm": 1}, max_wait=5):
        assert counted(world, limiter) == 1
    await refused(limiter, 50)
    wire.sent()
    await until(lambda: counted(world, limiter) == 2)
    assert wire.sent() == ["Update"]


async def test_a_reminder_that_was_lost_is_made_up_for_by_the_next_refusal(world: World) -> None:
    """It was lost with its event loop, or is late by a clock that the test moves on."""
    limiter, wire = await emptied(world, 60, 60)
    world.clock.advance(seconds=4)
    await refused(limiter, 61)
    assert counted(world, limiter) is None
    world.clock.advance(seconds=3)
    wire.sent()
    world.meter.reset()
    await refused(limiter, 61, 61, 61)
    await until(lambda: counted(world, limiter) is not None)
    assert [each for each in wire.sent() if each != "Get"] == ["Update"]  # amounts above the burst read the bucket
    assert world.meter.write_units == 1
    item = world.bucket_of(limiter, "e", "r")
    assert item is not None
    first = item["rj"]
    assert 4 <= first <= 6, "those that came before the write was decided"
    assert (item["ev"], item["b_rpm_tk"], item["b_wcu_tc"]) == (1, 0, 2000)
    await take(limiter, "e", "r", rpm=1)
    assert counted(world, limiter) == 6


@pytest.mark.parametrize("seconds", [1, 7])
async def test_without_reminders_a_bucket_that_stays_empty_counts_its_refusals(world: World, seconds: int) -> None:
    limiter, _ = await world.process(default_limits=[Limit.per_day("rpm", 5)])
    await take(limiter, "e", "r", rpm=5)
    calls, counts = 140 // seconds, list[int]()
    for _ in range(calls):
        world.clock.advance(seconds=seconds)
        await refused(limiter, 1, 1)
        await until(lambda: not busy(limiter))
        counts.append(counted(world, limiter) or 0)
    assert len({*counts}) <= 1 + 140 / 5
    assert counts[-1] >= 2 * (calls - 14 // seconds - 2)


@pytest.mark.parametrize("variant", ["async", "sync"])
def test_a_process_that_ends_without_closing_writes_its_refusals(tmp_path: Path, variant: str) -> None:
    path = tmp_path / "limits.db"
    script = {
        "sync": """
limiter = SyncRateLimiter(SyncRepository.sqlite(path), default_limits=[Limit.per_day("rpd", 1)])
for _ in range(8):
    try:
        with limiter.acquire("e", "r", {"rpd": 1}):
            pass
    except RateLimitExceeded:
        pass
""",
        "async": """
async def main():
    global limiter
    limiter = RateLimiter(await Repository.sqlite(path), default_limits=[Limit.per_day("rpd", 1)])
    for _ in range(8):
        try:
            async with limiter.acquire("e", "r", {"rpd": 1}):
                pass
        except RateLimitExceeded:
            pass
asyncio.run(main())
""",
    }[variant]
    script = f"import asyncio\nfrom zae_limiter import *\npath = {str(path)!r}\n{script}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    with SyncRepository.sqlite(path) as repository:
        bucket = repository.get_bucket("e", "r")
        assert bucket is not None
        assert bucket.refused == 7


async def test_a_refusal_does_not_wait_for_that_write(world: World) -> None:
    limiter, wire = await emptied(world, acquire_timeout=None, read_timeout=40)
    world.clock.advance(seconds=61)
    wire.hold(Update)
    async with asyncio.timeout(30):
        await refused(limiter, 61)
    await until(lambda: wire.in_flight == 1)
    wire.let_go()
    await until(lambda: counted(world, limiter) == 2)


async def test_that_write_makes_no_bucket_where_there_is_none(world: World) -> None:
    limiter, wire = await emptied(world)
    world.clock.advance(seconds=3600)
    world.expire()
    await refused(limiter, 61)
    await until(lambda: wire.in_flight == 0)
    assert "Put" not in wire.sent()  # the read of an amount above the burst has shown that there is none
    assert world.bucket_of(limiter, "e", "r") is None
    await take(limiter, "e", "r", rpm=1)
    await take(limiter, "e", "r", rpm=1)
    assert counted(world, limiter) == 2, "they were kept for the next bucket"


async def test_a_blocked_entity_without_a_bucket_costs_nothing_however_often_it_is_refused(world: World) -> None:
    limiter, wire = await world.process(default_limits=[Limit.per_minute("rpm", 0)])
    await refused(limiter, 1)
    wire.sent()
    for _ in range(5):
        world.clock.advance(seconds=50)
        await refused(limiter, 1, 1)
    assert not {"Put", "Update", "Transact"} & set(wire.sent())


async def test_a_write_that_was_not_applied_keeps_them_for_the_next(world: World) -> None:
    limiter, wire = await emptied(world, 1, 1)
    world.clock.advance(seconds=10)
    wire.break_once(Throttled("later"), on=Update)
    other, _ = await world.process(default_limits=[RPM])
    await take(other, "e", "r", rpm=8)  # so that the write loses its race, too
    await take(limiter, "e", "r", rpm=2)
    assert counted(world, limiter) == 2


async def test_those_of_a_write_whose_answer_was_lost_are_not_sent_again(world: World) -> None:
    limiter, wire = await emptied(world, 1, 1)
    world.clock.advance(seconds=10)
    wire.break_once(OutcomeUnknown("lost"), on=Update, applied=True)
    assert [type(each).__name__ for each in await outcomes(take(limiter, "e", "r", rpm=1))] == [
        "RateLimiterUnavailable"
    ]
    assert counted(world, limiter) == 2
    await take(limiter, "e", "r", rpm=1)
    assert counted(world, limiter) == 2


async def test_closing_writes_what_is_left(world: World) -> None:
    limiter, wire = await world.process(default_limits=[RPM])
    for number in range(40):
        await take(limiter, f"e-{number}", "r", rpm=60)
        await refused(limiter, 1, 1, entity_id=f"e-{number}")
    wire.sent()
    await limiter.close()
    assert wire.sent() == ["Update"] * 40
    assert {counted(world, limiter, f"e-{number}") for number in range(40)} == {2}
    await limiter.close()
    assert wire.sent() == []


async def test_closing_does_not_wait_long_for_a_store_that_is_away(world: World) -> None:
    limiter, wire = await world.process(default_limits=[RPM], connect_timeout=0.1, read_timeout=0.1)
    for number in range(40):
        await take(limiter, f"e-{number}", "r", rpm=60)
        await refused(limiter, 1, entity_id=f"e-{number}")
    wire.hold(Update)
    async with asyncio.timeout(30):
        await limiter.close()
    wire.let_go()


async def test_a_namespace_writes_its_own_when_it_is_closed(world: World) -> None:
    limiter, _ = await world.process()
    tenant: Any = await limiter.repository.namespace("tenant")
    if world.variant == "async":
        of_tenant = RateLimiter(tenant, default_limits=[RPM])
    else:
        of_tenant = cast("RateLimiter", Awaited(SyncRateLimiter(tenant._target, default_limits=[RPM])))
    await take(of_tenant, "e", "r", rpm=60)
    await refused(of_tenant, 1)
    await tenant.close()
    assert counted(world, of_tenant) == 1


async def test_a_split_bucket_counts_a_refusal_once_on_one_shard_and_a_new_shard_begins_without(world: World) -> None:
    limiter, _ = await emptied(world)
    world.clock.advance(seconds=10)
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, 4)
    assert [item.get("rj") for item in shard_items(world, limiter).values()] == [1, None, None, None]
    world.clock.advance(seconds=30)
    await refused(limiter, 50, 50)
    for _ in range(30):
        await take(limiter, "e", "r", rpm=1)
    assert sum(item.get("rj", 0) for item in shard_items(world, limiter).values()) == 3


async def test_callers_at_once_in_several_processes_are_all_counted(world: World) -> None:
    processes = [await world.process(default_limits=[RPM]) for _ in range(3)]
    results = await outcomes(*(take(each.limiter, "e", "r", rpm=2) for each in processes for _ in range(40)))
    refusals = sum(isinstance(each, RateLimitExceeded) for each in results)
    assert refusals == 120 - 30
    for each in processes:
        await each.limiter.close()
    assert counted(world, processes[0].limiter) == refusals


async def test_the_pending_refusals_of_as_many_buckets_are_kept_as_are_remembered(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM], buckets_remembered=3)
    for number in range(5):
        await take(limiter, f"e-{number}", "r", rpm=60)
        await refused(limiter, 1, entity_id=f"e-{number}")
    await limiter.close()
    assert [counted(world, limiter, f"e-{number}") for number in range(5)] == [None, None, 1, 1, 1]


async def test_the_write_tells_what_the_last_refused_call_asked_for(world: World) -> None:
    limiter, _ = await emptied(world, 7, 5)
    world.clock.advance(seconds=1)
    await take(limiter, "e", "r", rpm=1)
    item = world.bucket_of(limiter, "e", "r")
    assert item is not None
    assert item["rq"] == "rpm:5"
    explained = (await limiter.explain("e", "r")).buckets[0]
    assert explained.refused_ask == {"rpm": 5}


async def test_a_parent_that_was_short_has_no_ask_of_its_own(world: World) -> None:
    process = await world.process(default_limits=[RPM])
    repository = process.limiter.repository
    await repository.create_entity("p")
    await repository.create_entity("e", parent_id="p", cascade=True)
    await take(process.limiter, "p", "r", rpm=60)
    await refused(process.limiter, 2)
    world.clock.advance(seconds=1)
    await take(process.limiter, "p", "r", rpm=1)
    parent = world.bucket_of(process.limiter, "p", "r")
    assert parent is not None
    assert (parent["rj"], "rq" in parent) == (1, False)


def test_an_ask_is_text_that_is_read_back_as_far_as_it_is_whole() -> None:
    assert read_ask({"rq": write_ask({"tpm": 8_000, "rpm": 1})}) == {"rpm": 1, "tpm": 8_000}
    assert write_ask({f"limit-{number}": 1 for number in range(32)}) == ""
    for damaged in (1, "rpm", "rpm:x :5", "", None):
        assert read_ask({"rq": damaged}) == {}
    assert read_ask({}) == {}
