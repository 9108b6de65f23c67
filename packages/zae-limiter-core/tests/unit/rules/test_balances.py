import math
from fractions import Fraction
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from zae_limiter.rules.balances import ShardLimit, become, carry, force_consume, reached_at, refill_bucket, share, stay
from zae_limiter.rules.registry import due_ms, minting_ms, rule_of
from zae_limiter.rules.sharding import NEVER, Part, calculate_wait
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


def taken(shard_limit: ShardLimit, tokens: int, cost: int, now: int) -> tuple[ShardLimit, int] | None:
    """Return the limit and its balance after the cost, ``None`` if it is not there."""
    there = cost <= refill_bucket(shard_limit, tokens, now)
    return force_consume(shard_limit, tokens, cost, now) if there else None


@given(limits, balances, st.lists(instants, min_size=3, max_size=6))
def test_refill_in_steps_equals_refill_at_once(limit: Limit, tokens: int, times: list[int]) -> None:
    first, *steps = sorted(times)
    balance, shard_limit = min(tokens, limit._ceiling_milli), ShardLimit(limit, first)
    for step in steps:
        balance, shard_limit = refill_bucket(shard_limit, balance, step), shard_limit.moved(step)
    assert balance == refill_bucket(ShardLimit(limit, first), min(tokens, limit._ceiling_milli), steps[-1])


@given(limits, instants, st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 200_000)), max_size=40))
def test_no_bucket_admits_more_than_its_burst_and_what_is_minted(
    limit: Limit, start: int, takes: list[tuple[int, int]]
) -> None:
    shard_limit, tokens, now = ShardLimit(limit, start), limit._ceiling_milli, start
    history: list[tuple[int, int]] = []
    for later, cost in takes:
        now += later
        after = taken(shard_limit, tokens, cost, now)
        if after is not None:
            shard_limit, tokens = after
            history.append((now, cost))
    for index, (begun, _) in enumerate(history):
        admitted = 0
        for ended, cost in history[index:]:
            admitted += cost
            minted = (ended - begun) * Fraction(limit.refill_amount, limit.refill_period)
            assert admitted < limit._ceiling_milli + minted + 1
            assert not shard_limit.unit or admitted <= limit._ceiling_milli + minted


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
    seconds = calculate_wait([Part(shard_limit, tokens)], cost_milli, now)
    if cost_milli > shard_limit.ceiling_milli:
        assert seconds == NEVER == math.inf
    elif cost_milli <= refill_bucket(shard_limit, tokens, now):
        assert seconds == 0
    else:
        then = now + round(seconds * 1000)
        assert refill_bucket(shard_limit, tokens, then - 1) < cost_milli <= refill_bucket(shard_limit, tokens, then)


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
    assert refill_bucket(*force_consume(shard_limit, tokens, cost, now), now) == before - cost


def test_an_anchor_in_the_future_takes_back_unminted_tokens() -> None:
    shard_limit = ShardLimit(Limit.per_second("l", 10), START + 1000)
    assert refill_bucket(shard_limit, 10 * MILLI, START) == 0
    assert refill_bucket(shard_limit, 10 * MILLI, START + 1000) == 10 * MILLI


def test_time_alone_fills_a_bucket_from_debt() -> None:
    shard_limit = ShardLimit(Limit.per_second("l", 10), START)
    assert reached_at(shard_limit, -5 * MILLI, 0) == START + 500
    assert refill_bucket(shard_limit, -5 * MILLI, START + 60_000) == 10 * MILLI


def test_a_slow_limit_that_shares_its_anchor_with_a_fast_one_neither_starves_nor_mints() -> None:
    slow, fast = ShardLimit(Limit.per_day("slow", 100), START), ShardLimit(Limit.per_second("fast", 100), START)
    slow_tokens, fast_tokens, admitted = 0, 100 * MILLI, 0
    day = 24 * 3600 * 1000
    for now in range(START, START + day + 1, 7_001):
        left = taken(fast, fast_tokens, MILLI, now)
        assert left is not None
        fast, fast_tokens = left
        if (left := taken(slow, slow_tokens, MILLI, now)) is not None:
            (slow, slow_tokens), admitted = left, admitted + 1
    assert admitted == 99  # the hundredth is minted with the last millisecond of the day
    assert taken(slow, slow_tokens, MILLI, START + day) is not None


@given(limits, instants, st.integers(0, 10**9))
def test_an_amount_takes_longest_from_the_epoch(limit: Limit, now: int, amount: int) -> None:
    due = due_ms(rule_of(limit), amount, now)
    minted = rule_of(limit).minted
    assert due <= minting_ms(limit, amount) == due_ms(rule_of(limit), amount, 0)
    assert minted(now + due) >= minted(now) + amount
    assert due == 0 or minted(now + due - 1) < minted(now) + amount


slow_limits = st.builds(
    lambda capacity, amount, period: Limit("l", capacity, capacity, amount, period),
    st.integers(1, 5),
    st.integers(1, 50),
    st.sampled_from([51, 60, 3600, 86_400, 604_800, 2_592_000]),
)
steps = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 100), st.integers(0, 10**6), st.integers(0, 3 * 10**9)),
        st.sampled_from(["take", "take what is there", "give", "move", "wait"]),
        st.integers(1, 6_000),
    ),
    max_size=30,
)


@given(slow_limits, st.integers(0, 1), st.integers(1, 2), instants, steps)
def test_a_slow_limit_is_exact_over_takes_and_anchors(
    limit: Limit, shard: int, shards: int, now: int, steps: list[tuple[int, str, int]]
) -> None:
    """A fluid with exact fractions beside it: the headroom is its whole millitokens, and a wait ends at its instant."""
    shard_limit = ShardLimit(limit, now, shard % shards, shards)
    tokens, fluid, rate = shard_limit.ceiling_milli, Fraction(shard_limit.ceiling_milli), Fraction(0)
    rate = Fraction(limit.refill_amount, limit.refill_period * shards)
    for later, what, amount in steps:
        now, fluid = now + later, min(Fraction(shard_limit.ceiling_milli), fluid + rate * later)
        there = refill_bucket(shard_limit, tokens, now)
        assert there == math.floor(fluid)
        if what == "give":
            tokens, fluid = tokens + amount, fluid + amount
        elif what == "move":  # as whoever moves the anchor alone does, the aggregator and older processes too
            moved = shard_limit.moved_by_anchor(now)
            tokens += moved
            shard_limit = ShardLimit(limit, now, shard % shards, shards, fraction=shard_limit.fraction)
        elif what != "wait":
            cost = there if what == "take what is there" else amount
            shard_limit, tokens = force_consume(shard_limit, tokens, cost, now)
            fluid -= cost
        wanted = min(shard_limit.ceiling_milli, max(0, math.floor(fluid)) + amount)
        if wanted > refill_bucket(shard_limit, tokens, now):
            due = reached_at(shard_limit, tokens, wanted) - now
            assert due == math.ceil((wanted - min(fluid, Fraction(shard_limit.ceiling_milli))) / rate)


@given(limits | slow_limits, st.integers(0, 1), st.integers(1, 2), balances, instants, *[st.integers(0, 10**6)] * 3)
def test_a_move_leaves_the_headroom_as_it_is(
    limit: Limit, shard: int, shards: int, tokens: int, anchor: int, until: int, beyond: int, fraction: int
) -> None:
    """By what was seen, and at every later instant: under the same anchor, carried to another, or bounded there."""
    shard, at_ms = shard % shards, anchor + until
    was = ShardLimit(limit, anchor, shard, shards)
    was = ShardLimit(limit, anchor, shard, shards, fraction=fraction % was.unit if was.unit else 0)
    expected = refill_bucket(was, tokens, at_ms + beyond)
    carried = ShardLimit(limit, at_ms, shard, shards, fraction=was.fraction)
    assert refill_bucket(carried, tokens + carry(was, at_ms).moved, at_ms + beyond) == expected
    for move, to_ms in ((stay(was, at_ms), anchor), (become(was, tokens, limit, at_ms, at_ms), at_ms)):
        assert move.ceiling is not None
        full = tokens + move.minted >= move.ceiling
        after = ShardLimit(limit, to_ms, shard, shards, fraction=move.whole if full else move.fraction)
        assert refill_bucket(after, move.full if full else tokens + move.moved, at_ms + beyond) == expected


@given(slow_limits, slow_limits, instants, st.lists(st.integers(0, 10**6), min_size=2, max_size=20))
def test_a_limit_that_gets_another_rule_keeps_its_part_of_a_millitoken(
    first: Limit, second: Limit, start: int, times: list[int]
) -> None:
    """Rolling deploys that undo each other neither starve a slow limit nor mint for it."""
    instants = [start, *(start + sum(times[: at + 1]) for at in range(len(times)))]
    shard_limit, tokens, fluid = ShardLimit(first, start), -(10**9), Fraction(-(10**9))
    for number, (before, after) in enumerate(pairwise(instants)):
        rule = shard_limit.limit
        fluid += Fraction(rule.refill_amount, rule.refill_period) * (after - before)
        there = refill_bucket(shard_limit, tokens, after)
        assert math.floor(fluid - Fraction(number, 51)) <= there <= fluid
        shard_limit, tokens = shard_limit.moved(after, (first, second)[number % 2]), there
