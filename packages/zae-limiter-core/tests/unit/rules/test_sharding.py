"""The arithmetic of shards: halves add up, waits are exact, and what is served was there."""

from hypothesis import given
from hypothesis import strategies as st

from zae_limiter.rules.balances import ShardLimit, limit_share, reached_at, refill_bucket, share
from zae_limiter.rules.sharding import (
    NEVER,
    Part,
    allocate,
    born_at,
    calculate_balance,
    calculate_next_token,
    calculate_servable,
    calculate_wait,
    halve,
    merge,
    next_merge,
    parent_of,
    unseen_parts,
    unseen_shards,
)
from zae_limiter.values.limits import Limit

NOW = 1_700_000_000_000
LIMITS = st.builds(
    lambda capacity, more, refill, period: Limit.custom(
        "rpm", capacity, burst=capacity + more, refill_amount=refill, refill_period=period
    ),
    st.integers(1, 500),
    st.integers(0, 500),
    st.integers(1, 500),
    st.sampled_from([1, 7, 60, 86_400]),
)
COUNTS = st.sampled_from([1, 2, 4, 8, 32])
INSTANTS = st.integers(0, 10**7)
WINDOWS = st.sampled_from(["minute", "hour", "day"])
SECONDS = st.sampled_from([1, 60, 3600])


@st.composite
def shard_limits(draw: st.DrawFn) -> ShardLimit:
    shards = draw(COUNTS)
    return ShardLimit(draw(LIMITS), NOW + draw(INSTANTS), draw(st.integers(0, shards - 1)), shards)


@st.composite
def half_split(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Shards and their counts, after any number of splits of any of them."""
    shards = {0: 1}
    for _ in range(draw(st.integers(0, 12))):
        shard = draw(st.sampled_from(sorted(shards)))
        if shards[shard] < 64:
            shards[shard + shards[shard]] = shards[shard] = 2 * shards[shard]
    counts = dict(shards)
    return sorted(counts.items())


@given(half_split(), st.integers(0, 10**15))
def test_shares_add_up_to_the_whole_however_far_the_splits_have_come(shards: list[tuple[int, int]], whole: int) -> None:
    assert sum(share(whole, shard, count) for shard, count in shards) == whole


@given(half_split(), LIMITS, INSTANTS, INSTANTS)
def test_the_shards_mint_what_the_whole_mints(
    shards: list[tuple[int, int]], limit: Limit, anchor: int, later: int
) -> None:
    whole = ShardLimit(limit, NOW + anchor)
    parts = [ShardLimit(limit, NOW + anchor, shard, count) for shard, count in shards]
    at = NOW + later
    minted, of_parts = whole.minted_since_anchor(at), sum(part.minted_since_anchor(at) for part in parts)
    assert minted - sum(part.unit > 0 for part in parts) < of_parts + 1 <= minted + 1  # each is whole at the anchor


@given(shard_limits(), st.integers(-(10**6), 10**6), INSTANTS)
def test_the_halves_have_what_the_shard_had_and_no_more_than_they_may_hold(
    shard_limit: ShardLimit, tokens: int, later: int
) -> None:
    at = NOW + later
    half = halve(shard_limit, tokens, at)
    mine, other = (
        ShardLimit(shard_limit.limit, at, shard_limit.shard + n, 2 * shard_limit.shards)
        for n in (0, shard_limit.shards)
    )
    assert half.available == refill_bucket(shard_limit, tokens, at)
    assert half.moved <= other.ceiling_milli
    if half.full:
        assert half.moved + mine.ceiling_milli == half.available == shard_limit.ceiling_milli
    elif half.available < 0:
        assert abs(half.available - 2 * half.moved) <= 1
    else:
        assert 0 <= half.moved <= half.available - half.moved


@given(st.lists(st.tuples(shard_limits(), st.integers(-(10**5), 10**6)), min_size=1, max_size=5), st.integers(0, 10**6))
def test_a_wait_ends_at_the_first_millisecond_that_covers_the_cost(
    drawn: list[tuple[ShardLimit, int]], cost: int
) -> None:
    parts, at = [Part(*part) for part in drawn], NOW + 10**7
    wait = calculate_wait(parts, cost, at)
    if cost > sum(shard_limit.ceiling_milli for shard_limit, _ in parts):
        assert wait == NEVER
        return
    until = at + round(wait * 1000)
    if cost:
        assert calculate_servable(parts, until) >= cost
        assert wait == 0 or calculate_servable(parts, until - 1) < cost
    else:
        assert (wait == 0) == any(refill_bucket(shard_limit, tokens, at) >= 0 for shard_limit, tokens in parts)


@given(shard_limits(), st.integers(-(10**5), 10**5), st.integers(1, 10**6))
def test_the_wait_of_one_shard_is_the_one_of_a_bucket(shard_limit: ShardLimit, tokens: int, cost: int) -> None:
    at = NOW + 10**7
    if refill_bucket(shard_limit, tokens, at) < cost <= shard_limit.ceiling_milli:
        assert (
            calculate_wait([Part(shard_limit, tokens)], cost, at) == (reached_at(shard_limit, tokens, cost) - at) / 1000
        )


def test_a_debt_counts_in_the_balance_and_blocks_only_the_shard_that_carries_it() -> None:
    limit = Limit.per_day("rpm", 100)
    parts = [Part(ShardLimit(limit, NOW, 0, 2), -30_000), Part(ShardLimit(limit, NOW, 1, 2), 20_000)]
    assert calculate_balance(parts, NOW) == -10_000
    assert calculate_servable(parts, NOW) == 20_000
    assert calculate_wait(parts, 20_000, NOW) == 0


ROOMS = st.dictionaries(
    st.integers(0, 7), st.fixed_dictionaries({"rpm": st.integers(-50, 100), "tpm": st.integers(-50, 100)}), max_size=6
)


@given(st.dictionaries(st.sampled_from(["rpm", "tpm"]), st.integers(0, 200)), ROOMS)
def test_a_request_is_served_exactly_where_the_shards_have_it(
    amounts: dict[str, int], headrooms: dict[int, dict[str, int]]
) -> None:
    served = allocate(amounts, headrooms)
    there = {name: sum(max(0, headroom[name]) for headroom in headrooms.values()) for name in amounts}
    assert (served is not None) == all(amount <= there[name] for name, amount in amounts.items())
    if served is None:
        return
    for name, amount in amounts.items():
        assert sum(part.get(name, 0) for part in served.values()) == amount
        assert all(0 <= part.get(name, 0) <= max(0, headrooms[shard][name]) for shard, part in served.items())


def test_few_shards_serve_a_request() -> None:
    headrooms = {0: {"rpm": 10}, 1: {"rpm": 50}, 2: {"rpm": 40}, 3: {"rpm": 0}}
    assert allocate({"rpm": 80}, headrooms) == {1: {"rpm": 50}, 2: {"rpm": 30}}


def test_a_shard_knows_whom_it_was_split_off_from_and_when() -> None:
    assert [parent_of(shard) for shard in (1, 2, 3, 5, 6, 63)] == [0, 0, 1, 1, 2, 31]
    assert [born_at(shard) for shard in (1, 2, 3, 5, 6, 63)] == [1, 2, 2, 4, 4, 32]


@given(half_split(), st.data())
def test_the_shards_that_were_seen_and_those_that_were_not_are_the_whole_where_no_parent_hides(
    shards: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Of a bucket whose shards were all split as often, whichever are seen, the others are known to be missing."""
    count = max(count for _, count in shards)
    seen = {0: count} | dict.fromkeys(data.draw(st.sets(st.integers(0, count - 1))), count)
    assert sorted([*seen, *unseen_shards(seen)]) == list(range(count))


@given(half_split())
def test_a_shard_that_its_parent_has_not_been_split_for_is_not_missing(shards: list[tuple[int, int]]) -> None:
    seen = dict(shards) | {0: max(count for _, count in shards)}
    assert unseen_shards(seen) == sorted(_missing(seen))


def _missing(counts: dict[int, int]) -> set[int]:
    """By walking down from shard 0, as if it had been split most often of all."""
    newest = max(counts.values())
    found: set[int] = set()
    for shard in range(1, newest):
        if shard not in counts and parent_of(shard) in {0, *found}:
            found.add(shard)
    return found


def test_a_shard_is_missing_though_shard_0_was_seen_before_any_of_the_newest_splits() -> None:
    assert unseen_shards({0: 2, 1: 4}) == [3]  # 2 is part of 0 still
    assert unseen_shards({0: 2, 1: 8}) == [3, 5, 7]
    assert [
        part.shard_limit.ceiling_milli for part in unseen_parts(Limit.per_minute("rpm", 60), NOW, {0: 2, 1: 4})
    ] == [15_000]


def test_none_is_missing_where_shard_0_was_not_seen() -> None:
    assert unseen_shards({}) == []
    assert unseen_shards({3: 4}) == []
    assert unseen_shards({0: 4, 1: 2}) == [2]  # 3 is part of 1 still


@given(st.lists(st.tuples(shard_limits(), st.integers(-(10**6), 10**6)), min_size=1, max_size=4), INSTANTS)
def test_the_next_token_is_there_at_its_time_and_not_before(drawn: list[tuple[ShardLimit, int]], later: int) -> None:
    parts, now = [Part(*each) for each in drawn], NOW + later
    seconds = calculate_next_token(parts, now)
    before = max(0, calculate_balance(parts, now) // 1000)
    if seconds == NEVER:
        assert sum(shard_limit.ceiling_milli for shard_limit, _ in parts) // 1000 == before
    else:
        at = now + round(seconds * 1000)
        assert calculate_balance(parts, at) // 1000 > before
        assert calculate_balance(parts, at - 1) // 1000 <= before


NEARLY_SLOW = st.builds(
    lambda refill, period: Limit.custom("rpm", 500, refill_amount=refill, refill_period=period),
    st.integers(1, 64),
    st.integers(1, 8),
)
OF_ALL_KINDS = st.one_of(
    LIMITS,
    NEARLY_SLOW,  # slow on many shards, and fast on half of them
    st.builds(
        lambda amount, window: Limit.custom("rpm", amount, kind="calendar", window=window), st.integers(1, 500), WINDOWS
    ),
    st.builds(
        lambda amount, seconds: Limit.custom("rpm", amount, kind="first_use", refill_period=seconds),
        st.integers(1, 500),
        SECONDS,
    ),
    st.builds(lambda amount: Limit.total("rpm", amount), st.integers(1, 500)),
)


@st.composite
def two_to_merge(draw: st.DrawFn) -> tuple[list[Part], int]:
    """Shards ``k`` and ``k + n`` of ``2n`` with balances and anchors of their own, and the anchor of the merged one."""
    limit, shards, length_ms = draw(OF_ALL_KINDS), draw(st.sampled_from([2, 4, 8, 64])), 10**6
    shard, has_begun, parts = draw(st.integers(0, shards // 2 - 1)), draw(st.booleans()), []
    for each in (shard, shard + shards // 2):
        anchor_ms = NOW + draw(st.integers(0, length_ms))
        begun_ms = anchor_ms - draw(st.integers(0, length_ms)) if has_begun and limit.kind == "first_use" else None
        empty = ShardLimit(limit, anchor_ms, each, shards, None, begun_ms)
        fraction = draw(st.integers(0, empty.unit - 1)) if empty.unit else None
        shard_limit = ShardLimit(limit, anchor_ms, each, shards, None, begun_ms, fraction=fraction)
        parts.append(Part(shard_limit, draw(st.integers(-(10**6), 10**6 // shards))))
    return parts, max(part.shard_limit.anchor_ms for part in parts) + draw(st.integers(1, length_ms))


@given(two_to_merge(), st.integers(0, 10**8))
def test_a_merged_shard_never_has_more_than_both_would_have_unbounded(
    two: tuple[list[Part], int], later_ms: int
) -> None:
    halves, at_ms = two
    first = halves[0].shard_limit
    limit, count, then_ms = first.limit, first.shards // 2, at_ms + later_ms
    found = merge(halves, limit, at_ms)
    whole = ShardLimit(limit, at_ms, first.shard, count, None, found.begun_ms, fraction=found.fraction)
    had = [refill_bucket(*half, at_ms) for half in halves]
    assert whole.ceiling_milli == sum(half.shard_limit.ceiling_milli for half in halves)
    assert whole.ceiling_milli == limit_share(limit, limit._ceiling_milli, first.shard, count)
    assert sum(had) - (3 if first.unit else 0) <= refill_bucket(whole, found.tokens, at_ms) <= sum(had)
    minted = [half.shard_limit.minted(then_ms) - half.shard_limit.minted(at_ms) for half in halves]
    ceilings = [half.shard_limit.ceiling_milli for half in halves]
    full = sum(each == most for each, most in zip(had, ceilings, strict=True)) * (first.unit > 0)
    most = min(whole.ceiling_milli, sum(had) + sum(minted) + full)  # one that is full is whole now
    assert refill_bucket(whole, found.tokens, then_ms) <= most


@given(half_split())
def test_all_shards_merge_into_one_shard_0_first(shards: list[tuple[int, int]]) -> None:
    counts, steps = dict(shards), 0
    while (pair := next_merge(counts)) is not None:
        first, second = pair
        assert counts[first] == counts[second] == 2 * second - 2 * first
        assert first == 0 or max(counts.values()) > counts[0]
        counts[first] //= 2
        del counts[second]
        steps += 1
        assert sum(share(10**12 + 7, shard, count) for shard, count in counts.items()) == 10**12 + 7
    assert counts == {0: 1}
    assert steps == len(shards) - 1


def test_what_a_deleted_bucket_has_left_behind_is_no_part_of_the_new_one() -> None:
    assert next_merge({0: 1, 1: 64, 33: 64, 2: 4}) is None
    assert next_merge({0: 2, 1: 2, 3: 4}) == (0, 1)
