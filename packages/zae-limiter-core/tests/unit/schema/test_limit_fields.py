"""Limits as items have them: equal ones are one value, and what is not a limit is an error that names the attribute."""

from typing import Any

import pytest

from zae_limiter.exceptions import ValidationError
from zae_limiter.schema.attributes import limit_attributes
from zae_limiter.schema.limit_fields import plain_fields, plain_text, read_limit
from zae_limiter.values.limits import Limit

AT = limit_attributes("rpm")
ITEM: dict[str, Any] = {AT.capacity: 10, AT.refill_amount: 10, AT.refill_period: 60}


def test_equal_limits_of_two_items_are_one_value() -> None:
    limit = read_limit(ITEM, "rpm", AT)
    assert limit == Limit.per_minute("rpm", 10)
    assert read_limit({**ITEM, "other": [1]}, "rpm", AT) is limit
    assert read_limit({**ITEM, AT.burst: 20}, "rpm", AT) == Limit.per_minute("rpm", 10, burst=20)


def test_a_number_that_is_true_is_no_limit_that_was_read_before() -> None:
    read_limit({**ITEM, AT.capacity: 1, AT.refill_amount: 1}, "rpm", AT)
    with pytest.raises(ValidationError, match="capacity of limit 'rpm'"):
        read_limit({**ITEM, AT.capacity: True, AT.refill_amount: 1}, "rpm", AT)


@pytest.mark.parametrize("wrong", [[1], {"a": 1}, None, "10", 1.5])
def test_a_value_of_another_type_is_named(wrong: object) -> None:
    with pytest.raises(ValidationError, match="refill_amount of limit 'rpm'"):
        read_limit({**ITEM, AT.refill_amount: wrong}, "rpm", AT)


def test_a_missing_attribute_is_named() -> None:
    with pytest.raises(KeyError, match=AT.refill_period):
        read_limit({AT.capacity: 10, AT.refill_amount: 10}, "rpm", AT)


@pytest.mark.parametrize(
    "text",
    [
        "100/min",
        "10k/min burst 20k prefetch 1500ms alert 80,95 shadow",
        "250/month Europe/Berlin from 15",
        "5 concurrent",
    ],
)
def test_the_text_of_a_limit_is_that_of_its_fields_in_an_event(text: str) -> None:
    limit = Limit.parse(f"rpm: {text}")
    assert plain_text(plain_fields(limit)) == limit.text == text
    weighted = Limit.custom("rpm", **{**plain_fields(Limit.parse("rpm: 7/min")), "weights": {"output": 5}})
    assert plain_text(plain_fields(weighted)) == "7/min"
