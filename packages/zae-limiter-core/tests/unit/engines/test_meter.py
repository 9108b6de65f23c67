from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from zae_limiter.engines.dynamodb.consumed import count_answer, count_refusal
from zae_limiter.engines.meter import Meter
from zae_limiter.operations.sizes import index_units, item_size, read_units, write_units

PLACES = {f"GSI{n}{part}": "x" for n in (1, 2, 3, 4) for part in ("PK", "SK")}


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("", 0),
        ("abc", 3),
        ("é", 2),
        (None, 1),
        (False, 1),
        (0, 1),
        (7, 2),
        (-7, 3),
        (12, 2),
        (123, 3),
        (1_700_000_000_001, 8),
        (1000, 2),
        ([], 3),
        ([1, "ab"], 3 + 1 + 2 + 1 + 2),
        ({"k": "ab"}, 3 + 1 + 1 + 2),
    ],
)
def test_a_value_has_its_documented_size(value: object, size: int) -> None:
    assert item_size({"name": value}) == 4 + size


@pytest.mark.parametrize(("length", "units"), [(0, 1), (1023, 1), (1024, 2), (3071, 3)])
def test_a_write_costs_the_larger_of_both_items(length: int, units: int) -> None:
    large, small = {"a": "x" * length}, {"a": "x"}
    assert [
        write_units(None, large),
        write_units(large, small),
        write_units(small, large),
        write_units(large, None),
    ] == [units] * 4


@pytest.mark.parametrize(
    ("size", "consistent", "units"), [(0, True, 1), (4096, True, 1), (4097, True, 2), (0, False, 0.5), (4097, False, 1)]
)
def test_a_read_costs_a_unit_for_every_four_kilobytes(size: int, *, consistent: bool, units: float) -> None:
    assert read_units(size, consistent=consistent) == units


def test_only_the_index_that_projects_it_is_written_when_an_attribute_changes() -> None:
    one, other = {"PK": "p", "SK": "s", "n": 1, **PLACES}, {"PK": "p", "SK": "s", "n": 2, **PLACES}
    assert index_units(one, other) == 1  # GSI1 projects all
    keys_only = {name: value for name, value in one.items() if not name.startswith("GSI1")}
    assert index_units(keys_only, {**keys_only, "n": 2}) == 0


def test_an_index_is_written_once_to_enter_or_leave_and_twice_to_move() -> None:
    outside = {"PK": "p", "SK": "s"}
    inside = {**outside, "GSI4PK": "ns", "GSI4SK": "a"}
    moved = {**inside, "GSI4SK": "b"}
    half = {**outside, "GSI4PK": "ns"}
    assert [index_units(None, inside), index_units(outside, inside), index_units(inside, None)] == [1, 1, 1]
    assert [index_units(inside, moved), index_units(outside, half), index_units(None, None)] == [2, 0, 0]


def consumed(total: float, **indexes: float) -> dict[str, object]:
    parts = {name: {"CapacityUnits": units} for name, units in indexes.items()}
    return {"TableName": "t", "CapacityUnits": total, "GlobalSecondaryIndexes": parts}


def test_a_meter_reads_what_answers_say() -> None:
    meter = Meter()
    count_answer(meter, "UpdateItem", {"ConsumedCapacity": consumed(3.0, GSI1=1.0, GSI4=1.0)})
    count_answer(meter, "TransactWriteItems", {"ConsumedCapacity": [consumed(4.0)]})
    count_answer(meter, "Query", {"ConsumedCapacity": consumed(0.5, GSI2=0.5)})
    count_answer(meter, "GetItem", {})
    assert (meter.write_units, meter.index_units, meter.read_units) == (5.0, 2.0, 0.5)


def test_a_meter_charges_failed_conditions_though_answers_do_not_say_so() -> None:
    meter = Meter()
    big = {"PK": {"S": "p"}, "a": {"S": "x" * 1500}}
    count_refusal(meter, {"Error": {"Code": "ConditionalCheckFailedException"}, "Item": big})
    count_refusal(meter, {"Error": {"Code": "ConditionalCheckFailedException"}})
    count_refusal(meter, {"Error": {"Code": "ThrottlingException"}})
    reasons = [{"Code": "None"}, {"Code": "ConditionalCheckFailed", "Item": big}]
    count_refusal(meter, {"Error": {"Code": "TransactionCanceledException"}, "CancellationReasons": reasons})
    assert meter.write_units == 2 + 1 + 0 + 2 + 4


def test_a_meter_shared_by_threads_loses_nothing() -> None:
    meter = Meter()

    def count(_: int) -> None:
        for _ in range(500):
            meter.count_units(write=1)
            meter.count_request("x")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(count, range(8)))
    assert meter.snapshot() == Meter(Counter(x=4000), 0, 4000, 0)
    meter.reset()
    assert meter == Meter()
