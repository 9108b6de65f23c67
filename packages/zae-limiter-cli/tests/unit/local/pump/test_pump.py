import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.cli.account import Account, Witness, addition, at_once, eventually

pytestmark = pytest.mark.slow


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    return Witness(tmp_path / "seen")


@pytest.fixture
def table(account: Account) -> tuple[str, str]:
    """A table's name, and the ARN of its stream."""
    return account.table()


def keys(batch: list[dict[str, Any]]) -> list[str]:
    return [record["dynamodb"]["Keys"]["PK"]["S"] for record in batch]


def images(record: dict[str, Any]) -> tuple[int, int]:
    """The number in an item before and after."""
    change = record["dynamodb"]
    return tuple(int(change.get(image, {}).get("n", {"N": "0"})["N"]) for image in ("OldImage", "NewImage"))  # type: ignore[return-value]


def test_every_change_is_delivered_once_and_in_order_for_each_item(
    account: Account, witness: Witness, table: tuple[str, str]
) -> None:
    name, stream = table
    account.mapping(stream, account.function(witness.source()), BatchSize=7)
    client = account.client("dynamodb")

    def work() -> None:
        for number in range(40):
            client.update_item(**addition(name, f"item-{number % 4}"))

    at_once(work, work, work)
    assert eventually(lambda: len(witness.records()) >= 120)
    of_item: dict[str, list[tuple[int, int]]] = {}
    for key, record in zip(witness.seen(), witness.records(), strict=True):
        of_item.setdefault(key, []).append(images(record))
    assert of_item == {f"item-{item}": [(number, number + 1) for number in range(30)] for item in range(4)}
    assert max(len(batch) for batch in witness.batches()) <= 7


def test_an_item_that_an_update_makes_is_one_insert_also_where_a_batch_holds_one_record(
    account: Account, witness: Witness, table: tuple[str, str]
) -> None:
    name, stream = table
    for key in ("a", "b", "a"):
        account.update(name, key)
    account.mapping(stream, account.function(witness.source()), BatchSize=1)
    assert eventually(lambda: len(witness.records()) >= 3)
    told = [(record["eventName"], *images(record)) for record in witness.records()]
    assert told == [("INSERT", 0, 1), ("INSERT", 0, 1), ("MODIFY", 1, 2)]


def test_a_function_gets_what_fits_a_pattern_and_nothing_else(
    account: Account, witness: Witness, table: tuple[str, str]
) -> None:
    name, stream = table
    pattern = json.dumps({"eventName": ["INSERT"], "dynamodb": {"Keys": {"PK": {"S": [{"prefix": "wanted"}]}}}})
    account.mapping(stream, account.function(witness.source()), FilterCriteria={"Filters": [{"Pattern": pattern}]})
    for key in ("wanted-1", "other", "wanted-1", "wanted-2"):
        account.update(name, key)
    assert eventually(lambda: len(witness.records()) >= 2)
    assert witness.seen() == ["wanted-1", "wanted-2"]


@pytest.mark.parametrize("partial", [False, True], ids=["raises", "names the record"])
def test_a_record_that_always_fails_goes_to_the_dead_letters_and_holds_up_nothing(
    account: Account, witness: Witness, table: tuple[str, str], *, partial: bool
) -> None:
    name, stream = table
    queues = account.client("sqs")
    queue = queues.create_queue(QueueName=f"dead-{name}")["QueueUrl"]
    arn = queues.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    for key in ("a", "b", "bad", "c", "d"):
        account.update(name, key)
    account.mapping(
        stream,
        account.function(witness.source(bad=["bad"], partial=partial)),
        MaximumRetryAttempts=1,
        BisectBatchOnFunctionError=True,
        FunctionResponseTypes=["ReportBatchItemFailures"],
        DestinationConfig={"OnFailure": {"Destination": arn}},
    )
    assert eventually(lambda: account.tally(name)["given_up"] == 1 and account.tally(name)["batches"] >= 1)
    assert "d" in witness.seen()

    (message,) = queues.receive_message(QueueUrl=queue)["Messages"]
    dead_letter = json.loads(message["Body"])
    alone = [batch for batch in witness.batches() if keys(batch) == ["bad"]]
    info, request = dead_letter["DDBStreamBatchInfo"], dead_letter["requestContext"]
    number = alone[0][0]["dynamodb"]["SequenceNumber"]
    assert (info["startSequenceNumber"], info["endSequenceNumber"], info["batchSize"]) == (number, number, 1)
    assert (request["condition"], request["approximateInvokeCount"], len(alone)) == ("RetryAttemptsExhausted", 2, 2)


def test_what_a_transaction_took_back_is_never_delivered(
    account: Account, witness: Witness, table: tuple[str, str]
) -> None:
    name, stream = table
    account.mapping(stream, account.function(witness.source()))
    client = account.client("dynamodb")
    impossible = {**addition(name, "other"), "ConditionExpression": "attribute_exists(nothing)"}
    for _ in range(5):
        account.update(name, "a")
        with suppress(ClientError):
            client.transact_write_items(TransactItems=[{"Update": addition(name, "a")}, {"Update": impossible}])
    account.update(name, "last")
    assert eventually(lambda: "last" in witness.seen())
    assert [images(record) for record in witness.records()[:-1]] == [(number, number + 1) for number in range(5)]


def test_a_mapping_that_begins_with_the_latest_record_passes_over_what_is_there(
    account: Account, witness: Witness, table: tuple[str, str]
) -> None:
    name, stream = table
    for _ in range(3):
        account.update(name, "before")
    function = account.function(witness.source())
    account.client("lambda").create_event_source_mapping(
        EventSourceArn=stream, FunctionName=function, StartingPosition="LATEST"
    )
    account.aws.pump.look()
    account.update(name, "after")
    assert eventually(lambda: bool(witness.seen()))
    assert witness.seen() == ["after"]


def test_a_mapping_that_changes_goes_on_where_it_was(
    account: Account, witness: Witness, table: tuple[str, str]
) -> None:
    name, stream = table
    uuid = account.mapping(stream, account.function(witness.source()))
    account.update(name, "first")
    assert eventually(lambda: witness.seen() == ["first"])
    account.client("lambda").update_event_source_mapping(UUID=uuid, BatchSize=5)
    account.aws.pump.look()
    account.update(name, "second")
    assert eventually(lambda: len(witness.seen()) > 1)
    assert witness.seen() == ["first", "second"]


def test_a_throttled_function_gets_its_records_later(
    account: Account, witness: Witness, table: tuple[str, str]
) -> None:
    name, stream = table
    functions, function = account.client("lambda"), account.function(witness.source())
    functions.put_function_concurrency(FunctionName=function, ReservedConcurrentExecutions=0)
    account.mapping(stream, function, MaximumRetryAttempts=0)
    account.update(name, "a")
    functions.delete_function_concurrency(FunctionName=function)
    assert eventually(lambda: witness.seen() == ["a"])


@pytest.mark.long
def test_a_reader_that_is_held_up_says_by_what(account: Account, witness: Witness, table: tuple[str, str]) -> None:
    name, stream = table
    function = account.function(witness.source())
    account.mapping(stream, function)
    account.client("lambda").delete_function(FunctionName=function)
    account.update(name, "a")
    assert eventually(lambda: "not found" in account.tally(name)["failure"])
