"""The tokens of a share, what it lacks in the end, and what this process owes the table for it."""

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from zae_limiter import Limit
from zae_limiter.flows.bucket_queue import BucketQueue, Outcome
from zae_limiter.flows.process.consumption import MILLION, WINDOW_MS
from zae_limiter.flows.process.namespace_state import CachedBucket
from zae_limiter.flows.process.shares import SCAN_MS, LimitShare, Share, Shares
from zae_limiter.operations.errors import OutcomeUnknown, StoreError, Unreachable
from zae_limiter.schema.items import BucketId
from zae_limiter.values.resolution import Config

RPM = Limit.per_minute("rpm", 600)  # 10 a second
NOW = 1_700_000_000_000
CONFIG = Config((RPM,), NOW)
KEY = ("e", "r")
HALF = MILLION // 2


def bucket(shard: int = 0) -> CachedBucket:
    """A bucket that was seen last at ``NOW``."""
    cached = CachedBucket(BucketId("ns", "e", "r", shard))
    cached.queue = BucketQueue(lambda _: iter(()))  # type: ignore[arg-type, return-value]
    cached.seen_at_ms = NOW
    return cached


def used(home: CachedBucket, tokens: int) -> tuple[Shares[CachedBucket], Share[CachedBucket]]:
    """Half of a full bucket, of which so many tokens were taken."""
    shares, share = Shares[CachedBucket](), Share(home, CONFIG, NOW, NOW)
    share.limits["rpm"] = LimitShare(RPM, HALF, 300_000, NOW)
    share.count({"rpm": tokens * 1000}, NOW, events=1)
    shares.hold(KEY, share)
    return shares, share


# the tokens


def test_a_share_has_its_part_of_the_burst_and_of_the_rate() -> None:
    share = LimitShare(RPM, HALF, 900_000, NOW)
    assert share.ceiling_milli == share.available(NOW) == 300_000
    share.take(300_000, NOW)
    assert share.available(NOW + 2_000) == 10_000
    assert share.wait_seconds(20_000, NOW + 2_000) == 2.0
    assert share.wait_seconds(10_000, NOW + 2_000) == 0
    assert share.wait_seconds(300_001, NOW + 2_000) == math.inf


def test_a_share_of_nothing_has_nothing_to_wait_for() -> None:
    share = LimitShare(RPM, 0, 0, NOW)
    assert (share.available(NOW + 60_000), share.wait_seconds(1, NOW), share.wait_seconds(0, NOW)) == (0, math.inf, 0)


def test_what_comes_back_does_not_rise_above_the_ceiling() -> None:
    share = LimitShare(RPM, HALF, 300_000, NOW)
    share.take(-50_000, NOW)
    assert share.available(NOW) == 300_000


def test_a_lowered_limit_holds_from_then_on() -> None:
    share = LimitShare(RPM, HALF, 300_000, NOW)
    share.follow(Limit.per_minute("rpm", 60), NOW + 1_000)
    assert share.available(NOW + 1_000) == 30_000
    share.take(30_000, NOW + 1_000)
    assert share.available(NOW + 3_000) == 1_000


@given(
    parts=st.lists(st.integers(0, MILLION), min_size=2, max_size=2).filter(lambda it: sum(it) <= MILLION),
    balance=st.integers(0, 600_000),
    calls=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 100_000), st.integers(0, 20_000)), max_size=40),
)
def test_shares_and_the_bucket_that_they_pay_never_have_more_than_there_was_and_was_minted(
    parts: list[int], balance: int, calls: list[tuple[int, int, int]]
) -> None:
    shares = [LimitShare(RPM, part, balance * part // MILLION, NOW) for part in parts]
    now, taken = NOW, 0
    for number, amount, after_ms in calls:
        now += after_ms
        if shares[number].wait_seconds(amount, now) == 0:
            shares[number].take(amount, now)
            taken += amount
    minted = RPM.refill_amount * now // RPM.refill_period - RPM.refill_amount * NOW // RPM.refill_period
    whole = min(600_000, balance + minted)
    lacking = sum(share.lacks(now) for share in shares)
    assert 0 <= lacking <= min(taken, 600_000)
    assert whole - lacking >= -2  # rounding: nobody is blocked
    assert taken + whole - lacking <= balance + minted + 2


# what is owed


def test_a_share_that_ends_owes_what_it_lacks_and_counts_all_of_it() -> None:
    home = bucket()
    shares, _ = used(home, 100)
    shares.end(KEY, [home], NOW + 4_000)  # 20 of the 100 have come back
    assert shares.owed_to([home], "rpm") == 80_000
    [payment], lost = shares.pay(NOW + 4_000)
    assert (payment.unchecked, payment.count_only, payment.events, lost) == ({"rpm": 80_000}, {"rpm": 20_000}, 1, [])
    assert not shares.held
    assert not shares.owed
    assert shares.pending


def test_each_shard_pays_an_equal_part() -> None:
    shards = [bucket(shard) for shard in range(2)]
    shares, _ = used(shards[0], 100)
    shares.end(KEY, shards, NOW)
    payments, _ = shares.pay(NOW)
    assert [(each.unchecked, each.count_only, each.events) for each in payments] == [
        ({"rpm": 50_000}, {}, 1),
        ({"rpm": 50_000}, {}, 0),
    ]


def pay(shares: Shares[Any], error: StoreError | None, now_ms: int) -> list[str]:
    """Pay, have the store answer, and look again at once."""
    payments, _ = shares.pay(now_ms)
    for payment in payments:
        payment.outcome = Outcome("admitted" if error is None else "failed", None, now_ms, error)
    again, lost = shares.pay(now_ms)
    assert not again
    return lost


def test_what_was_not_written_is_paid_again_after_a_second() -> None:
    home = bucket()
    shares, _ = used(home, 100)
    shares.end(KEY, [home], NOW)
    assert pay(shares, Unreachable("away"), NOW) == []
    assert shares.owed_to([home], "rpm") == 100_000
    assert shares.pay(NOW + SCAN_MS - 1)[0] == []
    assert pay(shares, None, NOW + SCAN_MS) == []
    assert not shares.pending


def test_what_may_have_been_written_is_not_paid_again_and_is_told() -> None:
    home = bucket()
    shares, _ = used(home, 100)
    shares.end(KEY, [home], NOW)
    [line] = pay(shares, OutcomeUnknown("no answer"), NOW)
    assert "e/r: 100 of rpm of an outage may not be counted: no answer" in line
    assert not shares.pending


def test_a_share_ends_by_a_new_look_and_by_a_window_without_use() -> None:
    home = bucket()
    shares, _ = used(home, 1)
    assert shares.share_of(KEY, NOW + WINDOW_MS) is not None
    assert shares.ended(NOW + WINDOW_MS) == []
    assert shares.ended(NOW + 3 * WINDOW_MS) == [KEY]
    assert shares.ended(NOW + 3 * WINDOW_MS) == []  # it was looked for within this second
    home.seen_at_ms = NOW + 1
    assert shares.share_of(KEY, NOW + 1) is None


def test_a_forked_child_has_neither_shares_nor_debts() -> None:
    home = bucket()
    shares, _ = used(home, 1)
    shares.owe(home, CONFIG, taken={"rpm": 1}, counted={"rpm": 1})
    shares.forget()
    assert not shares.pending
