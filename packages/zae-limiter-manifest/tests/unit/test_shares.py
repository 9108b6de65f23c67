"""A region's share of a limit: never more in all regions than the limit, and little less."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zae_limiter_manifest import Address, LimitDecl, ResourceDecl, ShareError
from zae_limiter_manifest.limit_text import read_limit
from zae_limiter_manifest.schedule_text import read_entry
from zae_limiter_manifest.shares import Shared, check_share, parts_of, write_share

ADDRESS = Address("gpt-4")


def decl(limit: str | dict[str, Any]) -> LimitDecl:
    return LimitDecl(**(read_limit(limit) if isinstance(limit, str) else limit))


def share_of(limit: LimitDecl, share: str) -> LimitDecl:
    shared = Shared(share)
    found = shared(ADDRESS, ResourceDecl({"l": limit}))
    shared.check()
    assert isinstance(found, ResourceDecl)
    return found.limits["l"]


@pytest.mark.parametrize(
    ("limit", "share", "expected"),
    [
        ("100/min", "60%", "60/min"),
        ("100/min burst 205", "60%", "60/min burst 123"),
        ("100/min", "33.33%", "33/min"),
        ("1/sec burst 10 capacity 10", "60%", "3/5s capacity 6"),
        ("5/sec", "33%", "18/11s capacity 1"),
        ("1/10s capacity 100", "1%", "1/1000s"),
        ("100/min prefetch 1s alert 80,95 shadow", "50%", "50/min prefetch 1s alert 80,95 shadow"),
        ("10k/month Europe/Berlin from 15", "60%", "6k/month Europe/Berlin from 15"),
        ("10/day UTC capacity 20 burst 30", "25%", "2/day UTC capacity 5 burst 7"),
        ("1000 cron 0 6 * * MON UTC", "60%", "600 cron 0 6 * * MON UTC"),
        ("7 per 5h from first use", "50%", "3 per 5h from first use"),
        ("1000 total expires 30d", "60%", "600 total expires 30d"),
        ("5 concurrent expires 30s", "60%", "3 concurrent expires 30s"),
        ("0/min", "60%", "0/min"),
        ("0 total", "60%", "0 total"),
    ],
)
def test_every_kind_is_scaled_and_rounded_down(limit: str, share: str, expected: str) -> None:
    assert share_of(decl(limit), share) == decl(expected)


def test_the_entries_of_a_schedule_are_scaled_too_and_one_that_blocks_stays() -> None:
    entries = ["night: 00:00-06:00 Europe/Berlin 10/sec burst 20", "off: sun capacity 0", "on: sat capacity 50"]
    found = share_of(decl({"capacity": 100, "schedule": entries}), "60%")
    expected = ["night: 00:00-06:00 Europe/Berlin 6/sec burst 12", "off: sun capacity 0", "on: sat capacity 30"]
    assert [read_entry(text) for text in found.schedule] == [read_entry(text) for text in expected]


@pytest.mark.parametrize(
    "limit",
    ["1/min", "1 concurrent", "1 total", "1/month UTC", "2/sec prefetch 1s capacity 3", "100/day UTC capacity 1"],
)
def test_a_limit_whose_share_is_no_token_is_refused_and_named(limit: str) -> None:
    with pytest.raises(ShareError, match=r"60% is less than one token of resource gpt-4: l \("):
        share_of(decl(limit), "60%")


def test_of_many_such_limits_three_are_named_and_the_others_counted() -> None:
    shared = Shared("60%")
    for number in range(10):
        shared(Address(f"r-{number}"), ResourceDecl({"l": decl("1 concurrent")}))
    with pytest.raises(ShareError, match=r"resource r-2: l \(1 concurrent\) and 7 more: raise"):
        shared.check()


@pytest.mark.parametrize("text", ["60", "0%", "0.00%", "100.01%", "1000%", "-5%", "60.123%", "", "٦٠%", None, 60, 0.6])
def test_a_text_that_is_no_share_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="a share is"):
        check_share(text)


@given(st.integers(1, 10_000))
def test_a_share_has_one_spelling(parts: int) -> None:
    assert parts_of(write_share(parts)) == parts
    assert check_share(f" {parts / 100:.2f}% ".strip()) == write_share(parts)


@st.composite
def divided(draw: st.DrawFn) -> list[str]:
    """The shares of some regions, which add up to the whole or less."""
    cuts = sorted(draw(st.sets(st.integers(1, 9_999), min_size=1, max_size=4)))
    return [write_share(end - begin) for begin, end in zip([0, *cuts], [*cuts, 10_000], strict=True)]


@given(
    st.sampled_from(["token_bucket", "calendar", "first_use", "total", "concurrent"]),
    st.integers(0, 10**15),
    st.integers(0, 10**6),
    st.integers(1, 10**9),
    st.integers(1, 10**6),
    divided(),
)
def test_all_regions_together_never_admit_more_than_the_limit(
    kind: str, capacity: int, over: int, amount: int, period: int, shares: list[str]
) -> None:
    """In any span of time a limit admits its burst and what comes back: so both are compared, exactly."""
    fields: dict[str, Any] = {"capacity": capacity, "kind": kind}
    if kind in ("token_bucket", "calendar"):
        fields |= {"burst": min(capacity + over, 10**15) if capacity else 0, "refill_amount": amount}
    if kind in ("token_bucket", "first_use"):
        fields["refill_period"] = period
    if kind == "calendar":
        fields["window"] = "day"
    limit = LimitDecl(**fields)
    try:
        found = [share_of(limit, share) for share in shares]
    except ShareError:
        return
    if not capacity:
        assert found == [limit] * len(shares)
        return
    assert sum(each.burst for each in found) <= limit.burst
    assert sum(each.capacity for each in found) <= limit.capacity
    rate = Fraction(limit.refill_amount, limit.refill_period)
    assert sum(Fraction(each.refill_amount, each.refill_period) for each in found) <= rate
    if kind == "token_bucket":  # the others lose at most one token a window
        for each, share in zip(found, shares, strict=True):
            exact = rate * parts_of(share) / 10_000
            assert Fraction(each.refill_amount, each.refill_period) >= exact * 99 / 100
