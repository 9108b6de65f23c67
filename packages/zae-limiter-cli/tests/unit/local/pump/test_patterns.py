from typing import Any

import pytest

from zae_limiter_cli.local.pump.patterns import fits

RECORD: dict[str, Any] = {
    "eventName": "MODIFY",
    "dynamodb": {
        "Keys": {"PK": {"S": "ns/BUCKET#key"}, "SK": {"S": "#STATE"}},
        "NewImage": {"version": {"N": "3"}, "size": 12, "empty": None},
    },
    "tags": ["red", "green"],
}


@pytest.mark.parametrize(
    "pattern",
    [
        {},
        {"eventName": ["INSERT", "MODIFY"]},
        {"dynamodb": {"Keys": {"SK": {"S": ["#STATE"]}}}},
        {"dynamodb": {"Keys": {"PK": {"S": [{"prefix": "ns/"}]}}}},
        {"dynamodb": {"Keys": {"PK": {"S": [{"suffix": "#key"}]}}}},
        {"eventName": [{"equals-ignore-case": "modify"}]},
        {"eventName": [{"anything-but": ["REMOVE"]}]},
        {"eventName": [{"anything-but": "REMOVE"}]},
        {"eventName": [{"anything-but": {"prefix": "RE"}}]},
        {"eventName": [{"exists": True}]},
        {"userIdentity": [{"exists": False}]},
        {"userIdentity": {"type": [{"exists": False}]}},
        {"dynamodb": {"NewImage": {"size": [{"numeric": [">", 10, "<=", 12]}]}}},
        {"dynamodb": {"NewImage": {"size": [12]}}},
        {"dynamodb": {"NewImage": {"empty": [None]}}},
        {"tags": ["green"]},
        {"$or": [{"eventName": ["REMOVE"]}, {"tags": ["red"]}]},
    ],
    ids=str,
)
def test_a_record_that_has_what_a_pattern_names_fits(pattern: dict[str, Any]) -> None:
    assert fits(pattern, RECORD)


@pytest.mark.parametrize(
    "pattern",
    [
        {"eventName": ["INSERT"]},
        {"eventName": []},
        {"eventName": ["MODIFY"], "dynamodb": {"Keys": {"SK": {"S": ["#META"]}}}},
        {"userIdentity": {"type": ["Service"]}},
        {"userIdentity": ["Service"]},
        {"userIdentity": [None]},
        {"userIdentity": [{"anything-but": "Service"}]},
        {"eventName": [{"exists": False}]},
        {"dynamodb": [{"exists": True}]},
        {"eventName": [{"prefix": "INS"}]},
        {"dynamodb": {"NewImage": {"size": [{"prefix": "1"}]}}},
        {"eventName": [{"numeric": [">", 0]}]},
        {"dynamodb": {"NewImage": {"size": [{"numeric": ["=", 11]}]}}},
        {"dynamodb": {"NewImage": {"size": ["12"]}}},
        {"eventName": {"type": ["MODIFY"]}},
        {"tags": ["blue"]},
        {"$or": [{"eventName": ["REMOVE"]}, {"tags": ["blue"]}]},
    ],
    ids=str,
)
def test_a_record_that_has_not_does_not(pattern: dict[str, Any]) -> None:
    assert not fits(pattern, RECORD)


def test_a_rule_that_nobody_knows_is_no_silent_mismatch() -> None:
    with pytest.raises(KeyError, match="wildcard"):
        fits({"eventName": [{"wildcard": "M*"}]}, RECORD)
