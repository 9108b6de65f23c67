"""Who is before whom in a line, and what all of them want."""

from collections.abc import Mapping

import pytest

from zae_limiter.flows.bucket_queue import BucketQueue, BucketRequest, Outcome
from zae_limiter.flows.process.waiting_line import GONE_MS, OVERDUE_MS, Blocker, Turn, WaitingLine
from zae_limiter.runtime import forks

NOW = 1_000_000
ONE: Mapping[str, int] = {"rpm": 1000}


def line_of(*numbers: int) -> tuple[WaitingLine, list[Turn]]:
    """A line that turns with these numbers have joined, all of them asleep for a second."""
    line, turns = WaitingLine(), [Turn(number, NOW) for number in numbers]
    for turn in turns:
        line.join(turn, ONE)
        turn.due_ms = NOW + 1000
    return line, turns


def request(turn: Turn, line: WaitingLine) -> BucketRequest:
    """A request of a turn that is awake."""
    queue = BucketQueue(lambda _: iter(()))  # type: ignore[arg-type, return-value]  # nobody serves it
    asked = BucketRequest(queue, ONE)
    turn.wake(NOW)
    turn.asks(line, [asked])
    return asked


def test_the_number_decides_whoever_joins_first() -> None:
    line, [second, first, third] = line_of(2, 1, 3)
    assert [line.is_first(turn, NOW) for turn in (first, second, third)] == [True, False, False]
    assert [line.up_to(turn, NOW)["rpm"] for turn in (first, second, third)] == [1000, 2000, 3000]
    assert line.blocker(third, NOW) == Blocker(first, NOW + 1000, 2)


def test_those_that_have_no_place_in_a_line_ask_before_all_others_in_order_of_arrival() -> None:
    line, [waits] = line_of(2)
    ranks = [line.order_of(turn) for turn in (Turn(1, NOW), Turn(3, NOW), waits)]
    assert ranks == sorted(set(ranks))


@pytest.mark.parametrize("way", [("child", ""), ("child", "below", "")], ids=["child", "child of a child"])
def test_who_has_asked_stays_before_the_next_one_when_others_before_both_leave_unserved(way: tuple[str, ...]) -> None:
    line, turns = WaitingLine(), [Turn(number, NOW) for number in range(1, 5)]
    for turn in turns:
        line.join(turn, ONE, way)
    third = request(turns[2], line)
    third.turn = line.order_of(turns[2])
    for turn in turns[:2]:
        line.leave(turn)
    assert line.blocker(turns[3], NOW) is None
    assert third.turn < line.order_of(turns[3])


def test_who_leaves_wants_nothing_and_blocks_nobody() -> None:
    line, [first, second, third] = line_of(1, 2, 3)
    line.leave(first)
    line.leave(second)
    assert line.up_to(third, NOW) == {"rpm": 1000}
    assert line.blocker(third, NOW) is None
    assert len(line) == 1


def test_a_long_line_knows_at_once_who_left_at_its_head() -> None:
    line, turns = line_of(*range(2000))
    line.up_to(turns[-1], NOW)
    for turn in turns[:10]:
        line.leave(turn)
    assert line.up_to(turns[-1], NOW) == {"rpm": 1_990_000}
    assert line.is_first(turns[10], NOW)


def test_who_is_awake_blocks_until_it_asks_and_again_once_it_is_refused() -> None:
    line, [first, second] = line_of(1, 2)
    first.wake(NOW)
    assert line.blocker(second, NOW) == Blocker(first, NOW, 1)
    assert line.blocker(second, NOW + 800) == Blocker(first, NOW + 900, 1)
    asked = request(first, line)
    assert line.blocker(second, NOW) is None
    assert line.up_to(second, NOW) == {"rpm": 2000}
    asked.outcome = Outcome("refused", None, NOW)
    assert line.blocker(second, NOW) == Blocker(first, NOW, 1)
    asked.outcome = Outcome("admitted", None, NOW)
    assert line.blocker(second, NOW) is None
    assert line.up_to(second, NOW) == {"rpm": 1000}


def test_one_that_oversleeps_blocks_nobody_and_one_that_never_comes_is_gone() -> None:
    line, [first, second] = line_of(1, 2)
    late = first.due_ms + OVERDUE_MS
    assert line.blocker(second, late) is not None
    assert line.blocker(second, late + 1) is None
    assert line.up_to(second, late + 1) == {"rpm": 2000}
    second.due_ms = first.due_ms + GONE_MS
    assert line.up_to(second, first.due_ms + GONE_MS + 1) == {"rpm": 1000}


def test_a_forked_child_begins_with_nobody_in_line(monkeypatch: pytest.MonkeyPatch) -> None:
    line, _ = line_of(1, 2)
    monkeypatch.setattr(forks, "generation", forks.generation + 1)
    assert len(line) == 0
    turn = Turn(3, NOW)
    line.join(turn, ONE)
    assert line.is_first(turn, NOW)
    assert line.up_to(turn, NOW) == ONE
