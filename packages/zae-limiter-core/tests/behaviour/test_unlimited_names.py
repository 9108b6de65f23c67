"""A name that the winning level leaves out and another level knows: admitted without a limit, and counted."""
# ruff: noqa: PT012 - a block under a lease that raises takes more than one line

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support.core.prefetching import live_by_the_worlds_clock, until_written, use
from support.core.shards import shard_items, split_into
from support.core.worlds import Process, World, passes, take
from zae_limiter import (
    Draw,
    Limit,
    RateLimiterUnavailable,
    RateLimitExceeded,
    SyncRateLimiter,
    SyncRepository,
    ValidationError,
)
from zae_limiter.operations.errors import Unreachable
from zae_limiter.testing import ManualClock

RPM, TPM = Limit.per_minute("rpm", 60), Limit.per_minute("tpm", 6000)
BOTH = {"rpm": 1, "tpm": 500}


async def below(world: World, **options: Any) -> Process:
    """The system limits both names, the entity ``e`` on ``r`` only ``rpm``."""
    it = await world.process(**options)
    await it.limiter.set_system_defaults([RPM, TPM])
    await it.limiter.set_limits("e", [RPM], "r")
    return it


def counted(world: World, it: Process, entity_id: str = "e", name: str = "tpm") -> int:
    item = world.bucket_of(it.limiter, entity_id, "r")
    return 0 if item is None else int(item.get(f"b_{name}_tc", 0)) // 1000


async def use_both(it: Process, entity_id: str = "e", **options: Any) -> None:
    async with it.limiter.acquire(entity_id, "r", BOTH, **options):
        pass


async def test_it_is_admitted_and_counted_and_a_typo_stays_an_error(world: World) -> None:
    it = await below(world)
    for _ in range(20):  # more than the 6000 of the system
        await use_both(it)
    assert counted(world, it) == 10_000
    assert await it.limiter.available("e", "r") == {"rpm": 40}
    with pytest.raises(ValidationError, match=r"unknown limit 'tmp' on resource 'r' \(known: rpm, tpm\)"):
        await take(it.limiter, "e", "r", rpm=1, tmp=500)


async def test_a_warm_call_costs_what_a_call_without_the_name_costs(world: World) -> None:
    it = await below(world)
    await use_both(it)
    await use_both(it)
    it.wire.sent()
    units = world.meter.write_units
    await use_both(it)
    assert it.wire.sent() == ["Update"]
    world.clock.advance(seconds=61)
    await use_both(it)
    assert sorted(it.wire.sent()) == ["BatchGet", "Update"]  # the limits are read beside the write
    assert world.meter.write_units - units == 2


async def test_a_typo_reads_the_limits_once_a_second(world: World) -> None:
    it = await below(world)
    await use_both(it)
    it.wire.sent()
    world.clock.advance(seconds=1)
    for _ in range(5):
        with pytest.raises(ValidationError, match="unknown limit"):
            await take(it.limiter, "e", "r", tmp=500)
    assert it.wire.sent() == ["BatchGet"]


async def test_it_may_be_the_only_name_of_a_call(world: World) -> None:
    it = await below(world)
    for _ in range(3):
        await take(it.limiter, "e", "r", tpm=500)
    item = world.bucket_of(it.limiter, "e", "r")
    assert item is not None
    assert (item["b_tpm_tc"], item["ev"], item["b_rpm_tc"]) == (1_500_000, 3, 0)
    await take(it.limiter, "e", "r", tpm=0)
    assert (await it.limiter.check("e", "r", {"tpm": 10**9})).passes


async def test_a_refusal_and_a_failed_block_count_nothing(world: World) -> None:
    it = await below(world)
    await take(it.limiter, "e", "r", rpm=60)
    assert not await passes(it.limiter, "e", "r", rpm=1, tpm=500)
    world.clock.advance(seconds=60)
    with pytest.raises(KeyError):
        async with it.limiter.acquire("e", "r", BOTH):
            raise KeyError
    assert counted(world, it) == 0


async def test_a_lease_corrects_its_count(world: World) -> None:
    it = await below(world)
    async with it.limiter.acquire("e", "r", {"rpm": 1}) as lease:
        await lease.consume(tpm=700)
        await lease.adjust(tpm=-200)
        assert lease.consumed == {"rpm": 1, "tpm": 500}
        with pytest.raises(ValidationError, match="holds 500"):
            await lease.release(tpm=501)
        with pytest.raises(ValidationError, match=r"unknown limit 'tmp' in this lease \(known: rpm, tpm\)"):
            await lease.adjust(tmp=1)
    assert counted(world, it) == 500
    async with it.limiter.acquire("e", "r", BOTH) as lease:
        await lease.settle(tpm=20)
    assert counted(world, it) == 520


async def test_a_lease_gives_back_no_tokens_of_a_limit_that_was_gone_when_it_took_more(world: World) -> None:
    it, other = await world.process(), await world.process()
    await other.limiter.set_system_defaults([RPM, TPM])
    await take(it.limiter, "e", "r", rpm=1, tpm=3000)
    async with it.limiter.acquire("e", "r", {"rpm": 1, "tpm": 0}) as lease:
        await other.limiter.set_limits("e", [RPM], "r")
        await lease.consume(tpm=500)  # finds that the limits have changed, and is only counted
        before = world.bucket_of(it.limiter, "e", "r")
        await lease.release(tpm=500)
    after = world.bucket_of(it.limiter, "e", "r")
    assert before is not None
    assert after is not None
    assert after["b_tpm_tk"] == before["b_tpm_tk"]
    assert (before["b_tpm_tc"], after["b_tpm_tc"]) == (3_500_000, 3_000_000)


@pytest.mark.parametrize("knows", ["override", "tier", "resource", "entity_default", "default_limits"])
async def test_any_weaker_level_may_know_it(world: World, knows: str) -> None:
    it = await world.process(default_limits=[RPM, TPM] if knows == "default_limits" else None)
    await it.limiter.create_entity("e")
    await it.limiter.set_limits("e", [RPM, TPM] if knows == "override" else [RPM], "r")
    if knows == "override":  # the level's own limits, below it
        until = datetime.fromtimestamp(world.clock.now_ms() / 1000 + 3600, UTC)
        await it.limiter.set_limits("e", [RPM], "r", override_until=until)
    elif knows == "tier":
        await it.repository.set_tier_limits("gold", [RPM, TPM], "r")
        await it.limiter.repository.update_entity("e", tier="gold")
    elif knows == "resource":
        await it.limiter.set_resource_defaults("r", [RPM, TPM])
    elif knows == "entity_default":
        await it.limiter.set_limits("e", [TPM])
    await use_both(it)
    assert counted(world, it) == 500
    assert (await it.limiter.explain("e", "r")).buckets[0].unlimited == ("tpm",)


async def test_limits_of_a_call_leave_out_what_is_stored(world: World) -> None:
    it = await world.process()
    await it.limiter.set_system_defaults([RPM, TPM])
    await use_both(it, "x", limits=[RPM])
    assert counted(world, it, "x") == 500
    assert (await it.limiter.check("x", "r", BOTH, [RPM])).unlimited == ("tpm",)


async def test_what_a_parent_limits_is_taken_there_as_ever(world: World) -> None:
    it = await below(world)
    await it.limiter.create_entity("p")
    await it.limiter.create_entity("e", parent_id="p", cascade=True)
    await use_both(it)
    it.wire.sent()
    await take(it.limiter, "e", "r", tpm=500)
    assert it.wire.sent() == ["Update", "Update"]  # the parent takes it, and the child counts it
    assert (counted(world, it), counted(world, it, "p")) == (1000, 1000)
    assert [each.unlimited for each in (await it.limiter.explain("e", "r")).buckets] == [(), ()]
    await it.limiter.set_limits("p", [RPM], "r")
    await use_both(it)
    assert (counted(world, it), counted(world, it, "p")) == (1500, 1500)
    assert [each.unlimited for each in (await it.limiter.explain("e", "r")).buckets] == [("tpm",), ("tpm",)]


async def test_a_draw_counts_what_it_asks_for_itself(world: World) -> None:
    it = await below(world)
    await it.limiter.set_limits("user-7", [RPM], "r")
    async with it.limiter.acquire("e", "r", BOTH, draws=[Draw("user-7", consume={"tpm": 40})]) as lease:
        await lease.draw("user-7").adjust(tpm=2)
    assert (counted(world, it), counted(world, it, "user-7")) == (500, 42)
    await use_both(it, draws=[Draw("user-7")])  # of the call's amounts those that it limits, as ever
    assert (counted(world, it), counted(world, it, "user-7")) == (1000, 42)


async def test_a_split_bucket_counts_it_once(world: World) -> None:
    it = await below(world)
    await use_both(it)
    split_into(world, it.limiter, 4)
    await use_both(it)
    async with it.limiter.acquire("e", "r", {"rpm": 40, "tpm": 500}):  # of several shards together
        pass
    assert sum(b.consumed for b in (await it.repository.get_buckets("e"))[0].limits) == 42
    shards = shard_items(world, it.limiter).values()
    assert sum(item.get("b_tpm_tc", 0) for item in shards) == 1_500_000


async def test_a_shadow_limiter_counts_it_too(world: World) -> None:
    it = await below(world)
    await it.limiter.set_limits("e", [Limit.per_minute("rpm", 1, shadow=True)], "r")
    for _ in range(3):
        await use_both(it)
    assert (counted(world, it), counted(world, it, name="rpm")) == (1500, 3)


async def test_a_limit_that_comes_back_goes_on_counting(world: World) -> None:
    it = await below(world)
    await use_both(it)
    await it.limiter.set_limits("e", [RPM, TPM], "r")
    await use_both(it)
    assert counted(world, it) == 1000
    assert (await it.limiter.available("e", "r"))["tpm"] in (5499, 5500)
    await it.limiter.set_limits("e", [RPM], "r")
    world.clock.advance(seconds=200)  # full, it leaves the bucket
    for _ in range(3):
        await use_both(it)
        world.clock.advance(seconds=61)
    assert await it.limiter.available("e", "r") == {"rpm": 60}
    assert counted(world, it) >= 1000


async def test_held_tokens_admit_such_a_call_without_a_request(
    world: World, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_by_the_worlds_clock(request, monkeypatch)
    it = await world.process()
    await it.limiter.set_system_defaults([TPM])
    await it.limiter.set_resource_defaults("r", [Limit.per_minute("rpm", 6_000, prefetch=1)])
    await use(world, it.limiter, 100, rpm=1, tpm=10)
    it.wire.sent()
    await use(world, it.limiter, 100, rpm=1, tpm=10)
    await until_written(it)
    assert len(it.wire.sent()) <= 4
    async with it.limiter.acquire("e", "r", {"rpm": 1}) as lease:
        await lease.adjust(tpm=5)
    world.clock.advance(seconds=5)
    await take(it.limiter, "e", "r", rpm=1)
    await it.repository.close()
    assert counted(world, it) == 2005
    assert counted(world, it, name="rpm") == 202


async def test_an_outage_goes_by_the_limits_that_there_are(world: World) -> None:
    it = await below(world, on_unavailable="block")
    await use_both(it)
    it.wire.break_down(Unreachable("connection refused"))
    with pytest.raises(RateLimiterUnavailable):
        await use_both(it)
    await take(it.limiter, "e", "r", tpm=500)  # as shadow limits: nothing could refuse it
    it.wire.repair()


async def test_a_share_of_an_outage_counts_it_later(world: World) -> None:
    it = await below(world, on_unavailable="share")
    for _ in range(100):
        await use_both(it)
        world.clock.advance(seconds=1)
    it.wire.break_down(Unreachable("connection refused"))
    world.clock.advance(seconds=1)
    taken = 0
    with pytest.raises((RateLimitExceeded, RateLimiterUnavailable)):
        while True:
            await use_both(it)
            taken += 1
    assert taken
    it.wire.repair()
    world.clock.advance(seconds=120)
    for _ in range(2):
        await take(it.limiter, "e", "r", rpm=1)
        world.clock.advance(seconds=2)
    await it.repository.close()
    assert counted(world, it) == 500 * (100 + taken)


def test_sqlite_reports_it_as_usage(tmp_path: Path) -> None:
    with SyncRepository.sqlite(tmp_path / "limits.db", clock=ManualClock()) as repository:
        limiter = SyncRateLimiter(repository)
        limiter.set_system_defaults([RPM, TPM])
        limiter.set_limits("e", [RPM], "r")
        for _ in range(2):
            with limiter.acquire("e", "r", BOTH) as lease:
                lease.adjust(tpm=-100)
        summary = repository.get_usage_summary(entity_id="e", resource="r")
        assert {each.limit_name: each.total for each in summary.limits} == {"rpm": 2, "tpm": 800}
