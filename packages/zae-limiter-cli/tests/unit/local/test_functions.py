import base64
import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.cli.account import Account, eventually, zipped

pytestmark = pytest.mark.slow

ECHO = "def handler(event, context):\n    print('asked')\n    return event"


@pytest.fixture(scope="module")
def functions(account: Account) -> Any:
    """A client of Lambda that tries once."""
    return account.client("lambda")


@pytest.fixture(scope="module")
def echo(account: Account) -> str:
    return account.function(ECHO)


def refused(call: Any, **arguments: Any) -> dict[str, Any]:
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    error: dict[str, Any] = caught.value.response["Error"]
    return error


def test_a_call_gets_what_the_handler_returns(functions: Any, echo: str) -> None:
    answer = functions.invoke(FunctionName=echo, Payload=b'{"a": 1}')
    assert (answer["StatusCode"], answer["ExecutedVersion"]) == (200, "$LATEST")
    assert json.loads(answer["Payload"].read()) == {"a": 1}
    assert {"FunctionError", "LogResult"}.isdisjoint(answer)


def test_a_call_without_a_payload_gets_an_empty_event(functions: Any, echo: str) -> None:
    assert functions.invoke(FunctionName=echo)["Payload"].read() == b"{}"


def test_a_handler_that_fails_is_an_unhandled_error(account: Account, functions: Any) -> None:
    name = account.function("def handler(event, context): raise KeyError('it')")
    answer = functions.invoke(FunctionName=name)
    assert (answer["StatusCode"], answer["FunctionError"]) == (200, "Unhandled")
    assert json.loads(answer["Payload"].read())["errorType"] == "KeyError"


def test_the_tail_of_the_log_comes_with_the_answer_where_it_is_asked_for(functions: Any, echo: str) -> None:
    log = base64.b64decode(functions.invoke(FunctionName=echo, LogType="Tail")["LogResult"]).decode()
    assert "Version: $LATEST\nasked\nEND RequestId: " in log


def test_a_function_goes_by_its_name_its_arn_and_a_qualifier(functions: Any, echo: str) -> None:
    arn = functions.get_function_configuration(FunctionName=echo)["FunctionArn"]
    for name in (echo, f"{echo}:$LATEST", arn):
        assert functions.invoke(FunctionName=name)["Payload"].read() == b"{}"
    version = functions.publish_version(FunctionName=echo)["Version"]
    assert functions.invoke(FunctionName=echo, Qualifier=version)["ExecutedVersion"] == version


def test_new_code_serves_the_next_call(account: Account, functions: Any) -> None:
    name = account.function("def handler(event, context): return 'old'")
    other = account.function("def handler(event, context): return 'new'")
    assert functions.invoke(FunctionName=name)["Payload"].read() == b'"old"'
    functions.update_function_code(FunctionName=name, ZipFile=zipped("def handler(event, context): return 'new'"))
    assert (
        functions.invoke(FunctionName=name)["Payload"].read() == functions.invoke(FunctionName=other)["Payload"].read()
    )


def test_a_handler_reaches_the_same_aws(account: Account, functions: Any) -> None:
    source = "import boto3\ndef handler(event, context): return boto3.client('dynamodb').list_tables()['TableNames']"
    table, _ = account.table()
    name = account.function(source, Timeout=20)
    assert table in json.loads(functions.invoke(FunctionName=name)["Payload"].read())


def test_a_function_that_is_not_there_is_not_found(functions: Any, echo: str) -> None:
    assert refused(functions.invoke, FunctionName="nowhere")["Code"] == "ResourceNotFoundException"
    assert refused(functions.invoke, FunctionName=echo, Qualifier="99")["Code"] == "ResourceNotFoundException"


def test_a_payload_that_is_no_json_is_refused(functions: Any, echo: str) -> None:
    assert refused(functions.invoke, FunctionName=echo, Payload=b"{")["Code"] == "InvalidRequestContentException"


def test_a_payload_of_more_than_lambda_takes_is_refused(functions: Any, echo: str) -> None:
    whole = json.dumps("x" * 6_291_454).encode()
    assert len(functions.invoke(FunctionName=echo, Payload=whole)["Payload"].read()) == len(whole)
    more = json.dumps("x" * 6_291_455).encode()
    assert refused(functions.invoke, FunctionName=echo, Payload=more)["Code"] == "RequestTooLargeException"
    event = {"FunctionName": echo, "InvocationType": "Event", "Payload": json.dumps("x" * 1_048_576).encode()}
    assert refused(functions.invoke, **event)["Code"] == "RequestTooLargeException"


def test_a_dry_run_runs_nothing(account: Account, functions: Any, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    name = account.function(f"def handler(event, context): open({str(mark)!r}, 'w')")
    assert functions.invoke(FunctionName=name, InvocationType="DryRun")["StatusCode"] == 204
    assert not mark.exists()


def test_an_event_is_answered_at_once_and_tried_again_where_it_fails(
    account: Account, functions: Any, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    source = f"""
def handler(event, context):
    with open({str(mark)!r}, "a") as file: file.write(event["word"] + " ")
    if open({str(mark)!r}).read().count("once") < 2: raise ValueError("not yet")
"""
    name = account.function(source)
    answer = functions.invoke(FunctionName=name, InvocationType="Event", Payload=b'{"word": "once"}')
    assert answer["StatusCode"] == 202
    assert eventually(lambda: mark.exists() and mark.read_text() == "once once ")


def test_a_function_that_may_not_run_is_throttled(account: Account, functions: Any) -> None:
    name = account.function(ECHO)
    functions.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
    assert refused(functions.invoke, FunctionName=name)["Code"] == "TooManyRequestsException"
