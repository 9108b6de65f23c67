"""Shares that are proposed: never more than the whole, and bounded moves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zae_limiter_cli.errors import CommandError
from zae_limiter_cli.limits.shares import Region, in_order, propose

ALL = 10_000


def proposed(*regions: tuple[int, int], least: int = 500, step: int = 1_000) -> list[int]:
    found = propose([Region(f"r{n}", *each) for n, each in enumerate(regions)], least=least, step=step)
    return [each.proposed for each in found]


@pytest.mark.parametrize(
    ("regions", "expected"),
    [
        ([(5_000, 100), (5_000, 100)], [5_000, 5_000]),
        ([(5_000, 900), (5_000, 100)], [6_000, 4_000]),
        ([(6_000, 900), (4_000, 100)], [7_000, 3_000]),
        ([(8_600, 900), (1_400, 100)], [8_600, 1_400]),
        ([(9_500, 0), (500, 0)], [9_500, 500]),
        ([(9_500, 1), (500, 0)], [9_500, 500]),
        ([(5_000, 0), (3_000, 0)], [5_000, 3_000]),
        ([(10_000, 3), (10_000, 1)], [7_250, 2_750]),
        ([(10_000, 0), (10_000, 0)], [5_000, 5_000]),
        ([(3_333, 1), (3_333, 1), (3_333, 1)], [3_333, 3_333, 3_333]),
    ],
)
def test_shares_follow_what_is_asked_for(regions: list[tuple[int, int]], expected: list[int]) -> None:
    assert proposed(*regions) == expected


def test_less_comes_before_more() -> None:
    found = propose([Region("a", 5_000, 9), Region("b", 5_000, 1)], least=500, step=1_000)
    assert [each.name for each in in_order(found)] == ["b", "a"]


def test_least_shares_of_more_than_the_whole_are_refused() -> None:
    with pytest.raises(CommandError, match="--least 40%: 3 regions would have more than the whole"):
        proposed((1, 1), (1, 1), (1, 1), least=4_000)


@given(
    st.lists(st.tuples(st.integers(1, ALL), st.integers(0, 10**12)), min_size=2, max_size=8),
    st.integers(1, 1_250),
    st.integers(100, ALL),
)
def test_shares_never_add_up_to_more_than_the_whole_and_move_by_a_step(
    regions: list[tuple[int, int]], least: int, step: int
) -> None:
    found = proposed(*regions, least=least, step=step)
    assert sum(found) <= ALL
    assert min(found) >= 1
    before = [share for share, _ in regions]
    for now, new in zip(before, found, strict=True):
        assert new <= now + step
        if sum(before) <= ALL:
            assert new >= now - step
            assert new >= min(now, least)
