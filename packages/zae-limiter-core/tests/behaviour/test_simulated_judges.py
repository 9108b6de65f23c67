"""The judges of the simulation: what they let pass, and the fault beside it that they find."""

from random import Random

import pytest

from simulation import kinds
from simulation.application import Application, Change
from simulation.bucket_items import LimitState, Rule
from simulation.kernel import EPOCH_MS, Kernel, Violation
from simulation.oracle import Oracle
from simulation.schedules import Planned, Schedules
from simulation.shadows import was_there
from simulation.siblings import was_short_for_good
from simulation.world import simulate
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.flows.bucket.splitting import halving
from zae_limiter.operations.values import Delete, Key, Put, Transact, Update
from zae_limiter.schema.items import BucketId, LimitBalance, bucket_item, read_bucket
from zae_limiter.values.limits import Limit
from zae_limiter.values.resolution import Config

BOUNDARY_MS = EPOCH_MS - EPOCH_MS % kinds.MINUTE_MS
BUCKET = BucketId("ns", "e", "gpt")


# A shadow limit's amount in the write that raises its quota; halves of a slow limit with a schedule, at an anchor in
# the future; a part of a millitoken that is kept over a boundary; a refusal by another bucket than the opened one;
# one who was refused behind a take that was sent, not applied; a shard that is made again behind a deletion
@pytest.mark.parametrize(
    ("seed", "scenario"),
    [
        (6090108, "streams"),
        (3127, "mixed"),
        (5090777, "mixed"),
        (2843, "mixed"),
        (3453, "mixed"),
        (900029, "siblings"),
        (3007325, "quotas"),
    ],
)
def test_a_history_that_a_judge_once_misjudged_is_sound(seed: int, scenario: str) -> None:
    simulate(seed, changes={"scenario": scenario})


def quota(capacity: int, left: int, gained: int = 0, *, second: int) -> Application:
    """A write behind which so much is left of a total, and by which a change of it brought so much more."""
    state, at_ms = LimitState(Rule(capacity, 0, 1), 0, 1, left, EPOCH_MS), EPOCH_MS + 1_000 * second
    changes = {"tpm": Change(left, 0, capacity, state, capacity, 0, new=False, gained=gained)}
    return Application("b#0", at_ms, at_ms, at_ms, changes, moved=bool(gained), splits=False)


def test_a_shadow_limit_gives_what_a_raised_quota_brings_and_no_more() -> None:
    known, raising = quota(1_000, 0, second=1), quota(40_000, 39_000, 39_000, second=2)
    raising.follows = known
    assert was_there([known, raising], "tpm", 39_000, raising)
    assert not was_there([known, raising], "tpm", 39_001, raising)
    same = quota(1_000, 0, second=2)
    same.follows = known
    assert not was_there([known, same], "tpm", 1, same)


def test_a_shadow_limit_gives_less_of_a_quota_that_is_lowered() -> None:
    known, lowering = quota(40_000, 39_000, second=1), quota(1_000, 0, -39_000, second=2)
    lowering.follows = known
    assert not was_there([known, lowering], "tpm", 1_000, lowering)


def judged_split(*, missing: int) -> None:
    """Split a full slow limit with a schedule, by a clock behind its anchor; the new half begins with less."""
    scheduled = kinds.scheduled(Random(6), "rpm", BOUNDARY_MS)
    _, (_, slow), _ = scheduled.pieces
    kernel, table = Kernel(), MemoryTable()
    oracle = Oracle(kernel, table, skew_ms=500, lossless=False)
    oracle.schedules = Schedules([scheduled])
    oracle.schedules.wrote(BUCKET.pk, Planned(Config((scheduled.limit,), 0), shapes=True))
    full, anchor_ms = LimitBalance(slow, slow._ceiling_milli + 60, 0, "part-0"), kernel.now_ms + 300
    before = bucket_item(BUCKET, {}, [full], shard_count=1, anchor_ms=anchor_ms, config_as_of_ms=0, spread=False)
    table.execute(Put(before))
    update, put = halving(read_bucket(before), kernel.now_ms).writes
    assert isinstance(put, Put)
    half = {**put.item, "b_rpm_tk": put.item["b_rpm_tk"] - missing}
    table.execute(Transact((update, Put(half, put.when))))
    oracle.saw({Key(BUCKET.pk, "#STATE"): before, Key(BUCKET.other(1).pk, "#STATE"): None}, kernel.now_ms)


def test_halves_of_a_slow_limit_with_a_schedule_may_keep_what_comes_until_their_anchor() -> None:
    judged_split(missing=0)
    with pytest.raises(Violation, match="its halves hold"):
        judged_split(missing=200)
    with pytest.raises(Violation, match="its halves hold"):
        judged_split(missing=-200)


def test_a_boundary_keeps_a_part_of_a_millitoken() -> None:
    fast, slow = Rule(11_000, 10_000, 60_000), Rule(4_000, 1_000, 60_000)
    rule = fast._replace(times=((0, fast), (EPOCH_MS + 40_000, slow)))
    state = LimitState(rule, 20, 32, 4, EPOCH_MS + 31_697, 16)
    # 4.372 at the anchor, 43.245 until the boundary, then 1 in 1,920 ms
    at = (40_000, 48_415, 48_416, 50_335, 50_336)
    assert [state.balance(EPOCH_MS + at_ms) for at_ms in at] == [47, 51, 52, 52, 53]


def take(decided_ms: int, applied_ms: int, left: int) -> Application:
    """A write of a parent that took a token, behind which so much is left."""
    state = LimitState(Rule(3_000, 0, 1), 0, 1, left, 0)
    changes = {"rpm": Change(left + 1_000, 1_000, 3_000, state, 3_000, 0, new=False)}
    return Application("b#0", decided_ms, applied_ms, decided_ms, changes, moved=False, splits=False)


def test_who_comes_behind_a_take_that_was_sent_is_refused_for_good() -> None:
    writes = [take(0, 10, 1_000), take(85, 95, 0)]
    assert was_short_for_good(writes, "rpm", 1_000, 60, 85)
    assert not was_short_for_good(writes, "rpm", 1_000, 60, 84)


def made_again(*, deleted: bool) -> None:
    """Split a shard, take the new half away, and have a copy of the write that makes it come once more."""
    limit, kernel, table = Limit.per_second("rpm", 10), Kernel(), MemoryTable()
    oracle = Oracle(kernel, table, skew_ms=0, lossless=False)
    full = LimitBalance(limit, limit._ceiling_milli, 0)
    before = bucket_item(BUCKET, {}, [full], shard_count=1, anchor_ms=kernel.now_ms, config_as_of_ms=0, spread=False)
    table.execute(Put(before))
    split, shard, born = (
        halving(read_bucket(before), kernel.now_ms),
        *(Key(BUCKET.other(n).pk, "#STATE") for n in (0, 1)),
    )
    table.execute(split)
    oracle.saw({shard: before, born: None}, kernel.now_ms)
    table.execute(Delete(born))
    if deleted:
        oracle.deleted(BUCKET.pk.removesuffix("#0"))
    looked = {shard: oracle.look(shard), born: None}
    table.execute(Transact((split.writes[1], Update(shard, add={"b_wcu_tc": 1000}))))
    oracle.saw(looked, kernel.now_ms)


def test_a_shard_is_made_again_only_where_somebody_deleted_it() -> None:
    made_again(deleted=True)
    with pytest.raises(Violation, match="was made anew, and nobody had deleted it"):
        made_again(deleted=False)
