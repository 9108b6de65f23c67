"""What a commit does at a limit's ceiling, where overflow has to be forgotten, alone and among others."""

import pytest

from support.core.commits import applied_to, run, table_of, verdicts
from support.core.plays import MINUTE, RPM, bucket_item, stage
from zae_limiter.flows.bucket.group_commit import commit
from zae_limiter.flows.steps import play
from zae_limiter.operations.errors import ConditionFailed
from zae_limiter.operations.values import Get, Update
from zae_limiter.values.limits import Limit

CEILING = RPM.ceiling_milli


def test_alone_the_ceiling_is_set_without_slack() -> None:
    it = stage()
    it.sees(bucket_item({RPM: CEILING}))
    true = bucket_item({RPM: CEILING - 500}, writes=1)  # a clock's difference: nobody else wrote
    request = it.request(RPM, checked={"rpm": 2000})
    steps = run(it, [request], ConditionFailed(true), applied_to(true))
    assert isinstance(steps[0], Update)
    assert steps[0].set["b_rpm_tk"] == CEILING - 2000
    assert isinstance(steps[1], Update)
    assert steps[1].add["b_rpm_tk"] == -2000


def test_an_upper_bound_that_failed_while_others_are_active_is_answered_with_slack() -> None:
    it = stage()
    item = it.sees_others(bucket_item({RPM: 30_000}))
    true = item | {"b_rpm_tk": CEILING - 100 + 200}
    it.clock.advance(ms=100)
    request = it.request(RPM, checked={"rpm": 2000})
    steps = run(it, [request], ConditionFailed(true), applied_to(true))
    assert isinstance(steps[1], Update)
    slack = CEILING // 20
    assert steps[1].when.at_least == {"b_rpm_tk": CEILING - slack - 100}
    assert steps[1].set["b_rpm_tk"] == CEILING - slack - 100 - 2000
    assert verdicts(request) == ["admitted"]


def test_the_slack_leaves_room_for_a_request_of_nearly_everything() -> None:
    it = stage()
    item = it.sees_others(bucket_item({RPM: 59_500}))
    true = item | {"b_rpm_tk": CEILING + 200}
    request = it.request(RPM, checked={"rpm": 59_000})
    steps = run(it, [request], ConditionFailed(true), applied_to(true))
    assert isinstance(steps[1], Update)
    assert steps[1].when.at_least == {"b_rpm_tk": 59_000}


def test_alone_an_upper_bound_that_failed_is_answered_without_slack() -> None:
    it = stage()
    it.sees(bucket_item({RPM: 30_000}))
    true = bucket_item({RPM: CEILING + 200})
    request = it.request(RPM, checked={"rpm": 2000})
    steps = run(it, [request], ConditionFailed(true), applied_to(true))
    assert isinstance(steps[1], Update)
    assert steps[1].set["b_rpm_tk"] == CEILING - 2000


@pytest.mark.parametrize(("consumed_per_minute", "row"), [(20, "SET"), (30, "ADD")])
def test_with_others_the_ceiling_is_written_below_where_much_of_what_is_minted_is_consumed(
    consumed_per_minute: int, row: str
) -> None:
    it = stage()
    item = it.sees_others(bucket_item({RPM: CEILING}))
    for _ in range(20):
        it.clock.advance(ms=MINUTE)
        item = item | {
            "b_rpm_tc": item["b_rpm_tc"] + consumed_per_minute * 1000,
            "b_wcu_tc": item["b_wcu_tc"] + 9000,
        }
        it.sees(item)
    it.clock.advance(ms=MINUTE)
    step = next(commit(it.namespace_state, it.cached, [it.request(RPM, checked={"rpm": 1000})]))
    assert isinstance(step, Update)
    assert ("SET" if "b_rpm_tk" in step.set else "ADD") == row


# the trap: whoever consumes at the ceiling forgets what overflowed


@pytest.mark.parametrize("idle_ms", [0, MINUTE, 60 * MINUTE])
def test_an_idle_bucket_of_a_hundred_gives_a_hundred_and_what_is_minted_not_two_hundred(idle_ms: int) -> None:
    limit = Limit.per_minute("rpm", 100)
    it = stage(staleness_ms=0)
    table = table_of(bucket_item({limit: 100_000}))
    it.sees(table.execute(Get(it.cached.key)))
    it.clock.advance(ms=idle_ms)
    admitted = 0
    for _ in range(400):
        request = it.request(limit, checked={"rpm": 1000})
        play(commit(it.namespace_state, it.cached, [request]), table.execute)
        admitted += verdicts(request) == ["admitted"]
        it.clock.advance(ms=10)
    minted = limit.refill_amount * 400 * 10 // 60_000
    assert 100 + minted - 1 <= admitted <= 100 + minted
