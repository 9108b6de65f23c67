from enum import IntEnum, StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zae_limiter.engines.dynamodb.marshal import read_item, read_value, write_item, write_value
from zae_limiter.operations.values import copy_of, plain

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**37), 10**37) | st.text(),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(min_size=1), parts, max_size=3),
)


class Mode(StrEnum):
    BLOCK = "block"


class Level(IntEnum):
    LOW = 1


@given(st.dictionaries(st.text(min_size=1), values, max_size=6))
def test_an_item_comes_back_as_it_was(item: dict[str, object]) -> None:
    again = read_item(write_item(item))
    assert again == item
    assert repr(again) == repr(item)  # True is not 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (-5, {"N": "-5"}),
        ("", {"S": ""}),
        (True, {"BOOL": True}),
        (None, {"NULL": True}),
        ([1, "a"], {"L": [{"N": "1"}, {"S": "a"}]}),
        ((1,), {"L": [{"N": "1"}]}),
        ({"a": None}, {"M": {"a": {"NULL": True}}}),
        (Mode.BLOCK, {"S": "block"}),
        (Level.LOW, {"N": "1"}),
    ],
)
def test_every_kind_is_spelled_as_dynamodb_does(value: object, expected: object) -> None:
    assert write_value(value) == expected
    assert plain(value) == read_value(write_value(value))


@pytest.mark.parametrize("value", [0.5, b"x", object(), {1}, [0.5], {"a": 0.5}])
def test_what_the_schema_has_no_use_for_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        write_value(value)
    with pytest.raises(TypeError):
        plain(value)


def test_a_number_with_a_fraction_is_not_rounded() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        read_value({"N": "1.5"})


def test_a_copy_shares_nothing_that_can_change() -> None:
    item = {"a": 1, "list": [{"x": 1}]}
    copy = copy_of(item)
    copy["list"][0]["x"] = 2
    copy["a"] = 2
    assert item == {"a": 1, "list": [{"x": 1}]}
