"""What becomes of a balance over the boundaries of a schedule, compared with a bucket reshaped at each of them."""

import math
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zae_limiter import Limit
from zae_limiter.rules import schedules
from zae_limiter.rules.balances import ShardLimit, move_anchor
from zae_limiter.rules.calendar import Calendar
from zae_limiter.rules.registry import rule_of
from zae_limiter.rules.schedules import Carried, carry, next_token_through, wait_through
from zae_limiter.rules.sharding import NEVER, Part, new_part
from zae_limiter.values.timetables import Piece, Timetable, timetable_of

BEGIN_MS = 1_764_028_800_000  # a Tuesday, at midnight UTC
HOUR_MS = 3_600_000
MINUTE = "a: 00:10-00:20 7/min burst 9; b: 00:15-00:40 120/min burst 200; c: 00:40-00:41 0/min; d: 00:50-23:59 3/hour"
LIMITS = [
    Limit.custom("rpm", 30, schedule=MINUTE.split("; ")),
    Limit.per_minute("rpm", 6, window="calendar"),
    Limit.custom("rpm", 9, kind="first_use", refill_period=400, schedule=["a: 00:10-00:20 capacity 3"]),
]
LIMITS[1] = Limit.from_dict(LIMITS[1].to_dict() | {"schedule": ["a: 00:10-00:30 capacity 2 burst 3"]})

limits = st.sampled_from(LIMITS)
instants = st.integers(BEGIN_MS - 120_000, BEGIN_MS + HOUR_MS)
balances = st.integers(-400_000, 250_000)


def stepped(part: Part, declared: Limit, to_ms: int) -> int:
    """The headroom of a bucket that was reshaped at each boundary, millisecond by millisecond where one is."""
    table, at_ms = timetable_of(declared), part.shard_limit.anchor_ms
    shard_limit, tokens = part
    tokens = min(tokens, shard_limit.ceiling_milli)
    while at_ms < to_ms:
        piece = table.at(at_ms)
        shard_limit, tokens = move_anchor(shard_limit, tokens, at_ms, piece.limit)
        at_ms = min(piece.end_ms, to_ms)
    return move_anchor(shard_limit, tokens, to_ms, table.at(to_ms).limit)[1]


def check_carry(declared: Limit, anchor_ms: int, to_ms: int, tokens: int, shard: int, shards: int) -> None:
    ruled = ShardLimit(timetable_of(declared).at(anchor_ms).limit, anchor_ms, shard, shards)
    if declared.kind == "token_bucket":
        found = schedules.carry(ruled, declared, to_ms)
        balance = min(tokens + found.minted, found.ceiling)
    else:
        balance = schedules.follow(ruled, tokens, declared, to_ms)[1]
    assert balance == stepped(Part(ruled, tokens), declared, to_ms)


@given(limits, instants, instants, balances, st.sampled_from([(0, 1), (0, 4), (3, 4)]))
def test_over_any_boundaries_a_balance_is_that_of_a_bucket_reshaped_at_each(
    declared: Limit, one: int, other: int, tokens: int, shard: tuple[int, int]
) -> None:
    check_carry(declared, min(one, other), max(one, other) + 1, tokens, *shard)


@given(limits, instants, balances, st.integers(0, 210_000))
def test_a_wait_ends_at_the_first_millisecond_that_has_the_amount(
    declared: Limit, at_ms: int, tokens: int, cost: int
) -> None:
    table = timetable_of(declared)
    part = Part(ShardLimit(table.at(at_ms).limit, at_ms), min(tokens, table.at(at_ms).limit._ceiling_milli))
    wait = wait_through(declared, [part], cost, at_ms)
    if cost > max(each._ceiling_milli for each in table.variants):
        assert wait == NEVER
    elif math.isfinite(wait):
        due_ms = at_ms + round(wait * 1000)
        assert stepped(part, declared, due_ms) >= cost
        assert due_ms == at_ms or stepped(part, declared, due_ms - 1) < cost


@given(limits, balances, st.integers(1, 250_000), instants)
def test_a_wait_over_peaks_is_the_wait_over_all_pieces(declared: Limit, tokens: int, cost: int, at_ms: int) -> None:
    now = timetable_of(declared).at(at_ms).limit
    parts = [Part(ShardLimit(now, at_ms), min(tokens, now._ceiling_milli))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedules, "MOST_PIECES", 60)
        patch.setattr(schedules, "_SOON", 60)
        over_pieces = wait_through(declared, parts, cost, at_ms)
        patch.setattr(schedules, "_SOON", 1)
        schedules._peaks_of_full.cache_clear()
        over_peaks = wait_through(declared, parts, cost, at_ms)
        schedules._peaks_of_full.cache_clear()
    assert over_peaks == pytest.approx(over_pieces) or over_pieces == NEVER != over_peaks  # peaks look further


def test_an_amount_that_no_piece_is_long_enough_for_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = Limit.custom("rpm", 3, schedule=["a: 12:00-12:01 5/min burst 100"])
    looks: list[int] = []
    found = Timetable.after

    def counted(self: Timetable, piece: Piece) -> Any:
        looks.append(piece.end_ms)
        return found(self, piece)

    monkeypatch.setattr(Timetable, "after", counted)
    counts = []
    for at_ms, cost in enumerate((50_000, 60_000, 51_000), BEGIN_MS):
        looks.clear()
        parts = [Part(ShardLimit(timetable_of(limit).at(at_ms).limit, at_ms), 0)]
        assert wait_through(limit, parts, cost, at_ms) == NEVER
        counts.append(len(looks))
    assert counts[0] > 1_500
    assert max(counts[1:]) < 60
    parts = [Part(ShardLimit(timetable_of(limit).at(BEGIN_MS).limit, BEGIN_MS), 0)]
    assert wait_through(limit, parts, 7_000, BEGIN_MS) == pytest.approx(12 * 3_600 + 48)


def test_a_wait_that_a_boundary_ends_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that seeks leap years would take seconds for each of a thousand pieces."""
    schedule = [f"part-{hour}: 0{hour}:00-0{hour}:01 capacity 99" for hour in range(4)]
    limit = Limit.custom("q", 2, burst=100, kind="calendar", window="0 0 29 2 *", schedule=schedule)
    sought: list[int] = []
    real = Calendar.reached

    def counted(self: Calendar, minted_milli: int) -> int:
        sought.append(minted_milli)
        assert len(sought) < 9
        return real(self, minted_milli)

    monkeypatch.setattr(Calendar, "reached", counted)
    at_ms = BEGIN_MS + 600_000
    parts = [Part(ShardLimit(timetable_of(limit).at(at_ms).limit, at_ms), 1_000)]
    assert wait_through(limit, parts, 100_000, at_ms) == NEVER


def test_a_limit_without_a_schedule_waits_as_always() -> None:
    part = Part(ShardLimit(Limit.per_minute("rpm", 60), BEGIN_MS), 0)
    assert wait_through(None, [part], 5_000, BEGIN_MS) == 5.0
    assert next_token_through(None, [part], BEGIN_MS) == 1.0


def test_the_next_token_may_come_with_a_boundary() -> None:
    limit = Limit.custom("rpm", 60, schedule=["closed: 00:00-00:30 0/min"])
    part = Part(ShardLimit(timetable_of(limit).at(BEGIN_MS).limit, BEGIN_MS), 0)
    assert next_token_through(limit, [part], BEGIN_MS) == 1_801.0


def _without_first_bound(real: Callable[..., Carried]) -> Callable[..., Carried]:
    """The ceilings of former pieces are forgotten."""

    def carried(shard_limit: ShardLimit, declared: Limit, to_ms: int) -> Carried:
        last = shard_limit.moved(to_ms, timetable_of(declared).at(to_ms).limit)
        return Carried(real(shard_limit, declared, to_ms).minted, last.ceiling_milli)

    return carried


def _by_last_rule(shard_limit: ShardLimit, declared: Limit, to_ms: int) -> Carried:
    """All the time counts by the rule in force at its end."""
    last = shard_limit.moved(shard_limit.anchor_ms, timetable_of(declared).at(to_ms).limit)
    return Carried(last.minted_since_anchor(to_ms), min(shard_limit.ceiling_milli, last.ceiling_milli))


def _by_first_rule(shard_limit: ShardLimit, declared: Limit, to_ms: int) -> Carried:
    """The boundary is when somebody comes."""
    last = shard_limit.moved(to_ms, timetable_of(declared).at(to_ms).limit)
    return Carried(shard_limit.minted_since_anchor(to_ms), min(shard_limit.ceiling_milli, last.ceiling_milli))


def _twice(real: Callable[..., Carried]) -> Callable[..., Carried]:
    def carried(shard_limit: ShardLimit, declared: Limit, to_ms: int) -> Carried:
        found = real(shard_limit, declared, to_ms)
        return Carried(found.minted + (found.minted > 0) * 1000, found.ceiling)

    return carried


FAULTS: dict[str, Any] = {
    "a ceiling on the way that is forgotten": _without_first_bound(carry),
    "the last rule for all the time": _by_last_rule,
    "the first rule for all the time": _by_first_rule,
    "a token too many": _twice(carry),
}


def check_an_hour() -> None:
    for declared in LIMITS:
        for begin in range(0, 3_600, 200):
            for end in range(begin + 100, 3_700, 300):
                for tokens in (0, 5_000, 100_000):
                    check_carry(declared, BEGIN_MS + begin * 1000, BEGIN_MS + end * 1000, tokens, 0, 1)


def test_an_hour_is_right_from_any_instant_to_any_other() -> None:
    check_an_hour()


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_of_the_arithmetic_is_found(fault: str) -> None:
    with patch.object(schedules, "carry", FAULTS[fault]), pytest.raises(AssertionError):
        check_an_hour()


@given(st.integers(1, 100), st.integers(1, 10_000), st.integers(0, 10**13), st.integers(0, 10**6))
def test_an_amount_of_a_first_use_is_reached_at_the_first_instant_that_has_minted_it(
    capacity: int, seconds: int, begin_ms: int, milli: int
) -> None:
    limit = Limit.quota("rpm", capacity, window=seconds)
    rule = rule_of(limit).since(begin_ms)
    at_ms = rule.reached(milli)
    assert rule.minted(at_ms) >= milli
    assert milli == 0 or rule.minted(at_ms - 1) < milli
    assert rule.longest_ms(milli) == at_ms - (begin_ms if milli else 0)
    assert rule.minted(begin_ms + 1000 * seconds - 1) == 0
    assert rule.minted(begin_ms + 1000 * seconds) == 1000 * capacity


def test_an_endless_wait_is_computed_once_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two entries hold always between them, so the ten tokens of the limit are never there."""
    limit = Limit.custom("rpm", 10, schedule=["a: 22:00-06:00 capacity 3", "b: 06:00-22:00 capacity 3"])
    looks: list[int] = []
    found = Timetable.after

    def counted(self: Timetable, piece: Piece) -> Any:
        looks.append(piece.end_ms)
        return found(self, piece)

    monkeypatch.setattr(Timetable, "after", counted)
    now, counts = 1_795_600_000_000, []
    for at_ms in (now, now + 1, now + 90_000_000):
        parts = [new_part(timetable_of(limit).at(at_ms).limit, at_ms)]
        looks.clear()
        assert wait_through(limit, parts, 4_000, at_ms) == math.inf
        counts.append(len(looks))
    assert counts[0] > 1_500 < counts[2]
    assert counts[1] < 50
