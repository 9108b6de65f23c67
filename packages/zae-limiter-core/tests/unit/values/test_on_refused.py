"""The policy of a refusal as a value and as a text."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zae_limiter import OnRefused, ValidationError

waits = st.integers(0, 86_400_000).map(lambda ms: ms / 1000)
overflows = st.none() | st.sampled_from(["credits", "a,b", "overflow=x", "wait=2", "refuse", "/v1/chat", "ü", ","])


ats = st.none() | st.integers(1, 99).map(lambda percent: f"{percent}%")


@given(waits, overflows, ats)
def test_the_text_of_a_policy_is_read_as_the_same_policy(wait: float, overflow: str | None, at: str | None) -> None:
    policy = OnRefused(wait, overflow, at if overflow else None)
    assert OnRefused.parse("on_refused", str(policy)) == policy


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (OnRefused(), "refuse"),
        (OnRefused(2), "wait=2"),
        (OnRefused(0.5, "credits"), "wait=0.5,overflow=credits"),
        (OnRefused(overflow="credits"), "overflow=credits"),
        (OnRefused(2, "credits", "80%"), "wait=2,at=80%,overflow=credits"),
        (OnRefused(overflow="at=80%", at="5%"), "at=5%,overflow=at=80%"),
    ],
)
def test_it_has_a_short_text(policy: OnRefused, text: str) -> None:
    assert str(policy) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Refuse",
        "wait",
        "wait=",
        "wait=2,",
        "wait=-1",
        "wait=1e3",
        "wait=2.",
        "wait=.5",
        "wait=1.2345",
        "wait=²",
        "wait=٣",
        "wait=nan",
        "wait=2overflow=credits",
        "wait=2, overflow=credits",
        ",overflow=credits",
        "overflow=",
        "wait=2,overflow=",
        "overflow=credits,wait=2 ",
        "over=credits",
        "wait=wait=2",
        "at=80%",
        "at=80%,",
        "at=80%,overflow=",
        "at=,overflow=credits",
        "at=80,overflow=credits",
        "at=80% ,overflow=credits",
        "at=80%,wait=2,overflow=credits",
        "at=80%,at=80%,overflow=credits",
    ],
)
def test_any_other_text_is_a_mistake(text: str) -> None:
    with pytest.raises(ValidationError, match="on_refused"):
        OnRefused.parse("on_refused", text)


@pytest.mark.parametrize("wait", [-1, math.nan, math.inf, 86_401, True, "2", None, 0.0001])
def test_a_bad_wait_names_its_field(wait: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        OnRefused(wait)
    assert caught.value.field == "on_refused.wait"


@pytest.mark.parametrize("at", ["", "%", "0%", "100%", "080%", "8.5%", "80", " 80%", "-8%", "²%", "٣%", 0.8, 80, True])
def test_a_bad_part_names_its_field_and_an_example(at: Any) -> None:
    with pytest.raises(ValidationError, match="must be a whole percentage from 1% to 99%, like 80%") as caught:
        OnRefused(overflow="credits", at=at)
    assert caught.value.field == "on_refused.at"


def test_a_part_needs_an_overflow() -> None:
    with pytest.raises(ValidationError, match="says when the overflow comes first: name an overflow, too"):
        OnRefused(2, at="80%")


@pytest.mark.parametrize("overflow", ["", "a b", "_default_", "x" * 129, 7])
def test_a_bad_overflow_names_its_field(overflow: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        OnRefused(1, overflow)
    assert caught.value.field == "on_refused.overflow"
