"""Histories of several processes on one table, none of which may break the invariant; and faults that must be found."""

from dataclasses import fields
from random import Random

import pytest

from simulation.__main__ import mutants
from simulation.application import Application, Change
from simulation.bucket_items import LimitState, Rule
from simulation.crowds import Crowd
from simulation.histories import tried
from simulation.kernel import EPOCH_MS, Kernel, Violation
from simulation.ledger import Ledger, fastest
from simulation.mutants import MUTANTS, Mutant, killer
from simulation.plan import Plan, planned
from simulation.shrink import TROUBLES
from simulation.waits import Waits
from simulation.world import World, simulate
from zae_limiter.flows.acquire.requests import AcquireRequest


@pytest.mark.slow
def test_no_history_breaks_the_invariant() -> None:
    wrong = [problem for _, found in tried(1, 1_000) for _, problem in found]
    assert not wrong, "\n".join(wrong)


# A clock that is put back while a caller waits on many shards; limits that become shadow limits while it waits
@pytest.mark.parametrize("seed", [19391, 28112, 31191, 33374])
def test_a_history_that_once_went_wrong_is_sound(seed: int) -> None:
    assert not [problem for _, found in tried(seed, 1) for _, problem in found]


@pytest.mark.slow
def test_a_crowd_on_many_shards_gets_what_is_minted_at_a_bounded_cost() -> None:
    wrong = [problem for _, found in tried(1, 12, {"scenario": "shards"}, at_once=1) for _, problem in found]
    assert not wrong, "\n".join(wrong)


def crowd(*, taken: int, writes: int) -> Crowd:
    """One caller that slept from the beginning, and writes that took so much each, a second after the other."""
    plan = planned(Random(49), {"scenario": "shards", "network": "healthy"})
    waits = Waits(Kernel())
    waits.begin(AcquireRequest("child-a", "gpt", {"rpm": 2_000}, max_wait=30.0))
    waits.sleep(0)
    waits.admit()

    def write(second: int) -> Application:
        rule = Rule(ceiling=80_000, refill=80_000, period=1_000)
        change = Change(0, taken, 80_000, LimitState(rule, 0, 1, 0, 0), 80_000, 0, new=False)
        at_ms = EPOCH_MS + 1_000 * second
        return Application("b#0", at_ms, at_ms, at_ms, {"rpm": change}, moved=False, splits=False)

    return Crowd(plan, [write(second) for second in range(writes)], [waits])


def test_a_crowd_that_gets_little_of_what_is_minted_is_found() -> None:
    crowd(taken=80_000, writes=2).check()
    with pytest.raises(Violation, match="a crowd got 20000 millitokens"):
        crowd(taken=10_000, writes=3).check()


def test_a_crowd_that_takes_in_fractions_is_found() -> None:
    with pytest.raises(Violation, match="3 writes took for 1 callers, 2 are enough"):
        crowd(taken=80_000, writes=3).check()


@pytest.mark.slow
def test_the_histories_are_worth_something() -> None:
    answers: dict[str, int] = {}
    lost = reshaped = created = split = dropped = returned = 0
    for seed in range(1, 121):
        world, gone = simulate(seed), set()
        for _, caller, _ in world.callers:
            answers[caller.answer] = answers.get(caller.answer, 0) + 1
        for write in world.oracle.applications:
            lost += not write.confirmed
            reshaped += write.moved and not write.splits
            split += write.splits
            created += any(change.new for change in write.changes.values())
            dropped += len(write.dropped)
            returned += any(change.new and (write.pk, name) in gone for name, change in write.changes.items())
            gone |= {(write.pk, name) for name in write.dropped}
    assert min(answers["admitted"], answers["refused"], answers["Cancelled"], answers["RateLimiterUnavailable"]) > 50
    assert min(lost, reshaped, created, split) > 50
    assert min(dropped, returned) > 1, (dropped, returned)


def test_a_history_is_told_by_its_seed() -> None:
    def told(world: World) -> list[tuple[str, int, int]]:
        return [(write.pk, write.decided_ms, write.applied_ms) for write in world.oracle.applications]

    assert told(simulate(17)) == told(simulate(17)) != told(simulate(18))


def test_a_smaller_history_can_do_without_any_of_the_troubles() -> None:
    assert set(TROUBLES) == {each.name for each in fields(Plan) if each.default == 0} - {"one_by_one"}


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_deliberate_fault_is_found(mutant: Mutant) -> None:
    assert killer(mutant, range(1, 2_000))


def test_the_command_finds_a_mutant_whose_fault_cannot_be_sent_to_another_process() -> None:
    [mutant] = [each for each in MUTANTS if each.name == "halves set at a split"]
    assert mutants([mutant]) == 0


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


def test_a_rule_counts_from_before_it_is_written_until_after_the_next_by_what_clocks_and_delays_allow() -> None:
    slow, fast = RULE, Rule(ceiling=10_000, refill=9_000, period=1_000)

    def write(at_ms: int, rule: Rule, shard: int = 0) -> Application:
        state = LimitState(rule, shard, 2, 0, at_ms)
        change = Change(0, 0, rule.ceiling, state, rule.ceiling, 0, new=False)
        return Application(f"b#{shard}", at_ms, at_ms, at_ms, {"rpm": change}, moved=True, splits=False)

    told = [(0, slow), (1_000, slow), (5_000, fast), (6_000, slow), (6_900, slow), (9_000, slow)]
    rules = list(fastest([write(*each) for each in told], "rpm", 100))
    assert rules == [slow, fast, fast, fast, slow, slow]
    others = [write(0, fast, 1), *(write(*each) for each in told[:2])]
    assert list(fastest(others, "rpm", 100)) == [fast] * 3
