"""The shards of a bucket that is quiet merge again, and no token is lost or made; in both variants."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from support.core.owners import maintenance_of
from support.core.shards import aim_at, played, shard_items, split, split_into
from support.core.wires import Wire
from support.core.worlds import World, drain, passes, take, until
from zae_limiter import Limit, RateLimiter, RateLimiterUnavailable
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.exceptions import ContentionError
from zae_limiter.flows.bucket.merging import merge_bucket
from zae_limiter.flows.process.namespace_state import NamespaceState, Settings
from zae_limiter.operations.errors import OutcomeUnknown
from zae_limiter.operations.values import Delete, Found, Key, Operation, Transact, Update
from zae_limiter.schema.items import BucketId

DAILY = Limit.per_day("rpm", 100_000)
MONTHLY = Limit.custom("credits", 1_000, kind="calendar", window="month", timezone="Europe/Berlin")
TOTAL = Limit.total("total", 5_000)


class Meddling(Wire):
    """A wire with others on the same table: ``before`` each operation, and in what an answer shows."""

    def __init__(self, table: MemoryTable) -> None:
        super().__init__(table)
        self.before: Callable[[Operation[Any]], object] = lambda _: None
        self.shown: Callable[[Any], Any] = lambda answer: answer

    def answer(self, operation: Operation[Any]) -> Any:
        self.before(operation)
        return self.shown(super().answer(operation))


def merge(world: World, limiter: RateLimiter) -> int:
    """Have another process, which tells nobody, merge the shards of the bucket."""
    ns = limiter.repository.namespace_id
    other = NamespaceState("default", ns, stack="test", now=world.clock.now_ms, settings=Settings())
    return int(played(world.table, merge_bucket(other, BucketId(ns, "e", "r"))))


async def test_64_shards_become_one_that_has_what_all_had_and_expires_again(world: World) -> None:
    limiter, wire = await world.process(default_limits=[DAILY, MONTHLY, TOTAL])
    await take(limiter, "e", "r", rpm=1, credits=1, total=1)
    split_into(world, limiter, 64)
    for _ in range(100):
        await take(limiter, "e", "r", rpm=11, credits=3, total=7)
    before = await limiter.repository.get_bucket("e", "r")
    assert merge(world, limiter) == 63
    after = await limiter.repository.get_bucket("e", "r")
    assert before is not None
    assert after is not None
    assert after.available == {"rpm": 100_000 - 1 - 1_100, "credits": 1_000 - 1 - 300, "total": 5_000 - 1 - 700}
    assert after.limits == before.limits  # what was consumed, too
    assert list(shard_items(world, limiter)) == [0]
    await take(limiter, "e", "r", rpm=1)  # the process learns of it
    wire.sent()
    for _ in range(10):
        await take(limiter, "e", "r", rpm=1, credits=1, total=1)
    assert wire.sent() == ["Update"] * 10  # one write each, as for any other bucket
    assert not await passes(limiter, "e", "r", total=5_000 - 1 - 700 - 10 + 1)


async def test_a_bucket_of_one_shard_and_one_that_is_not_there_have_nothing_to_merge(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])
    assert await maintenance_of(limiter.repository).merge_bucket("e", "r") == 0
    await take(limiter, "e", "r", rpm=1)
    assert await maintenance_of(limiter.repository).merge_bucket("e", "r") == 0


async def test_a_bucket_whose_limits_mint_alone_has_its_ttl_again(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, 4)
    assert "ttl" not in shard_items(world, limiter)[0]
    assert await maintenance_of(limiter.repository).merge_bucket("e", "r") == 3
    item = shard_items(world, limiter)[0]
    assert item["ttl"] * 1000 >= world.clock.now_ms() + 7 * 86_400_000
    assert (item["shard_count"], "wa" in item) == (1, False)


async def test_debts_are_added_up(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TOTAL])
    await take(limiter, "e", "r", total=1)
    split_into(world, limiter, 2)
    aim_at(limiter, 1)
    async with limiter.acquire("e", "r", {"total": 1}) as lease:
        await lease.adjust(total=4_000)
    assert merge(world, limiter) == 1
    assert await limiter.available("e", "r") == {"total": 5_000 - 4_002}


@pytest.mark.parametrize("more", [0, 5, -3])
async def test_what_a_lease_took_of_a_shard_that_is_gone_is_corrected_where_its_tokens_are(
    world: World, more: int
) -> None:
    limiter, _ = await world.process(default_limits=[TOTAL, DAILY])
    await take(limiter, "e", "r", total=1)
    split_into(world, limiter, 4)
    aim_at(limiter, 3)
    async with limiter.acquire("e", "r", {"total": 10, "rpm": 1}) as lease:
        assert merge(world, limiter) == 3
        await lease.adjust(total=more, rpm=-1)
    left = 1000 * (5_000 - 1 - 10 - more)
    await until(lambda: shard_items(world, limiter)[0]["b_total_tk"] == left)  # nobody waits for what comes back
    world.clock.advance(0.01)  # for what rounds down
    assert (await limiter.available("e", "r"))["rpm"] == 100_000
    assert list(shard_items(world, limiter)) == [0]


async def test_a_process_that_asks_for_a_shard_that_is_gone_neither_makes_nor_splits_it(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TOTAL])
    await take(limiter, "e", "r", total=1)
    split_into(world, limiter, 64)
    aim_at(limiter, 37)
    await take(limiter, "e", "r", total=1)
    merge(world, limiter)
    await take(limiter, "e", "r", total=1)
    assert list(shard_items(world, limiter)) == [0]
    assert await limiter.available("e", "r") == {"total": 5_000 - 3}


async def test_who_read_the_parent_before_a_merge_does_not_make_the_shard_anew(world: World) -> None:
    """The shards are not read at one instant: one is gone by then, and shard 0 is from before."""
    wire = Meddling(world.table)
    limiter, _ = await world.process(default_limits=[TOTAL], wire=wire)
    await take(limiter, "e", "r", total=1)
    split_into(world, limiter, 2)
    home = dict(shard_items(world, limiter)[0])
    aim_at(limiter, 1)
    await take(limiter, "e", "r", total=1)
    assert merge(world, limiter) == 1
    key = Key(home["PK"], "#STATE")

    def from_before(answer: Any) -> Any:
        if not isinstance(answer, Found) or key not in answer.items:
            return answer
        wire.shown = lambda answer: answer
        return Found({**answer.items, key: home})

    wire.shown = from_before
    await take(limiter, "e", "r", total=1)
    assert wire.shown is not from_before
    assert list(shard_items(world, limiter)) == [0]
    assert await limiter.available("e", "r") == {"total": 5_000 - 3}


async def test_a_merge_that_stops_half_way_leaves_nothing_out_of_reach_and_goes_on(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TOTAL])
    await take(limiter, "e", "r", total=1)
    split_into(world, limiter, 8)
    ns = limiter.repository.namespace_id
    other = NamespaceState("default", ns, stack="test", now=world.clock.now_ms, settings=Settings())
    flow, sent = merge_bucket(other, BucketId(ns, "e", "r")), 0
    step = next(flow)
    while sent < 2:
        answer = world.table.execute(step)  # type: ignore[arg-type]
        sent += isinstance(step, Transact)
        step = flow.send(answer)
    counts = {shard: item["shard_count"] for shard, item in shard_items(world, limiter).items()}
    assert counts == {0: 4, 1: 4, 2: 8, 3: 8, 6: 8, 7: 8}
    assert await limiter.available("e", "r") == {"total": 4_999}
    await limiter.repository.credit_bucket("e", "r", {"total": 1})
    assert await passes(limiter, "e", "r", total=4_990)
    assert merge(world, limiter) == 5
    assert await limiter.available("e", "r") == {"total": 10}


async def test_a_bucket_that_is_written_all_the_time_stays_as_it_is(world: World) -> None:
    wire = Meddling(world.table)
    limiter, _ = await world.process(default_limits=[TOTAL], wire=wire)
    await take(limiter, "e", "r", total=1)
    split_into(world, limiter, 2)
    key = Key(BucketId(limiter.repository.namespace_id, "e", "r", 1).pk, "#STATE")
    busy = Update(key, add={"b_wcu_tc": 1000, "b_total_tk": -1000})
    wire.before = lambda each: world.table.execute(busy) if isinstance(each, Transact) else None
    with pytest.raises(ContentionError):
        await maintenance_of(limiter.repository).merge_bucket("e", "r")
    assert len(shard_items(world, limiter)) == 2
    wire.before = lambda _: None
    assert await maintenance_of(limiter.repository).merge_bucket("e", "r") == 1
    assert await limiter.available("e", "r") == {"total": 5_000 - 1 - 16}


async def test_a_shard_that_somebody_deleted_brings_nothing(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TOTAL])
    await take(limiter, "e", "r", total=1)
    split_into(world, limiter, 2)
    world.table.execute(Delete(Key(BucketId(limiter.repository.namespace_id, "e", "r", 1).pk, "#STATE")))
    assert merge(world, limiter) == 0
    assert await limiter.available("e", "r") == {"total": 2_500 - 1}


async def test_shards_with_other_rules_merge_by_the_newest(world: World) -> None:
    limiter, _ = await world.process(default_limits=[DAILY])
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, 2)
    await limiter.repository.set_limits("e", [Limit.per_second("rpm", 10), Limit.per_second("tpm", 40)], "r")
    aim_at(limiter, 1)
    await take(limiter, "e", "r", rpm=1, tpm=1)
    assert merge(world, limiter) == 1
    world.clock.advance(0.01)  # the anchor is some milliseconds in the future
    assert await limiter.available("e", "r") == {"rpm": 9, "tpm": 39}


@pytest.mark.parametrize("splits_again", [False, True])
@pytest.mark.parametrize("applied", [False, True])
async def test_what_comes_back_by_a_write_whose_answer_was_lost_comes_once_at_most(
    world: World, *, applied: bool, splits_again: bool
) -> None:
    """Its shard merges before it is sent again: nothing there tells that it was applied."""
    wire = Meddling(world.table)
    wire.lossy = True
    limiter, _ = await world.process(default_limits=[TOTAL], wire=wire)
    await take(limiter, "e", "r", total=1)
    split_into(world, limiter, 2)
    aim_at(limiter, 1)
    await take(limiter, "e", "r", total=1)
    sent: list[Operation[Any]] = []

    def meanwhile(operation: Operation[Any]) -> None:
        sent.append(operation)
        if len(sent) == 2:
            assert merge(world, limiter) == 1
            if splits_again:
                split_into(world, limiter, 2)

    with suppress(RateLimiterUnavailable):
        async with limiter.acquire("e", "r", {"total": 10}) as lease:
            await lease.adjust(total=-10)
            wire.before = meanwhile
            wire.break_once(OutcomeUnknown("the connection broke"), on=Update, applied=applied)
    wire.before = lambda _: None
    assert len(sent) > 1
    lost = 0 if applied else 4 if splits_again else 10  # above the ceiling of the new half; or nobody can tell
    assert await limiter.available("e", "r") == {"total": 5_000 - 2 - lost}


async def test_two_pieces_of_a_schedule_merge_by_the_lower_ceiling(world: World) -> None:
    by_night = Limit.custom("rpm", 600, schedule=["night: 22:00-06:00 100/min burst 200"])
    hour_ms = 3_600_000
    world.clock.advance((-world.clock.now_ms() % (24 * hour_ms) + 21 * hour_ms + hour_ms // 2) / 1000)
    limiter, _ = await world.process(default_limits=[by_night])
    await take(limiter, "e", "r", rpm=1)
    split_into(world, limiter, 2)
    await take(limiter, "e", "r", rpm=1)  # the process learns of it
    world.clock.advance(3600)
    split(world, limiter, "e", "r", 0)  # which nobody has asked by night: its halves have the rule of the day
    aim_at(limiter, 1, 1)
    used = sum([await passes(limiter, "e", "r", rpm=1) for _ in range(100)])
    assert merge(world, limiter) == 2
    late, _ = await world.process(default_limits=[by_night])
    assert used + await drain(late, "e", "r", "rpm") in range(190, 201)
