"""A total that ``expires`` leaves no bucket for ever: the store removes it once nobody has used it for so long."""

from pathlib import Path
from typing import Any

import pytest

from support.core.shards import played
from support.core.worlds import Process, World, passes, take
from zae_limiter import Limit, SyncRateLimiter, SyncRepository, ValidationError
from zae_limiter.flows.records.alerting import Crossing, remember_told
from zae_limiter.operations.values import Get, Key
from zae_limiter.rules.windows import LimitWindow
from zae_limiter.schema import keys
from zae_limiter.schema.items import BucketId

DAY = 24 * 3600
BUDGET = Limit.total("calls", 5, expires=7 * DAY)
FOR_EVER = Limit.total("credits", 5)
RPM = Limit.per_minute("rpm", 60)
SLOW = Limit.per_day("rpd", 100)


def ttl_of(world: World, process: Process, entity_id: str = "s1") -> int | None:
    """Seconds from now until the bucket expires."""
    item = world.bucket_of(process.limiter, entity_id, "r")
    assert item is not None
    return None if "ttl" not in item else item["ttl"] - world.clock.now_ms() // 1000


@pytest.mark.parametrize("given", ["defaults", "own", "own default", "call"])
async def test_an_unused_budget_is_gone_after_its_time_and_not_before(world: World, given: str) -> None:
    limiter, _ = await world.process(default_limits=[BUDGET] if given == "defaults" else None)
    if "own" in given:
        await limiter.set_limits("s1", [BUDGET], "_default_" if "default" in given else "r")
    more: dict[str, Any] = {"limits": [BUDGET]} if given == "call" else {}
    for _ in range(2):
        async with limiter.acquire("s1", "r", {"calls": 1}, **more):
            pass
    world.clock.advance(7 * DAY)
    assert world.expire() == 0
    assert await limiter.available("s1", "r", **more) == {"calls": 3}
    world.clock.advance(1)
    assert world.expire() == 1
    assert world.bucket_of(limiter, "s1", "r") is None
    assert await limiter.available("s1", "r", **more) == {"calls": 5}, "it begins anew"


async def test_each_use_prolongs_it_without_another_request(world: World) -> None:
    process = await world.process(default_limits=[BUDGET])
    for left in (4, 3, 2, 1):
        await take(process.limiter, "s1", "r", calls=1)
        assert ttl_of(world, process) == 7 * DAY
        world.clock.advance(6 * DAY)
        assert world.expire() == 0
        assert await process.limiter.available("s1", "r") == {"calls": left}
    process.wire.sent()
    world.clock.advance(3600)
    await take(process.limiter, "s1", "r", calls=1)
    assert [name for name in process.wire.sent() if name in ("Put", "Update", "Transact")] == ["Update"]
    assert not await passes(process.limiter, "s1", "r", calls=1)


async def test_a_credit_prolongs_it(world: World) -> None:
    process = await world.process(default_limits=[Limit.total("calls", 5, burst=100, expires=7 * DAY)])
    await take(process.limiter, "s1", "r", calls=5)
    world.clock.advance(6 * DAY)
    await process.limiter.repository.credit_bucket("s1", "r", {"calls": 50})
    assert ttl_of(world, process) == 7 * DAY
    world.clock.advance(6 * DAY)
    assert world.expire() == 0
    assert await process.limiter.available("s1", "r") == {"calls": 50}


@pytest.mark.parametrize(
    ("limits", "seconds"),
    [
        ([BUDGET, RPM], 7 * DAY),
        ([Limit.total("calls", 5, expires=DAY), SLOW], 60 + 7 * DAY),
        ([BUDGET, Limit.total("tokens", 9, expires=30 * DAY)], 30 * DAY),
        ([BUDGET, FOR_EVER], None),
        ([BUDGET, Limit.custom("rpm", 60, schedule=["night: 22:00-06:00 UTC 100/min"])], None),
    ],
)
@pytest.mark.parametrize("whose", ["defaults", "own"])
async def test_the_longest_of_a_buckets_limits_counts(
    world: World, limits: list[Limit], seconds: int | None, whose: str
) -> None:
    process = await world.process(default_limits=limits)
    if whose == "own":
        await process.limiter.set_limits("s1", limits, "r")
    for _ in range(2):
        await take(process.limiter, "s1", "r", **{limit.name: 1 for limit in limits})
    assert ttl_of(world, process) == seconds


async def test_without_a_life_of_buckets_nothing_expires(world: World) -> None:
    process = await world.process(default_limits=[BUDGET], bucket_ttl_multiplier=0)
    for _ in range(2):
        await take(process.limiter, "s1", "r", calls=1)
        assert ttl_of(world, process) is None


async def test_a_debt_of_a_rate_beside_it_is_waited_for(world: World) -> None:
    process = await world.process(default_limits=[Limit.total("calls", 5, expires=DAY), SLOW])
    async with process.limiter.acquire("s1", "r", {"calls": 1, "rpd": 1}) as lease:
        await lease.adjust(rpd=400)
    ttl = ttl_of(world, process)
    assert ttl is not None
    assert 60 + 7 * 4 * DAY < ttl < 7 * 5 * DAY


async def test_a_changed_life_reaches_the_bucket(world: World) -> None:
    process = await world.process()
    await process.limiter.set_limits("s1", [FOR_EVER], "r")
    await take(process.limiter, "s1", "r", credits=1)
    assert ttl_of(world, process) is None
    await process.limiter.set_limits("s1", [Limit.total("credits", 5, expires=DAY)], "r")
    for _ in range(2):
        await take(process.limiter, "s1", "r", credits=1)
    assert ttl_of(world, process) == DAY
    await process.limiter.set_limits("s1", [Limit.total("credits", 5, expires=2 * DAY)], "r")
    await take(process.limiter, "s1", "r", credits=1)
    assert ttl_of(world, process) == 2 * DAY
    assert await process.limiter.available("s1", "r") == {"credits": 1}
    await process.limiter.set_limits("s1", [FOR_EVER], "r")
    await take(process.limiter, "s1", "r", credits=1)
    assert ttl_of(world, process) is None


async def test_a_budget_of_a_call_expires_although_the_entity_has_limits_of_its_own(world: World) -> None:
    process = await world.process()
    await process.limiter.set_limits("s1", [RPM])
    async with process.limiter.acquire("s1", "r", {"calls": 1}, limits=[BUDGET]):
        pass
    assert ttl_of(world, process) == 7 * DAY


async def test_what_was_told_of_a_budget_is_forgotten_too(world: World) -> None:
    process = await world.process()
    bucket = BucketId(process.limiter.repository.namespace_id, "s1", "r")
    for limit, seconds in ((BUDGET, 9 * DAY), (FOR_EVER, None)):
        crossing = Crossing(bucket, limit, LimitWindow(5000, None, None), 80, 4, 5, world.clock.now_ms())
        played(world.table, remember_told(crossing))
        item = world.table.execute(Get(Key(*crossing.key)))
        assert item is not None
        assert item.get("ttl") == (None if seconds is None else world.clock.now_ms() // 1000 + seconds)


class SetClock:
    """A clock that moves without telling anybody, as the system's does."""

    at_ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.at_ms


def use(limiter: SyncRateLimiter, name: str) -> None:
    with limiter.acquire(name, "r", {"calls": 1}):
        pass


def stored(repository: SyncRepository, name: str) -> bool:
    """Whether the store has a bucket of this entity."""
    key = Key(keys.pk_bucket(repository.namespace_id, name, "r", 0), keys.sk_state())
    return repository._store.perform(Get(key)) is not None


@pytest.mark.parametrize("store", ["memory", "file"])
def test_a_store_of_its_own_removes_budgets_by_its_clock(tmp_path: Path, store: str) -> None:
    clock = SetClock()
    if store == "memory":
        repository = SyncRepository.in_memory(clock=clock)
    else:
        repository = SyncRepository.sqlite(tmp_path / "limits.db", clock=clock)
    limiter = SyncRateLimiter(repository, default_limits=[BUDGET])
    use(limiter, "s1")
    use(limiter, "s2")
    clock.at_ms += 6 * DAY * 1000
    use(limiter, "s2")
    for n in range(200):
        use(limiter, f"before-{n}")
    assert stored(repository, "s1")
    clock.at_ms += (DAY + 1) * 1000
    for n in range(1000):
        clock.at_ms += 1000  # the file waits a while, lest a clock is wrong
        use(limiter, f"behind-{n}")
    assert (stored(repository, "s1"), stored(repository, "s2")) == (False, True)
    assert limiter.available("s1", "r") == {"calls": 5}
    assert limiter.available("s2", "r") == {"calls": 3}
    limiter.close()


@pytest.mark.parametrize("expires", [0, 60, DAY - 1, 10 * 365 * DAY + 1, float(DAY), True, "7d", -DAY])
def test_a_wrong_life_is_refused_with_field_value_and_way_out(expires: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        Limit.total("calls", 500, expires=expires)
    assert (caught.value.field, caught.value.value) == ("expires of limit 'calls'", expires)
    assert "from 86400 (a day) to 315360000 (ten years); leave it out for a total that never expires" in str(
        caught.value
    )


def test_it_is_of_totals_and_slots_alone() -> None:
    with pytest.raises(ValidationError, match="belongs to a total or to concurrent slots, this is a token_bucket"):
        Limit.custom("rpm", 5, expires=DAY)
    assert Limit.custom("calls", 5, kind="total", expires=0) == Limit.total("calls", 5)


def test_it_is_written_and_read_in_every_form() -> None:
    assert str(Limit.total("calls", 500, expires=7 * DAY)) == "calls: 500 total expires 7d"
    assert str(Limit.total("calls", 500, expires=DAY)) == "calls: 500 total expires 1d"
    for limit in (BUDGET, Limit.total("calls", 5, burst=9, expires=DAY + 1, alert=(80,), shadow=True)):
        assert Limit.parse(str(limit)) == limit == Limit.from_dict(limit.to_dict())
    with pytest.raises(ValidationError, match="from 86400"):
        Limit.parse("calls: 500 total expires 12h")
