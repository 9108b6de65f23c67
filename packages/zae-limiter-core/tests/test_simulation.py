"""Histories of several processes on one table, none of which may break the invariant; and faults that must be found."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from .simulation.kernel import Violation
from .simulation.ledger import Ledger, Rule
from .simulation.mutants import PATCHES, TAMPERS, killer
from .simulation.world import Tamper, World, honest, simulate


@pytest.mark.parametrize("first", range(1, 601, 100))
def test_no_history_breaks_the_invariant(first: int) -> None:
    for seed in range(first, first + 100):
        simulate(seed)


@pytest.mark.parametrize("seed", [1381, 1530, 2790, 2812, 17789])
def test_what_once_went_wrong_goes_right(seed: int) -> None:
    simulate(seed)


def test_the_histories_are_worth_something() -> None:
    answers: dict[str, int] = {}
    lost = reshaped = created = 0
    for seed in range(1, 61):
        world = simulate(seed)
        for _, caller, _ in world.lives:
            answers[caller.answer] = answers.get(caller.answer, 0) + 1
        for write in world.oracle.applications:
            lost += not write.confirmed
            reshaped += write.reshaped
            created += any(change.new for change in write.changes.values())
    assert min(answers["admitted"], answers["refused"], answers["Cancelled"], answers["RateLimiterUnavailable"]) > 50
    assert min(lost, reshaped, created) > 50


def test_a_history_is_told_by_its_seed() -> None:
    def told(world: World) -> list[tuple[str, int, int]]:
        return [(write.pk, write.decided_ms, write.applied_ms) for write in world.oracle.applications]

    assert told(simulate(17)) == told(simulate(17)) != told(simulate(18))


@pytest.mark.parametrize("tamper", TAMPERS, ids=lambda tamper: str(tamper.__name__))
def test_a_fault_on_the_way_is_found(tamper: Tamper) -> None:
    assert killer(tamper, nullcontext, seeds=range(1, 600))


@pytest.mark.parametrize("fault", PATCHES, ids=lambda fault: str(fault.__name__))
def test_a_fault_in_a_flow_is_found(fault: Callable[[], AbstractContextManager[Any]]) -> None:
    assert killer(honest, fault, seeds=range(1, 400))


RULE = Rule(ceiling=10_000, refill=1_000, period=1_000)


def test_the_ledger_allows_the_ceiling_and_what_is_minted() -> None:
    ledger = Ledger(0)
    ledger.enter(0, RULE, net=10_000, wanted=10_000, new=True)
    ledger.enter(3_000, RULE, net=3_000, wanted=3_000, new=False)
    with pytest.raises(Violation, match="1 millitokens more"):
        ledger.enter(3_999, RULE, net=1_000, wanted=1_000, new=False)


def test_the_ledger_sees_an_idle_minute_paid_out_twice() -> None:
    ledger = Ledger(0)
    ledger.enter(0, RULE, net=1_000, wanted=1_000, new=True)
    ledger.enter(60_000, RULE, net=10_000, wanted=10_000, new=False)
    with pytest.raises(Violation, match="10000 millitokens more"):
        ledger.enter(60_000, RULE, net=10_000, wanted=10_000, new=False)


def test_the_ledger_allows_what_clocks_differ_by_once() -> None:
    ledger = Ledger(500)
    ledger.enter(0, RULE, net=10_000, wanted=10_000, new=True)
    ledger.enter(0, RULE, net=500, wanted=500, new=False)
    with pytest.raises(Violation):
        ledger.enter(0, RULE, net=1, wanted=1, new=False)
