"""Lives of processes, none of which may hang, lose or mint; and faults of the drivers that must be found."""

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from processes.asynchronous import simulate as simulate_async
from processes.budgets import Life
from processes.budgets import simulate as simulate_budgets
from processes.histories import finding, tried
from processes.holdings import Holdings
from processes.loops import VirtualLoop, watched
from processes.mutants import MUTANTS, Mutant, killer, shown
from processes.threaded import simulate as simulate_sync
from processes.threaded import simulate_interrupted
from processes.threads import Lock, Scheduler
from processes.timeline import Stuck, Timeline
from zae_limiter.operations.values import Key, Update

VARIANTS = ("async", "sync")
SEEDS = {"async": 150, "sync": 100, "budgets": 150}
WATCHED = 24  # the first lives, of which there is a count of what they show

Simulate = Callable[[int], Any]

pytestmark = pytest.mark.both_variants  # what is simulated is how each of them waits


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("variant", SEEDS)
def test_no_life_of_a_process_goes_wrong(variant: str) -> None:
    wrong = [problem for _, found in tried(variant, WATCHED + 1, SEEDS[variant] - WATCHED) for _, problem in found]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("variant", "seed"), [("async", 1013), ("sync", 1302)])
def test_a_close_that_counts_refusals_takes_no_longer_than_any_other(variant: str, seed: int) -> None:
    assert finding(variant, seed) == ""


@pytest.mark.slow
def test_the_first_budgets_of_runs_hold_and_are_worth_something() -> None:
    histories = [simulate_budgets(seed) for seed in range(1, WATCHED + 1)]
    admitted = sum((history.admitted for history in histories), Counter[Any]())
    assert sum(len(history.opened) for history in histories) > 4 * WATCHED
    assert sum(len(history.ended) for history in histories) > 4
    assert any(history.late for history in histories)
    assert {len(who.runs) for who, _ in admitted if isinstance(who, Life)} == {1, 2, 3}


@pytest.mark.long(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize("simulate", [simulate_async, simulate_sync], ids=VARIANTS)
def test_the_first_lives_go_well_and_are_worth_something(simulate: Simulate) -> None:
    answers: Counter[str] = Counter()
    uncertain = leases = 0
    for seed in range(1, WATCHED + 1):
        world = simulate(seed).world
        leases += len(world.callers)
        uncertain += sum(bool(caller.holding.uncertain) for caller in world.callers)
        answers.update(caller.answer for caller in world.callers)
    assert min(answers[kind] for kind in ("admitted", "refused", "failed", "unavailable", "cut")) > 10
    assert uncertain < leases / 2


@pytest.mark.parametrize("simulate", [simulate_async, simulate_sync], ids=VARIANTS)
def test_a_life_is_told_by_its_seed(simulate: Simulate) -> None:
    def told(seed: int) -> list[tuple[str, float]]:
        return [(call.name, call.ended) for caller in simulate(seed).world.callers for call in caller.calls]

    assert told(4) == told(4) != told(7)


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("warm", [True, False], ids=["warm", "cold"])
def test_a_signal_leaves_nobody_behind(*, warm: bool) -> None:
    for point in range(2, 1_500, 151):
        simulate_interrupted(point, warm=warm)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutant",
    [pytest.param(each, marks=pytest.mark.long if number else []) for number, each in enumerate(MUTANTS)],
    ids=lambda mutant: mutant.name.replace(" ", "-"),
)
def test_a_deliberate_fault_of_a_driver_is_found(mutant: Mutant) -> None:
    if not shown(mutant):
        pytest.skip("this Python does not show it")
    assert killer(mutant, range(1, 300))


def test_no_time_passes_while_a_virtual_loop_sleeps() -> None:
    timeline = Timeline()
    loop = VirtualLoop(timeline)
    loop.run_until_complete(asyncio.sleep(86_400))
    assert timeline.now == 86_400
    loop.close()


def test_a_virtual_loop_knows_who_waits_for_ever() -> None:
    loop = VirtualLoop(Timeline())
    with pytest.raises(Stuck, match="everybody waits"):
        loop.run_until_complete(loop.create_future())
    loop.close()


def test_a_virtual_loop_knows_who_spins() -> None:
    async def spin() -> None:
        while True:  # noqa: ASYNC110 - what is to be noticed
            await asyncio.sleep(0)

    loop = VirtualLoop(Timeline())
    task = loop.create_task(spin())
    with pytest.raises(Stuck, match="spins"):
        loop.run_until_complete(task)
    task.get_coro().close()
    loop.set_exception_handler(lambda *_: None)
    loop.close()


def test_a_loop_that_never_comes_back_is_left() -> None:
    def spin() -> None:
        while True:
            pass

    with watched(0.1), pytest.raises(Stuck, match="never comes back"):
        spin()


def test_the_scheduler_knows_a_deadlock() -> None:
    def stuck(seed: int) -> bool:
        scheduler = Scheduler(Timeline(), Random(seed))
        one, other = Lock(scheduler), Lock(scheduler)

        def both(first: Lock, second: Lock) -> None:
            with first, second:
                pass

        def main() -> None:
            scheduler.spawn("another", lambda: both(other, one))
            both(one, other)

        try:
            scheduler.run(main)
        except Stuck:
            return True
        return False

    assert {stuck(seed) for seed in range(20)} == {True, False}


def test_a_digit_tells_whom_a_write_concerns() -> None:
    holdings = Holdings(20)
    first, last = holdings.all[0], holdings.all[15]
    amount = 1000 * (3 * last.unit - 2 * first.unit)
    update = Update(Key("a", "b"), add={"b_who0_tc": amount})
    assert holdings.touched(update) == [(first, -2), (last, 3)]
