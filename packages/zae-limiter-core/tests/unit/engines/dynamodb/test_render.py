import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zae_limiter.engines.dynamodb.expressions import LAST_CHARACTER
from zae_limiter.engines.dynamodb.render import read_answer, read_date, render, render_body
from zae_limiter.operations.errors import OutcomeUnknown, Unreadable
from zae_limiter.operations.values import (
    BatchGet,
    BatchWrite,
    Check,
    Conditions,
    CreateTable,
    Delete,
    DescribeTable,
    EnableTtl,
    Found,
    Get,
    Key,
    Operation,
    Page,
    Put,
    Query,
    Scan,
    Transact,
    Unwritten,
    Update,
)
from zae_limiter.schema.table import create_table_request

KEY = Key("p", "s")
OTHER_KEY = Key("p", "other")
KEY_MAP = {"PK": {"S": "p"}, "SK": {"S": "s"}}
EXISTS = Conditions(exists=("PK",))
EXISTS_PARAMETERS = {
    "ConditionExpression": "attribute_exists(#a0)",
    "ExpressionAttributeNames": {"#a0": "PK"},
    "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
}
UPDATE = Update(
    KEY,
    add={"b_rpm_tk": -5, "b_rpm_tc": 5},
    set={"ttl": 9, "on": True},
    remove=("old",),
    when=Conditions(
        exists=("PK",),
        absent=("gone",),
        equals={"rf": 7},
        at_least={"b_rpm_tk": 1, "low": 2},
        at_most={"high": 4, "b_rpm_tk": 3},
        below={"mark": "m", "gone": "g"},
    ),
)
UPDATE_PARAMETERS = {
    "TableName": "t",
    "Key": KEY_MAP,
    "UpdateExpression": "ADD #a0 :v0, #a1 :v1 SET #a2 = :v2, #a3 = :v3 REMOVE #a4",
    "ConditionExpression": (
        "attribute_exists(#a5) AND attribute_not_exists(#a6) AND #a7 = :v4"
        " AND #a0 BETWEEN :v5 AND :v8 AND #a8 >= :v6 AND #a9 <= :v7"
        " AND (attribute_not_exists(#a10) OR #a10 < :v9) AND (attribute_not_exists(#a6) OR #a6 < :v10)"
    ),
    "ExpressionAttributeNames": {
        "#a0": "b_rpm_tk",
        "#a1": "b_rpm_tc",
        "#a2": "ttl",
        "#a3": "on",
        "#a4": "old",
        "#a5": "PK",
        "#a6": "gone",
        "#a7": "rf",
        "#a8": "low",
        "#a9": "high",
        "#a10": "mark",
    },
    "ExpressionAttributeValues": {
        ":v0": {"N": "-5"},
        ":v1": {"N": "5"},
        ":v2": {"N": "9"},
        ":v3": {"BOOL": True},
        ":v4": {"N": "7"},
        ":v5": {"N": "1"},
        ":v6": {"N": "2"},
        ":v7": {"N": "4"},
        ":v8": {"N": "3"},
        ":v9": {"S": "m"},
        ":v10": {"S": "g"},
    },
    "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
}


def query(condition: str, names: dict[str, str], values: dict[str, str], **more: Any) -> tuple[str, dict[str, Any]]:
    return "Query", {
        "TableName": "t",
        "KeyConditionExpression": condition,
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": {name: {"S": value} for name, value in values.items()},
        **more,
    }


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (Get(KEY), ("GetItem", {"TableName": "t", "Key": KEY_MAP, "ConsistentRead": True})),
        (BatchGet((KEY,)), ("BatchGetItem", {"RequestItems": {"t": {"Keys": [KEY_MAP], "ConsistentRead": True}}})),
        (Put({"PK": "p", "SK": "s"}), ("PutItem", {"TableName": "t", "Item": KEY_MAP})),
        (
            Put({"PK": "p", "SK": "s", "n": 1}, EXISTS),
            ("PutItem", {"TableName": "t", "Item": {**KEY_MAP, "n": {"N": "1"}}, **EXISTS_PARAMETERS}),
        ),
        (Delete(KEY), ("DeleteItem", {"TableName": "t", "Key": KEY_MAP})),
        (Delete(KEY, EXISTS), ("DeleteItem", {"TableName": "t", "Key": KEY_MAP, **EXISTS_PARAMETERS})),
        (Update(KEY), ("UpdateItem", {"TableName": "t", "Key": KEY_MAP, "ReturnValues": "ALL_NEW"})),
        (UPDATE, ("UpdateItem", {**UPDATE_PARAMETERS, "ReturnValues": "ALL_NEW"})),
        (
            Transact((UPDATE, Put({"PK": "p", "SK": "s"}), Delete(KEY), Check(KEY, EXISTS)), request_token="once"),
            (
                "TransactWriteItems",
                {
                    "TransactItems": [
                        {"Update": UPDATE_PARAMETERS},
                        {"Put": {"TableName": "t", "Item": KEY_MAP}},
                        {"Delete": {"TableName": "t", "Key": KEY_MAP}},
                        {"ConditionCheck": {"TableName": "t", "Key": KEY_MAP, **EXISTS_PARAMETERS}},
                    ],
                    "ClientRequestToken": "once",
                },
            ),
        ),
        (
            BatchWrite((Put({"PK": "p", "SK": "s"}), Delete(KEY))),
            (
                "BatchWriteItem",
                {"RequestItems": {"t": [{"PutRequest": {"Item": KEY_MAP}}, {"DeleteRequest": {"Key": KEY_MAP}}]}},
            ),
        ),
        (Query("p"), query("#pk = :pk", {"#pk": "PK"}, {":pk": "p"}, ConsistentRead=True)),
        (
            Query("p", "GSI2", begins_with="B#", limit=5, descending=True, start={"PK": "x", "SK": "y"}),
            query(
                "#pk = :pk AND begins_with(#sk, :low)",
                {"#pk": "GSI2PK", "#sk": "GSI2SK"},
                {":pk": "p", ":low": "B#"},
                IndexName="GSI2",
                Limit=5,
                ScanIndexForward=False,
                ExclusiveStartKey={"PK": {"S": "x"}, "SK": {"S": "y"}},
            ),
        ),
        (
            Query("p", "GSI4", after="c"),
            query(
                "#pk = :pk AND #sk > :low",
                {"#pk": "GSI4PK", "#sk": "GSI4SK"},
                {":pk": "p", ":low": "c"},
                IndexName="GSI4",
            ),
        ),
        (Scan(5), ("Scan", {"TableName": "t", "Limit": 5, "ConsistentRead": True})),
        (
            Scan(5, start={"PK": "p", "SK": "s"}),
            ("Scan", {"TableName": "t", "Limit": 5, "ConsistentRead": True, "ExclusiveStartKey": KEY_MAP}),
        ),
        (CreateTable(), ("CreateTable", create_table_request("t"))),
        (DescribeTable(), ("DescribeTable", {"TableName": "t"})),
        (
            EnableTtl(),
            (
                "UpdateTimeToLive",
                {"TableName": "t", "TimeToLiveSpecification": {"Enabled": True, "AttributeName": "ttl"}},
            ),
        ),
    ],
)
def test_an_operation_becomes_its_request(operation: Operation[Any], expected: tuple[str, dict[str, Any]]) -> None:
    assert render(operation, "t") == expected


@pytest.mark.parametrize(
    ("after", "low", "high"),
    [
        ("C#a", "C#a\0", "C#" + LAST_CHARACTER),
        ("A", "C#", "C#" + LAST_CHARACTER),
        ("D", "D\0", "D\0" + ""),
    ],
)
def test_a_prefix_and_a_start_become_one_range(after: str, low: str, high: str) -> None:
    request = render(Query("p", begins_with="C#", after=after), "t")[1]
    assert request["KeyConditionExpression"] == "#pk = :pk AND #sk BETWEEN :low AND :high"
    assert request["ExpressionAttributeValues"] == {
        ":pk": {"S": "p"},
        ":low": {"S": low},
        ":high": {"S": max(low, high)},
    }


keys = st.text("ab#", max_size=4)


@given(st.text("ab#", min_size=1, max_size=2), keys, keys)
def test_that_range_holds_exactly_what_both_hold(prefix: str, after: str, key: str) -> None:
    values = render(Query("p", begins_with=prefix, after=after), "t")[1]["ExpressionAttributeValues"]
    in_range = values[":low"]["S"] <= key <= values[":high"]["S"]
    assert in_range is (key.startswith(prefix) and key > after)


def test_a_request_is_not_shared_with_the_next_one() -> None:
    render(UPDATE, "t")[1]["ExpressionAttributeNames"].clear()
    assert render(UPDATE, "t")[1]["ExpressionAttributeNames"] == UPDATE_PARAMETERS["ExpressionAttributeNames"]


names = st.text(min_size=1, max_size=8)


@given(st.dictionaries(names, st.integers(), max_size=3), st.dictionaries(names, st.integers(), max_size=3))
def test_no_name_of_a_caller_stands_in_a_text(add: dict[str, int], equals: dict[str, int]) -> None:
    request = render(Update(KEY, add=add, when=Conditions(equals=equals)), "t")[1]
    behind = request.get("ExpressionAttributeNames", {})
    assert sorted(behind.values()) == sorted({*add, *equals})
    text = request.get("UpdateExpression", "") + request.get("ConditionExpression", "")
    assert set(text) <= set("AND#a:v0123456789 ,=")


ITEM = {**KEY_MAP, "n": {"N": "-1"}}
READ = {"PK": "p", "SK": "s", "n": -1}


@pytest.mark.parametrize(
    ("operation", "answer", "expected"),
    [
        (Get(KEY), {}, None),
        (Get(KEY), {"Item": ITEM}, READ),
        (Update(KEY), {"Attributes": ITEM}, READ),
        (Put({}), {}, None),
        (
            BatchGet((KEY,)),
            {"Responses": {"t": [ITEM]}, "UnprocessedKeys": {"t": {"Keys": [KEY_MAP]}}},
            Found({KEY: READ}, (KEY,)),
        ),
        (Scan(5), {"Items": [ITEM], "LastEvaluatedKey": KEY_MAP}, Page([READ], {"PK": "p", "SK": "s"})),
        (Query("p"), {"Items": [ITEM]}, Page([READ], None)),
        (Query("p"), {"Items": [], "LastEvaluatedKey": KEY_MAP}, Page([], {"PK": "p", "SK": "s"})),
        (BatchWrite(()), {"UnprocessedItems": {}}, Unwritten()),
        (
            BatchWrite((Put(READ), Delete(KEY), Delete(OTHER_KEY))),
            {"UnprocessedItems": {"t": [{"PutRequest": {"Item": ITEM}}, {"DeleteRequest": {"Key": KEY_MAP}}]}},
            Unwritten((Put(READ), Delete(KEY))),
        ),
        (DescribeTable(), {"Table": {"TableStatus": "CREATING"}}, "CREATING"),
        (EnableTtl(), {"TimeToLiveSpecification": {}}, None),
    ],
)
def test_an_answer_becomes_what_the_operation_promises(operation: Operation[Any], answer: Any, expected: Any) -> None:
    assert read_answer(operation, answer) == expected


@pytest.mark.parametrize("strange", [{"N": "1.5"}, {"L": [{"N": "1E+40"}]}])
def test_a_row_of_an_index_or_a_scan_with_a_number_that_is_none_of_ours_has_its_key_alone(strange: Any) -> None:
    answer = {"Items": [{**ITEM, "GSI1PK": {"S": "q"}, "x": strange}, ITEM]}
    for operation in (Query("q", "GSI1"), Query("p"), Scan(5)):
        assert read_answer(operation, answer) == Page([{"PK": "p", "SK": "s"}, READ], None)
    with pytest.raises(Unreadable, match="the item 'p', 's' cannot be read"):
        read_answer(Get(KEY), {"Item": {**ITEM, "x": strange}})


@pytest.mark.parametrize("operation", [Get(KEY), Update(KEY)])
@pytest.mark.parametrize("key", [{}, {"PK": {"S": "another"}}, {"PK": {"N": "1"}}, {"SK": {"S": ["s"]}}])
def test_an_answer_with_another_item_than_was_asked_for_is_damaged(operation: Operation[Any], key: Any) -> None:
    item = {name: value for name, value in {**ITEM, **key}.items() if key or name not in {"PK", "SK"}}
    with pytest.raises(OutcomeUnknown):
        read_answer(operation, {"Item": item, "Attributes": item})


def test_a_page_that_leads_to_itself_is_damaged() -> None:
    start = {"PK": "p", "SK": "s"}
    with pytest.raises(OutcomeUnknown, match="leads to itself"):
        read_answer(Query("p", start=start), {"Items": [], "LastEvaluatedKey": KEY_MAP})


def test_the_date_of_an_answer_is_found_where_there_is_one() -> None:
    assert read_date({"ResponseMetadata": {"HTTPHeaders": {"date": "Fri, 20 Nov 2026"}}}) == "Fri, 20 Nov 2026"
    assert read_date({}) is None


NAMES = st.text(min_size=1, max_size=5) | st.sampled_from(["b_rpm_tk", "%", "%d", '"', "{", '{"N":"0"}', "\ud800"])
NUMBERS = st.dictionaries(NAMES, st.integers(-(10**30), 10**30), max_size=3)


@given(
    key=st.builds(Key, NAMES, NAMES),
    table=st.sampled_from(["t", 'a "quoted" 100 % table']),
    add=NUMBERS,
    values=st.dictionaries(NAMES, st.integers() | st.booleans() | NAMES, max_size=3),
    remove=st.lists(NAMES, max_size=2).map(tuple),
    when=st.builds(
        Conditions, st.just(()), st.just(()), NUMBERS, NUMBERS, NUMBERS, st.dictionaries(NAMES, NAMES, max_size=1)
    ),
)
def test_the_body_of_an_update_says_what_its_request_says(
    key: Key, table: str, add: dict[str, int], values: dict[str, Any], remove: tuple[str, ...], when: Conditions
) -> None:
    update = Update(key, add, values, remove, when)
    name, body = render_body(update, table)
    if isinstance(body, bytes):
        body = json.loads(body)
    else:
        numbers = all(type(value) is int for value in values.values())
        assert (
            not numbers or not (add or values or remove or when.equals or when.at_least or when.at_most) or when.below
        )
    assert (name, body) == render(update, table)


def test_other_requests_are_rendered_as_ever() -> None:
    assert render_body(Get(KEY), "t") == render(Get(KEY), "t")
