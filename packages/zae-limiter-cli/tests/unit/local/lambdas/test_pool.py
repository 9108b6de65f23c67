import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.cli.account import zipped
from zae_limiter_cli.local.credentials import Credentials
from zae_limiter_cli.local.lambdas import environment
from zae_limiter_cli.local.lambdas.environment import Call
from zae_limiter_cli.local.lambdas.function import Function
from zae_limiter_cli.local.lambdas.outcome import Outcome
from zae_limiter_cli.local.lambdas.pool import Pool, Throttled

pytestmark = pytest.mark.slow

CREDENTIALS = Credentials("KEY", "secret")

SOURCE = """
import os, sys, time
print("loaded")

def handler(event, context):
    print("asked for", event)
    return globals()[event["do"]](event, context)

def echo(event, context): return event
def nothing(event, context): return None
def fail(event, context): raise ValueError("no")
def leave(event, context): sys.exit(3)
def vanish(event, context): os._exit(0)
def die(event, context): os.kill(os.getpid(), 9)
def stay(event, context): time.sleep(60)
def much(event, context): return "x" * 7_000_000
def nearly(event, context): return "x" * 6_000_000
def who(event, context): return os.getpid()
def bring(event, context): return __import__(event["name"]).__name__
def see(event, context):
    return {
        "path": sys.path[0],
        "here": os.getcwd(),
        "environment": dict(os.environ),
        "id": context.aws_request_id,
        "arn": context.invoked_function_arn,
        "name": context.function_name,
        "memory": context.memory_limit_in_mb,
        "left": context.get_remaining_time_in_millis(),
    }
"""

Run = Callable[..., Outcome]


@pytest.fixture(params=["awslambdaric", "own"], autouse=True)
def loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """AWS's runtime client where it has a wheel, and our own loop everywhere."""
    if request.param == "awslambdaric":
        pytest.importorskip("awslambdaric")
    monkeypatch.setattr(environment, "loop", lambda: request.param)
    loop: str = request.param
    return loop


@pytest.fixture
def function() -> Function:
    return Function.from_configuration(
        {
            "FunctionName": "some",
            "FunctionArn": "arn:aws:lambda:us-east-1:123456789012:function:some",
            "Version": "$LATEST",
            "Handler": "index.handler",
            "Timeout": 60,
            "MemorySize": 256,
            "CodeSha256": "one",
            "Environment": {"Variables": {"OWN": "value", "AWS_REGION": "elsewhere"}},
        }
    )


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs"


@pytest.fixture
def pool(tmp_path: Path, logs: Path) -> Iterator[Pool]:
    pool = Pool(code=tmp_path / "code", logs=logs, endpoint_url="http://127.0.0.1:1", credentials=CREDENTIALS)
    yield pool
    pool.close()


@pytest.fixture
def run(pool: Pool, function: Function) -> Run:
    code = zipped(SOURCE)

    def run(do: str, **event: Any) -> Outcome:
        outcome, _ = pool.run(function, code, Call(json.dumps({"do": do, **event}).encode(), f"id-{do}"))
        return outcome

    return run


def told(outcome: Outcome) -> Any:
    return json.loads(outcome.payload)


def test_a_handler_gets_the_event_and_its_answer_is_the_outcome(run: Run) -> None:
    outcome = run("echo", more={"ä": [1, None]})
    assert (told(outcome), outcome.failed) == ({"do": "echo", "more": {"ä": [1, None]}}, False)
    assert run("nothing").payload == b"null"


def test_one_process_takes_one_call_after_the_other(run: Run) -> None:
    assert told(run("who")) == told(run("who"))


def test_a_handler_that_raises_fails_as_in_lambda_and_its_process_goes_on(run: Run) -> None:
    before = told(run("who"))
    outcome = run("fail")
    answer = told(outcome)
    assert outcome.failed
    assert (answer["errorType"], answer["errorMessage"], answer["requestId"]) == ("ValueError", "no", "id-fail")
    assert [re.findall(r", in (\w+)", frame) for frame in answer["stackTrace"]] == [["handler"], ["fail"]]
    assert told(run("who")) == before


@pytest.mark.parametrize(
    ("do", "how"),
    [
        ("leave", "Runtime exited with error: exit status 3"),
        ("vanish", "Runtime exited without providing a reason"),
        ("die", "Runtime exited with error: signal: killed"),
    ],
)
def test_a_process_that_ends_fails_the_call_and_the_next_one_gets_a_new_one(run: Run, do: str, how: str) -> None:
    outcome = run(do)
    assert outcome.failed
    assert told(outcome) == {"errorType": "Runtime.ExitError", "errorMessage": f"RequestId: id-{do} Error: {how}"}
    assert not run("echo").failed


def test_a_handler_that_overruns_its_time_is_killed(run: Run, pool: Pool, function: Function) -> None:
    short = replace(function, timeout_seconds=2)
    outcome, _ = pool.run(short, zipped(SOURCE), Call(b'{"do": "stay"}', "id-stay"))
    assert outcome.failed
    assert told(outcome) == {
        "errorType": "Sandbox.Timedout",
        "errorMessage": "RequestId: id-stay Error: Task timed out after 2.00 seconds",
    }
    assert not run("echo").failed


def test_an_answer_of_more_than_six_megabytes_is_none(run: Run) -> None:
    outcome = run("much")
    assert outcome.failed
    assert told(outcome)["errorType"] == "Function.ResponseSizeTooLarge"
    assert len(told(run("nearly"))) == 6_000_000


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("import nowhere", "Runtime.ImportModuleError"),
        ("x = 1", "Runtime.HandlerNotFound"),
        ("def handler(", "Runtime.UserCodeSyntaxError"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_handler_that_cannot_be_loaded_fails_with_the_reason(
    pool: Pool, function: Function, source: str, kind: str
) -> None:
    outcome, _ = pool.run(function, zipped(source), Call(b"{}", "id"))
    assert outcome.failed
    assert told(outcome)["errorType"] == kind


def test_a_handler_that_takes_long_to_load_does_so_in_its_first_call_s_time(
    pool: Pool, function: Function, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "INIT_SECONDS", 0.1)
    source = "import time; time.sleep(1)\ndef handler(event, context): return context.get_remaining_time_in_millis()"
    outcome, _ = pool.run(function, zipped(source), Call(b"{}", "id"))
    assert not outcome.failed
    assert told(outcome) < 59_500
    first, *_, last = (logs / "some.log").read_text().splitlines()
    assert re.search(r" INIT_REPORT Init Duration: [\d.]+ ms\tPhase: init\tStatus: timeout$", first)
    assert "Init Duration" not in last


def test_a_handler_that_is_never_loaded_has_the_whole_time_of_its_first_call(
    pool: Pool, function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "INIT_SECONDS", 0.1)
    begun = time.monotonic()
    short = replace(function, timeout_seconds=2)
    outcome, _ = pool.run(short, zipped("import time; time.sleep(60)"), Call(b"{}", "id"))
    assert time.monotonic() - begun >= 2.1
    assert told(outcome)["errorMessage"] == "RequestId: id Error: Task timed out after 2.00 seconds"


def test_a_handler_sees_lambdas_environment_and_its_own_variables(run: Run, function: Function) -> None:
    seen = told(run("see"))
    variables = seen["environment"]
    assert (variables["OWN"], variables["AWS_REGION"]) == ("value", "us-east-1")
    assert variables["AWS_ENDPOINT_URL"] == "http://127.0.0.1:1"
    assert CREDENTIALS.variables().items() <= variables.items()
    assert variables["AWS_LAMBDA_FUNCTION_NAME"] == seen["name"] == "some"
    assert variables["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] == seen["memory"] == "256"
    assert variables["LAMBDA_TASK_ROOT"] == seen["path"] == seen["here"]
    assert (seen["id"], seen["arn"]) == ("id-see", function.arn)
    assert 0 < seen["left"] <= 60_000


def test_a_handler_sees_nothing_of_the_users_environment(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    assert {"AWS_PROFILE", "PYTHONPATH"}.isdisjoint(told(run("see"))["environment"])


def test_a_handler_can_import_what_lambda_has_and_nothing_else_of_this_environment(run: Run) -> None:
    assert told(run("bring", name="boto3")) == "boto3"
    assert told(run("bring", name="click"))["errorType"] == "ModuleNotFoundError"
    assert told(run("bring", name="zae_limiter"))["errorType"] == "ModuleNotFoundError"


def test_new_code_gets_a_new_process(pool: Pool, function: Function, run: Run) -> None:
    before = told(run("who"))
    other = replace(function, code_sha256="two")
    outcome, _ = pool.run(other, zipped("def handler(event, context): return 'new'"), Call(b"{}", "id"))
    assert told(outcome) == "new"
    assert told(run("who")) != before


def test_calls_at_once_have_processes_of_their_own(run: Run) -> None:
    found: list[int] = []
    source = [threading.Thread(target=lambda: found.append(told(run("who")))) for _ in range(2)]
    for thread in source:
        thread.start()
    for thread in source:
        thread.join()
    assert len(found) == 2


def test_a_function_without_concurrency_left_is_throttled(pool: Pool, function: Function) -> None:
    none_left = replace(function, concurrency=0)
    with pytest.raises(Throttled):
        pool.run(none_left, zipped(SOURCE), Call(b"{}", "id"))


def test_the_log_is_lambdas(run: Run, logs: Path) -> None:
    run("echo")
    run("leave")
    lines = [line.partition(" ")[2] for line in (logs / "some.log").read_text().splitlines()]
    assert "loaded" in lines  # a line of the process, which may be read behind lines of ours
    lines = ["loaded", *(line for line in lines if line != "loaded")]
    assert lines[1:4] == [
        "START RequestId: id-echo Version: $LATEST",
        "asked for {'do': 'echo'}",
        "END RequestId: id-echo",
    ]
    assert re.fullmatch(
        r"REPORT RequestId: id-echo\tDuration: [\d.]+ ms\tBilled Duration: \d+ ms\tMemory Size: 256 MB"
        r"(\tMax Memory Used: \d+ MB)?\tInit Duration: [\d.]+ ms",
        lines[4],
    )
    assert lines[5:10] == [
        "START RequestId: id-leave Version: $LATEST",
        "asked for {'do': 'leave'}",
        "RequestId: id-leave Error: Runtime exited with error: exit status 3",
        "Runtime.ExitError",
        "END RequestId: id-leave",
    ]
    assert "Init Duration" not in lines[10]
    assert lines[10].endswith("\tStatus: error")


def test_the_tail_of_a_call_is_its_own_part_of_the_log(pool: Pool, function: Function) -> None:
    code = zipped("def handler(event, context):\n    for n in range(2000): print('line', n)")
    pool.run(function, code, Call(b"{}", "first"))
    _, tail = pool.run(function, code, Call(b"{}", "second"))
    assert len(tail) == 4096
    assert b"line 1999\nEND RequestId: second\nREPORT" in tail
    assert b"first" not in tail


def test_closing_ends_a_call_in_the_middle(pool: Pool, function: Function, logs: Path) -> None:
    long_timeout = replace(function, timeout_seconds=600)
    outcomes: list[Outcome] = []
    code = zipped("import time\ndef handler(event, context):\n    print('at it')\n    time.sleep(600)")
    thread = threading.Thread(target=lambda: outcomes.append(pool.run(long_timeout, code, Call(b"{}", "id"))[0]))
    thread.start()
    while "at it" not in _content(logs / "some.log"):
        thread.join(0.05)
        assert thread.is_alive()
    pool.close()
    thread.join(60)
    assert [told(outcome)["errorType"] for outcome in outcomes] == ["Runtime.ExitError"]


def _content(log: Path) -> str:
    return log.read_text() if log.exists() else ""
