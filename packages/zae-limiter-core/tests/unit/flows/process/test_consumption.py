"""The parts of several processes in the consumption of one shard: they add up to one at most, whoever looked when."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from zae_limiter import Limit
from zae_limiter.flows.process.consumption import MARGIN_MS, MILLION, WINDOW_MS, is_void, window_of
from zae_limiter.flows.process.namespace_state import CachedBucket
from zae_limiter.runtime import forks
from zae_limiter.schema.items import ONE_WRITE, WRITES, BucketId
from zae_limiter.schema.writing import LimitBalance, bucket_item

BUCKET = BucketId("ns", "e", "r")
RPM = Limit.per_minute("rpm", 1000)
CONSUMED = "b_rpm_tc"
BEGIN = 100 * WINDOW_MS - 1_000


class Take(NamedTuple):
    """A write of one process, so many milliseconds after the one before."""

    process: int
    amount: int
    after_ms: int


class Table:
    """One bucket, and the processes that look at it with each write of theirs."""

    def __init__(self, processes: int) -> None:
        balance = [LimitBalance(RPM, 0)]
        self.item: dict[str, Any] = bucket_item(
            BUCKET, {}, balance, shard_count=1, anchor_ms=BEGIN, spread=False, config_read_at_ms=0
        )
        self.processes = [CachedBucket(BUCKET) for _ in range(processes)]
        self.now_ms = BEGIN

    def take(self, take: Take) -> None:
        self.now_ms += take.after_ms
        self.item = {
            **self.item,
            CONSUMED: self.item[CONSUMED] + take.amount,
            WRITES: self.item[WRITES] + ONE_WRITE,
        }
        own = {CONSUMED: take.amount, WRITES: ONE_WRITE}
        self.processes[take.process].learn(self.item, self.now_ms, own_writes=1, own=own)

    def play(self, takes: Iterable[Take]) -> "Table":
        for take in takes:
            self.take(take)
        return self

    def parts(self, now_ms: int | None = None) -> list[int]:
        return [process.part("rpm", self.now_ms if now_ms is None else now_ms) for process in self.processes]


def every_second(*amounts: int, seconds: int = 95) -> list[Take]:
    """Each process takes its amount once a second, one after the other."""
    gap = 1000 // len(amounts)
    return [Take(process, amount, gap) for _ in range(seconds) for process, amount in enumerate(amounts)]


# One process takes the same in each window, another one more and more, behind the last look of the first
GROWING = [
    *(take for window in range(5) for take in (Take(0, 100, 21_000), Take(1, 10**window, 9_000))),
    Take(1, 1, 10_000),
]

takes = st.builds(
    Take,
    process=st.integers(0, 2),
    amount=st.integers(0, 50),
    after_ms=st.sampled_from([1, 5, 300, MARGIN_MS, 3_000, WINDOW_MS - 1, WINDOW_MS]),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(takes, min_size=1, max_size=120), st.lists(st.integers(0, 2 * WINDOW_MS), min_size=3, max_size=3))
@example([Take(0, 1, 1000)] * 95 + [Take(1, 1, 1000)] * 95, [0, 0, 0])
@example(GROWING, [0, 0, 0])
@example([*every_second(1, 1, 1), *every_second(0, 0, 9, seconds=31)], [0, 0, 0])
def test_the_parts_of_all_processes_add_up_to_one_at_most(history: list[Take], fails_after: list[int]) -> None:
    """All lose the table at once; each notices it with its next call, later or sooner."""
    table = Table(3).play(history)
    parts = [
        process.part("rpm", table.now_ms + after) for process, after in zip(table.processes, fails_after, strict=True)
    ]
    assert sum(parts) <= MILLION


def test_a_lone_process_has_all_of_it() -> None:
    assert Table(1).play(every_second(7)).parts() == [MILLION]


def test_steady_processes_have_nearly_what_they_consume() -> None:
    parts = Table(3).play(every_second(4, 2, 2)).parts()
    assert sum(parts) <= MILLION
    for part, exact in zip(parts, (0.5, 0.25, 0.25), strict=True):
        assert 0.9 * exact <= part / MILLION <= exact


def test_a_process_that_began_within_the_windows_has_none() -> None:
    late = [Take(1, 5, 500) for _ in range(100)]
    assert Table(2).play([*every_second(1, 0), *late]).parts()[1] == 0


def test_what_is_given_back_is_not_consumed() -> None:
    history = [each for _ in range(95) for each in (Take(0, 100, 250), Take(0, -60, 250), Take(1, 40, 500))]
    parts = Table(2).play(history).parts()
    assert 0.4 <= parts[0] / MILLION <= 0.5
    assert 0.2 <= parts[1] / MILLION <= 0.5


def test_a_part_does_not_hold_when_the_last_look_is_old_or_from_the_future() -> None:
    table = Table(1).play(every_second(1))
    assert table.parts(table.now_ms + WINDOW_MS) == [MILLION]
    assert table.parts(table.now_ms + 2 * WINDOW_MS) == [0]
    assert table.parts(table.now_ms - 2 * WINDOW_MS) == [0]


@pytest.mark.parametrize("ahead_ms", range(0, MARGIN_MS + 1, 50))
def test_processes_whose_clocks_differ_by_a_second_have_a_window_in_common(ahead_ms: int) -> None:
    """One has an answer when the table is lost, the other one had its last answer long ago and fails now."""
    for lost_ms in range(3 * WINDOW_MS, 3 * WINDOW_MS + 2 * MARGIN_MS + 1, 50):
        by_one = window_of(lost_ms + ahead_ms - MARGIN_MS)
        for ago_ms in range(0, 3 * WINDOW_MS, MARGIN_MS // 4):
            seen_ms = lost_ms - ago_ms
            if not is_void(seen_ms, lost_ms):
                assert by_one - window_of(seen_ms - MARGIN_MS) <= 1


def test_a_bucket_that_is_gone_takes_its_history_along() -> None:
    table = Table(1).play(every_second(1))
    table.processes[0].learn(None, table.now_ms, own_writes=0)
    assert table.parts() == [0]
    table.take(Take(0, 1, 1000))
    assert table.parts() == [0]


def test_a_bucket_that_another_process_made_anew_has_no_history() -> None:
    table = Table(2).play(every_second(1, 1))
    assert min(table.parts()) > 0
    table.item = {**table.item, CONSUMED: 0, WRITES: 0}
    assert table.play(every_second(1, 1, seconds=35)).parts() == [0, 0]


def test_a_forked_child_has_no_part_until_it_has_a_history_of_its_own() -> None:
    table = Table(1).play(every_second(1))
    forks.generation += 1
    try:
        assert table.parts() == [0]
        table.play(every_second(1, seconds=35))
        assert table.parts() == [0]
        table.play(every_second(1, seconds=85))
        assert table.parts() == [MILLION]
    finally:
        forks.generation -= 1


def test_a_limit_that_the_bucket_lacks_has_no_part() -> None:
    table = Table(1).play(every_second(1))
    assert table.processes[0].part("tpm", table.now_ms) == 0
