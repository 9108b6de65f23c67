"""What an acquire gives and refuses, in both variants, over a table in memory."""

import math
import random
from fractions import Fraction

import pytest

from support.core.worlds import World, passes, take
from zae_limiter import Limit, RateLimitExceeded
from zae_limiter.testing import ManualClock

RPM = Limit.per_minute("rpm", 60)  # a token a second
TPM = Limit.per_minute("tpm", 6000)
SLOW = Limit.custom("rpm", 1000, refill_amount=1, refill_period=10 * 365 * 24 * 3600)


async def test_what_is_taken_is_gone_and_time_gives_it_back(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM, TPM])
    await take(limiter, "e", "r", rpm=10, tpm=600)
    assert await limiter.available("e", "r") == {"rpm": 50, "tpm": 5400}
    world.clock.advance(seconds=4)
    assert await limiter.available("e", "r") == {"rpm": 54, "tpm": 5800}
    world.clock.advance(seconds=3600)
    assert await limiter.available("e", "r") == {"rpm": 60, "tpm": 6000}


async def test_entities_and_resources_have_buckets_of_their_own(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    await take(limiter, "e", "r", rpm=60)
    assert await passes(limiter, "e", "other", rpm=60)
    assert await passes(limiter, "other", "r", rpm=60)
    assert not await passes(limiter, "e", "r", rpm=1)


async def test_so_have_namespaces(world: World) -> None:
    first, _ = await world.process("first", default_limits=[RPM])
    second, _ = await world.process("second", default_limits=[RPM])
    await take(first, "e", "r", rpm=60)
    assert await passes(second, "e", "r", rpm=60)


async def test_all_limits_are_taken_from_or_none(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM, TPM])
    with pytest.raises(RateLimitExceeded):
        await take(limiter, "e", "r", rpm=1, tpm=6001)
    await take(limiter, "e", "r", rpm=60, tpm=1)
    with pytest.raises(RateLimitExceeded):
        await take(limiter, "e", "r", rpm=1, tpm=100)
    assert await limiter.available("e", "r") == {"rpm": 0, "tpm": 5999}


async def test_a_refusal_tells_how_each_limit_stands_and_when_to_come_back(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM, TPM])
    await take(limiter, "e", "r", rpm=58, tpm=100)
    with pytest.raises(RateLimitExceeded) as caught:
        await take(limiter, "e", "r", rpm=5, tpm=200)
    rpm, tpm = caught.value.statuses
    assert (rpm.entity_id, rpm.resource, rpm.limit_name, rpm.limit) == ("e", "r", "rpm", RPM)
    assert (rpm.available, rpm.requested, rpm.exceeded, rpm.retry_after_seconds) == (2, 5, True, 3.0)
    assert (tpm.available, tpm.requested, tpm.exceeded, tpm.retry_after_seconds) == (5900, 200, False, 0)
    assert caught.value.retry_after_seconds == 3.0


async def test_after_the_wait_that_it_tells_it_passes_and_a_millisecond_before_it_does_not(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.custom("rpm", 7, refill_amount=3, refill_period=11)])
    await take(limiter, "e", "r", rpm=7)
    world.clock.advance(ms=1234)
    with pytest.raises(RateLimitExceeded) as caught:
        await take(limiter, "e", "r", rpm=2)
    wait_ms = round(caught.value.retry_after_seconds * 1000)
    world.clock.advance(ms=wait_ms - 1)
    assert not await passes(limiter, "e", "r", rpm=2)
    world.clock.advance(ms=1)
    assert await passes(limiter, "e", "r", rpm=2)


@pytest.mark.parametrize("period", [60, 3600, 86_400, 604_800, 2_592_000])
async def test_a_token_comes_at_its_instant_to_the_millisecond(world: World, period: int) -> None:
    limiter, _ = await world.process(default_limits=[Limit.custom("rpm", 1, refill_period=period)])
    for entity in range(8):
        world.clock.advance(ms=1_234_567 * entity + 1)
        for _ in range(2):  # of a new bucket, and of one that is full again
            await take(limiter, str(entity), "r", rpm=1)
            assert await limiter.time_until_available(str(entity), "r", {"rpm": 1}) == period
            world.clock.advance(ms=period * 1000 - 1)
            with pytest.raises(RateLimitExceeded) as caught:
                await take(limiter, str(entity), "r", rpm=1)
            assert caught.value.retry_after_seconds == 0.001
            world.clock.advance(ms=1)


@pytest.mark.long
async def test_a_slow_limit_counts_no_part_of_a_millitoken_twice_whoever_writes(world: World) -> None:
    limits = [Limit.per_day("rpd", 10), Limit.per_second("rps", 5)]
    limiters = [(await world.process(default_limits=limits))[0] for _ in range(3)]
    admitted: list[int] = []
    for turn in range(4_000):
        limiter = limiters[turn % 3]
        if await passes(limiter, "e", "r", rpd=1, rps=1):
            admitted.append(world.clock.now_ms())
        world.clock.advance(ms=17_977 + turn)
    for first, begin in enumerate(admitted):
        for number, end in enumerate(admitted[first:], 1):
            assert number <= 10 + Fraction(10 * (end - begin), 86_400_000)
    assert len(admitted) >= 10 + 10 * (admitted[-1] - admitted[0]) // 86_400_000 - 1


async def test_a_request_above_the_ceiling_says_that_it_can_never_pass(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.per_minute("rpm", 60, burst=90)])
    assert await limiter.time_until_available("e", "r", {"rpm": 90}) == 0
    assert await limiter.time_until_available("e", "r", {"rpm": 91}) == math.inf
    with pytest.raises(RateLimitExceeded, match="can never pass: the limit holds at most 90") as caught:
        await take(limiter, "e", "r", rpm=91)
    assert caught.value.retry_after_header is None
    assert await passes(limiter, "e", "r", rpm=90)


async def test_questions_take_nothing(world: World) -> None:
    limiter, wire = await world.process(default_limits=[RPM])
    assert (await limiter.check("e", "r", {"rpm": 60})).passes
    await take(limiter, "e", "r", rpm=60)
    assert not (await limiter.check("e", "r", {"rpm": 1})).passes
    assert await limiter.time_until_available("e", "r", {"rpm": 3}) == 3.0
    assert await limiter.available("e", "r") == {"rpm": 0}
    assert [name for name in wire.sent() if name in {"Put", "Update", "Transact"}] == ["Put"]


async def test_a_question_asks_the_store_whatever_this_process_has_seen(world: World) -> None:
    one, _ = await world.process(default_limits=[RPM])
    two, _ = await world.process(default_limits=[RPM])
    await take(one, "e", "r", rpm=1)
    await take(two, "e", "r", rpm=59)
    assert await one.available("e", "r") == {"rpm": 0}
    assert await one.time_until_available("e", "r", {"rpm": 1}) == 1.0


async def test_limits_of_the_call_override_all(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    await limiter.set_limits("e", [Limit.per_minute("rpm", 5)])
    async with limiter.acquire("e", "r", {"tpm": 6000}, [TPM]):
        pass
    with pytest.raises(RateLimitExceeded):
        async with limiter.acquire("e", "r", {"tpm": 1}, [TPM]):
            pass


# amounts of zero


async def test_an_amount_of_zero_is_admitted_and_writes_nothing(world: World) -> None:
    limiter, wire = await world.process(default_limits=[RPM])
    await take(limiter, "e", "r", rpm=0)
    await take(limiter, "e", "r", rpm=60)
    wire.sent()
    await take(limiter, "e", "r", rpm=0)
    assert wire.sent() == []


async def test_an_amount_of_zero_is_refused_while_the_limit_is_in_debt(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    async with limiter.acquire("e", "r", {"rpm": 60}) as lease:
        await lease.adjust(rpm=30)
    with pytest.raises(RateLimitExceeded) as caught:
        await take(limiter, "e", "r", rpm=0)
    assert caught.value.retry_after_seconds == 30.0
    world.clock.advance(seconds=30)
    assert await passes(limiter, "e", "r", rpm=0)


# what it costs


async def test_the_first_acquire_reads_once_and_makes_the_bucket(world: World) -> None:
    limiter, wire = await world.process(default_limits=[RPM])
    await take(limiter, "e", "r", rpm=1)
    assert wire.sent() == ["BatchGet", "Put"]


async def test_a_process_that_knows_nothing_of_a_bucket_reads_once_and_writes_once(world: World) -> None:
    one, _ = await world.process(default_limits=[RPM])
    await take(one, "e", "r", rpm=1)
    other, wire = await world.process(default_limits=[RPM])
    await take(other, "e", "r", rpm=1)
    assert wire.sent() == ["BatchGet", "Update"]


@pytest.mark.parametrize("idle_seconds", [0, 1, 50])
async def test_a_warm_acquire_is_one_write_however_long_ago_the_last_one_was(world: World, idle_seconds: int) -> None:
    limiter, wire = await world.process(default_limits=[RPM, TPM], config_cache_ttl=3600)
    await take(limiter, "e", "r", rpm=1, tpm=100)
    await take(limiter, "e", "r", rpm=1, tpm=100)
    wire.sent()
    world.clock.advance(seconds=idle_seconds)
    world.meter.reset()
    await take(limiter, "e", "r", rpm=1, tpm=100)
    assert wire.sent() == ["Update"]
    assert (world.meter.write_units, world.meter.index_units, world.meter.read_units) == (1, 0, 0)


@pytest.mark.slow
async def test_acquire_number_1000_costs_what_number_5_costs(world: World) -> None:
    limiter, wire = await world.process(default_limits=[Limit.per_second("rpm", 1_000_000)], config_cache_ttl=3600)
    costs = []
    for number in range(1, 1001):
        world.meter.reset()
        await take(limiter, "e", "r", rpm=3)
        world.clock.advance(ms=number % 3)
        if number in {5, 1000}:
            costs.append((wire.sent()[-1:], world.meter.write_units, world.meter.read_units, world.meter.index_units))
        wire.sent()
    assert costs == [(["Update"], 1, 0, 0)] * 2


async def test_a_refusal_by_a_fresh_state_sends_nothing_and_an_older_one_asks_again(world: World) -> None:
    limiter, wire = await world.process(default_limits=[Limit.per_day("rpm", 5)])
    await take(limiter, "e", "r", rpm=5)
    wire.sent()
    for _ in range(3):
        assert not await passes(limiter, "e", "r", rpm=1)
    world.clock.advance(ms=869)
    assert not await passes(limiter, "e", "r", rpm=1)
    assert wire.sent() == []
    world.clock.advance(ms=1)
    world.meter.reset()
    assert not await passes(limiter, "e", "r", rpm=1)
    assert wire.sent() == ["Update"]
    assert world.meter.write_units == 1  # a condition that fails is charged
    assert not await passes(limiter, "e", "r", rpm=1)
    assert wire.sent() == []


async def test_without_staleness_every_refusal_asks_the_store(world: World) -> None:
    limiter, wire = await world.process(default_limits=[Limit.per_day("rpm", 5)], rejection_staleness=0)
    await take(limiter, "e", "r", rpm=5)
    wire.sent()
    for _ in range(2):
        assert not await passes(limiter, "e", "r", rpm=1)
    assert wire.sent() == ["Update", "Update"]


async def test_a_lost_race_costs_one_write_more(world: World) -> None:
    one, wire = await world.process(default_limits=[SLOW])
    other, _ = await world.process(default_limits=[SLOW])
    await take(one, "e", "r", rpm=1)
    await take(other, "e", "r", rpm=900)
    wire.sent()
    assert not await passes(one, "e", "r", rpm=100)
    assert wire.sent() == ["Update"]
    await take(other, "e", "r", rpm=1)
    assert await passes(one, "e", "r", rpm=98)
    assert wire.sent() == ["Update"]  # below the ceiling the writes of several processes commute


class TickingClock(ManualClock):
    """A clock that moves on with every question."""

    step_ms = 0

    def now_ms(self) -> int:
        self.advance(ms=self.step_ms)
        return super().now_ms()


@pytest.mark.parametrize("way", ["acquire", "consume"])
async def test_a_refusal_names_what_was_exceeded_though_time_passes_while_it_is_decided(world: World, way: str) -> None:
    world.clock = clock = TickingClock()
    limiter, _ = await world.process(default_limits=[Limit.per_second("rpm", 1000)])  # a token a millisecond
    await limiter.repository.create_entity("parent")
    await limiter.repository.create_entity("e", parent_id="parent", cascade=True)
    chance, refusals = random.Random(7), list[RateLimitExceeded]()
    async with limiter.acquire("e", "r", {"rpm": 995}) as lease:
        clock.step_ms = 1
        for _ in range(300):
            amount = chance.randint(1, 20)
            try:
                await (lease.consume(rpm=amount) if way == "consume" else take(limiter, "e", "r", rpm=amount))
            except RateLimitExceeded as error:
                refusals.append(error)
    assert len(refusals) > 20
    assert all(error.primary_violation.exceeded and error.retry_after_seconds > 0 for error in refusals)
