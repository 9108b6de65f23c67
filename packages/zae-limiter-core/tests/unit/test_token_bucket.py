import math

from hypothesis import given
from hypothesis import strategies as st

from zae_limiter.token_bucket import (
    NEVER,
    ShardLimit,
    build_limit_status,
    calculate_available,
    calculate_retry_after,
    force_consume,
    reached_at,
    refill_bucket,
    share,
    try_consume,
    would_refill_satisfy,
)
from zae_limiter.values.limits import MILLI, Limit

START = 1_700_000_000_000

limits = st.builds(
    lambda capacity, more, amount, period: Limit("l", capacity, capacity + more, amount, period),
    st.integers(1, 10_000),
    st.integers(0, 1_000),
    st.integers(1, 10_000),
    st.integers(1, 100_000),
)
instants = st.integers(START, START + 10**9)
balances = st.integers(-(10**7), 10**7)
shards = st.integers(0, 6).map(lambda power: 2**power)


@given(limits, balances, st.lists(instants, min_size=3, max_size=6))
def test_refill_in_steps_equals_refill_at_once(limit: Limit, tokens: int, times: list[int]) -> None:
    first, *steps = sorted(times)
    balance = min(tokens, limit.ceiling_milli)
    anchor = first
    for step in steps:
        balance, anchor = refill_bucket(ShardLimit(limit, anchor), balance, step), step
    assert balance == refill_bucket(ShardLimit(limit, first), min(tokens, limit.ceiling_milli), steps[-1])


@given(limits, instants, st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 200_000)), max_size=40))
def test_no_bucket_admits_more_than_its_burst_and_what_is_minted(
    limit: Limit, start: int, takes: list[tuple[int, int]]
) -> None:
    shard_limit, tokens, now = ShardLimit(limit, start), limit.ceiling_milli, start
    history: list[tuple[int, int]] = []
    for later, cost in takes:
        now += later
        after = try_consume(shard_limit, tokens, cost, now)
        if after is not None:
            tokens = after
            history.append((now, cost))
    for index, (begun, _) in enumerate(history):
        admitted = 0
        for ended, cost in history[index:]:
            admitted += cost
            assert admitted <= limit.ceiling_milli + shard_limit.minted(ended) - shard_limit.minted(begun)


@given(limits, instants, st.integers(0, 10**9))
def test_minting_is_exact_to_one_millitoken(limit: Limit, start: int, elapsed: int) -> None:
    exact = elapsed * limit.refill_amount / limit.refill_period
    assert abs(ShardLimit(limit, start).minted_since_anchor(start + elapsed) - exact) <= 1 + exact * 1e-12


@given(limits, balances, st.integers(1, 11_000), instants, st.integers(-5_000, 10**7), shards, st.data())
def test_retry_after_is_the_first_millisecond_at_which_the_cost_is_there(
    limit: Limit, tokens: int, cost: int, anchor: int, elapsed: int, count: int, data: st.DataObject
) -> None:
    shard_limit = ShardLimit(limit, anchor, data.draw(st.integers(0, count - 1)), count)
    now, cost_milli = anchor + elapsed, cost * MILLI
    seconds = calculate_retry_after(shard_limit, tokens, cost_milli, now)
    if cost_milli > shard_limit.ceiling_milli:
        assert seconds == NEVER == math.inf
    elif would_refill_satisfy(shard_limit, tokens, cost_milli, now):
        assert seconds == 0
    else:
        then = now + round(seconds * 1000)
        assert would_refill_satisfy(shard_limit, tokens, cost_milli, then)
        assert not would_refill_satisfy(shard_limit, tokens, cost_milli, then - 1)


@given(limits, st.integers(0, 6), st.integers(0, 10**13))
def test_the_shares_of_all_shards_add_up_to_the_whole_in_every_half_done_split(
    limit: Limit, power: int, whole: int
) -> None:
    count = 2**power
    for half_done in range(count + 1):  # so many shards have split into two
        parts = [(k, 2 * count) for k in range(half_done)] + [(k + count, 2 * count) for k in range(half_done)]
        parts += [(k, count) for k in range(half_done, count)]
        assert sum(share(whole, shard, of) for shard, of in parts) == whole


@given(limits, balances, st.integers(0, 10**7), instants, st.integers(0, 10**7))
def test_what_is_taken_is_gone_and_nothing_else(
    limit: Limit, tokens: int, cost: int, anchor: int, elapsed: int
) -> None:
    shard_limit, now = ShardLimit(limit, anchor), anchor + elapsed
    before = refill_bucket(shard_limit, tokens, now)
    forced = force_consume(shard_limit, tokens, cost, now)
    assert refill_bucket(shard_limit, forced, now) == before - cost
    assert try_consume(shard_limit, tokens, cost, now) == (forced if cost <= before else None)


def test_an_anchor_ahead_of_now_takes_back_what_is_not_minted_yet() -> None:
    shard_limit = ShardLimit(Limit.per_second("l", 10), START + 1000)
    assert refill_bucket(shard_limit, 10 * MILLI, START) == 0
    assert refill_bucket(shard_limit, 10 * MILLI, START + 1000) == 10 * MILLI


def test_available_rounds_down_and_shows_debt() -> None:
    shard_limit = ShardLimit(Limit.per_minute("l", 10), START)
    assert [calculate_available(shard_limit, tokens, START) for tokens in (1999, 999, -1, -1001, 99_000)] == [
        1,
        0,
        -1,
        -2,
        10,
    ]


def test_time_alone_fills_a_bucket_from_debt() -> None:
    shard_limit = ShardLimit(Limit.per_second("l", 10), START)
    assert reached_at(shard_limit, -5 * MILLI, 0) == START + 500
    assert refill_bucket(shard_limit, -5 * MILLI, START + 60_000) == 10 * MILLI


def test_a_slow_limit_that_shares_its_anchor_with_a_fast_one_neither_starves_nor_mints() -> None:
    slow, fast = ShardLimit(Limit.per_day("slow", 100), START), ShardLimit(Limit.per_second("fast", 100), START)
    slow_tokens, fast_tokens, admitted = 0, 100 * MILLI, 0
    day = 24 * 3600 * 1000
    for now in range(START, START + day + 1, 7_001):
        taken = try_consume(fast, fast_tokens, MILLI, now)
        assert taken is not None
        fast_tokens = taken
        if (left := try_consume(slow, slow_tokens, MILLI, now)) is not None:
            slow_tokens, admitted = left, admitted + 1
    assert admitted == 99  # the hundredth is minted with the last millisecond of the day
    assert try_consume(slow, slow_tokens, MILLI, START + day) is not None


def test_a_status_tells_how_the_limit_stands() -> None:
    limit = Limit.per_minute("rpm", 60)
    status = build_limit_status(ShardLimit(limit, START), 1500, 3 * MILLI, START, entity_id="e", resource="r")
    assert (status.entity_id, status.resource, status.limit_name, status.limit) == ("e", "r", "rpm", limit)
    assert (status.available, status.requested, status.exceeded, status.retry_after_seconds) == (1, 3, True, 1.5)
