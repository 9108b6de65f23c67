"""Histories of several processes on one table, none of which may break the invariant; and faults that must be found."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from random import Random

import pytest

from simulation import __main__ as command
from simulation import kinds
from simulation.__main__ import mutants
from simulation.application import Application, Change
from simulation.bucket_items import LimitState, Rule
from simulation.crowds import Crowd
from simulation.histories import tried
from simulation.kernel import EPOCH_MS, Kernel, Violation
from simulation.ledger import Ledger, fastest
from simulation.mutants import MUTANTS, Mutant, killer
from simulation.plan import Plan, planned
from simulation.prefetch import Bound, check_interval, check_usage
from simulation.reservations import Served
from simulation.schedules import Planned, Schedules, check_times
from simulation.shadows import least_known
from simulation.shrink import TROUBLES
from simulation.slots import Counts
from simulation.switching import Switchboard, Unknown
from simulation.used import weighed
from simulation.waits import Bell, Waits
from simulation.world import World, simulate
from zae_limiter.flows.acquire.requests import AcquireRequest
from zae_limiter.operations.values import NOTHING
from zae_limiter.schema.items import rule_attributes
from zae_limiter.values.named_limits import KINDS
from zae_limiter.values.resolution import Config
from zae_limiter.values.token_usage import TokenUsage

# Histories from the first seed on; what they show is counted in the tests below, which go on where these begin
WATCHED = 70
OTHERS = {"more": range(WATCHED + 1, 201), "many": range(201, 601)}
# One fault of each scenario: the others are for longer runs
USUAL_MUTANTS = {mutant.scenario: mutant for mutant in reversed(MUTANTS)}.values()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("which", ["more", pytest.param("many", marks=pytest.mark.long)])
def test_no_history_breaks_the_invariant(which: str) -> None:
    seeds = OTHERS[which]
    wrong = [problem for _, found in tried(seeds.start, len(seeds)) for _, problem in found]
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "count"), [(1, 12), pytest.param(13, 48, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "scenario", ["calendar", "first-use", "levels", "merges", "paths", "patterns", "siblings", "splits", "streams"]
)
def test_no_history_of_a_scenario_breaks_a_promise(scenario: str, first: int, count: int) -> None:
    wrong = [problem for _, found in tried(first, count, {"scenario": scenario}) for _, problem in found]
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "count"), [(1, 8), pytest.param(9, 250, marks=pytest.mark.long)])
def test_no_history_of_repeated_writes_counts_one_twice(first: int, count: int) -> None:
    wrong = [problem for _, found in tried(first, count, {"scenario": "signed"}) for _, problem in found]
    assert not wrong, "\n".join(wrong)


# An acquire that has no config of the bucket's; tokens spent under limits that changed; a child's caller cut off; many
# changes that told one bucket at the same time; a write that took effect behind blocks that were taken later;
# a block that a give-back took; blocks whose writes were answered late;
# a process alone that told its bucket beside a run; one that forgot shard 0 of a bucket and remembered others;
# what a block paid for a write that failed when the block had ended; a debt of another shard that was paid unseen
@pytest.mark.long(keep=6)
@pytest.mark.parametrize(
    ("seed", "callers"),
    [
        (101, 60),
        (2174, 150),
        (56, 100),
        (221, 60),
        (101980, 30),
        (102736, 60),
        (104697, 60),
        (700866, 60),
        (303136, 60),
        (601480, 40),
        (701682, 60),
        (704110, 40),
        (2315952, 60),
        (2355174, 30),
    ],
)
def test_a_history_of_prefetch_that_went_wrong_is_sound(seed: int, callers: int) -> None:
    simulate(seed, changes={"scenario": "prefetch", "callers": str(callers)})


# Acquires of an outage whose amounts all came back to the share, which nobody counted; a caller of a share that
# was refused by what the table had shown; one who came in the millisecond in which the table came back, just before it
@pytest.mark.parametrize("seed", [12, 65, 50050, 700334])
def test_a_history_of_an_outage_that_once_went_wrong_is_sound(seed: int) -> None:
    simulate(seed, changes={"scenario": "outages"})


# Two changes of one switch at once, of which the first was written last; a wait for a disabled bucket of a draw;
# a caller whom the overflow served before the one who waited; one who waits for a bucket that its process forgot;
# a switch that lets a call pass behind a boundary, where there is more than the ceiling before it; a block that was
# lifted for an entity without a bucket; a boundary that nobody told; a correction that was sent again; a crowd in
# lines that its process forgot, asking without a pause; a path that ended before what is disabled on it; a refusal of
# a disable that its process forgot, counted by a limit
@pytest.mark.parametrize(
    "seed", [106689, 107234, 804033, 804810, 820964, 951815, 4409733, 4413808, 4440806, 4633654, 7400177]
)
def test_a_history_of_all_kinds_mixed_that_once_went_wrong_is_sound(seed: int) -> None:
    simulate(seed, changes={"scenario": "mixed"})


# A copy of a level's first attempt that came when the second had passed, and somebody had deleted the level again
def test_a_history_of_levels_that_once_went_wrong_is_sound() -> None:
    simulate(444, changes={"scenario": "levels"})


# A process that forgot the buckets of a path while it read them, and read them twice in one request
def test_a_history_of_several_parents_that_once_went_wrong_is_sound() -> None:
    assert not [problem for _, found in tried(196, 1, {"scenario": "paths"}) for _, problem in found]


# A clock that is put back while a caller waits on many shards; limits that become shadow limits while it waits
@pytest.mark.parametrize("seed", [19391, 28112, 31191, 33374])
def test_a_history_that_once_went_wrong_is_sound(seed: int) -> None:
    assert not [problem for _, found in tried(seed, 1) for _, problem in found]


# Two of one child that waited for their own bucket, and asked that of the parent without a place there: the later one
# passed the earlier one, which was refused
def test_a_history_of_a_parents_line_that_once_went_wrong_is_sound() -> None:
    simulate(7303155, changes={"long_work": "0", "limits": "1"})


@pytest.mark.long
@pytest.mark.slow
def test_a_crowd_on_many_shards_gets_what_is_minted_at_a_bounded_cost() -> None:
    wrong = [problem for _, found in tried(1, 12, {"scenario": "shards"}, at_once=1) for _, problem in found]
    assert not wrong, "\n".join(wrong)


def crowd(*, taken: int, writes: int) -> Crowd:
    """One caller that slept from the beginning, and writes that took so much each, a second after the other."""
    plan = planned(Random(49), {"scenario": "shards", "network": "healthy"})
    kernel = Kernel()
    waits = Waits(kernel)
    waits.begin(AcquireRequest("child-a", "gpt", {"rpm": 2_000}, max_wait=30.0))
    waits.sleep(0, kernel.pause(0))
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


def test_a_debt_of_another_shard_counts_until_the_process_knows_that_it_was_paid() -> None:
    def write(shard: int, tokens: int, second: int) -> Application:
        state, at_ms = LimitState(Rule(80_000, 0, 1), shard, 2, tokens, EPOCH_MS), EPOCH_MS + 1_000 * second
        changes = {"rpm": Change(0, 0, 40_000, state, 80_000, 0, new=False)}
        return Application(f"b#{shard}", at_ms, at_ms, EPOCH_MS, changes, moved=False, splits=False)

    debt, payment, here = write(0, -1_000, 1), write(0, 8_000, 2), write(1, 3_000, 3)
    mine = write(1, 3_000, 4)
    mine.knew = {debt.pk: debt, here.pk: here}
    assert least_known([debt, payment, here], "rpm", mine) == 2_000
    mine.knew = {debt.pk: payment, here.pk: here}
    assert least_known([debt, payment, here], "rpm", mine) == 11_000


@pytest.mark.slow
def test_the_first_histories_break_nothing_and_are_worth_something() -> None:
    answers: dict[str, int] = {}
    lost = reshaped = created = split = dropped = returned = 0
    for seed in range(1, WATCHED + 1):
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
    assert min(answers["admitted"], answers["refused"], answers["Cancelled"], answers["RateLimiterUnavailable"]) > 20
    assert min(lost, reshaped, created, split) > 20
    assert min(dropped, returned) > 1, (dropped, returned)


@pytest.mark.long
@pytest.mark.slow
def test_histories_that_prefetch_keep_the_invariant_and_save() -> None:
    served = given = taken = back = paid = 0
    for seed in range(1, 101):
        oracle = simulate(seed, changes={"scenario": "prefetch"}).oracle
        amounts = [amount for each in oracle.served for amount in each.amounts.values()]
        served += sum(amount > 0 for amount in amounts)
        given += sum(amount < 0 for amount in amounts)
        drawn = [write.drawn for write in oracle.applications if write.drawn is not None]
        taken += sum(bool(each.taken) for each in drawn)
        back += sum(bool(each.back) for each in drawn)
        paid += sum(bool(each.paid) for each in drawn)
    assert min(served, given, taken) > 50, (served, given, taken)
    assert min(back, 3 * paid) > 5, (back, paid)


@pytest.mark.long
@pytest.mark.slow
def test_histories_of_outages_break_nothing_and_are_worth_something() -> None:
    let = back = paid = kept = refused = of_parents = split = 0
    for seed in range(1, 61):
        world = simulate(seed, changes={"scenario": "outages"})
        sharing = world.sharing
        let += sum(each.checked for each in sharing.admitted)
        back += sum(not each.checked for each in sharing.admitted)
        paid += len(sharing.payments)
        kept += len(sharing.kept)
        of_parents += any("#parent#" in each.bucket for each in sharing.admitted)
        split += bool(sharing.admitted) and any(write.splits for write in world.oracle.applications)
        refusals = [caller.refusal for _, caller, _ in world.callers if caller.refusal is not None]
        refused += sum(sharing.was_away(each.ended_ms, each.ended_ms) for each in refusals)
    assert min(let, paid) > 50, (let, paid)
    assert min(back, refused) > 10, (back, refused)
    assert min(kept, of_parents, split) > 3, (kept, of_parents, split)


@pytest.mark.slow
def test_histories_of_all_kinds_mixed_break_nothing_and_are_worth_something() -> None:
    found, answers, kinds = Counter[str](), Counter[str](), Counter[str]()
    for seed in range(1, 41):
        world = simulate(seed, changes={"scenario": "mixed"})
        kinds.update({limit.kind for limit in world.plan.limits[0]})
        kinds["schedule"] += any(limit.schedule for limit in world.plan.limits[0])
        answers.update(caller.answer for _, caller, _ in world.callers)
        found["slots"] += world.oracle.slots.taken
        found["renewals"] += world.oracle.slots.renewed
        found["switches"] += world.switches.in_force
        found["overflows"] += any("#credits" in write.bucket for write in world.oracle.applications)
        found["early overflows"] += sum(caller.early for _, caller, _ in world.callers)
        found["settled"] += sum(caller.settled for _, caller, _ in world.callers)
        found["eight buckets"] += any(caller.buckets == 8 for _, caller, _ in world.callers)
        changes = [change for write in world.oracle.applications for change in write.changes.values()]
        scheduled = [change for change in changes if change.state.rule.times]
        found["schedules on shards"] += any(change.state.shards > 1 for change in scheduled)
        found["changed schedules"] += len({change.state.rule.times for change in changes}) > 2
        found["switches of schedules"] += bool(scheduled) and world.switches.in_force > 0
    assert min(kinds[each] for each in (*KINDS, "schedule")) > 2, kinds
    assert min(found["slots"], found["switches"]) > 20, found
    assert min(found["renewals"], found["settled"], found["eight buckets"]) > 5, found
    met = ("overflows", "early overflows", "schedules on shards", "changed schedules", "switches of schedules")
    assert min(found[each] for each in met) > 2, found
    assert min(answers["admitted"], answers["refused"]) > 50, answers
    assert answers["disabled"] > 3, answers


def test_a_schedule_bounds_a_balance_by_each_ceiling_that_it_had() -> None:
    night = Rule(ceiling=2_000, refill=1_000, period=1_000)
    times = ((0, RULE), (10_000, night), (20_000, RULE))
    assert RULE._replace(times=times).minted(5_000, 12_000) == 7_000
    state = LimitState(RULE._replace(times=times), 0, 1, 0, 5_000)
    assert [min(state.balance(at), state.ceiling_at(at)) for at in (9_000, 10_000, 19_000, 23_000, 60_000)] == [
        4_000,
        2_000,
        2_000,
        5_000,
        10_000,
    ]


def test_slots_that_are_counted_twice_are_found() -> None:
    Counts(3_000, 1_000, 0, 2_000, 5_000).check()
    for wrong in (Counts(3_000, 1_000, 1_000, 2_000, 5_000), Counts(3_000, 2_000, 2_000, -1_000, 5_000)):
        with pytest.raises(Violation, match="counted twice, or not at all"):
            wrong.check()


def test_a_switch_holds_for_who_comes_when_it_is_set_and_for_nobody_for_certain_before() -> None:
    board, place = Switchboard(), ("e", "gpt")
    assert board.value("disabled", place, 0, 50) is None
    change = board.begin(place, {"disabled": True}, 100)
    assert board.value("disabled", place, 0, 99) is None
    for done, begun_ms, ended_ms in ((False, 0, 100), (False, 500, 600), (True, 150, 160)):
        if done:
            change.done(200)
        with pytest.raises(Unknown):
            board.value("disabled", place, begun_ms, ended_ms)
    assert board.value("disabled", place, 201, 300) is True
    assert board.value("bypass", place, 201, 300) is None


def test_the_word_of_a_level_holds_where_no_stronger_one_says_anything() -> None:
    board = Switchboard()
    board.begin(("", ""), {"disabled": True}, 100).done(200)
    assert board.value("disabled", ("e", "gpt"), 201, 300) is True
    board.begin(("e", ""), {"disabled": False}, 300).done(400)
    assert board.value("disabled", ("e", "gpt"), 401, 500) is False
    assert board.value("disabled", ("other", "gpt"), 401, 500) is True
    with pytest.raises(Unknown):
        board.value("disabled", ("e", "gpt"), 350, 500)


def test_either_of_two_switches_that_were_set_together_may_hold_until_the_next_does() -> None:
    board, place = Switchboard(), ("e", "gpt")
    first, second = (board.begin(place, {"cascade": value}, at) for at, value in ((100, "off"), (150, None)))
    second.done(180)
    first.done(200, heeded_after_ms=100)
    with pytest.raises(Unknown):
        board.value("cascade", place, 301, 400)
    board.begin(place, {"cascade": "on"}, 500).done(600)
    assert board.value("cascade", place, 601, 700) == "on"


@dataclass
class Alone:
    """A process that lives, and is alone."""

    alive: bool = True
    wakes_us: int = 0
    generation: int = 0

    def now_ms(self) -> int:
        return EPOCH_MS


def test_a_slot_that_comes_back_has_to_wake_one_of_those_who_sleep_for_it() -> None:
    for woken_by_bell in (True, False):
        kernel = Kernel()
        bell, waits = Bell(kernel, Alone()), Waits(kernel)
        waits.begin(AcquireRequest("e", "gpt", {"parallel": 1}, max_wait=30.0))
        sleep = kernel.pause(9_000_000)
        waits.sleep(9_000_000, sleep)
        bell.sleeps(sleep, waits, for_slots=True)
        bell.rings("ns/BUCKET#e#gpt", 50_000)
        if woken_by_bell:
            sleep.settle()
            kernel.run()
            assert (waits.sleeps, waits.woken) == (1, 1)
        else:
            with pytest.raises(Violation, match="none of 1 who wait for some was woken"):
                kernel.run()


def test_a_slot_that_comes_back_has_to_wake_nobody_whom_a_switch_lets_pass_there() -> None:
    kernel = Kernel()
    bell, waits = Bell(kernel, Alone()), Waits(kernel)
    waits.begin(AcquireRequest("e", "gpt", {"parallel": 1}, max_wait=30.0), opened=lambda: True)
    sleep = kernel.pause(9_000_000)
    waits.sleep(9_000_000, sleep)
    bell.sleeps(sleep, waits, for_slots=True)
    bell.rings("ns/BUCKET#e#gpt", 50_000)
    kernel.run()
    assert (waits.sleeps, waits.woken) == (1, 0)


def test_a_limit_that_gets_values_of_another_time_is_found() -> None:
    rule = RULE._replace(times=((0, RULE), (10_000, RULE._replace(refill=1))))
    check_times("rpm", rule, 9_999)
    with pytest.raises(Violation, match=r"rpm has .* from 10001 on"):
        check_times("rpm", rule, 10_001)


def test_a_shard_has_its_share_of_what_each_piece_mints() -> None:
    night = Rule(ceiling=2_001, refill=1_001, period=1_000)
    state = LimitState(RULE._replace(times=((0, RULE), (10_000, night), (20_000, RULE))), 1, 2, 0, 9_000)
    assert [(state.balance(at), state.ceiling_at(at)) for at in (9_500, 10_000, 11_000, 40_000)] == [
        (250, 5_000),
        (500, 1_001),
        (1_001, 1_001),
        (15_505, 5_000),
    ]
    assert state.part.minted(9_000, 11_000) == 1_000.5
    assert state.part.minted(11_000, 9_000) == -1_000.5


def test_the_time_before_a_write_counts_by_the_schedule_by_which_both_go() -> None:
    scheduled = kinds.scheduled(Random(1), "rpm", EPOCH_MS - EPOCH_MS % kinds.MINUTE_MS)
    config, plain = Config((scheduled.limit,), 0), Config((scheduled.pieces[0][1],), 0)
    schedules, planned, other = Schedules([scheduled]), Planned(config, shapes=True), Planned(plain, shapes=True)
    item = {"PK": "b#0", "rf": 0, "shard_count": 1, "b_rpm_tk": 0, **rule_attributes(config.limits[0])}
    assert not schedules.counting("b#0", None, planned, moved=False)
    schedules.wrote("b#0", planned)
    times = {"rpm": schedules.of("b#0", "rpm")}
    assert times["rpm"]
    assert schedules.counting("b#0", item, planned, moved=True) == times
    assert schedules.counting("b#0", item, None, moved=False) == times
    assert not schedules.counting("b#0", item, None, moved=True)  # a split, or one who tells the bucket
    assert not schedules.counting("b#0", item, other, moved=True)  # as it is outside of the schedule, and without one
    schedules.inherits("b#1", "b#0")
    schedules.wrote("b#0", other)
    assert (schedules.of("b#0", "rpm"), schedules.of("b#1", "rpm")) == ((), times["rpm"])


def test_a_usage_is_weighed_in_fractions_and_rounded_up_once() -> None:
    usage = TokenUsage(input=1, cached=1, output=2, reasoning=1)
    assert weighed({"input": 1, "output": 4}, usage) == 14_000
    assert weighed({"input": 0.333333, "cached": 0.000001}, usage) == 334
    assert weighed({"output": 0.0001}, usage) == 1


def test_a_history_is_told_by_its_seed() -> None:
    def told(world: World) -> list[tuple[str, int, int]]:
        return [(write.pk, write.decided_ms, write.applied_ms) for write in world.oracle.applications]

    assert told(simulate(17)) == told(simulate(17)) != told(simulate(18))


def test_a_smaller_history_can_do_without_any_of_the_troubles() -> None:
    assert set(TROUBLES) == {each.name for each in fields(Plan) if each.default == 0} - {"one_by_one", "deploys"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutant",
    [pytest.param(each, marks=[] if each in USUAL_MUTANTS else pytest.mark.long) for each in MUTANTS],
    ids=lambda mutant: mutant.name.replace(" ", "-"),
)
def test_a_deliberate_fault_is_found(mutant: Mutant) -> None:
    assert killer(mutant, ())


def test_of_a_violation_the_smallest_history_is_printed_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(seed: int, changes: Mapping[str, str] = NOTHING) -> str:
        """The history of a seed, which is wrong, however few callers it has."""
        return f"seed {seed}: wrong with {dict(changes)}"

    monkeypatch.setattr(command, "tried", lambda *_: [(1, [(7, failing(7))])])
    monkeypatch.setattr(command, "finding", failing)
    monkeypatch.setattr(command, "shrunk", lambda *_: {"callers": "1"})
    assert command.run(7, 1, {}) == 1
    printed = capsys.readouterr().out
    assert printed.index("seed 7: wrong with {'callers': '1'}") < printed.index("seed 7: wrong with {}")


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


def test_a_write_that_moves_the_anchor_counts_all_time_since_then_by_its_rule() -> None:
    slow = Rule(ceiling=10_000, refill=1_000, period=60_000)
    ledger = Ledger(0)
    ledger.enter(0, RULE, net=10_000, wanted=10_000, new=True, anchor_ms=0)
    ledger.enter(6_000, RULE, net=0, wanted=None, new=False, ruled=slow, anchor_ms=0)
    ledger.enter(8_000, RULE, net=0, wanted=None, new=False, ruled=RULE, anchor_ms=8_000)
    ledger.enter(8_000, RULE, net=8_000, wanted=8_000, new=False, anchor_ms=8_000)
    with pytest.raises(Violation, match="1001 millitokens more"):
        ledger.enter(8_000, RULE, net=1_002, wanted=1_002, new=False, anchor_ms=8_000)


def held(*, at_ms: int, tokens: int, instant: int = 1) -> Served:
    """Tokens that were served, or came back, without a write."""
    return Served("b", instant, at_ms, {"rpm": 1_000 * tokens}, 1, None, None)


def first_write(**taken: int) -> Application:
    """The write that makes a bucket at 0 s, which has 10 tokens at most and gets one a second."""
    state = LimitState(RULE, 0, 1, 10_000, 0)
    change = Change(10_000, sum(taken.values()), 10_000, state, 10_000, 0, new=True)
    write = Application("b#0", 0, 0, 0, {"rpm": change}, moved=False, splits=False)
    write.confirmed, write.checked = True, taken
    return write


def test_prefetched_tokens_serve_until_their_end() -> None:
    bound = Bound(life_ms=2_000, burst=12_000, allowance_ms=0)
    fits = [held(at_ms=1_000, tokens=11)]
    check_interval("rpm", [first_write()], fits, bound)
    with pytest.raises(Violation, match="1000 millitokens of rpm more than the lowered ceiling allows"):
        check_interval("rpm", [first_write()], [*fits, held(at_ms=1_000, tokens=1)], bound)


def test_the_declared_burst_holds_whatever_the_bucket_has_for_its_ceiling() -> None:
    told = [held(at_ms=60_000, tokens=10), held(at_ms=60_000, tokens=2)]
    check_interval("rpm", [first_write()], told, Bound(life_ms=2_000, burst=12_000, allowance_ms=0))
    with pytest.raises(Violation, match="2000 millitokens of rpm more than the declared burst allows"):
        check_interval("rpm", [first_write()], told, Bound(life_ms=2_000, burst=10_000, allowance_ms=0))


def test_what_a_lease_gave_back_may_be_served_again_for_as_long_as_tokens_are_held() -> None:
    bound = Bound(life_ms=2_000, burst=12_000, allowance_ms=0)
    taken = [held(at_ms=50_000, tokens=5), held(at_ms=59_000, tokens=-5), held(at_ms=60_000, tokens=17)]
    check_interval("rpm", [first_write()], taken, bound)
    with pytest.raises(Violation, match="5000 millitokens"):
        check_interval("rpm", [first_write()], [*taken[:1], held(at_ms=57_999, tokens=-5), taken[2]], bound)


def test_a_bucket_counts_what_was_served_between_its_writes() -> None:
    write = first_write(rpm=3_000)
    check_usage([write], [], acquires=0)
    with pytest.raises(Violation, match="counts 3000 millitokens of rpm, and 4000 were admitted"):
        check_usage([write], [held(at_ms=0, tokens=1)], acquires=1)
    with pytest.raises(Violation, match="counts 1 acquires, and 0 were admitted"):
        check_usage([write], [], acquires=1)


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
