import pytest

from support.core.commits import applied_to, kinds, run, table_of, verdicts
from support.core.plays import MINUTE, NOW, RPM, bucket_item, stage
from zae_limiter.flows.bucket.group_commit import commit
from zae_limiter.flows.retry import ATTEMPTS, PAUSES, RaceLost
from zae_limiter.flows.steps import Sleep, Step, play
from zae_limiter.operations.errors import ConditionFailed, NotApplied, OutcomeUnknown, Throttled
from zae_limiter.operations.values import Get, Put, Update
from zae_limiter.values.limits import Limit
from zae_limiter.values.resolution import Config

CEILING = RPM.ceiling_milli
TPM = Limit.per_minute("tpm", 60)


def test_one_write_admits_and_its_answer_is_the_new_copy() -> None:
    it = stage()
    item = bucket_item({RPM: 5000})
    it.sees(item)
    request = it.request(RPM, checked={"rpm": 2000})
    steps = run(it, [request], applied_to(item))
    assert kinds(steps) == ["Update"]
    assert verdicts(request) == ["admitted"]
    assert it.cached.state is not None
    assert it.cached.state.tokens_milli("rpm") == 3000


def test_a_lost_race_is_decided_again_from_the_true_state() -> None:
    it = stage()
    it.sees(bucket_item({RPM: 5000}))
    true = bucket_item({RPM: 3000}, writes=4)
    request = it.request(RPM, checked={"rpm": 2000})
    steps = run(it, [request], ConditionFailed(true), applied_to(true))
    assert kinds(steps) == ["Update", "Update"]
    assert verdicts(request) == ["admitted"]


def test_who_was_blocked_in_the_queue_is_refused_without_a_request_and_the_others_are_served() -> None:
    it = stage()
    item = bucket_item({RPM: 5000})
    it.sees(item)
    blocked, other = it.request(RPM, checked={"rpm": 1000}), it.request(RPM, checked={"rpm": 2000})
    blocked.blocked = True
    assert run(it, [blocked]) == []
    assert verdicts(blocked) == ["refused"]
    blocked.outcome = None
    assert kinds(run(it, [blocked, other], applied_to(item))) == ["Update"]
    assert verdicts(blocked, other) == ["refused", "admitted"]


def test_a_refused_one_blocks_those_that_came_into_the_queue_meanwhile() -> None:
    it = stage()
    it.sees(bucket_item({RPM: 5000}))
    first, second = it.request(RPM, checked={"rpm": 4000}), it.request(RPM, checked={"rpm": 1000})
    first.turn, second.turn = (1, 1), (2, 2)
    it.cached.queue.waiting[second] = None
    run(it, [first], ConditionFailed(bucket_item({RPM: 2000}, writes=4)))
    assert verdicts(first) == ["refused"]
    assert second.blocked


def test_who_does_not_fit_the_true_state_is_refused_with_it_and_not_asked_for_again() -> None:
    it = stage()
    it.sees(bucket_item({RPM: 5000}))
    request = it.request(RPM, checked={"rpm": 2000})
    steps = run(it, [request], ConditionFailed(bucket_item({RPM: 1999}, writes=4)))
    assert kinds(steps) == ["Update"]
    assert verdicts(request) == ["refused"]
    assert request.outcome is not None
    assert request.outcome.left == {"rpm": 1999}
    assert request.outcome.at_ms == NOW


def test_only_what_fitted_the_true_state_is_written_again() -> None:
    it = stage()
    it.sees(bucket_item({RPM: 9000}))
    true = bucket_item({RPM: 3000}, writes=4)
    small, big = it.request(RPM, checked={"rpm": 2000}), it.request(RPM, checked={"rpm": 5000})
    steps = run(it, [big, small], ConditionFailed(true), applied_to(true))
    assert isinstance(steps[1], Update)
    assert steps[1].add["b_rpm_tk"] == -2000
    assert verdicts(big, small) == ["refused", "admitted"]


def test_two_whose_counts_cancel_out_are_written_all_the_same() -> None:
    it = stage()
    item = bucket_item({RPM: 0})
    it.sees(item)
    short, back = it.request(RPM), it.request(events=0)
    short.shadow_amounts, back.count_only = {"rpm": 1000}, {"rpm": -1000}
    it.clock.advance(seconds=0.5)
    steps = run(it, [short, back], applied_to(item))
    assert kinds(steps) == ["Update"]
    assert isinstance(steps[0], Update)
    assert steps[0].add.items() >= {"ev": 1, "sj": 1}.items()
    assert not {"b_rpm_tk", "b_rpm_tc"} & steps[0].add.keys()
    assert short.not_taken == {"rpm": 1000}


def test_what_did_not_fit_is_judged_at_the_instant_of_the_failed_write_not_later() -> None:
    it = stage()
    it.sees(bucket_item({RPM: 5000}))
    request = it.request(RPM, checked={"rpm": 2000})

    flow = commit(it.namespace_state, it.cached, [request])
    next(flow)
    it.clock.advance(seconds=30)  # by now it would fit
    with pytest.raises(StopIteration):
        flow.throw(ConditionFailed(bucket_item({RPM: 0}, writes=4)))
    assert verdicts(request) == ["refused"]
    assert request.outcome is not None
    assert request.outcome.at_ms == NOW


def test_a_moved_anchor_is_a_lost_race() -> None:
    it = stage()
    it.sees(bucket_item({RPM: 5000}, rf=NOW - MINUTE))
    true = bucket_item({RPM: 50_000}, rf=NOW - 1, writes=4)
    request = it.request(RPM, checked={"rpm": 2000})
    steps = run(it, [request], ConditionFailed(true), applied_to(true))
    assert isinstance(steps[1], Update)
    assert steps[1].when.equals == {"rf": NOW - 1}
    assert verdicts(request) == ["admitted"]


def test_an_expired_bucket_is_made_again() -> None:
    it = stage()
    it.sees(bucket_item({RPM: 5000}))
    request = it.request(RPM, checked={"rpm": 2000})
    steps = run(it, [request], ConditionFailed(None), None)
    assert kinds(steps) == ["Update", "Put"]
    assert isinstance(steps[1], Put)
    assert steps[1].item["b_rpm_tk"] == CEILING - 2000
    assert verdicts(request) == ["admitted"]


def test_a_bucket_that_another_process_made_first_is_written_to() -> None:
    it = stage()
    it.sees(None)
    true = bucket_item({RPM: 30_000})
    request = it.request(RPM, checked={"rpm": 2000})
    steps = run(it, [request], ConditionFailed(true), applied_to(true))
    assert kinds(steps) == ["Put", "Update"]
    assert verdicts(request) == ["admitted"]


# a store that does not do as it is asked


def test_throttling_pauses_and_decides_again_at_the_later_instant() -> None:
    it = stage()
    item = bucket_item({RPM: 5000})
    it.sees(item)
    request = it.request(RPM, checked={"rpm": 2000})

    def slept(_: Step) -> None:
        it.clock.advance(seconds=1)

    steps = run(it, [request], Throttled(), slept, applied_to(item))
    assert kinds(steps) == ["Update", "Sleep", "Update"]
    assert isinstance(steps[2], Update)
    assert steps[2].when.at_most == {"b_rpm_tk": CEILING - 1000}
    assert verdicts(request) == ["admitted"]


def test_throttling_without_an_end_fails_after_pauses_that_grow() -> None:
    it = stage()
    it.sees(bucket_item({RPM: 5000}))
    request = it.request(RPM, checked={"rpm": 2000})
    error = Throttled()
    replies = [reply for _ in PAUSES for reply in (error, None)]
    steps = run(it, [request], *replies, error)
    assert [step.seconds for step in steps if isinstance(step, Sleep)] == sorted(PAUSES)
    assert verdicts(request) == ["failed"]
    assert request.outcome is not None
    assert request.outcome.error is error


@pytest.mark.parametrize("error", [OutcomeUnknown("lost"), NotApplied("refused")])
def test_a_write_that_may_have_been_applied_is_not_repeated(error: Exception) -> None:
    it = stage()
    it.sees(bucket_item({RPM: 5000}))
    requests = [it.request(RPM, checked={"rpm": 2000}), it.request(given={"rpm": 1000}, events=0)]
    steps = run(it, requests, error)
    assert kinds(steps) == ["Update"]
    assert verdicts(*requests) == ["failed", "failed"]


def test_who_loses_every_race_is_told_so() -> None:
    it = stage()
    it.sees(bucket_item({RPM: 5000}))
    states = [bucket_item({RPM: 5000 + n}, rf=NOW - n, writes=n) for n in range(1, ATTEMPTS + 1)]
    request = it.request(RPM, checked={"rpm": 2000})
    replies = [reply for state in states for reply in (ConditionFailed(state), None)]
    del replies[1], replies[-1]  # the second attempt follows at once, and nothing the last one
    steps = run(it, [request], *replies)
    assert kinds(steps) == ["Update", *["Update", "Sleep"] * (ATTEMPTS - 2), "Update"]
    assert verdicts(request) == ["failed"]
    assert request.outcome is not None
    assert isinstance(request.outcome.error, RaceLost)


def test_the_pauses_between_attempts_grow_and_add_up_to_less_than_a_second() -> None:
    it = stage()
    it.sees(bucket_item({RPM: 5000}))
    seconds: list[float] = []

    def store(step: Step) -> None:
        if not isinstance(step, Sleep):
            raise ConditionFailed(bucket_item({RPM: 5000}, rf=NOW - len(seconds) - 1, writes=len(seconds)))
        seconds.append(step.seconds)

    play(commit(it.namespace_state, it.cached, [it.request(RPM, checked={"rpm": 2000})]), store)
    assert seconds == sorted(seconds)
    assert len(seconds) == ATTEMPTS - 2
    assert 0 < seconds[0] < 0.01
    assert sum(seconds) < 1


# what is given back


def test_only_what_a_confirmed_write_took_is_given_back_and_once() -> None:
    it = stage()
    item = bucket_item({RPM: 5000})
    it.sees(item)
    admitted, refused, lost = (it.request(RPM, checked={"rpm": amount}) for amount in (2000, 9000, 1000))
    run(it, [admitted, refused], applied_to(item))
    run(it, [lost], OutcomeUnknown("lost"))
    assert [request.admitted for request in (admitted, refused, lost)] == [True, False, False]
    back = admitted.give_back()
    assert (back.given, back.checked, back.events) == ({"rpm": 2000}, {}, -1)
    assert not admitted.admitted
    assert [list(request.unwind()) for request in (refused, lost)] == [[], []]


def test_a_give_back_to_a_bucket_that_expired_writes_nothing() -> None:
    it = stage()
    it.sees(bucket_item({RPM: 5000}))
    back = it.request(given={"rpm": 2000}, events=0)
    assert kinds(run(it, [back], ConditionFailed(None))) == ["Update"]
    assert verdicts(back) == ["admitted"]
    unseen = it.request(given={"rpm": 2000}, events=0)
    assert kinds(run(it, [unseen], None)) == ["Get"]
    assert verdicts(unseen) == ["admitted"]


@pytest.mark.parametrize("looked", [True, False], ids=["absent when last seen", "never seen"])
def test_what_comes_back_to_a_bucket_that_is_there_reaches_it_though_it_was_not_seen(*, looked: bool) -> None:
    it = stage()
    if looked:
        it.sees(None)
    table = table_of(bucket_item({RPM: 5000}))
    back, beside = it.request(given={"rpm": 2000}, events=0), it.request(RPM, checked={"rpm": 0})
    assert kinds(run(it, [back, beside], table.execute, table.execute)) == ["Get", "Update"]
    assert verdicts(back, beside) == ["admitted", "admitted"]
    assert table.execute(Get(it.cached.key))["b_rpm_tk"] == 7000


def test_a_correction_of_a_limit_that_the_bucket_no_longer_has_is_dropped() -> None:
    it = stage()
    item = bucket_item({RPM: 5000})
    it.sees(item)
    back = it.request(given={"rpm": 1000, "gone": 2000}, events=0)
    look, update = run(it, [back], item, applied_to(item))
    assert isinstance(look, Get)
    assert isinstance(update, Update)
    assert update.when.exists == ("b_rpm_tk",)
    assert "b_gone_tk" not in update.add


def test_a_correction_of_a_limit_that_the_bucket_was_given_since_it_was_seen_reaches_it() -> None:
    it, tpm = stage(), Limit.per_minute("tpm", 60)
    it.sees(bucket_item({RPM: 5000}))
    table = table_of(bucket_item({RPM: 5000, tpm: 1000}, rf=NOW + 1))
    back = it.request(given={"tpm": 2000}, events=0)
    assert kinds(run(it, [back], table.execute, table.execute)) == ["Get", "Update"]
    assert table.execute(Get(it.cached.key))["b_tpm_tk"] == 3000


def test_nothing_is_asked_of_a_bucket_that_was_absent_long_ago_without_looking_for_a_debt() -> None:
    it = stage()
    it.sees(None)
    fresh, late = it.request(RPM, checked={"rpm": 0}), it.request(RPM, checked={"rpm": 0})
    assert run(it, [fresh]) == []
    it.clock.advance(seconds=2)
    assert kinds(run(it, [late], bucket_item({RPM: -5000}, rf=NOW + 2000))) == ["Get"]
    assert verdicts(fresh, late) == ["admitted", "refused"]


# refusals without a write


def test_a_fresh_copy_refuses_without_asking() -> None:
    it = stage()
    it.sees(bucket_item({RPM: 1000}))
    it.clock.advance(ms=999)
    request = it.request(RPM, checked={"rpm": 3000})
    assert run(it, [request]) == []
    assert verdicts(request) == ["refused"]


@pytest.mark.parametrize("others", [[], [1000]], ids=["alone", "beside one that fits"])
def test_a_fresh_copy_refuses_who_is_behind_a_refused_one_in_a_waiting_line(others: list[int]) -> None:
    it = stage()
    item = bucket_item({RPM: 2000})
    it.sees(item)
    first, second = it.request(RPM, checked={"rpm": 3000}), it.request(RPM, checked={"rpm": 1000})
    first.turn, second.turn = (1, 1), (2, 2)
    beside = [it.request(RPM, checked={"rpm": amount}) for amount in others]
    run(it, [first, second, *beside], *[applied_to(item)] * len(others))
    assert verdicts(first, second, *beside) == ["refused", "refused", *["admitted"] * len(others)]


def test_an_old_copy_asks_the_store() -> None:
    it = stage()
    it.sees(bucket_item({RPM: 1000}))
    it.clock.advance(ms=1000)
    true = bucket_item({RPM: 30_000}, writes=4)  # another process gave tokens back
    request = it.request(RPM, checked={"rpm": 3000})
    assert kinds(run(it, [request], ConditionFailed(true), applied_to(true)))[0] == "Update"
    assert verdicts(request) == ["admitted"]


def test_without_staleness_every_refusal_is_the_stores() -> None:
    it = stage(staleness_ms=0)
    item = bucket_item({RPM: 1000})
    it.sees(item)
    request = it.request(RPM, checked={"rpm": 3000})
    assert kinds(run(it, [request], ConditionFailed(item))) == ["Update"]
    assert verdicts(request) == ["refused"]


def test_what_is_above_the_ceiling_is_refused_by_a_fresh_copy_or_a_read() -> None:
    it = stage()
    item = bucket_item({RPM: CEILING})
    it.sees(item)
    fresh = it.request(RPM, checked={"rpm": CEILING + 1000})
    assert run(it, [fresh]) == []
    it.clock.advance(seconds=3600)
    old = it.request(RPM, checked={"rpm": CEILING + 1000})
    assert kinds(run(it, [old], item)) == ["Get"]  # the limit may have been raised since
    assert verdicts(fresh, old) == ["refused", "refused"]


def test_an_amount_of_zero_writes_nothing() -> None:
    it = stage()
    item = bucket_item({RPM: 0})
    it.sees(item)
    fresh = it.request(RPM, checked={"rpm": 0}, events=0)
    assert run(it, [fresh]) == []
    it.clock.advance(seconds=5)
    old = it.request(RPM, checked={"rpm": 0}, events=0)
    assert kinds(run(it, [old], item)) == ["Get"]
    assert verdicts(fresh, old) == ["admitted", "admitted"]


def test_an_amount_of_zero_is_refused_in_debt() -> None:
    it = stage()
    it.sees(bucket_item({RPM: 0}))
    it.clock.advance(seconds=5)
    request = it.request(RPM, checked={"rpm": 0}, events=0)
    steps = run(it, [request], bucket_item({RPM: -90_000}, writes=4))
    assert isinstance(steps[0], Get)
    assert verdicts(request) == ["refused"]


# the shape


def test_an_entry_of_a_limit_that_the_bucket_has_not_and_whose_config_is_older_is_outdated() -> None:
    it = stage()
    it.sees(bucket_item({RPM: 5000}, cv=NOW))
    request = it.request(config=Config((Limit.per_minute("tpm", 10),), NOW - 1), checked={"tpm": 1000})
    assert run(it, [request]) == []
    assert verdicts(request) == ["outdated"]


@pytest.mark.parametrize("order", [1, -1])
def test_what_goes_by_limits_of_before_a_change_is_outdated_beside_what_goes_by_the_new_ones(order: int) -> None:
    it = stage()
    item = bucket_item({RPM: 5000}, cv=NOW)
    it.sees(item)
    old, new = (it.request(config=Config((RPM,), read_at), checked={"rpm": 1000}) for read_at in (NOW - 1, NOW + 1))
    steps = run(it, [old, new][::order], applied_to(item))
    assert kinds(steps) == ["Update"]
    assert verdicts(old, new) == ["outdated", "admitted"]


def test_a_reshape_that_lost_its_race_to_a_newer_config_has_its_limits_read_again() -> None:
    it = stage()
    it.sees(bucket_item({RPM: 5000}, rf=NOW - 1))
    newer = Limit.per_minute("rpm", 30)
    true = bucket_item({newer: 5000}, rf=NOW, cv=NOW + 5, writes=4)
    request = it.request(config=Config((Limit.per_minute("rpm", 120),), NOW), checked={"rpm": 1000})
    [step] = run(it, [request], ConditionFailed(true))
    assert isinstance(step, Update)
    assert step.set["rf"] == NOW
    assert verdicts(request) == ["outdated"]


def test_an_anchor_that_moved_without_a_newer_config_is_followed() -> None:
    it = stage()
    it.sees(bucket_item({RPM: 5000}, rf=NOW - 1))
    true = bucket_item({RPM: 5000}, rf=NOW, writes=4)
    request = it.request(RPM, checked={"rpm": 1000})
    assert kinds(run(it, [request], ConditionFailed(true), applied_to(true))) == ["Update", "Update"]
    assert verdicts(request) == ["admitted"]


def test_a_give_back_needs_no_newer_limits() -> None:
    it = stage()
    it.sees(bucket_item({RPM: 5000}, cv=NOW + 5))
    request = it.request(RPM, given={"rpm": 1000}, events=0)
    assert kinds(run(it, [request], applied_to(bucket_item({RPM: 5000}, cv=NOW + 5)))) == ["Update"]
    assert verdicts(request) == ["admitted"]


def test_who_is_too_big_for_the_new_shape_is_refused_and_the_shape_stays_new() -> None:
    it = stage()
    item = bucket_item({RPM: 50_000}, rf=NOW - 1)
    it.sees(item)
    request = it.request(config=Config((Limit.per_minute("rpm", 30),), NOW), checked={"rpm": 40_000})
    steps = run(it, [request], applied_to(item))
    assert kinds(steps) == ["Update"]
    assert verdicts(request) == ["refused"]
    assert it.cached.state is not None
    assert it.cached.state.tokens_milli("rpm") == 30_000


# ttl


def test_a_ttl_that_others_made_too_early_is_written_again() -> None:
    it = stage()
    seen = it.sees_others(bucket_item({RPM: 5000}, ttl=NOW // 1000 + 70))
    true = seen | {"b_rpm_tk": -600_000, "b_rpm_tc": 700_000, "b_wcu_tc": seen["b_wcu_tc"] + 1000}
    adjust = it.request(RPM, unchecked={"rpm": 1000}, events=0)
    answer = applied_to(true)
    steps = run(it, [adjust], answer, answer)
    assert kinds(steps) == ["Update", "Update"]
    assert isinstance(steps[1], Update)
    assert set(steps[1].set) == {"ttl"}
    assert steps[1].set["ttl"] >= NOW // 1000 + 60 + 7 * 661
    assert verdicts(adjust) == ["admitted"]


def test_so_it_is_after_an_acquire_of_another_limit() -> None:
    it = stage()
    seen = it.sees_others(bucket_item({RPM: 5000, TPM: 5000}, ttl=NOW // 1000 + 70))
    true = seen | {"b_tpm_tk": -600_000, "b_tpm_tc": 700_000, "b_wcu_tc": seen["b_wcu_tc"] + 1000}
    acquire = it.request(RPM, TPM, checked={"rpm": 1000})
    answer = applied_to(true)
    steps = run(it, [acquire], answer, answer)
    assert kinds(steps) == ["Update", "Update"]
    assert isinstance(steps[1], Update)
    assert set(steps[1].set) == {"ttl"}
    assert steps[1].set["ttl"] >= NOW // 1000 + 60 + 7 * 601
    assert verdicts(acquire) == ["admitted"]
