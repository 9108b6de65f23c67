import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.core.worlds import World, again
from zae_limiter.exceptions import InvalidNameError, ValidationError
from zae_limiter.rules.registry import rule_of
from zae_limiter.values.limit_status import LimitStatus
from zae_limiter.values.limits import (
    MAX_TOKENS,
    MILLI,
    POLICIES,
    Limit,
    check_amounts,
    check_limits,
    check_on_unavailable,
)
from zae_limiter.values.provisioner import StoredConfig

SHARED = Path(__file__).parents[5] / "testdata" / "limits.json"
COUNTS = json.loads(SHARED.with_name("counts.json").read_text("utf-8"))
BAD_WHOLES = [0, -1, 1.5, 2.0, True, False, "10", None, MAX_TOKENS + 1]


def shared_limits() -> list[Any]:
    rows = json.loads(SHARED.read_text()) if SHARED.exists() else []
    return [pytest.param(row["limit"], row["ok"], id=row["why"]) for row in rows]


@pytest.mark.parametrize(("fields", "ok"), shared_limits())
def test_core_and_manifest_agree_on_every_shared_limit(fields: dict[str, Any], *, ok: bool) -> None:
    try:
        Limit.custom("rpm", **fields)
    except (ValidationError, TypeError):
        assert not ok
    else:
        assert ok


@pytest.mark.parametrize(
    ("limit", "period"),
    [
        (Limit.per_second("l", 5), 1),
        (Limit.per_minute("l", 5), 60),
        (Limit.per_hour("l", 5), 3600),
        (Limit.per_day("l", 5), 86400),
        (Limit.custom("l", 5), 60),
    ],
)
def test_burst_and_refill_default_to_the_capacity(limit: Limit, period: int) -> None:
    assert limit == Limit("l", capacity=5, burst=5, refill_amount=5, refill_period=period)


def test_the_ceiling_is_the_burst_not_the_capacity() -> None:
    assert Limit.per_minute("l", 5, burst=9)._ceiling_milli == 9 * MILLI


@pytest.mark.parametrize("field", ["capacity", "burst", "refill_amount", "refill_period"])
@pytest.mark.parametrize("value", [value for value in BAD_WHOLES if value is not None])
def test_a_limit_of_anything_but_whole_positive_numbers_is_refused(field: str, value: Any) -> None:
    fields: dict[str, Any] = {"capacity": 1, "burst": 1, "refill_amount": 1, "refill_period": 1, field: value}
    named = (
        "burst" if field == "capacity" and value == 0 and value is not False else field
    )  # a capacity of 0 blocks, without a burst
    with pytest.raises(ValidationError, match=f"{named} of limit 'l'"):
        Limit("l", **fields)


@pytest.mark.parametrize("value", [1, "true", None])
def test_shadow_is_true_or_false(value: Any) -> None:
    with pytest.raises(ValidationError, match=r"shadow of limit 'l' .*: must be True or False"):
        Limit.per_minute("l", 5, shadow=value)


def test_a_burst_below_the_capacity_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"burst of limit 'l' 4: must be at least the capacity, 5"):
        Limit.per_minute("l", 5, burst=4)


def test_what_a_burst_below_the_capacity_means_can_be_said() -> None:
    with pytest.raises(ValidationError) as refused:
        Limit.custom("rpm", 60, burst=1)
    said = str(refused.value).partition("at this rate: ")[2]
    assert eval(said) == Limit("rpm", capacity=1, burst=1, refill_amount=60, refill_period=60)


@pytest.mark.parametrize("name", ["wcu", "total_events", "", "a#b", "1st", "x" * 65, 7, None])
def test_a_limit_has_no_reserved_name_nor_an_odd_one(name: Any) -> None:
    with pytest.raises(InvalidNameError):
        Limit.per_minute(name, 5)


def test_limits_are_values() -> None:
    limit = Limit.per_minute("l", 5, burst=9)
    assert {limit: 1}[Limit.per_minute("l", 5, burst=9)] == 1
    assert pickle.loads(pickle.dumps(limit)) == limit
    with pytest.raises(AttributeError):
        limit.capacity = 6  # type: ignore[misc]


def test_checked_limits_are_sorted_by_name() -> None:
    tpm, rpm = Limit.per_minute("tpm", 5), Limit.per_minute("rpm", 5)
    assert check_limits("limits", [tpm, rpm]) == (rpm, tpm)


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ([], "give at least one limit"),
        ([Limit.per_minute("l", 1), Limit.per_day("l", 2)], "is given twice"),
        (["l"], "must be a name and a limit"),
        ([{"name": "l", "capacity": 1}], "is not a Limit"),
    ],
)
def test_no_limits_double_limits_and_other_things_are_refused(limits: Any, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        check_limits("limits", limits)


def named(count: int) -> list[Limit]:
    return [Limit.per_minute(f"limit-{number}", 5) for number in range(count)]


@pytest.mark.parametrize("row", COUNTS, ids=lambda row: str(row["limits"]))
def test_the_shared_table_of_counts_holds(row: dict[str, Any]) -> None:
    limits = named(row["limits"])
    if row["ok"]:
        assert len(check_limits("limits", limits)) == len(limits)
    else:
        with pytest.raises(ValidationError):
            check_limits("limits", limits)


def test_too_many_limits_are_refused_by_their_number_and_the_way_out_is_named() -> None:
    with pytest.raises(ValidationError) as caught:
        check_limits("default_limits", named(200))
    assert str(caught.value) == (
        "number of default_limits 200: a bucket has at most 32 limits: leave some out, or put them on a resource of"
        " their own"
    )


async def test_nobody_takes_more_limits_than_a_bucket_can_have(world: World) -> None:
    limiter, wire = await world.process()
    many = named(33)
    for refused in (
        lambda: limiter.set_system_defaults(many),
        lambda: limiter.set_resource_defaults("r", many),
        lambda: limiter.set_limits("e", many),
        lambda: limiter.set_limits("e", many, "r"),
        lambda: limiter.repository.set_many_limits({("e", "r"): many}),
    ):
        with pytest.raises(ValidationError, match="number of limits 33"):
            await refused()
    with pytest.raises(ValidationError, match="number of limits 33"):
        limiter.acquire("e", "r", {"limit-0": 1}, limits=many)
    with pytest.raises(ValidationError, match="number of default_limits 33"):
        again(limiter, default_limits=many)
    with pytest.raises(ValidationError, match="number of limits 33"):
        StoredConfig(tuple(many))
    assert wire.sent() == []


@given(st.dictionaries(st.text(), st.integers(0, MAX_TOKENS)))
def test_amounts_are_checked_into_millitokens(amounts: dict[str, int]) -> None:
    assert check_amounts("consume", amounts) == {name: amount * MILLI for name, amount in amounts.items()}


@pytest.mark.parametrize("amount", [-1, 1.0, 0.5, True, "1", None, MAX_TOKENS + 1])
def test_an_amount_of_anything_but_whole_tokens_is_refused(amount: Any) -> None:
    with pytest.raises(ValidationError, match=r"consume\['rpm'\]"):
        check_amounts("consume", {"rpm": amount})


def test_only_signed_amounts_may_be_negative() -> None:
    assert check_amounts("adjust", {"rpm": -3}, signed=True) == {"rpm": -3 * MILLI}
    bad: list[Any] = [-MAX_TOKENS - 1, True, 0.5]
    for amount in bad:
        with pytest.raises(ValidationError):
            check_amounts("adjust", {"rpm": amount}, signed=True)


@pytest.mark.parametrize("value", ["", "deny", "BLOCK", None, True])
def test_on_unavailable_is_block_or_allow(value: Any) -> None:
    assert [check_on_unavailable(policy) for policy in POLICIES] == ["block", "allow", "share"]
    with pytest.raises(ValidationError, match="must be one of 'block', 'allow', 'share'"):
        check_on_unavailable(value)


EVERY_FIELD = {"name": "rpm", "capacity": 10, "burst": 20, "refill_amount": 5, "refill_period": 30, "shadow": False}


def test_a_limit_goes_through_json_and_comes_back() -> None:
    limit = Limit.custom("rpm", 10, burst=20, refill_amount=5, refill_period=30)
    assert limit.to_dict() == EVERY_FIELD
    assert Limit.from_dict(json.loads(json.dumps(limit.to_dict()))) == limit
    assert Limit.from_dict({"name": "rpm", "capacity": 10}) == Limit.per_minute("rpm", 10)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"name": "rpm"}, "lacks the field 'capacity'"),
        ({"capacity": 1}, "lacks the field 'name'"),
        (EVERY_FIELD | {"brust": 1}, r"has no field 'brust' \(known: name, capacity, burst"),
        (EVERY_FIELD | {"capacity": "10"}, "capacity of limit 'rpm' '10': must be a whole number"),
        (EVERY_FIELD | {"burst": 9}, "burst of limit 'rpm' 9: must be at least the capacity, 10"),
        (["rpm", 10], "must map the fields of a limit to values"),
    ],
)
def test_a_dict_that_is_no_limit_is_refused(values: Any, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Limit.from_dict(values)


@pytest.mark.parametrize(("available", "requested", "deficit"), [(5, 3, 0), (3, 3, 0), (1, 3, 2), (-2, 3, 5)])
def test_a_deficit_is_what_the_request_lacks(available: int, requested: int, deficit: int) -> None:
    limit = Limit.per_minute("rpm", 10)
    status = LimitStatus("e", "r", "rpm", limit, available, requested, deficit > 0, 0.0)
    assert status.deficit == deficit


@pytest.mark.parametrize("value", [-0.001, 3600.001, 0.0001, 1 / 3, float("nan"), float("inf"), True, "1", None])
def test_prefetch_is_a_number_of_seconds_of_at_most_an_hour_in_whole_milliseconds(value: Any) -> None:
    with pytest.raises(
        ValidationError, match=r"prefetch of limit 'l' .*: must be seconds from 0 to 3600, with at most"
    ):
        Limit.per_day("l", 100_000, prefetch=value)


def test_a_limit_prefetches_nothing_unless_told() -> None:
    limit = Limit.per_minute("tpm", 100_000)
    assert (limit.prefetch, limit.usable_burst, limit._rule) == (0.0, 100_000, limit)
    assert "prefetch" not in limit.to_dict()


@pytest.mark.parametrize(
    ("limit", "usable"),
    [
        (Limit.per_minute("tpm", 100_000, prefetch=1), 98_333),
        (Limit.per_minute("tpm", 60, prefetch=1.0), 59),
        (Limit.per_minute("tpm", 60, burst=90, prefetch=1.001), 88),
        (Limit.per_day("tpm", 10, prefetch=0.001), 9),
        (Limit.per_second("tpm", 10, prefetch=0.9), 1),
        (Limit.per_minute("tpm", 0, prefetch=30), 0),
    ],
)
def test_what_comes_within_prefetch_is_taken_off_the_burst(limit: Limit, usable: int) -> None:
    assert (limit.usable_burst, limit._ceiling_milli, limit._rule.burst) == (usable, usable * MILLI, usable)


@given(
    st.integers(2, 10**6),
    st.integers(1, 10**6),
    st.integers(1, 10**6),
    st.integers(1, 3_600_000),
    st.integers(0, 10**9),
)
def test_a_rule_leaves_room_for_its_prefetch(
    burst: int, amount: int, period: int, prefetch_ms: int, start_ms: int
) -> None:
    try:
        limit = Limit.custom("l", burst, refill_amount=amount, refill_period=period, prefetch=prefetch_ms / 1000)
    except ValidationError:
        assert amount * prefetch_ms > (burst - 1) * period * 1000
        return
    rule = rule_of(limit._rule)
    comes = rule.minted(start_ms + prefetch_ms) - rule.minted(start_ms)
    assert 0 < limit._rule._ceiling_milli <= burst * MILLI - comes
    assert (
        limit._rule._ceiling_milli > burst * MILLI - amount * prefetch_ms / period - MILLI - 1
    )  # no more than a token lost


def test_the_rule_has_the_usable_burst_and_no_mark() -> None:
    declared = Limit.per_minute("tpm", 100_000, burst=120_000, shadow=True, prefetch=1)
    assert declared._rule == Limit("tpm", 100_000, 118_333, 100_000, 60)
    assert Limit.per_minute("tpm", 60, prefetch=1)._rule == Limit("tpm", 59, 59, 60, 60)
    assert declared._rule._rule == declared._rule


def test_a_prefetch_that_leaves_no_token_is_refused() -> None:
    with pytest.raises(ValidationError) as refused:
        Limit.per_second("rps", 10, prefetch=1)
    assert str(refused.value) == (
        "prefetch of limit 'rps' 1: takes what comes in that time off the burst, 10, and has to leave one token:"
        " at most 0.9 s, or a larger burst"
    )
    assert Limit.per_second("rps", 10, prefetch=0.9).usable_burst == 1


def test_every_way_to_make_a_limit_takes_prefetch() -> None:
    makers = (Limit.per_second, Limit.per_minute, Limit.per_hour, Limit.per_day, Limit.custom)
    assert [make("l", 1000, prefetch=0.5).prefetch for make in makers] == [0.5] * 5
    limit = Limit.per_minute("l", 1000, prefetch=1)
    assert Limit.from_dict(json.loads(json.dumps(limit.to_dict()))) == limit == pickle.loads(pickle.dumps(limit))


@pytest.mark.parametrize(
    "limit",
    [
        Limit.per_hour("rpm", 5, burst=7, prefetch=1.0),
        Limit.per_month("rpm", 5, timezone="Europe/Berlin", starts_on=15, carry_over=3),
        Limit.quota("rpm", 5, cron="0 6 * * MON"),
        Limit.quota("rpm", 5, window=7_200),
        Limit.total("rpm", 5),
        Limit.concurrent("rpm", 5, expires=90),
        Limit.custom("rpm", 5, schedule=["night: 22:00-06:00 3/min"]),
    ],
)
def test_a_limit_of_each_kind_comes_back_from_its_fields(limit: Limit) -> None:
    assert Limit.from_dict(json.loads(json.dumps(limit.to_dict()))) == limit
    assert pickle.loads(pickle.dumps(limit)) == limit


def test_a_burst_below_the_capacity_of_a_total_hints_at_no_rate() -> None:
    with pytest.raises(ValidationError, match=r"must be at least the capacity, 5$"):
        Limit.total("credits", 5, burst=3)
