"""The text of a limit, in Python: what it means, what is refused, and that nothing is lost."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zae_limiter import Limit, ValidationError

SHARED = json.loads((Path(__file__).parents[5] / "testdata" / "limit_texts.json").read_text("utf-8"))


@st.composite
def limits(draw: st.DrawFn) -> Limit:
    """Any limit: also one that blocks, and amounts that have a short spelling."""
    amounts = (
        st.integers(1, 9_999) | st.sampled_from([10**3, 15 * 10**5, 10**9, 10**12, 10**15]) | st.integers(1, 10**15)
    )
    capacity = draw(amounts | st.just(0))
    burst = capacity and min(10**15, capacity + draw(st.just(0) | amounts))
    refill = draw(st.just(capacity or 1) | amounts)
    period = draw(st.sampled_from([1, 60, 3600, 86400, 90, 7200, 604800]) | st.integers(1, 3_153_600_000))
    most_ms = 3_600_000 if capacity == 0 else min(3_600_000, (burst - 1) * period * 1000 // refill)
    prefetch_ms = min(most_ms, draw(st.just(0) | st.integers(0, 3_600_000)))
    name = draw(st.from_regex(r"\A[A-Za-z][A-Za-z0-9_.-]{0,9}\Z").filter(lambda name: name != "wcu"))
    return Limit(name, capacity, burst, refill, period, shadow=draw(st.booleans()), prefetch=prefetch_ms / 1000)


WINDOWS = [("minute", "UTC", 1), ("hour", "UTC", 1), ("day", "Asia/Kolkata", 1), ("week", "UTC", 7)]
WINDOWS += [
    ("month", "Europe/Berlin", 1),
    ("month", "UTC", 31),
    ("year", "Asia/Kolkata", 1),
    ("0 6 * * MON", "UTC", 1),
    (" 0  6\t* * MON", "UTC", 1),
    ("*/5 1-2 1,2 JAN *", "NZ", 1),
]


@st.composite
def limits_of_other_kinds(draw: st.DrawFn) -> Limit:
    """Any limit whose tokens do not come evenly."""
    capacity, shadow = draw(st.integers(0, 10**15)), draw(st.booleans())
    kind = draw(st.sampled_from(["calendar", "total", "first_use", "concurrent"]))
    more: dict[str, Any] = {"kind": kind, "shadow": shadow}
    if kind != "concurrent":
        more["alert"] = draw(st.sampled_from([(), (80,), (80, 95)]))
    if kind in ("calendar", "total"):
        more["burst"] = capacity and min(10**15, capacity + draw(st.integers(0, 9)))
    if kind == "calendar":
        more |= zip(("window", "timezone", "starts_on"), draw(st.sampled_from(WINDOWS)), strict=True)
        more["refill_amount"] = draw(st.just(capacity or 1) | st.integers(1, 10**15))
    if kind == "first_use":
        more["refill_period"] = draw(st.integers(1, 3_153_600_000))
    if kind == "total":
        more["expires"] = draw(st.just(0) | st.integers(86_400, 315_360_000))
    if kind == "concurrent":
        more["expires"] = draw(st.integers(10, 3600))
    return Limit.custom("rpm", capacity, **more)


@given(limits() | limits_of_other_kinds())
@settings(max_examples=400, deadline=None)
def test_the_text_of_any_limit_gives_an_equal_limit(limit: Limit) -> None:
    assert Limit.parse(str(limit)) == limit
    assert str(limit) == f"{limit.name}: {limit.text}"
    assert limit.text.isascii()


@pytest.mark.parametrize(("text", "fields"), SHARED["texts"].items())
def test_a_text_means_these_fields(text: str, fields: dict[str, Any]) -> None:
    expected = Limit.custom("rpm", **fields)
    assert Limit.parse(f"rpm:{text}") == Limit.parse(f" rpm : {text} ") == expected


@pytest.mark.parametrize(("text", "problem"), SHARED["mistakes"].items())
def test_a_mistake_is_one_error_that_names_the_text_and_has_examples(text: str, problem: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Limit.parse(f"rpm:{text}")
    message = str(caught.value)
    assert (caught.value.field, caught.value.value) == ("limit", f"rpm:{text}")
    assert problem in message
    assert message.endswith("; examples: 100/min or 10k/min burst 20k or $250/month Europe/Berlin")


@pytest.mark.parametrize("text", ["100/min", "", 5, None, b"rpm:1/min", ["rpm: 1/min"]])
def test_a_limit_without_a_name_is_refused(text: Any) -> None:
    with pytest.raises(ValidationError, match="must be a name and a limit, such as rpm: 100/min"):
        Limit.parse(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("rpm:10/min burst 9", "below the capacity of 10: for 9 at once write `capacity 9`"),
        ("rpm:0/min burst 5", "burst of limit 'rpm' 5: must be 0"),
        ("rpm:5/min prefetch 59s", "leave one token"),
        ("wcu:5/min", "limit 'wcu': is reserved"),
        ("rpm:1_000_001G/min", "capacity of limit 'rpm' 1000001000000000: must be from 0 to"),
        ("rpm:1/99999d", "refill_period of limit 'rpm'"),
    ],
)
def test_what_no_limit_may_have_is_refused_as_elsewhere(text: str, problem: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Limit.parse(text)
    assert problem in str(caught.value)


def test_a_text_of_any_length_is_refused_at_once() -> None:
    with pytest.raises(ValidationError, match="at most 200 characters"):
        Limit.parse(f"rpm: {'1 ' * 200_000}/min")
