"""The difference of two images of a bucket."""

from dataclasses import fields
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zae_limiter.schema.attributes import COUNTERS, TOTALS, refused_by
from zae_limiter.schema.changes import Consumption, consumption, writes
from zae_limiter.values.naming import RESERVED_LIMIT_NAMES
from zae_limiter.values.usage import EntityUsage, Refuser, UsageSnapshot, UsageSummary

OF_RPM, OF_TPM = (refused_by(Refuser("org/7", limit)) for limit in ("rpm", "tpm"))


def image(**totals: int) -> dict[str, Any]:
    return {"PK": "ns/BUCKET#e#r#0", "rf": 1, "b_rpm_tk": 5, "b_rpm_cp": 9, **totals}


def test_what_is_new_was_all_consumed() -> None:
    new = image(b_rpm_tc=3000, b_tpm_tc=0, ev=1, b_wcu_tc=1000)
    assert consumption(None, new) == Consumption({"rpm": 3}, {"ev": 1})
    assert writes(None, new) == 1


def test_what_was_given_back_counts_less() -> None:
    assert consumption(image(b_rpm_tc=3000, ev=2), image(b_rpm_tc=1000, ev=1)) == Consumption({"rpm": -2}, {"ev": -1})


def test_a_limit_that_is_new_to_the_item_was_not_consumed_before() -> None:
    assert consumption(image(b_rpm_tc=3000), image(b_rpm_tc=3000, b_tpm_tc=7000)) == Consumption({"tpm": 7})


def test_a_part_of_a_token_is_counted_in_thousandths() -> None:
    assert consumption(None, image(b_rpm_tc=500)) == Consumption({"rpm": 0}, {}, {"rpm": 500})
    assert consumption(image(b_rpm_tc=500), image(b_rpm_tc=11_000)) == Consumption({"rpm": 11}, {}, {"rpm": -500})
    assert consumption(image(b_rpm_tc=500), image(b_rpm_tc=10_500)) == Consumption({"rpm": 10})


def test_the_count_of_writes_is_nobodys_consumption() -> None:
    before, after = image(b_wcu_tc=1000), image(b_wcu_tc=4000)
    assert consumption(before, after) == Consumption({})
    assert not consumption(before, after)
    assert writes(before, after) == 3


def test_an_acquire_of_nothing_is_one_all_the_same() -> None:
    assert consumption(image(ev=1), image(ev=2))


def test_refused_and_shadowed_acquires_are_counted_like_admitted_ones() -> None:
    before, after = image(ev=1, rj=3), image(ev=1, rj=5, sj=1)
    assert consumption(before, after) == Consumption({}, {"rj": 2, "sj": 1})
    assert consumption(before, image(ev=1, rj=4))
    assert consumption(None, image(sj=4)) == Consumption({}, {"sj": 4})
    assert not consumption(before, before)


def test_refusals_by_an_ancestor_are_counted_by_it_and_its_limits() -> None:
    before, after = image(**{"rj": 3, OF_RPM: 2}), image(**{"rj": 5, OF_RPM: 3, OF_TPM: 2})
    assert consumption(before, after) == Consumption(
        {}, {"rj": 2}, refused_by={Refuser("org/7", "rpm"): 1, Refuser("org/7", "tpm"): 2}
    )
    assert consumption(before, image(**{"rj": 3, OF_RPM: 2, OF_TPM: 1})), "those that a write before had no room for"
    assert consumption(None, after).refused_by == {("org/7", "rpm"): 3, ("org/7", "tpm"): 2}


def test_the_refusals_of_several_ancestors_are_told_apart() -> None:
    """An entity that has got another parent has counts of both; so will one whose parent has a parent."""
    counts = {refused_by(Refuser(entity, "rpm")): 1 for entity in ("a", "a/b", "a/b/rpm")}
    assert consumption(None, image(rj=3, **counts)).refused_by == {
        ("a", "rpm"): 1,
        ("a/b", "rpm"): 1,
        ("a/b/rpm", "rpm"): 1,
    }


def test_a_shard_that_a_split_puts_in_the_place_of_one_left_over_gives_nothing_back() -> None:
    left = image(b_rpm_tc=9000, ev=7, rj=5, sj=2, b_wcu_tc=1000)
    assert not consumption(left, image(b_rpm_tc=0, ev=0, b_wcu_tc=1000))


def test_a_bucket_from_which_all_was_given_back_is_not_taken_for_a_new_one() -> None:
    seen = image(b_rpm_tc=9000, ev=0, b_wcu_tc=1000)
    assert consumption(seen, image(b_rpm_tc=0, ev=0, b_wcu_tc=2000)) == Consumption({"rpm": -9})


totals = st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=10)


@given(totals)
def test_differences_add_up_to_the_last_total(seen: list[int]) -> None:
    images = [None, *(image(b_rpm_tc=total, ev=total) for total in seen)]
    changes = [consumption(before, after) for before, after in pairwise(images) if after]
    assert sum(change.tokens.get("rpm", 0) for change in changes) == seen[-1] // 1000
    assert sum(change.rests.get("rpm", 0) for change in changes) == seen[-1] % 1000
    assert sum(change.acquires.get("ev", 0) for change in changes) == seen[-1]


@pytest.mark.parametrize("shown", [UsageSnapshot, UsageSummary, EntityUsage])
def test_usage_has_a_field_for_each_counter_that_is_added_up(shown: type[UsageSnapshot]) -> None:
    assert {field.name for field in fields(shown) if field.name.startswith("total_")} == {*TOTALS.values()}
    assert {*TOTALS} <= {*COUNTERS}


def test_a_limit_has_no_name_by_which_usage_is_ranked() -> None:
    assert {*TOTALS.values()} <= {*RESERVED_LIMIT_NAMES}
