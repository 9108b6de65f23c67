"""The order of callers by the accounts of their children."""

from collections import Counter
from itertools import count
from random import Random

import pytest

from zae_limiter.flows.process.fair_order import OWN, FairOrder, Waiting, Way
from zae_limiter.flows.process.waiting_line import Turn, WaitingLine

NOW = 1_000_000


def way(*names: str) -> Way:
    return (*names, OWN)


class Served:
    """Callers that enter an order, and are served in it."""

    def __init__(self) -> None:
        self.order = FairOrder()
        self.numbers = count(1)
        self.waiting: list[Waiting] = []

    def enter(self, *names: str, cost: int = 10) -> int:
        """Let a caller come; return when it is done, as it is told."""
        number = next(self.numbers)
        self.waiting.append(Waiting(number, number, {}, way(*names), cost))
        return self.order.enter(way(*names), cost)

    def serve(self, calls: int) -> list[str]:
        """Serve so many; return who they were."""
        found = []
        for _ in range(calls):
            _, _, first = self.order.of(self.waiting)[0]
            self.waiting.remove(first)
            self.order.took(first.way, first.cost)
            found.append("/".join(first.way[:-1]))
        return found


def test_children_take_turns_and_each_serves_its_own_in_order() -> None:
    it = Served()
    for child in "aaaaabb":
        it.enter(child)
    assert it.serve(7) == ["a", "b", "a", "b", "a", "a", "a"]


def test_a_newcomer_is_next_and_has_saved_up_nothing() -> None:
    it = Served()
    for _ in range(20):
        it.enter("a")
    it.serve(10)
    for _ in range(5):
        it.enter("b")
    assert it.serve(6) == ["b", "a", "b", "a", "b", "a"]


def test_newcomers_without_end_pass_each_caller_once() -> None:
    it = Served()
    it.enter("a", cost=40)
    served = []
    for number in range(12):
        it.enter(f"s{number}")
        served += it.serve(1)
    assert "a" in served


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_no_two_children_that_wait_differ_by_more_than_a_call_of_each(depth: int) -> None:
    random, it, took, largest = Random(depth), Served(), Counter[str](), 50
    ways = {child: (*"pq"[: depth - 1], child) for child in "abcd"}
    for _ in range(2_000):
        for child, names in ways.items():
            while sum(each.way[-2] == child for each in it.waiting) < 3:
                it.enter(*names, cost=random.randint(1, largest if child < "c" else 5))
        _, _, first = it.order.of(it.waiting)[0]
        took[first.way[-2]] += first.cost
        it.serve(1)
        assert max(took.values()) - min(took[child] for child in ways) <= 2 * largest


def test_a_caller_is_told_its_place_when_it_comes_as_the_order_has_it_later() -> None:
    it = Served()
    for names in [("p", "a")] * 5 + [("q", "c")] * 3:
        it.enter(*names)
    later: list[tuple[str, ...]] = [("p", "b"), ("p", "b"), ("d",)]
    for each in later:
        told = it.enter(*each)
        assert told in [done for done, number, _ in it.order.of(it.waiting) if number == len(it.waiting)]


def test_of_two_that_let_each_other_go_first_the_earlier_one_passes() -> None:
    line, first, second = WaitingLine(), Turn(1, NOW), Turn(2, NOW)
    line.join(Turn(3, NOW), {"t": 1}, way("a"))
    line.join(first, {"t": 5}, way("a"))
    line.join(second, {"t": 1}, way("b"))
    second.due_ms = NOW + 1000
    found = line.blocker(first, NOW)
    assert found is not None
    second.behind = [first]
    line.leave(next(turn for turn in line.sleeping(NOW, most=9) if turn.number == 3))
    assert line.blocker(first, NOW) is None
    second.behind = ()
    assert line.blocker(first, NOW) is not None


def test_moments_of_two_processes_lie_at_other_places_each_time() -> None:
    one, other = WaitingLine(), WaitingLine()
    one.seed, other.seed = 123_456_789, 987_654_321
    first = Counter(one.moment(due, 100) < other.moment(due, 100) for due in range(0, 100_000, 100))
    assert 400 <= first[True] <= 600
    assert all(due <= one.moment(due, 100) < due + 100 for due in range(1000))
