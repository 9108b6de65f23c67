"""What is written: each row of the table in "The write", as the first thing that a commit asks for."""

from collections.abc import Mapping
from typing import Any

import pytest

from support.core.plays import MINUTE, NOW, RPM, Stage, bucket_item, stage
from zae_limiter.flows.bucket.group_commit import commit
from zae_limiter.flows.bucket_queue import BucketRequest, RefusalCount
from zae_limiter.operations.values import Conditions, Put, Update
from zae_limiter.schema.writing import rule_attributes
from zae_limiter.values.limits import Limit
from zae_limiter.values.resolution import Config

TPM = Limit.per_minute("tpm", 6000, burst=9000)
CEILING = RPM.ceiling_milli


def first_write(of: Stage, *requests: BucketRequest) -> Update:
    write = next(commit(of.namespace_state, of.cached, list(requests)))
    assert isinstance(write, Update)
    assert write.key == of.cached.key
    return write


def counters(**amounts: int) -> dict[str, int]:
    return {**amounts, "b_wcu_tc": 1000}


def ttl(deficit_seconds: int, *, now_ms: int = NOW, multiplier: int = 7) -> int:
    return now_ms // 1000 + 60 + multiplier * deficit_seconds


def at(tokens: Mapping[Limit, int], *, elapsed_ms: int, **item: Any) -> Stage:
    """A process that has just seen such a bucket, so long after its anchor."""
    it = stage()
    it.sees(bucket_item(tokens, rf=NOW - elapsed_ms, **item))
    return it


def test_row_add_takes_between_the_cost_and_the_ceiling_as_of_the_anchor() -> None:
    it = at({RPM: 5000}, elapsed_ms=10_000)  # ten tokens minted since
    write = first_write(it, it.request(RPM, checked={"rpm": 2000}))
    assert write.when == Conditions(
        absent=("ttl",),
        equals={"rf": NOW - 10_000},
        at_least={"b_rpm_tk": 2000 - 10_000},
        at_most={"b_rpm_tk": CEILING - 10_000},
    )
    assert write.add == counters(b_rpm_tk=-2000, b_rpm_tc=2000, ev=1)
    assert write.set == {"ttl": ttl(60)}


def test_an_absolute_write_at_the_ceiling_forgets_what_overflowed() -> None:
    it = at({RPM: 50_000}, elapsed_ms=MINUTE)
    write = first_write(it, it.request(RPM, checked={"rpm": 2000}))
    assert write.when == Conditions(
        absent=("ttl",), equals={"rf": NOW - MINUTE}, at_least={"b_rpm_tk": CEILING - MINUTE}
    )
    assert write.set == {"b_rpm_tk": CEILING - MINUTE - 2000, "ttl": ttl(60)}
    assert write.add == counters(b_rpm_tc=2000, ev=1)


def test_the_ttl_is_never_sooner_than_was_seen_nor_than_somebody_wants_who_was_not_seen() -> None:
    soon, late = NOW // 1000 + 100, NOW // 1000 + 10_000
    for seen, wanted in ((soon, ttl(60)), (late, late)):
        it = at({RPM: 5000}, elapsed_ms=0, ttl=seen)
        write = first_write(it, it.request(RPM, unchecked={"rpm": 1000}, events=0))
        assert (write.set, write.when.at_most["ttl"]) == ({"ttl": wanted}, wanted + 5)


def test_a_minting_that_is_negative_counts_as_it_is() -> None:
    it = at({RPM: 60_000}, elapsed_ms=-5000)  # the anchor was set by a clock that is ahead
    write = first_write(it, it.request(RPM, checked={"rpm": 2000}))
    assert (write.when.at_least, write.when.at_most) == ({"b_rpm_tk": 2000 + 5000}, {"b_rpm_tk": CEILING + 5000})


def test_an_adjust_has_no_lower_bound_and_goes_into_debt() -> None:
    it = at({RPM: 0}, elapsed_ms=1000)
    write = first_write(it, it.request(RPM, unchecked={"rpm": 90_000}, events=0))
    assert write.when == Conditions(absent=("ttl",), equals={"rf": NOW - 1000}, at_most={"b_rpm_tk": CEILING - 1000})
    assert write.add == counters(b_rpm_tk=-90_000, b_rpm_tc=90_000)


def test_an_adjust_at_the_ceiling_forgets_what_overflowed_too() -> None:
    it = at({RPM: 60_000}, elapsed_ms=30_000)
    write = first_write(it, it.request(RPM, unchecked={"rpm": 90_000}, events=0))
    assert write.when.at_least == {"b_rpm_tk": CEILING - 30_000}
    assert write.set["b_rpm_tk"] == CEILING - 30_000 - 90_000


@pytest.mark.parametrize("elapsed_ms", [1000, 10 * MINUTE])
def test_give_backs_alone_ask_only_that_the_balance_is_there_and_not_split_since(elapsed_ms: int) -> None:
    it = at({RPM: 5000}, elapsed_ms=elapsed_ms)
    write = first_write(it, it.request(given={"rpm": 3000}, events=-1))
    assert write.when == Conditions(exists=("b_rpm_tk",), equals={"shard_count": 1})
    assert write.add == counters(b_rpm_tk=3000, b_rpm_tc=-3000, ev=-1)
    assert write.set == {}


def test_what_is_given_back_lowers_the_bound_for_those_who_ask_beside_it() -> None:
    it = at({RPM: 1000}, elapsed_ms=0)
    write = first_write(it, it.request(RPM, checked={"rpm": 3000}), it.request(given={"rpm": 4000}, events=0))
    assert write.when.at_least == {"b_rpm_tk": 3000 - 4000}
    assert write.when.at_most == {"b_rpm_tk": CEILING}
    assert write.add == counters(b_rpm_tk=1000, b_rpm_tc=-1000, ev=1)


def test_several_entries_are_one_write() -> None:
    it = at({RPM: 30_000}, elapsed_ms=0)
    requests = [it.request(RPM, checked={"rpm": 2000}) for _ in range(5)]
    write = first_write(it, *requests)
    assert write.when.at_least == {"b_rpm_tk": 10_000}
    assert write.add == counters(b_rpm_tk=-10_000, b_rpm_tc=10_000, ev=5)


def test_each_limit_stands_in_a_row_of_its_own() -> None:
    it = at({RPM: 1000, TPM: 9_000_000}, elapsed_ms=1000)
    write = first_write(it, it.request(RPM, TPM, checked={"rpm": 1000, "tpm": 500_000}))
    assert write.when == Conditions(
        absent=("ttl",),
        equals={"rf": NOW - 1000},
        at_least={"b_rpm_tk": 1000 - 1000, "b_tpm_tk": 9_000_000 - 100_000},
        at_most={"b_rpm_tk": CEILING - 1000},
    )
    assert write.add == counters(b_rpm_tk=-1000, b_rpm_tc=1000, b_tpm_tc=500_000, ev=1)
    assert write.set["b_tpm_tk"] == 9_000_000 - 100_000 - 500_000


def test_a_limit_that_nobody_asks_of_is_left_alone() -> None:
    it = at({RPM: 1000, TPM: 9_000_000}, elapsed_ms=1000)
    write = first_write(it, it.request(RPM, TPM, checked={"rpm": 1000}))
    touched = {*write.add, *write.set, *write.when.at_least, *write.when.at_most}
    assert not any("tpm" in name for name in touched)


def test_an_amount_of_zero_beside_another_asks_that_the_limit_is_not_in_debt() -> None:
    it = at({RPM: 1000, TPM: 0}, elapsed_ms=1000)
    write = first_write(it, it.request(RPM, TPM, checked={"rpm": 1000, "tpm": 0}))
    assert write.when.at_least["b_tpm_tk"] == -100_000
    assert not {"b_tpm_tk", "b_tpm_tc"} & {*write.add, *write.set}


def test_a_bucket_of_an_entitys_own_limits_never_expires() -> None:
    it = at({RPM: 5000}, elapsed_ms=0, ttl=NOW // 1000 + 9)
    write = first_write(it, it.request(config=Config((RPM,), 0, own=True), checked={"rpm": 1000}))
    assert (write.set, write.remove) == ({}, ("ttl",))


def test_nor_does_one_that_is_split_or_whose_multiplier_is_zero() -> None:
    it = stage(ttl_multiplier=0)
    it.sees(bucket_item({RPM: 5000}))
    write = first_write(it, it.request(RPM, checked={"rpm": 1000}))
    assert (write.set, write.remove) == ({}, ())
    split = at({RPM: 5000}, elapsed_ms=0, shard_count=2)
    assert "ttl" not in first_write(split, split.request(RPM, checked={"rpm": 1000})).set


def test_a_missing_bucket_is_made_full_but_for_what_is_taken() -> None:
    it = stage()
    it.sees(None)
    it.cached.parent_link = {"cascade": True, "parent_id": "p"}
    put = next(
        commit(it.namespace_state, it.cached, [it.request(config=Config((RPM, TPM), 77), checked={"rpm": 2000})])
    )
    assert isinstance(put, Put)
    assert put.when == Conditions(absent=("PK",))
    expected = bucket_item({RPM: CEILING - 2000, TPM: 9_000_000}, rf=NOW, cv=77, ttl=ttl(2))
    assert put.item == expected | {"b_rpm_tc": 2000, "cascade": True, "parent_id": "p"}


RAISED, LOWERED = Limit.per_minute("rpm", 120), Limit.per_minute("rpm", 30)


def reshape(it: Stage, *limits: Limit, read_at_ms: int = NOW, **checked: int) -> Update:
    request = it.request(config=Config(limits, read_at_ms), checked=checked)
    return first_write(it, request)


def test_a_raised_limit_keeps_the_tokens_and_gets_the_rate_from_now_on() -> None:
    it = at({RPM: 5000}, elapsed_ms=10_000)
    write = reshape(it, RAISED, rpm=2000)
    assert write.when == Conditions(
        absent=("ttl",),
        equals={"rf": NOW - 10_000},
        at_least={"b_rpm_tk": 2000 - 10_000},
        at_most={"b_rpm_tk": CEILING - 10_000},
    )
    assert write.add == counters(b_rpm_tk=10_000 - 2000, b_rpm_tc=2000, ev=1)
    assert write.set == {
        **rule_attributes(RAISED),
        "rf": NOW,
        "cv": NOW,
        "ttl": ttl(60),
    }


def test_a_raised_limit_that_was_full_has_what_the_old_ceiling_held() -> None:
    write = reshape(at({RPM: 60_000}, elapsed_ms=10_000), RAISED, rpm=2000)
    assert write.when.at_least == {"b_rpm_tk": CEILING - 10_000}
    assert write.set["b_rpm_tk"] == CEILING - 2000


def test_a_lowered_limit_has_at_most_the_new_ceiling() -> None:
    write = reshape(at({RPM: 40_000}, elapsed_ms=10_000), LOWERED, rpm=2000)
    assert write.when.at_least == {"b_rpm_tk": 30_000 - 10_000}
    assert write.set["b_rpm_tk"] == 30_000 - 2000


def test_the_new_anchor_is_later_than_the_old_one_whatever_the_clock_says() -> None:
    it = at({RPM: 5000}, elapsed_ms=-3000)
    write = reshape(it, RAISED, rpm=2000)
    assert write.set["rf"] == NOW + 3000 + 1
    assert write.add["b_rpm_tk"] == 1 - 2000  # a millisecond mints one millitoken


def test_a_limit_that_is_new_to_the_bucket_starts_full() -> None:
    write = reshape(at({RPM: 5000}, elapsed_ms=10_000), RPM, TPM, rpm=1000, tpm=700_000)
    assert write.when.absent == ("b_tpm_tk", "ttl")
    assert write.set["b_tpm_tk"] == 9_000_000 - 700_000
    assert {**write.add, **write.set}["b_tpm_tc"] == 700_000
    assert {name: write.set[name] for name in rule_attributes(TPM)} == rule_attributes(TPM)
    assert write.add["b_rpm_tk"] == 10_000 - 1000


def test_a_limit_that_the_config_has_not_moves_to_the_new_anchor_and_keeps_its_rule() -> None:
    it = at({RPM: 5000, TPM: 1_000_000}, elapsed_ms=10_000)
    write = reshape(it, RAISED, rpm=1000)
    assert write.add["b_tpm_tk"] == 10_000 * 100  # what was minted until then
    assert "b_tpm_tc" not in write.add
    assert not {*rule_attributes(TPM)} & {*write.set, *write.remove}


def test_a_burst_that_is_no_longer_above_the_capacity_is_removed() -> None:
    write = reshape(at({TPM: 1_000_000}, elapsed_ms=0), Limit.per_minute("tpm", 6000), tpm=1000)
    assert write.remove == ("b_tpm_bx",)


def test_a_config_that_was_read_with_that_of_the_shape_leaves_the_shape_as_it_is() -> None:
    it = at({RPM: 5000}, elapsed_ms=10_000, cv=NOW)
    write = reshape(it, RAISED, read_at_ms=NOW, rpm=1000)
    assert "rf" not in write.set
    assert write.when.at_most == {"b_rpm_tk": CEILING - 10_000}


def test_a_bucket_with_more_limits_than_the_config_is_left_as_it_is() -> None:
    it = at({RPM: 5000, TPM: 1_000_000}, elapsed_ms=10_000)
    assert "rf" not in reshape(it, RPM, rpm=1000).set


def test_corrections_alone_do_not_reshape() -> None:
    it = at({RPM: 5000}, elapsed_ms=10_000)
    request = it.request(config=Config((RAISED,), NOW), unchecked={"rpm": 1000}, events=0)
    assert "rf" not in first_write(it, request).set


def test_each_write_of_a_bucket_that_is_there_takes_its_refusals_once() -> None:
    reshaped = Limit.per_minute("rpm", 90)
    requests: list[dict[str, Any]] = [
        {"checked": {"rpm": 1000}},
        {"given": {"rpm": 1000}},
        {"unchecked": {"rpm": 1000}},
    ]
    for limit, amounts in [*((RPM, each) for each in requests), (reshaped, requests[0])]:
        it = at({RPM: 30_000}, elapsed_ms=0)
        for _ in range(2):
            it.namespace_state.refusals.add(it.cached, NOW)
        config = Config((limit,), 1)
        assert first_write(it, it.request(config=config, **amounts)).add["rj"] == 2
        assert "rj" not in first_write(it, it.request(config=config, **amounts)).add


def test_a_new_bucket_leaves_them_to_its_next_write() -> None:
    it = stage()
    it.sees(None)
    it.namespace_state.refusals.add(it.cached, NOW)
    create = next(commit(it.namespace_state, it.cached, [it.request(RPM, checked={"rpm": 1000})]))
    assert isinstance(create, Put)
    assert "rj" not in create.item
    assert it.namespace_state.refusals.take(it.cached) == {"rj": 1}


def test_a_write_for_the_sake_of_refusals_touches_only_counts_of_a_bucket_that_is_there() -> None:
    it = at({RPM: 0}, elapsed_ms=0, ttl=NOW // 1000)
    it.namespace_state.refusals.add(it.cached, NOW)
    write = first_write(it, RefusalCount(it.cached.queue))
    assert (write.add, write.set, write.remove) == (counters(rj=1), {}, ())
    assert write.when == Conditions(equals={"shard_count": 1})


def test_it_is_not_sent_where_another_write_has_taken_them_or_there_is_no_bucket() -> None:
    for of in (at({RPM: 0}, elapsed_ms=0), stage()):
        if of.cached.state is None:
            of.namespace_state.refusals.add(of.cached, NOW)
        request = RefusalCount(of.cached.queue)
        assert list(commit(of.namespace_state, of.cached, [request])) == []
        assert request.admitted
