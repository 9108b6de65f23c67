"""Readers of items: what is sound comes through, anything else is an error that names the key."""

from typing import Any

import pytest

from zae_limiter.schema.record import Item, flag, number, optional, reads, text
from zae_limiter.schema.store_errors import Unreadable

KEY: Item = {"PK": "p", "SK": "s"}


@reads
def read(item: Item) -> tuple[str, int, bool, str | None]:
    return text(item, "name"), number(item, "count"), flag(item, "on"), optional(text, item, "more")


def test_attributes_of_the_right_types_come_through() -> None:
    sound = {**KEY, "name": "n", "count": -(10**38) + 1, "on": False}
    assert read(sound) == ("n", -(10**38) + 1, False, None)
    assert read({**sound, "more": "m", "unknown": [1]})[3] == "m"


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"name": None}, "name is not text"),
        ({"count": True}, "count is not a whole number"),
        ({"count": 10**38}, "count has more than 38 digits"),
        ({"on": 1}, "on is not a boolean"),
        ({"more": {}}, "more is not text"),
    ],
)
def test_an_attribute_of_another_type_or_size_is_named_with_the_key(wrong: dict[str, Any], problem: str) -> None:
    with pytest.raises(Unreadable, match=f"^the item 'p', 's' cannot be read: {problem}; correct it, or delete it$"):
        read({**KEY, "name": "n", "count": 1, "on": True, **wrong})


def test_a_missing_attribute_is_named_with_the_key() -> None:
    with pytest.raises(Unreadable, match="the item 'p', 's' cannot be read: it has no 'name'"):
        read(KEY)


@pytest.mark.parametrize("error", [IndexError("x"), AttributeError("x"), ZeroDivisionError("x"), RecursionError("x")])
def test_whatever_goes_wrong_in_a_reader_the_item_is_the_cause(error: Exception) -> None:
    @reads
    def broken(item: Item) -> None:
        raise error

    with pytest.raises(Unreadable, match="cannot be read: x"):
        broken(KEY)
